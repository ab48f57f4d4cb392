"""The one door: what a publish checks, how often it tries, and that it lands once or not at all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from manifest import works
from manifest.graphs import (
    AUTHOR,
    EAGER,
    PAPER,
    WROTE,
    chain,
    create,
    dataset_of,
    manifest_rows,
    publish_next,
    reopen,
    request,
    version,
)
from omnigraph import failpoints
from omnigraph.errors import (
    CommitOutcomeUnknown,
    CommitRejected,
    Contention,
    ExpectedVersionMismatch,
    HeadMismatch,
    ManifestCorrupt,
    NotFound,
    StoreError,
)
from omnigraph.manifest import publisher
from omnigraph.manifest.compaction import compact_and_collect
from omnigraph.manifest.publisher import RETRY_BUDGET, NewVersion
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from manifest.hands import Hands
    from omnigraph.manifest.graph_manifest import GraphManifest


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")


def head_of(graph: GraphManifest, branch: str = "main") -> str:
    head = graph.lineage(branch).head
    assert head is not None
    return head.id


# -- expectations ------------------------------------------------------------------------------------------------------


def test_a_table_that_moved_is_named_with_both_versions(graph: GraphManifest, uri: str) -> None:
    behind = reopen(uri)
    graph.publish(request(version(AUTHOR, 2)))
    before = manifest_rows(graph)
    with pytest.raises(ExpectedVersionMismatch) as caught:
        behind.publish(request(version(AUTHOR, 3), expected_versions={PAPER: 1, AUTHOR: 1}))
    assert (caught.value.table_key, caught.value.expected, caught.value.actual) == (AUTHOR, 1, 2)
    assert caught.value.retryable
    assert manifest_rows(graph) == before


def test_a_table_that_is_gone_has_no_actual_version(graph: GraphManifest) -> None:
    graph.publish(request(drops=[PAPER]))
    with pytest.raises(ExpectedVersionMismatch) as caught:
        graph.publish(request(version(AUTHOR, 2), expected_versions={PAPER: 1}))
    assert caught.value.actual is None
    assert "gone" in str(caught.value)


def test_expectations_that_hold_are_no_obstacle_to_a_handle_that_is_behind(graph: GraphManifest, uri: str) -> None:
    behind = reopen(uri)
    graph.publish(request(version(PAPER, 2)))
    done = behind.publish(request(version(AUTHOR, 2), expected_versions={AUTHOR: 1, PAPER: 2}))
    assert done.snapshot[PAPER].version == 2


def test_nothing_expected_is_best_effort_on_top_of_whatever_is_there(graph: GraphManifest, uri: str) -> None:
    behind = reopen(uri)
    first = graph.publish(request(version(PAPER, 2)))
    second = behind.publish(request(version(AUTHOR, 2)))
    assert second.commit.parent == first.commit.id
    assert second.attempts == 2


def test_even_best_effort_never_takes_a_table_back_to_an_older_version(graph: GraphManifest) -> None:
    graph.publish(request(version(AUTHOR, 5)))
    with pytest.raises(ExpectedVersionMismatch) as caught:
        graph.publish(request(version(AUTHOR, 4)))
    assert caught.value.actual == 5


def test_an_exact_head_is_required_of_the_newest_commit_and_not_of_a_warm_one(graph: GraphManifest, uri: str) -> None:
    behind = reopen(uri)
    genesis = head_of(behind)
    newest = graph.publish(request(version(AUTHOR, 2))).commit.id
    with pytest.raises(HeadMismatch) as caught:
        behind.publish(request(version(PAPER, 2), expected_head=genesis))
    assert (caught.value.branch, caught.value.expected, caught.value.actual) == ("main", genesis, newest)
    assert behind.publish(request(version(PAPER, 2), expected_head=newest)).commit.parent == newest


def test_an_exact_head_on_a_fresh_branch_is_the_commit_it_was_made_from(graph: GraphManifest) -> None:
    graph.create_branch("b")
    with pytest.raises(HeadMismatch):
        graph.publish(request(expected_head=None), branch="b")
    assert graph.publish(request(expected_head=head_of(graph)), branch="b").commit.parent == head_of(graph)


def test_a_table_that_is_not_registered_needs_a_path(graph: GraphManifest) -> None:
    with pytest.raises(ManifestCorrupt, match="node:New"):
        graph.publish(request(NewVersion("node:New", 1, 0)))


def test_dropping_what_is_not_there_is_refused_also_when_somebody_was_faster(graph: GraphManifest, uri: str) -> None:
    behind = reopen(uri)
    graph.publish(request(drops=[PAPER]))
    with pytest.raises(NotFound, match=PAPER):
        behind.publish(request(drops=[PAPER]))
    with pytest.raises(NotFound, match="node:Never"):
        graph.publish(request(drops=["node:Never"]))
    assert len(chain(graph)) == 2


def test_a_read_only_graph_publishes_nothing(graph: GraphManifest, uri: str) -> None:
    with pytest.raises(CommitRejected, match="read-only"):
        reopen(uri, read_only=True).publish(request(version(AUTHOR, 2)))


# -- retries -----------------------------------------------------------------------------------------------------------


def race_every_attempt(graph: GraphManifest, monkeypatch: pytest.MonkeyPatch, times: int) -> list[str]:
    """Before each of the next attempts of anybody, `graph` publishes first."""
    winners: list[str] = []
    reach = publisher.reach

    def overtaken(name: str) -> None:
        reach(name)
        if name == "publish.before_write" and len(winners) < times:
            monkeypatch.setattr(publisher, "reach", reach)
            winners.append(publish_next(graph, PAPER).commit.id)
            monkeypatch.setattr(publisher, "reach", overtaken)

    monkeypatch.setattr(publisher, "reach", overtaken)
    return winners


def test_a_publisher_that_is_overtaken_four_times_lands_at_the_fifth_with_the_id_it_began_with(
    graph: GraphManifest, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = reopen(uri)
    winners = race_every_attempt(graph, monkeypatch, RETRY_BUDGET - 1)
    what = request(version(AUTHOR, 2))
    done = slow.publish(what)
    assert done.attempts == RETRY_BUDGET
    assert (done.commit.id, done.commit.created_us) == (what.commit_id, what.created_at)
    assert done.commit.parent == winners[-1]
    assert chain(graph)[:-1] == [what.commit_id, *winners[::-1]]


def test_a_publisher_that_is_always_overtaken_gives_up_typed_and_leaves_nothing(
    graph: GraphManifest, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = reopen(uri)
    winners = race_every_attempt(graph, monkeypatch, RETRY_BUDGET)
    what = request(version(AUTHOR, 2))
    with pytest.raises(Contention) as caught:
        slow.publish(what)
    assert caught.value.attempts == RETRY_BUDGET
    assert caught.value.retryable
    assert chain(graph)[:-1] == winners[::-1]
    assert slow.publish(what).attempts == 1, "the same request can be made again"


def test_a_retry_finds_that_its_table_was_taken_meanwhile(
    graph: GraphManifest, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = reopen(uri)
    winners = race_every_attempt(graph, monkeypatch, 1)
    with pytest.raises(ExpectedVersionMismatch) as caught:
        slow.publish(request(version(PAPER, 2), expected_versions={PAPER: 1}))
    assert (caught.value.expected, caught.value.actual) == (1, 2)
    assert chain(graph)[:-1] == winners


def test_the_same_request_made_twice_lands_once(graph: GraphManifest, uri: str) -> None:
    what = request(version(AUTHOR, 2))
    first = graph.publish(what)
    for handle in (graph, reopen(uri)):
        again = handle.publish(what)
        assert again.commit == first.commit
    assert len(chain(graph)) == 2


def test_of_two_publishers_of_one_version_row_one_wins(graph: GraphManifest, uri: str, hands: Hands) -> None:
    outcomes = hands.all_at_once([(works.publish_version, (uri, version(AUTHOR, 2, rows=each))) for each in (5, 6)])
    winners = [each for each in outcomes if each.succeeded]
    losers = [each.error for each in outcomes if each.error]
    assert len(winners) == len(losers) == 1
    assert isinstance(losers[0], ExpectedVersionMismatch)
    assert chain(graph)[0] == winners[0].value
    manifest_rows(graph)


def test_two_first_publishers_on_a_fresh_branch_make_one_chain(graph_uri: str, hands: Hands) -> None:
    graph = create(graph_uri)
    graph.create_branch("b")
    new = [version(key, 2, branch="b") for key in (AUTHOR, PAPER)]
    outcomes = hands.all_at_once([(works.publish_version, (graph_uri, each, "b")) for each in new])
    assert [str(each) for each in outcomes] == ["done", "done"]
    assert set(chain(graph, "b")[:2]) == {each.value for each in outcomes}
    rows = manifest_rows(graph, "b")
    assert rows["graph_head:b"]["metadata"] is not None
    assert "graph_head:b" not in manifest_rows(graph)


def test_two_handles_that_both_think_the_branch_is_fresh_make_one_chain(graph: GraphManifest, uri: str) -> None:
    graph.create_branch("b")
    other = reopen(uri)
    for handle in (graph, other):
        handle.snapshot("b")
    first = graph.publish(request(version(AUTHOR, 2, branch="b")), branch="b")
    second = other.publish(request(version(PAPER, 2, branch="b")), branch="b")
    assert chain(graph, "b")[:2] == [second.commit.id, first.commit.id]
    manifest_rows(graph, "b")


# -- answers that were lost --------------------------------------------------------------------------------------------


def test_a_lost_acknowledgement_lands_exactly_once(graph: GraphManifest) -> None:
    failpoints.arm("table.committed=lost")
    done = graph.publish(request(version(AUTHOR, 2)))
    assert chain(graph)[0] == done.commit.id
    assert len(chain(graph)) == 2
    assert graph.snapshot()[AUTHOR].version == 2
    publish_next(graph)


def test_a_lost_acknowledgement_of_a_branchs_first_publish_lands_exactly_once(
    graph: GraphManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.create_branch("b")
    upsert = publisher.upsert_rows_by_key

    def answer_lost(*arguments: object, **more: object) -> object:
        monkeypatch.setattr(publisher, "upsert_rows_by_key", upsert)
        upsert(*arguments, **more)  # type: ignore[arg-type]
        raise StoreError("error sending request")

    monkeypatch.setattr(publisher, "upsert_rows_by_key", answer_lost)
    done = graph.publish(request(version(AUTHOR, 2, branch="b")), branch="b")
    assert chain(graph, "b")[0] == done.commit.id
    assert len(chain(graph, "b")) == 2
    manifest_rows(graph, "b")


def test_when_the_outcome_cannot_be_looked_up_it_is_called_unknown(
    graph: GraphManifest, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = graph.branch()
    publish_next(graph)

    def no_answer(*arguments: object, **more: object) -> object:
        raise StoreError("error sending request")

    monkeypatch.setattr(publisher, "commit_staged", no_answer)
    monkeypatch.setattr(line, "refresh", no_answer)
    what = request(version(PAPER, 2))
    with pytest.raises(CommitOutcomeUnknown) as caught:
        graph.publish(what)
    assert caught.value.transaction == what.commit_id
    monkeypatch.undo()
    assert graph.publish(what).commit.id == what.commit_id


def test_a_store_that_fails_is_told_as_it_is_when_nothing_landed(
    graph: GraphManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **more: object) -> object:
        raise StoreError("the disk is full")

    monkeypatch.setattr(publisher, "commit_staged", refuse)
    with pytest.raises(StoreError, match="the disk is full"):
        graph.publish(request(version(AUTHOR, 2)))
    assert len(chain(graph)) == 1


def test_a_publish_killed_before_its_write_changes_nothing_and_blocks_nobody(
    graph: GraphManifest, uri: str, hands: Hands
) -> None:
    before = manifest_rows(graph)
    for point in ("publish.before_write=kill", "store.write=kill"):
        assert hands.run(works.publish_version, uri, version(AUTHOR, 2), failpoints=point).killed
        assert manifest_rows(graph) == before
    assert publish_next(graph).attempts == 1


def test_a_publish_killed_after_its_commit_is_there_for_everybody(graph: GraphManifest, uri: str, hands: Hands) -> None:
    what = request(version(AUTHOR, 2))
    assert hands.run(works.publish, uri, what, failpoints="table.committed=kill").killed
    assert head_of(graph) == what.commit_id
    assert graph.publish(what).commit.id == what.commit_id, "asking again finds it"
    assert len(chain(graph)) == 2


# -- handles that are behind, and threads ------------------------------------------------------------------------------


def test_a_handle_whose_version_was_collected_catches_up_and_publishes(graph: GraphManifest, uri: str) -> None:
    behind, reader = reopen(uri), reopen(uri)
    publish_next(behind)
    busy = reopen(uri, manifest_policy=EAGER)
    for _ in range(40):
        publish_next(busy)
    versions = [each["version"] for each in dataset_of(graph).versions()]
    assert behind.branch().table.version not in versions
    assert behind.publish(request(version(PAPER, 2))).commit.id == chain(graph)[0]
    assert len(chain(reader)) == 43


@pytest.mark.parametrize("published_before", [0, 1, 2])
def test_a_branch_handle_whose_version_was_collected_catches_up_too(
    graph: GraphManifest, uri: str, published_before: int
) -> None:
    """However the head row lay when it was read: not there, among other rows, or alone."""
    graph.create_branch("b")
    behind = reopen(uri)
    behind.snapshot("b")
    for _ in range(published_before):
        publish_next(behind, branch="b")
    busy = reopen(uri, manifest_policy=EAGER)
    for _ in range(20):
        publish_next(busy, branch="b")
    done = behind.publish(request(version(PAPER, 2, branch="b")), branch="b")
    assert chain(graph, "b")[0] == done.commit.id
    assert len(chain(graph, "b")) == published_before + 22
    manifest_rows(graph, "b")


def test_a_tidier_that_slept_while_others_published_and_collected_changes_nothing(
    graph: GraphManifest, uri: str
) -> None:
    behind = reopen(uri)
    for _ in range(6):
        publish_next(behind)
    busy = reopen(uri, manifest_policy=EAGER)
    for _ in range(40):
        publish_next(busy)
    before = manifest_rows(graph)
    compact_and_collect(behind.branch(), EAGER, REAL)
    assert manifest_rows(graph) == before
    assert len(chain(graph)) == 47


def test_threads_that_share_one_graph_publish_one_after_the_other(graph: GraphManifest) -> None:
    start = threading.Barrier(8)

    def work(number: int) -> list[str]:
        start.wait()
        key = f"node:Thread{number}"
        return [graph.publish(request(version(key, turn + 1))).commit.id for turn in range(6)]

    with ThreadPoolExecutor(8) as pool:
        published = [each for ids in pool.map(work, range(8)) for each in ids]
    assert sorted(chain(graph)[:-1]) == sorted(published)
    assert [graph.snapshot()[f"node:Thread{number}"].version for number in range(8)] == [6] * 8
    manifest_rows(graph)


def test_threads_that_publish_read_and_branch_at_once_do_not_disturb_each_other(uri: str) -> None:
    create(uri)
    graph = reopen(uri, manifest_policy=EAGER)
    start = threading.Barrier(4)

    def publish() -> None:
        start.wait()
        for _ in range(20):
            publish_next(graph, WROTE)

    def read() -> None:
        start.wait()
        for _ in range(20):
            snapshot = graph.snapshot()
            assert snapshot.commit_id is not None
            assert graph.snapshot_of(snapshot.commit_id).tables == snapshot.tables

    def branch() -> None:
        start.wait()
        for number in range(6):
            graph.create_branch(f"b{number}", commit_id=head_of(graph))
            graph.snapshot(f"b{number}")
            graph.delete_branch(f"b{number}")

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work) for work in (publish, read, read, branch)]:
            done.result()
    assert len(chain(graph)) == 21
    assert [each.name for each in graph.branches()] == ["main"]
