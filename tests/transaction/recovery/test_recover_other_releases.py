"""Sidecars that release 0.8 and older left behind, and the real tables they tell of, are finished or undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import RecoveryRequired
from omnigraph.manifest.publisher import NewVersion, PublishRequest
from omnigraph.storage.objects.lease import LEASE
from omnigraph.transaction.commit.protocol import commit
from omnigraph.transaction.intents.sidecar import DroppedTable, Sidecar, TablePin
from omnigraph.transaction.intents.sidecar_json import encode
from omnigraph.transaction.recovery.audit import TableOutcome, recoveries
from omnigraph.transaction.recovery.classify import Decision
from omnigraph.transaction.recovery.outcome import sweep
from omnigraph.world import REAL
from transaction.recovery import works
from transaction.recovery.hand_made import CITY, KNOWS, PERSON, add, content, insert, reopen, require_settled, sidecars
from transaction.recovery.left_behind import OPERATION, leave_behind, let_time_pass

if TYPE_CHECKING:
    from crash.zygote import Zygote
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.transaction.intents.sidecar import WriterKind


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other releases left is dealt with after a moment."""
    monkeypatch.setenv(LEASE, "0.2")


def test_a_write_whose_tables_all_moved_is_published_in_one_commit(graph: GraphManifest) -> None:
    before = add(graph, KNOWS, PERSON)
    leave_behind(graph, "Mutation", {KNOWS: 1, PERSON: 1})
    assert sweep(graph) == {OPERATION: Decision.FORWARD}
    assert content(graph)[KNOWS].keys() == content(graph)[PERSON].keys() >= {"Mutation-0"}
    made = graph.lineage().head
    assert made is not None
    assert (made.actor, made.parent) == ("omnigraph:recovery", before.commit.id)
    (line,) = recoveries(graph.stores)
    assert (line.kind, line.for_actor, line.commit_id) == ("RolledForward", "act-1", made.id)
    assert line.outcomes == (TableOutcome(KNOWS, 2, 3), TableOutcome(PERSON, 2, 3))
    require_settled(graph)


def test_a_write_whose_tables_moved_in_part_is_undone(graph: GraphManifest) -> None:
    add(graph, KNOWS, PERSON)
    before = content(graph)
    leave_behind(graph, "Load", {KNOWS: 1, PERSON: 0})
    assert sweep(graph) == {OPERATION: Decision.BACK}
    assert content(graph) == before
    assert (graph.snapshot()[KNOWS].version, graph.snapshot()[PERSON].version) == (4, 2)
    (line,) = recoveries(graph.stores)
    assert (line.kind, line.outcomes) == ("RolledBack", (TableOutcome(KNOWS, 3, 2),))
    head = graph.lineage().head
    assert head is not None
    assert (head.id, head.actor) == (line.commit_id, "omnigraph:recovery")
    require_settled(graph)
    add(graph, KNOWS, PERSON)


def test_a_write_that_had_moved_nothing_leaves_only_its_line_in_the_audit(graph: GraphManifest) -> None:
    head = add(graph).commit.id
    leave_behind(graph, "Mutation", {PERSON: 0})
    assert sweep(graph) == {OPERATION: Decision.BACK}
    (line,) = recoveries(graph.stores)
    assert (line.kind, line.outcomes, line.commit_id) == ("RolledBack", (), head)
    require_settled(graph)


def test_more_commits_than_a_strict_writer_makes_are_undone(graph: GraphManifest) -> None:
    before = content(graph)
    leave_behind(graph, "Mutation", {PERSON: 2})
    assert sweep(graph) == {OPERATION: Decision.BACK}
    assert content(graph) == before
    require_settled(graph)


@pytest.mark.parametrize("kind", ["EnsureIndices", "Optimize"])
def test_work_that_changes_no_meaning_goes_forward_however_far_it_came(graph: GraphManifest, kind: WriterKind) -> None:
    leave_behind(graph, kind, {PERSON: 3})
    assert sweep(graph) == {OPERATION: Decision.FORWARD}
    assert graph.snapshot()[PERSON].version == 4
    require_settled(graph)


