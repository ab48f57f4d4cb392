"""Branches made and removed by several processes at once, and by processes that die doing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from manifest import works
from manifest.graphs import (
    AUTHOR,
    EAGER,
    at,
    chain,
    create,
    dataset_of,
    publish_next,
    reopen,
)
from omnigraph.errors import BranchExists, BranchInUse, BranchNotFound, Contention
from omnigraph.manifest import branch_lease, branches
from omnigraph.manifest.graph_manifest import open_stores
from omnigraph.manifest.layout import BRANCH_LEASE, MAIN
from omnigraph.storage.objects.lease import LEASE, LeaseRecord, Owner
from omnigraph.world import REAL

if TYPE_CHECKING:
    from pathlib import Path

    from manifest.hands import Hands, Outcome
    from omnigraph.manifest.graph_manifest import GraphManifest

# Durable steps of each: claiming, marking, making, removing later rows, unclaiming.
CREATE_STEPS, CREATE_FROM_COLLECTED_STEPS, DELETE_STEPS = 3, 6, 4


def names(graph: GraphManifest) -> list[str]:
    return [each.name for each in graph.branches()]


def losers(outcomes: list[Outcome]) -> list[Exception]:
    assert not any(each.killed for each in outcomes)
    return [each.error for each in outcomes if each.error is not None]


def require_nothing_half_made(graph: GraphManifest, *expected: str) -> None:
    """Every listed branch can be read and written, and every name that is free can be taken."""
    fresh = reopen(graph.stores.uri)
    assert names(fresh) == [MAIN, *expected]
    for name in expected:
        assert len(chain(fresh, name)) == 1
        publish_next(fresh, branch=name)
        fresh.delete_branch(name)
    for name in ("a", "b"):
        fresh.create_branch(name)
        publish_next(fresh, branch=name)
    assert not fresh.stores.objects.exists(BRANCH_LEASE)


# -- races -------------------------------------------------------------------------------------------------------------


def test_of_two_that_make_one_branch_one_wins(graph_uri: str, hands: Hands) -> None:
    graph = create(graph_uri)
    outcomes = hands.all_at_once([(works.create_branch, (graph_uri, "b"))] * 3)
    assert [type(each) for each in losers(outcomes)] == [BranchExists] * 2
    require_nothing_half_made(graph, "b")


def test_of_two_in_each_others_path_one_wins(graph_uri: str, hands: Hands) -> None:
    graph = create(graph_uri)
    outcomes = hands.all_at_once([(works.create_branch, (graph_uri, name)) for name in ("b", "b/c")])
    assert [type(each) for each in losers(outcomes)] == [BranchExists]
    (made,) = names(graph)[1:]
    require_nothing_half_made(graph, made)


def test_of_two_that_remove_one_branch_one_wins(graph_uri: str, hands: Hands) -> None:
    graph = create(graph_uri)
    graph.create_branch("b")
    outcomes = hands.all_at_once([(works.delete_branch, (graph_uri, "b"))] * 2)
    assert [type(each) for each in losers(outcomes)] == [BranchNotFound]
    require_nothing_half_made(graph)


def test_making_a_child_races_with_removing_its_parent(tmp_path: Path, hands: Hands) -> None:
    uri = str(tmp_path / "g")
    graph = create(uri)
    graph.create_branch("b")
    jobs = [(works.delete_branch, (uri, "b")), (works.create_branch, (uri, "c", "b"))]
    outcomes = hands.all_at_once(jobs)
    (lost,) = losers(outcomes)
    assert isinstance(lost, BranchInUse | BranchNotFound)
    assert names(graph) == ([MAIN, "b", "c"] if isinstance(lost, BranchInUse) else [MAIN])


def test_many_branches_made_at_once_are_all_there(tmp_path: Path, hands: Hands) -> None:
    uri = str(tmp_path / "g")
    graph = create(uri)
    outcomes = hands.all_at_once([(works.create_branch, (uri, f"b{number}")) for number in range(4)])
    assert losers(outcomes) == []
    assert names(graph) == [MAIN, *(f"b{number}" for number in range(4))]


# -- deaths ------------------------------------------------------------------------------------------------------------


@pytest.mark.crash
@pytest.mark.parametrize("step", range(1, CREATE_STEPS + 1))
def test_a_maker_killed_at_any_step_leaves_a_whole_branch_or_none(tmp_path: Path, hands: Hands, step: int) -> None:
    uri = str(tmp_path / "g")
    graph = create(uri)
    outcome = hands.run(works.branch_dying, uri, "create", "b", None, f"store.write=kill@{step}")
    assert outcome.killed
    require_nothing_half_made(graph, *names(graph)[1:])


@pytest.mark.crash
@pytest.mark.parametrize("step", range(1, DELETE_STEPS + 1))
def test_a_remover_killed_at_any_step_leaves_a_whole_branch_or_none(tmp_path: Path, hands: Hands, step: int) -> None:
    uri = str(tmp_path / "g")
    graph = create(uri)
    graph.create_branch("b")
    publish_next(graph, branch="b")
    outcome = hands.run(works.branch_dying, uri, "delete", "b", None, f"store.write=kill@{step}")
    assert outcome.killed
    if "b" in names(graph):
        assert len(chain(reopen(uri), "b")) == 2
        reopen(uri).delete_branch("b")
    require_nothing_half_made(graph)


def graph_with_collected_history(uri: str) -> tuple[GraphManifest, str]:
    """A graph, and a commit of it whose manifest version is gone."""
    create(uri)
    graph = reopen(uri, manifest_policy=EAGER)
    old = [publish_next(graph) for _ in range(16)][2].commit
    assert old.manifest_version not in [each["version"] for each in dataset_of(graph).versions()]
    return graph, old.id


@pytest.mark.crash
@pytest.mark.parametrize("step", range(1, CREATE_FROM_COLLECTED_STEPS + 1))
def test_a_branch_from_a_collected_version_is_whole_or_unseen(tmp_path: Path, hands: Hands, step: int) -> None:
    uri = str(tmp_path / "g")
    graph, old = graph_with_collected_history(uri)
    outcome = hands.run(works.branch_dying, uri, "create", "b", old, f"store.write=kill@{step}")
    assert outcome.killed
    whole = step == CREATE_FROM_COLLECTED_STEPS  # only the claim is left to be given back
    assert names(graph) == ([MAIN, "b"] if whole else [MAIN])
    for reader in () if whole else (graph, reopen(uri, read_only=True)):
        with pytest.raises(BranchNotFound):
            reader.snapshot("b")
        with pytest.raises(BranchNotFound):
            reader.publish(publish_request(), branch="b") if not reader.read_only else reader.lineage("b")
    graph.create_branch("other")
    if not whole:
        assert names(graph) == [MAIN, "other"]
        assert not graph.stores.objects.exists(f"{'__manifest'}/tree/b"), "the next branch operation clears it away"
        graph.create_branch("b", commit_id=old)
    assert graph.snapshot("b").tables == graph.snapshot_of(old).tables
    assert len(chain(graph, "b")) == 4


def publish_request() -> object:
    from manifest.graphs import request

    return request()


@pytest.mark.crash
@pytest.mark.parametrize("step", range(1, 6))
def test_a_successor_killed_while_it_clears_up_leaves_it_to_the_next(tmp_path: Path, hands: Hands, step: int) -> None:
    uri = str(tmp_path / "g")
    graph, old = graph_with_collected_history(uri)
    assert hands.run(works.branch_dying, uri, "create", "b", old, "store.write=kill@4").killed
    assert hands.run(works.branch_dying, uri, "create", "c", None, f"store.write=kill@{step}").killed
    assert "b" not in names(graph)
    with pytest.raises(BranchNotFound):
        reopen(uri).snapshot("b")
    graph.create_branch("b")
    assert len(chain(graph, "b")) == 17


def test_there_are_no_more_steps_than_are_tested(tmp_path: Path, hands: Hands) -> None:
    uri = str(tmp_path / "g")
    _, old = graph_with_collected_history(uri)
    for action, name, commit, steps in (
        ("create", "b", None, CREATE_STEPS),
        ("create", "c", old, CREATE_FROM_COLLECTED_STEPS),
        ("delete", "b", None, DELETE_STEPS),
    ):
        outcome = hands.run(works.branch_dying, uri, action, name, commit, f"store.write=kill@{steps + 1}")
        assert outcome.succeeded, (action, name, str(outcome))


def test_a_failure_half_way_blocks_nobody_and_is_cleared_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process lives on, so nobody could tell its claim from a living one's."""
    uri = str(tmp_path / "g")
    graph, old = graph_with_collected_history(uri)

    def refuse(*arguments: object) -> object:
        raise OSError("the disk is full")

    monkeypatch.setattr(branches, "commit_staged", refuse)
    with pytest.raises(OSError, match="the disk is full"):
        graph.create_branch("b", commit_id=old)
    monkeypatch.undo()
    assert names(graph) == [MAIN]
    graph.create_branch("b", commit_id=old)
    assert len(chain(graph, "b")) == 4


