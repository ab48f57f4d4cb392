"""Many processes write to one branch, some of them killed: nothing acknowledged is lost, and nobody is blocked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from concurrency.writers import busy
from omnigraph.transaction.recovery.outcome import sweep
from transaction.recovery.hand_made import add, chain, create, require_settled

if TYPE_CHECKING:
    from pathlib import Path

    from crash.zygote import Zygote

pytestmark = pytest.mark.crash


def test_a_few_writers_with_one_pair_killed(tmp_path: Path, zygote: Zygote) -> None:
    _hammer(zygote, str(tmp_path / "graph.omni"), writers=4, commits=6, kills=1, every=0.7)


@pytest.mark.s3
def test_a_few_writers_on_s3(s3_uri: str, zygote: Zygote) -> None:
    _hammer(zygote, s3_uri, writers=3, commits=3, kills=1, every=1.5)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_eight_writers_with_two_killed_every_few_seconds(tmp_path: Path, zygote: Zygote) -> None:
    _hammer(zygote, str(tmp_path / "graph.omni"), writers=8, commits=50, kills=5, every=3.0)


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.timeout(1_200)
def test_eight_writers_on_s3(s3_uri: str, zygote: Zygote) -> None:
    _hammer(zygote, s3_uri, writers=8, commits=5, kills=2, every=4.0)


def test_writers_on_branches_of_their_own_do_not_wait_for_each_other(tmp_path: Path, zygote: Zygote) -> None:
    graph = create(str(tmp_path / "graph.omni"))
    add(graph)
    branches = [f"agent-{number}" for number in range(3)]
    for branch in branches:
        graph.create_branch(branch)
    children = [zygote.start(busy.keep_writing, graph.stores.uri, each, 4, each) for each in branches]
    told = {branch: busy.Told() for branch in branches}
    for branch, child in zip(branches, children, strict=True):
        busy.listen([child], told[branch])
    for branch, its in told.items():
        assert its.errors == []
        assert len(its.acknowledged) == 4
        assert set(its.acknowledged.values()) <= set(chain(graph, branch))
        require_settled(graph, branch)


def _hammer(zygote: Zygote, uri: str, *, writers: int, commits: int, kills: int, every: float) -> None:
    graph = create(uri)
    told = busy.run(zygote, uri, writers=writers, commits=commits, kills=kills, every=every)
    assert told.errors == []
    sweep(graph)
    busy.require_true_to(told, graph)
    add(graph)
    done, cut = len(told.acknowledged), len(told.begun) - len(told.acknowledged)
    print(f"{writers} writers, {2 * kills} killed: {done} commits acknowledged, {cut} cut, 0 violations")