def test_a_confirmed_merge_goes_forward_with_its_source_as_second_parent(graph: GraphManifest) -> None:
    source = add(graph).commit.id
    leave_behind(graph, "BranchMerge", {KNOWS: 3, PERSON: 2}, confirmed=True, merge_source_commit_id=source)
    assert sweep(graph) == {OPERATION: Decision.FORWARD}
    head = graph.lineage().head
    assert head is not None
    assert head.merged_parent == source
    assert len(content(graph)[KNOWS]) == 3
    require_settled(graph)


def test_a_merge_that_was_not_confirmed_is_undone(graph: GraphManifest) -> None:
    before = content(graph)
    leave_behind(graph, "BranchMerge", {KNOWS: 3, PERSON: 1})
    assert sweep(graph) == {OPERATION: Decision.BACK}
    assert content(graph) == before
    require_settled(graph)


def test_a_merge_of_release_0_4_knows_no_confirmation_and_goes_forward(graph: GraphManifest) -> None:
    leave_behind(graph, "BranchMerge", {KNOWS: 3, PERSON: 1}, schema_version=1)
    assert sweep(graph) == {OPERATION: Decision.FORWARD}
    require_settled(graph)


def test_a_schema_change_that_did_not_publish_is_undone(graph: GraphManifest) -> None:
    before = content(graph)
    leave_behind(graph, "SchemaApply", {PERSON: 1}, dropped=(DroppedTable(CITY, 2),))
    assert sweep(graph) == {OPERATION: Decision.BACK}
    assert content(graph) == before
    require_settled(graph)


def test_an_operation_that_had_published_only_loses_its_sidecar(graph: GraphManifest) -> None:
    add(graph)
    where = graph.stores.tables.location.child(graph.snapshot()[PERSON].path)
    left = Sidecar(OPERATION, 0, "Mutation", tables=(TablePin(PERSON, where, 1, 2),))
    graph.stores.objects.create(left.path, encode(left))
    let_time_pass()
    before = graph.lineage().head
    assert sweep(graph) == {OPERATION: Decision.FINISHED}
    assert graph.lineage().head == before
    (line,) = recoveries(graph.stores)
    assert (line.kind, line.outcomes) == ("RolledForward", (TableOutcome(PERSON, 1, 2),))
    require_settled(graph)


def test_on_a_branch_that_has_its_own_line_of_the_table(graph: GraphManifest) -> None:
    add(graph)
    graph.create_branch("feature")
    add(graph, branch="feature")
    leave_behind(graph, "Load", {PERSON: 1}, branch="feature")
    assert sweep(graph) == {OPERATION: Decision.FORWARD}
    assert "Load-0" in content(graph, "feature")[PERSON]
    assert "Load-0" not in content(graph)[PERSON]
    require_settled(graph, "feature")


def test_of_a_branch_that_is_gone_the_sidecar_is_discarded_and_main_tells_of_it(graph: GraphManifest) -> None:
    graph.create_branch("feature")
    add(graph, branch="feature")
    leave_behind(graph, "Load", {PERSON: 1}, branch="feature")
    graph.delete_branch("feature")
    sweep(graph)
    (line,) = recoveries(graph.stores)
    assert (line.kind, line.outcomes) == ("OrphanedBranchDiscarded", ())
    head = graph.lineage().head
    assert head is not None
    assert (head.id, head.actor) == (line.commit_id, "omnigraph:recovery")
    require_settled(graph)


