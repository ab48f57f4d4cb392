"""The commit protocol: what an operation becomes, alone, beside others, and when a step of it fails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import lance
import pytest

from omnigraph import failpoints
from omnigraph.counters import counting
from omnigraph.errors import (
    BranchNotFound,
    CommitRejected,
    ExpectedVersionMismatch,
    HeadMismatch,
    KeyConflict,
    ReadSetChanged,
)
from omnigraph.manifest.layout import table_path
from omnigraph.manifest.publisher import NewVersion, PublishRequest
from omnigraph.storage.lance.paths import table_dir
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.recovery.outcome import sweep
from omnigraph.transaction.write_set import WriteSet
from omnigraph.world import REAL, World
from transaction.recovery import works
from transaction.recovery.hand_made import (
    CITY,
    KNOWS,
    PERSON,
    TABLES,
    add,
    content,
    create,
    delete,
    foreign_append,
    insert,
    newest,
    overwrite,
    reopen,
    require_settled,
    rows_of,
    sidecars,
    upsert,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crash.zygote import Zygote
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.transaction.read_view import ReadView


@pytest.fixture
def arm() -> Iterator[Callable[[str], None]]:
    """Arm failpoints in this process until the test ends."""
    yield failpoints.arm
    failpoints.arm("")


def intruding(what: Operation, intrude: Callable[[], object]) -> Operation:
    """The operation, but the first time it is prepared something else happens right after."""
    once = iter([intrude])

    def prepare(view: ReadView) -> WriteSet | None:
        write_set = what.prepare(view)
        next(once, lambda: None)()
        return write_set

    return Operation(
        what.kind, prepare, what.branch, what.actor, what.repeatable, what.expected_head, what.idempotency_key
    )


def counting_rows(what: Operation) -> tuple[Operation, list[int]]:
    """The operation, computed from the people as well, and how many of them it saw each time it was."""
    seen: list[int] = []

    def prepare(view: ReadView) -> WriteSet | None:
        seen.append(view.entry(PERSON).row_count)
        return what.prepare(view)

    return replace(what, prepare=prepare), seen


@dataclass(frozen=True)
class Elsewhen(World):
    """A machine whose clock is wrong."""

    hours: int = 0

    def now_us(self) -> int:
        return super().now_us() + self.hours * 3_600_000_000


# -- one writer --------------------------------------------------------------------------------------------------------


def test_one_commit_for_any_number_of_tables(graph_uri: str) -> None:
    graph = create(graph_uri)
    genesis = graph.lineage().head
    receipt = commit(graph, insert("ada", TABLES))
    assert receipt is not None
    assert genesis is not None
    assert (receipt.commit.parent, receipt.commit.actor) == (genesis.id, "act-ada")
    assert content(graph) == {key: {"ada": 0} for key in sorted(TABLES)}
    assert receipt.snapshot == graph.snapshot()
    require_settled(graph)


def test_updates_deletes_and_overwrites_land_the_same_way(graph: GraphManifest) -> None:
    commit(graph, insert("ada"))
    commit(graph, upsert("ada", 7))
    assert content(graph)[PERSON] == {"ada": 7}
    commit(graph, overwrite({"bo": 1, "cy": 2}))
    commit(graph, delete("bo"))
    assert content(graph)[PERSON] == {"cy": 2}
    require_settled(graph)


def test_an_operation_without_effect_is_no_commit(graph: GraphManifest) -> None:
    head = graph.snapshot().commit_id
    assert commit(graph, Operation("Mutation", lambda _: None)) is None
    assert graph.snapshot().commit_id == head


def test_an_empty_write_set_is_a_commit_that_changes_nothing(graph: GraphManifest) -> None:
    before = graph.snapshot()
    receipt = commit(graph, Operation("Load", lambda _: WriteSet(), actor="act-ada", merged_parent=before.commit_id))
    assert receipt is not None
    assert (receipt.commit.parent, receipt.commit.merged_parent) == (before.commit_id, before.commit_id)
    assert receipt.snapshot.tables == before.tables
    require_settled(graph)


def test_a_warm_commit_costs_one_sidecar_one_listing_one_probe(graph: GraphManifest) -> None:
    add(graph)
    add(graph)
    with counting() as counts:
        add(graph)
    assert (counts.object_writes, counts.object_lists, counts.object_reads, counts.object_deletes) == (1, 1, 0, 1)
    assert (counts.table_opens, counts.table_probes, counts.table_commits) == (0, 1, 2)


def test_an_error_of_the_preparation_leaves_nothing(graph: GraphManifest) -> None:
    def refuse(_: ReadView) -> WriteSet:
        raise KeyConflict("Person", "ada")

    with pytest.raises(KeyConflict):
        commit(graph, Operation("Mutation", refuse))
    require_settled(graph)


def test_an_error_from_a_stale_view_is_looked_at_again_with_a_fresh_one(graph: GraphManifest, uri: str) -> None:
    """The row that is missed here was added by another process: the operation is right, its view was old."""
    graph.snapshot()
    add(reopen(uri))

    def needs_a_row(view: ReadView) -> WriteSet:
        if not view.entry(PERSON).row_count:
            raise KeyConflict("Person", "nobody")
        return WriteSet()

    assert commit(graph, Operation("Mutation", needs_a_row)) is not None


def test_a_missing_branch_is_named(graph: GraphManifest) -> None:
    with pytest.raises(BranchNotFound, match="dev"):
        commit(graph, insert("ada", branch="dev"))


def test_a_graph_that_is_open_for_reading_refuses(graph: GraphManifest, uri: str) -> None:
    with pytest.raises(CommitRejected, match="read-only"):
        commit(reopen(uri, read_only=True), insert("ada"))
    require_settled(graph)


# -- conditions --------------------------------------------------------------------------------------------------------


def test_a_required_head_that_is_there_is_accepted(graph: GraphManifest) -> None:
    head = graph.snapshot().commit_id
    receipt = commit(graph, insert("ada", expected_head=head))
    assert receipt is not None
    assert receipt.commit.parent == head


def test_another_head_than_the_required_one_is_final(graph: GraphManifest, uri: str) -> None:
    old = graph.snapshot().commit_id
    new = add(reopen(uri), CITY).commit.id
    prepared: list[ReadView] = []

    def prepare(view: ReadView) -> WriteSet:
        prepared.append(view)
        return WriteSet()

    with pytest.raises(HeadMismatch) as refused:
        commit(graph, Operation("Mutation", prepare, expected_head=old))
    assert (refused.value.expected, refused.value.actual) == (old, new)
    assert prepared == []


def test_a_head_that_moves_while_the_operation_is_prepared_is_final_too(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    """Even when the other process wrote to another table."""
    head = graph.snapshot().commit_id
    what = intruding(insert("ada", expected_head=head), lambda: zygote.run(works.insert, uri, "other", [CITY]))
    with pytest.raises(HeadMismatch):
        commit(graph, what)
    assert content(graph)[PERSON] == {}
    require_settled(graph)


def test_a_repeatable_operation_is_computed_again_when_another_process_was_first(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    what, seen = counting_rows(insert("ada"))
    what = intruding(what, lambda: zygote.run(works.insert, uri, "other"))
    assert commit(graph, what) is not None
    assert seen == [0, 1]
    assert content(graph)[PERSON].keys() == {"other", "ada"}
    require_settled(graph)


def test_an_operation_that_may_not_be_repeated_tells_which_tables_moved(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    add(graph, KNOWS, PERSON)
    before = newest(graph, PERSON)
    what = intruding(upsert("ada", 1, reads=[KNOWS]), lambda: zygote.run(works.insert, uri, "other", [KNOWS, CITY]))
    with pytest.raises(ReadSetChanged) as refused:
        commit(graph, what)
    assert refused.value.tables == (KNOWS,)
    assert refused.value.retryable
    assert newest(graph, PERSON) == before
    require_settled(graph)


def test_tables_that_were_neither_read_nor_written_may_move(graph: GraphManifest, uri: str, zygote: Zygote) -> None:
    what = intruding(upsert("ada", 1), lambda: zygote.run(works.insert, uri, "other", [CITY]))
    assert commit(graph, what) is not None
    require_settled(graph)


def test_a_table_that_was_only_read_is_checked_again_by_the_publish(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    """A program that publishes without a ticket moves it at the last moment."""
    child = zygote.start(works.upsert_reading, uri, "ada", [PERSON], [CITY], failpoints="commit.before_publish=delay:1")
    works.wait_until_landed(uri, PERSON)
    moved = NewVersion(CITY, foreign_append(graph, "theirs", CITY), 1)
    graph.publish(PublishRequest(REAL.ulid(), REAL.now_us(), [moved]))
    error = child.outcome().error
    assert isinstance(error, ExpectedVersionMismatch)
    assert error.table_key == CITY
    assert content(graph) == {CITY: {"theirs": -1}, KNOWS: {}, PERSON: {}}
    require_settled(graph)


def test_a_writer_waits_for_one_that_read_what_it_wants_to_move(graph: GraphManifest, uri: str, zygote: Zygote) -> None:
    """Otherwise each could be right about the other's old state, and the two together wrong."""
    reader = zygote.start(works.upsert_reading, uri, "a", [PERSON], [CITY], failpoints="commit.armed=delay:1")
    works.wait_for_sidecars(uri, 1, phase="running")
    what, seen = counting_rows(upsert("b", 1, [CITY]))
    assert commit(graph, what) is not None
    assert reader.outcome().succeeded
    assert seen == [0, 1], "the reader began first, so the writer is computed from what it left"
    assert (content(graph)[PERSON], content(graph)[CITY]) == ({"a": 1}, {"b": 1})
    require_settled(graph)