# -- claims of others --------------------------------------------------------------------------------------------------


def claim_by_hand(uri: str, *, host: str, seconds: float, unfinished: str | None = None) -> None:
    owner = Owner("01J0000000000000000000TEST", host, "1:0")
    claim = LeaseRecord(owner, REAL.now_us() + int(seconds * 1_000_000), "creating a branch", unfinished, seconds)
    open_stores(at(uri), REAL).objects.create(BRANCH_LEASE, claim.encode())


def test_a_dead_process_of_this_host_is_succeeded_at_once(graph_uri: str) -> None:
    graph = create(graph_uri)
    claim_by_hand(graph_uri, host=REAL.host(), seconds=600)
    started = REAL.monotonic()
    graph.create_branch("b")
    assert REAL.monotonic() - started < 5
    assert names(graph) == [MAIN, "b"]


def test_a_claim_from_another_host_is_respected_until_it_runs_out(
    graph_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branch_lease, "LEASE_WAIT_SECONDS", 0.3)
    monkeypatch.setenv(LEASE, "2")
    graph = create(graph_uri)
    claim_by_hand(graph_uri, host="elsewhere", seconds=600)
    for attempt in (graph.create_branch, graph.delete_branch):
        with pytest.raises(Contention, match="elsewhere"):
            attempt("b")
    publish_next(graph, AUTHOR)
    graph.stores.objects.delete(BRANCH_LEASE)
    claim_by_hand(graph_uri, host="elsewhere", seconds=0.1)
    REAL.sleep(2.5 if graph_uri.startswith("s3") else 0.3)
    graph.create_branch("b")
    assert names(graph) == [MAIN, "b"]


def test_what_another_host_left_unfinished_is_unseen_and_then_cleared(
    graph_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branch_lease, "LEASE_WAIT_SECONDS", 0.3)
    monkeypatch.setenv(LEASE, "2")
    graph = create(graph_uri)
    graph.create_branch("b")
    claim_by_hand(graph_uri, host="elsewhere", seconds=600, unfinished="b")
    assert names(graph) == [MAIN]
    with pytest.raises(BranchNotFound):
        reopen(graph_uri).snapshot("b")
    with pytest.raises(Contention):
        graph.create_branch("c")
    graph.stores.objects.delete(BRANCH_LEASE)
    claim_by_hand(graph_uri, host="elsewhere", seconds=0, unfinished="b")
    REAL.sleep(2.5 if graph_uri.startswith("s3") else 0.1)
    graph.create_branch("c")
    assert names(graph) == [MAIN, "c"]
