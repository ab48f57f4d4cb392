"""Writers that were killed with SIGKILL: what they left is finished or undone, whoever comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from omnigraph.manifest.layout import table_path
from omnigraph.storage.lance.paths import table_dir
from omnigraph.transaction.commit.protocol import commit
from omnigraph.transaction.recovery.audit import TableOutcome, recoveries
from omnigraph.transaction.recovery.classify import Decision
from omnigraph.transaction.recovery.outcome import sweep
from transaction.recovery import works
from transaction.recovery.hand_made import (
    CITY,
    KNOWS,
    PERSON,
    TABLES,
    add,
    content,
    create,
    foreign_append,
    insert,
    newest,
    reopen,
    require_settled,
    sidecars,
)
from transaction.recovery.left_behind import standing

if TYPE_CHECKING:
    from crash.zygote import Zygote
    from omnigraph.manifest.graph_manifest import GraphManifest

pytestmark = pytest.mark.crash

# Where the writer dies, and what becomes of its work.
CUTS = {
    "commit.armed": Decision.BACK,
    "commit.table_landed": Decision.BACK,
    "commit.table_landed@2": Decision.BACK,
    "commit.before_publish": Decision.FORWARD,
    "commit.published": Decision.FINISHED,
}


def kill_writer(zygote: Zygote, uri: str, where: str, *arguments: object) -> None:
    """A writer of one row to all tables that dies at a failpoint."""
    name, _, nth = where.partition("@")
    outcome = zygote.run(works.insert, uri, "new", *(arguments or (TABLES,)), failpoints=f"{name}=kill@{nth or 1}")
    assert outcome.killed


@pytest.mark.parametrize("where", CUTS)
def test_a_dead_writer_is_recovered_by_an_open(graph_uri: str, zygote: Zygote, where: str) -> None:
    graph = create(graph_uri)
    add(graph, *TABLES)
    before = content(graph)
    kill_writer(zygote, graph_uri, where)
    planned = standing(graph)
    assert sweep(graph) == {planned.operation_id: CUTS[where]}
    went_back = CUTS[where] is Decision.BACK
    assert content(graph) == (before if went_back else {key: {**rows, "new": 0} for key, rows in before.items()})
    (line,) = recoveries(graph.stores)
    assert (line.operation_id, line.for_actor) == (planned.operation_id, "act-ada")
    assert line.kind == ("RolledBack" if went_back else "RolledForward")
    assert planned.commit is not None
    if not went_back:
        made = graph.commit(planned.commit.commit_id)
        assert (made.id, made.actor, made.created_us) == (line.commit_id, "act-ada", planned.commit.created_at)
    require_settled(graph)
    assert commit(graph, insert("next", TABLES)) is not None


@pytest.mark.parametrize("where", CUTS)
def test_a_dead_writer_is_recovered_by_the_next_writer_in_a_living_process(
    graph: GraphManifest, uri: str, zygote: Zygote, where: str
) -> None:
    kill_writer(zygote, uri, where)
    assert commit(graph, insert("next", [CITY])) is not None
    assert ("new" in content(graph)[PERSON]) == (CUTS[where] is not Decision.BACK)
    assert len(recoveries(graph.stores)) == 1
    require_settled(graph)


@pytest.mark.parametrize("where", ["commit.table_landed", "commit.before_publish"])
def test_a_recovery_that_is_killed_at_any_step_ends_the_same(
    graph: GraphManifest, uri: str, zygote: Zygote, where: str
) -> None:
    add(graph, *TABLES)
    before = content(graph)
    kill_writer(zygote, uri, where)
    planned = standing(graph)
    cut = 1
    while zygote.run(works.sweep, uri, failpoints=f"store.write=kill@{cut}").killed:
        cut += 1
    assert cut >= 5
    forward = CUTS[where] is Decision.FORWARD
    assert content(graph) == ({key: {**rows, "new": 0} for key, rows in before.items()} if forward else before)
    (line,) = recoveries(graph.stores)
    steps = [TableOutcome(each, 2, 3) for each in TABLES] if forward else [TableOutcome(KNOWS, 3, 2)]
    assert line.outcomes == tuple(steps)
    assert line.commit_id in graph.lineage().commits
    assert (planned.commit is not None and planned.commit.commit_id == line.commit_id) == forward
    require_settled(graph)
    # Genesis, the first row, and the recovery: no commit was made twice.
    assert len(graph.lineage().commits) == 3


@pytest.mark.parametrize("point", ["recovery.before_publish", "recovery.before_audit"])
@pytest.mark.parametrize("where", ["commit.table_landed", "commit.before_publish"])
def test_between_the_steps_of_a_recovery(
    graph: GraphManifest, uri: str, zygote: Zygote, where: str, point: str
) -> None:
    kill_writer(zygote, uri, where)
    assert zygote.run(works.sweep, uri, failpoints=f"{point}=kill").killed
    assert len(sidecars(graph)) == 1
    assert zygote.run(works.sweep, uri).succeeded
    assert len(recoveries(graph.stores)) == 1
    assert ("new" in content(graph)[KNOWS]) == (CUTS[where] is Decision.FORWARD)
    require_settled(graph)


def test_a_recovery_that_fails_is_tried_again_by_the_next_one_at_once(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    """Not after the lease of the process that failed has run out: it lives on."""
    kill_writer(zygote, uri, "commit.before_publish")
    failed = zygote.start(works.sweep_then_linger, uri, failpoints="recovery.before_publish=raise")
    assert failed.reports() == "InjectedFaultError"
    assert sweep(graph) != {}
    require_settled(graph)
    failed.kill()
    assert failed.outcome().killed


def test_a_first_write_to_a_branch_that_dies_leaves_a_fork_that_the_next_one_replaces(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    add(graph, PERSON)
    graph.create_branch("dev")
    kill_writer(zygote, uri, "commit.forked", [PERSON], "dev")
    assert graph.stores.objects.exists(table_dir(table_path(PERSON), "dev"))
    add(graph, PERSON, branch="dev")
    assert len(content(graph, "dev")[PERSON]) == 2
    assert graph.snapshot("dev")[PERSON].branch == "dev"
    require_settled(graph, "dev")
    require_settled(graph)


@pytest.mark.parametrize("where", CUTS)
def test_a_first_write_to_a_branch_dies_anywhere(graph: GraphManifest, uri: str, zygote: Zygote, where: str) -> None:
    add(graph, *TABLES)
    graph.create_branch("dev")
    before = content(graph)
    kill_writer(zygote, uri, where, TABLES, "dev")
    sweep(graph)
    assert content(graph) == before
    went_back = CUTS[where] is Decision.BACK
    assert content(graph, "dev") == (before if went_back else {key: {**rows, "new": 0} for key, rows in before.items()})
    require_settled(graph, "dev")
    add(graph, *TABLES, branch="dev")
    require_settled(graph, "dev")


def test_a_dead_waiter_for_a_branch_is_not_mistaken_for_the_living_writer_it_waited_for(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    """Both are first writers. The waiter had planned nothing yet; the fork and its new version are the other's."""
    add(graph, PERSON)
    graph.create_branch("dev")
    first = zygote.start(works.insert, uri, "first", [PERSON], "dev", failpoints="commit.before_publish=delay:3")
    works.wait_for_sidecars(uri, 1, phase="running")
    second = zygote.start(works.insert, uri, "second", [PERSON], "dev")
    works.wait_for_sidecars(uri, 1, phase="waiting")
    works.wait_until_landed(uri, PERSON, "dev")
    second.kill()
    assert second.outcome().killed
    (decision,) = sweep(graph).values()
    assert decision is Decision.BACK
    assert first.outcome().succeeded
    assert content(graph, "dev")[PERSON].keys() >= {"first"}
    assert "second" not in content(graph, "dev")[PERSON]
    assert len(graph.lineage("dev").commits) == 3
    require_settled(graph, "dev")