def test_an_update_from_an_old_state_is_computed_from_the_new_one(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    """It began after the other commit, so the two did not meet; it does not look before it begins."""
    add(graph, KNOWS)
    zygote.run(works.insert, uri, "other")
    what, seen = counting_rows(upsert("ada", 1))
    with counting() as counts:
        assert commit(graph, what) is not None
    assert seen == [0, 1]
    assert counts.table_probes == 1
    assert content(graph)[PERSON] == {"other": 0, "ada": 1}
    require_settled(graph)


@pytest.mark.parametrize("hours", [-1, 1])
def test_machines_whose_clocks_disagree_do_not_see_conflicts_that_nobody_caused(
    graph: GraphManifest, uri: str, hours: int
) -> None:
    add(graph, KNOWS)
    assert commit(reopen(uri, world=Elsewhen(hours=hours)), insert("other")) is not None
    what, seen = counting_rows(upsert("ada", 1))
    assert commit(graph, what) is not None
    assert seen == [0, 1]
    assert content(graph)[PERSON] == {"other": 0, "ada": 1}
    require_settled(graph)


def test_readers_of_one_table_do_not_wait_for_each_other(graph: GraphManifest, uri: str, zygote: Zygote) -> None:
    slow = zygote.start(works.upsert_reading, uri, "a", [PERSON], [CITY], failpoints="commit.armed=delay:5")
    works.wait_for_sidecars(uri, 1, phase="running")
    assert commit(graph, upsert("b", 1, [KNOWS], reads=[CITY])) is not None
    assert len(sidecars(graph)) == 1
    slow.kill()
    assert slow.outcome().killed


def test_a_preparation_that_leaves_nothing_to_do_on_a_newer_state_is_no_commit(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    def unless_there(view: ReadView) -> WriteSet | None:
        return None if view.entry(PERSON).row_count else insert("ada").prepare(view)

    what = intruding(Operation("Mutation", unless_there), lambda: zygote.run(works.insert, uri, "other"))
    assert commit(graph, what) is None
    require_settled(graph)


def test_a_newer_state_that_leads_to_other_tables_takes_a_new_ticket(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    def where_it_is_empty(view: ReadView) -> WriteSet | None:
        return insert("ada", [KNOWS] if view.entry(PERSON).row_count else [PERSON]).prepare(view)

    what = intruding(Operation("Mutation", where_it_is_empty), lambda: zygote.run(works.insert, uri, "other"))
    assert commit(graph, what) is not None
    assert (content(graph)[KNOWS], content(graph)[PERSON]) == ({"ada": 0}, {"other": 0})
    require_settled(graph)


# -- idempotency -------------------------------------------------------------------------------------------------------


def test_a_key_that_was_used_returns_the_first_commit_in_any_process(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    first = commit(graph, insert("ada", idempotency_key="order-7"))
    assert first is not None
    add(graph)
    again = commit(graph, insert("bo", idempotency_key="order-7"))
    assert again is not None
    assert (again.commit, again.repeated, again.snapshot) == (first.commit, True, first.snapshot)
    assert zygote.run(works.insert_with_key, uri, "cy", "order-7").value == first.commit.id
    assert content(graph)[PERSON].keys() & {"bo", "cy"} == set()


def test_a_key_counts_on_its_branch_alone(graph: GraphManifest) -> None:
    graph.create_branch("dev")
    on_main = commit(graph, insert("ada", idempotency_key="order-7"))
    on_dev = commit(graph, insert("ada", idempotency_key="order-7", branch="dev"))
    assert on_main is not None
    assert on_dev is not None
    assert not on_dev.repeated
    assert on_main.commit.id != on_dev.commit.id


@pytest.mark.crash
@pytest.mark.parametrize("point", ["commit.before_publish", "commit.published"])
def test_a_key_holds_through_a_crash(graph: GraphManifest, uri: str, zygote: Zygote, point: str) -> None:
    """The work was done or could be finished: whoever asks again under the key gets that commit."""
    assert zygote.run(works.insert_with_key, uri, "ada", "order-7", failpoints=f"{point}=kill").killed
    again = commit(graph, insert("bo", idempotency_key="order-7"))
    assert again is not None
    assert again.repeated
    assert content(graph)[PERSON] == {"ada": 0}
    sweep(graph)
    require_settled(graph)


@pytest.mark.parametrize("tables", [[[PERSON]] * 6, [[PERSON], [CITY], [KNOWS]] * 2])
def test_racing_processes_with_one_key_make_one_commit(
    graph: GraphManifest, uri: str, zygote: Zygote, tables: list[list[str]]
) -> None:
    children = [
        zygote.start(works.insert_with_key, uri, f"{number}", "order-7", each) for number, each in enumerate(tables)
    ]
    made = {child.outcome().value for child in children}
    assert len(made) == 1
    assert len(graph.lineage().commits) == 2
    assert sum(len(rows) for rows in content(graph).values()) == 1
    require_settled(graph)


def test_racing_processes_with_one_key_and_nothing_to_change_make_one_commit(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    children = [zygote.start(works.note, uri, "order-7") for _ in range(6)]
    assert len({child.outcome().value for child in children}) == 1
    assert len(graph.lineage().commits) == 2


# -- branches ----------------------------------------------------------------------------------------------------------


def test_the_first_write_to_a_branch_gives_it_its_own_line_of_the_table(graph_uri: str) -> None:
    graph = create(graph_uri)
    add(graph, *TABLES)
    graph.create_branch("dev")
    receipt = commit(graph, insert("ada", branch="dev"))
    assert receipt is not None
    assert (receipt.snapshot[PERSON].branch, receipt.snapshot[CITY].branch) == ("dev", None)
    assert "ada" not in content(graph)[PERSON]
    add(graph, PERSON, branch="dev")
    require_settled(graph, "dev")
    require_settled(graph)


def test_a_fork_that_belongs_to_nobody_is_replaced(graph: GraphManifest) -> None:
    add(graph, PERSON)
    graph.create_branch("dev")
    path = table_path(PERSON)
    lance.dataset(graph.stores.tables.uri(path)).create_branch("dev")
    lance.write_dataset(rows_of({"stale": 0}), graph.stores.tables.uri(path, "dev"), mode="append")
    assert graph.stores.objects.exists(table_dir(path, "dev"))
    commit(graph, insert("ada", branch="dev"))
    assert content(graph, "dev")[PERSON].keys() & {"ada", "stale"} == {"ada"}
    require_settled(graph, "dev")


def test_two_first_writers_to_a_branch_both_get_through(graph: GraphManifest, uri: str, zygote: Zygote) -> None:
    add(graph, PERSON)
    for number in range(3):
        branch = f"dev-{number}"
        graph.create_branch(branch)
        children = [zygote.start(works.insert, uri, f"{each}", [PERSON], branch) for each in range(4)]
        assert all(child.outcome().succeeded for child in children)
        assert content(graph, branch)[PERSON].keys() >= {"0", "1", "2", "3"}
        require_settled(graph, branch)


def test_a_branch_that_is_replaced_while_the_operation_is_prepared(graph: GraphManifest, uri: str) -> None:
    graph.create_branch("dev")
    add(graph, branch="dev")
    other = reopen(uri)

    def replace_branch() -> None:
        other.delete_branch("dev")
        other.create_branch("dev")

    assert commit(graph, intruding(insert("ada", branch="dev"), replace_branch)) is not None
    assert content(graph, "dev")[PERSON] == {"ada": 0}
    assert commit(graph, intruding(upsert("eve", 1, branch="dev"), replace_branch)) is not None
    assert content(graph, "dev")[PERSON] == {"eve": 1}, "it meets no commit there, and is computed from the new branch"
    require_settled(graph, "dev")
