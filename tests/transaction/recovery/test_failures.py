"""When a step fails: foreign commits, refused writes, lost answers, interrupts. All of an operation lands, or none."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest

from omnigraph import failpoints
from omnigraph.errors import CommitNotDone, CommitRejected, StoreError, StoreUnavailable
from omnigraph.manifest.layout import table_path
from omnigraph.transaction.commit import protocol, table_commits
from omnigraph.transaction.commit.protocol import commit
from omnigraph.transaction.recovery.audit import recoveries
from omnigraph.transaction.recovery.outcome import sweep
from transaction.recovery.faulty_store import make_faulty
from transaction.recovery.hand_made import (
    CITY,
    KNOWS,
    PERSON,
    TABLES,
    add,
    chain,
    content,
    create,
    foreign_append,
    insert,
    newest,
    overwrite,
    require_settled,
    sidecars,
    upsert,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.transaction.commit.protocol import Receipt


@pytest.fixture
def arm() -> Iterator[Callable[[str], None]]:
    """Arm failpoints in this process until the test ends."""
    yield failpoints.arm
    failpoints.arm("")


@pytest.mark.parametrize("what", ["append", "upsert", "overwrite"])
def test_a_foreign_commit_under_a_table_stops_the_write_and_is_kept(graph_uri: str, what: str) -> None:
    graph = create(graph_uri)
    add(graph, *TABLES)
    before, published = content(graph), graph.snapshot()
    foreign_append(graph, "theirs", PERSON)
    made = {"append": insert("ada", TABLES), "upsert": upsert("row", 1, TABLES), "overwrite": overwrite({}, TABLES)}
    for _ in range(2):
        with pytest.raises(CommitRejected, match=f"{table_path(PERSON)} has commits .* Run repair"):
            commit(graph, made[what])
        assert content(graph) == before
        assert graph.snapshot()[PERSON].version == published[PERSON].version
        ids = graph.stores.tables.open_newest(table_path(PERSON)).read(["id"])["id"].to_pylist()
        assert "theirs" in ids
        assert "ada" not in ids
        assert sidecars(graph) == []
    add(graph, KNOWS, CITY)
    chain(graph)


def test_a_publish_that_fails_takes_back_what_has_landed(graph: GraphManifest, arm: Callable[[str], None]) -> None:
    add(graph, *TABLES)
    before = content(graph)
    arm("publish.before_write=raise")
    with pytest.raises(failpoints.InjectedFaultError):
        commit(graph, insert("ada", TABLES))
    assert content(graph) == before
    require_settled(graph)
    (line,) = recoveries(graph.stores)
    assert (line.kind, len(line.outcomes)) == ("RolledBack", 3)
    add(graph, *TABLES)


@pytest.mark.parametrize("point", ["commit.armed", "commit.table_landed@2", "commit.before_publish"])
def test_an_interrupt_in_the_middle_takes_back_what_has_landed(
    graph: GraphManifest, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    add(graph, *TABLES)
    before = content(graph)
    name, _, nth = point.partition("@")
    left = [int(nth or 1)]

    def interrupt(reached: str) -> None:
        left[0] -= reached == name
        if reached == name and left[0] == 0:
            raise KeyboardInterrupt

    for module in (protocol, table_commits):
        monkeypatch.setattr(module, "reach", interrupt)
    with pytest.raises(KeyboardInterrupt):
        commit(graph, insert("ada", TABLES))
    assert content(graph) == before
    require_settled(graph)
    add(graph, *TABLES)


def test_an_interrupt_after_the_publish_cannot_take_it_back(
    graph: GraphManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(reached: str) -> None:
        if reached == "commit.published":
            raise KeyboardInterrupt

    monkeypatch.setattr(protocol, "reach", interrupt)
    with pytest.raises(KeyboardInterrupt):
        commit(graph, insert("ada", TABLES))
    assert content(graph)[PERSON] == {"ada": 0}
    require_settled(graph)


@pytest.mark.parametrize("step", range(1, 8))
def test_a_store_that_fails_at_any_step_leaves_all_or_nothing(
    graph: GraphManifest, arm: Callable[[str], None], step: int
) -> None:
    """1 is the sidecar, 2 to 4 the tables, 5 the publish, 6 the deletion of the sidecar; after that nothing fails."""
    add(graph, *TABLES)
    before = content(graph)
    arm(f"store.write=raise@{step}")
    try:
        done: Receipt | None = commit(graph, insert("ada", TABLES))
    except (failpoints.InjectedFaultError, StoreError):
        done = None
    failpoints.arm("")
    assert (done is not None) == (step >= 6)
    after = {key: {**rows, "ada": 0} for key, rows in before.items()}
    assert content(graph) == (before if done is None else after)
    add(graph, *TABLES)
    require_settled(graph)


def test_a_sidecar_that_cannot_be_written_means_that_nothing_moved(
    graph: GraphManifest, arm: Callable[[str], None]
) -> None:
    arm("store.write=raise")
    with pytest.raises(failpoints.InjectedFaultError):
        commit(graph, insert("ada", TABLES))
    assert [newest(graph, each) for each in TABLES] == [1, 1, 1]
    assert recoveries(graph.stores) == []
    require_settled(graph)


def test_a_sidecar_that_cannot_be_deleted_is_healed_by_the_next_write(
    graph: GraphManifest, arm: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    arm("store.write=raise@4")
    with caplog.at_level(logging.WARNING):
        receipt = commit(graph, insert("ada"))
    assert receipt is not None
    assert "the commit is done; its sidecar" in caplog.text
    assert len(sidecars(graph)) == 1
    add(graph)
    (line,) = recoveries(graph.stores)
    assert (line.kind, line.commit_id) == ("RolledForward", receipt.commit.id)
    require_settled(graph)


@pytest.mark.parametrize("also_fails", [set(), {"replace"}])
def test_a_store_that_refuses_deletions_is_healed_by_the_next_write_as_well(
    graph: GraphManifest, caplog: pytest.LogCaptureFixture, also_fails: set[str]
) -> None:
    store = make_faulty(graph)
    store.failing = {"delete"} | also_fails
    assert commit(graph, insert("ada")) is not None
    assert "stays for the next writer" in caplog.text
    store.failing = set()
    add(graph)
    assert [each.kind for each in recoveries(graph.stores)] == ["RolledForward"]
    require_settled(graph)


@pytest.mark.parametrize("failing", [set(), {"delete"}])
def test_a_sidecar_that_was_written_without_an_answer_stands_in_nobodys_way(
    graph: GraphManifest, failing: set[str]
) -> None:
    store = make_faulty(graph)
    store.unanswered, store.failing = {"create"}, failing
    with pytest.raises(CommitNotDone):
        commit(graph, insert("ada"))
    store.unanswered, store.failing = set(), set()
    assert newest(graph, PERSON) == 1
    add(graph)
    require_settled(graph)


def test_a_listing_that_fails_is_loud_for_writers_and_for_opens(graph: GraphManifest) -> None:
    store = make_faulty(graph)
    store.failing = {"list"}
    with pytest.raises(CommitNotDone, match="__recovery: no answer to list"):
        commit(graph, insert("ada"))
    with pytest.raises(StoreUnavailable, match="__recovery: no answer to list"):
        sweep(graph)
    store.failing = set()
    assert newest(graph, PERSON) == 1
    add(graph)
    require_settled(graph)


def test_an_undo_that_fails_too_is_left_to_the_next_writer_at_once(
    graph: GraphManifest, arm: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    add(graph, *TABLES)
    before = content(graph)
    arm("publish.before_write=raise,recovery.before_publish=raise")
    with pytest.raises(failpoints.InjectedFaultError):
        commit(graph, insert("ada", TABLES))
    assert "will be recovered later" in caplog.text
    assert len(sidecars(graph)) == 1
    add(graph, CITY)
    assert content(graph)[PERSON] == before[PERSON]
    require_settled(graph)


@pytest.mark.parametrize("nth", range(1, 5))
def test_a_lost_answer_to_a_table_commit_or_a_publish_lands_once(
    graph: GraphManifest, arm: Callable[[str], None], nth: int
) -> None:
    """1 to 3 are the tables, 4 is the publish: each time the effect is there and the answer is not."""
    arm(f"table.committed=lost@{nth}")
    receipt = commit(graph, insert("ada", TABLES))
    assert receipt is not None
    assert content(graph) == {key: {"ada": 0} for key in sorted(TABLES)}
    assert [newest(graph, each) for each in TABLES] == [2, 2, 2]
    assert chain(graph)[0] == receipt.commit.id
    assert recoveries(graph.stores) == []
    require_settled(graph)


def test_threads_share_one_graph(graph: GraphManifest) -> None:
    def work(number: int) -> None:
        for each in range(6):
            tables = TABLES if each % 3 == 0 else (TABLES[number % 3],)
            commit(graph, insert(f"{number}-{each}", tables))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    found = content(graph)
    assert {row for rows in found.values() for row in rows} == {f"{a}-{b}" for a in range(6) for b in range(6)}
    assert all(f"{number}-0" in found[each] for number in range(6) for each in TABLES)
    assert len(graph.lineage().commits) == 37
    require_settled(graph)