def test_the_work_of_a_dead_writer_is_not_put_onto_a_new_branch_of_the_same_name(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    add(graph, PERSON)
    graph.create_branch("dev")
    kill_writer(zygote, uri, "commit.before_publish", [PERSON], "dev")
    graph.delete_branch("dev")
    graph.create_branch("dev")
    sweep(graph)
    assert "new" not in content(graph, "dev")[PERSON]
    (line,) = recoveries(graph.stores)
    assert line.kind == "OrphanedBranchDiscarded"
    add(graph, PERSON, branch="dev")
    require_settled(graph, "dev")


def test_rows_that_another_program_put_under_a_dead_writers_version_are_kept(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    add(graph, *TABLES)
    before = content(graph)
    child = zygote.start(works.insert, uri, "new", [KNOWS], failpoints="commit.armed=delay:1,table.committed=kill")
    works.wait_for_sidecars(uri, 1, phase="running")
    foreign_append(graph, "theirs", KNOWS)
    assert child.outcome().killed
    assert list(sweep(graph).values()) == [Decision.BACK]
    assert content(graph) == before
    entry = graph.snapshot()[KNOWS]
    ids = graph.stores.tables.open_newest(entry.path).read(["id"])["id"].to_pylist()
    assert "theirs" in ids
    assert "new" not in ids
    assert entry.version < newest(graph, KNOWS)
    assert sidecars(graph) == []


def test_reading_alone_never_recovers(graph: GraphManifest, uri: str, zygote: Zygote) -> None:
    kill_writer(zygote, uri, "commit.before_publish")
    assert content(reopen(uri, read_only=True))[PERSON] == {}
    assert len(sidecars(graph)) == 1