def test_a_table_that_lost_versions_refuses_the_writers_of_its_sidecar_alone_and_is_kept(
    graph: GraphManifest, uri: str
) -> None:
    leave_behind(graph, "Mutation", {KNOWS: 0, PERSON: 0})
    graph.publish(PublishRequest(REAL.ulid(), REAL.now_us(), [NewVersion(PERSON, 9, 0)]))
    for _ in range(2):
        assert sweep(graph) == {}
        with pytest.raises(RecoveryRequired, match=r"node:Person \(published 9, on the store 1\)") as refused:
            commit(graph, insert("new", [KNOWS]))
        assert (refused.value.operation_id, refused.value.table_keys) == (OPERATION, (KNOWS, PERSON))
    assert commit(graph, insert("new", [CITY])) is not None
    assert sidecars(graph) == [f"__recovery/{OPERATION}.json"]
    assert reopen(uri, read_only=True).snapshot()[PERSON].version == 9
    assert recoveries(graph.stores) == []


def test_a_sidecar_that_is_younger_than_a_lease_belongs_to_a_writer_that_may_live(graph: GraphManifest) -> None:
    leave_behind(graph, "Mutation", {PERSON: 1}, started_at=REAL.now_us())
    assert sweep(graph) == {}
    assert sidecars(graph) == [f"__recovery/{OPERATION}.json"]


def test_a_writer_heals_what_is_in_its_way_without_a_new_open(graph: GraphManifest) -> None:
    leave_behind(graph, "Mutation", {KNOWS: 1, PERSON: 0})
    add(graph, PERSON)
    assert content(graph)[KNOWS] == {}
    assert len(recoveries(graph.stores)) == 1
    require_settled(graph)


def test_a_writer_passes_by_what_is_not_in_its_way(graph: GraphManifest) -> None:
    leave_behind(graph, "Mutation", {KNOWS: 1})
    add(graph, PERSON)
    assert sidecars(graph) == [f"__recovery/{OPERATION}.json"]


@pytest.mark.crash
@pytest.mark.parametrize(
    ("kind", "steps", "confirmed"),
    [
        ("Mutation", {KNOWS: 1, PERSON: 1}, False),
        ("Load", {KNOWS: 1, PERSON: 0}, False),
        ("Mutation", {KNOWS: 2, PERSON: 1}, False),
        ("EnsureIndices", {KNOWS: 2, PERSON: 1}, False),
        ("EnsureIndices", {KNOWS: 2, PERSON: 0}, False),
        ("BranchMerge", {KNOWS: 2, PERSON: 1}, True),
        ("BranchMerge", {KNOWS: 2, PERSON: 1}, False),
        ("SchemaApply", {KNOWS: 1, PERSON: 1}, False),
    ],
)
def test_a_recovery_that_is_itself_killed_anywhere_ends_the_same(
    graph: GraphManifest, uri: str, zygote: Zygote, kind: WriterKind, steps: dict[str, int], confirmed: bool
) -> None:
    add(graph, KNOWS, PERSON)
    before = content(graph)
    leave_behind(graph, kind, steps, confirmed=confirmed)
    forward = all(steps.values()) and (confirmed or kind == "EnsureIndices" or list(steps.values()) == [1, 1])
    forward = forward and kind != "SchemaApply"
    cut = 0
    while True:
        cut += 1
        if not zygote.run(works.sweep_under_short_lease, uri, 0.2, failpoints=f"store.write=kill@{cut}").killed:
            break
    assert cut > 3
    require_settled(graph)
    (line,) = recoveries(graph.stores)
    assert line.kind == ("RolledForward" if forward else "RolledBack")
    assert line.commit_id in graph.lineage().commits
    expected = [TableOutcome(key, 2, 2 + count) for key, count in steps.items()]
    if not forward:
        expected = [TableOutcome(key, 2 + count, 2) for key, count in steps.items() if count]
    assert line.outcomes == tuple(expected)
    assert sum(each.actor == "omnigraph:recovery" for each in graph.lineage().commits.values()) == 1
    added = {f"{kind}-{number}": -1 for number in range(max(steps.values()))}
    assert content(graph)[KNOWS] == (before[KNOWS] | added if forward else before[KNOWS])
    add(graph, KNOWS, PERSON)
