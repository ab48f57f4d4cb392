"""Several processes publish on one branch: every success is in one line of history, and nothing is there twice.

SeaweedFS makes the losers of a contended write wait a second, so the bucket gets fewer rounds; the whole size runs with
the slow tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from concurrency import works
from manifest.graphs import PAPER, blueprint_of, chain, create, manifest_rows, reopen
from omnigraph.manifest.compaction import DEFAULT_MANIFEST_POLICY
from omnigraph.world import REAL

if TYPE_CHECKING:
    from pathlib import Path

    from manifest.hands import Hands, Outcome, Running
    from omnigraph.manifest.graph_manifest import GraphManifest


@dataclass(frozen=True)
class Size:
    """How many processes publish how often."""

    processes: int
    publishes: int
    patience: float = 120


FULL = Size(8, 25)
FULL_ON_S3 = Size(8, 25, patience=800)
KILLED = Size(8, 8)
ON_S3 = Size(4, 8)
SAME_TABLE_ON_S3 = Size(3, 3)
SAME, DISJOINT = "the same table", "disjoint tables"


def tables_of(kind: str, size: Size) -> list[str]:
    return [f"node:T{0 if kind == SAME else number}" for number in range(size.processes)]


def start(hands: Hands, uri: str, kind: str, size: Size) -> list[Running]:
    children = [
        hands.start(works.publish_many, uri, key, number, size.publishes, size.patience)
        for number, key in enumerate(tables_of(kind, size))
    ]
    for child in children:
        child.go()
    return children


def outcomes_of(children: list[Running], size: Size) -> list[Outcome]:
    """All of them ended; when one does not, none goes on."""
    try:
        return [child.outcome(size.patience) for child in children]
    finally:
        for child in children:
            child.kill()


def require_one_history(graph: GraphManifest, published: list[str]) -> None:
    """Everything that was acknowledged is there, in one line, and everything that is there is readable."""
    line = chain(graph)
    assert len(set(line)) == len(line)
    assert set(published) <= set(line)
    rows = manifest_rows(graph)
    commits = [graph.commit(each) for each in line]
    assert [each.manifest_version for each in commits] == sorted((c.manifest_version for c in commits), reverse=True)
    versions = [row for row in rows.values() if row["object_type"] == "table_version"]
    assert len(versions) == len(line) - 1 + len(graph.snapshot().tables), "each publish made one version visible"
    assert len(graph.branch().table.fragment_ids()) <= 3 * DEFAULT_MANIFEST_POLICY.small_fragments


def require_every_row_once(graph: GraphManifest, acknowledged: set[str]) -> None:
    """The tables hold the row of each commit in the history, and no other."""
    authored = {commit.actor for commit in graph.lineage().commits.values() if commit.actor}
    found: list[str] = []
    for entry in graph.snapshot():
        rows = graph.stores.tables.open(entry.pin).read(["id"])["id"].to_pylist()
        assert len(rows) == entry.row_count
        found += rows
    assert len(set(found)) == len(found)
    if len(graph.snapshot().tables) == 1:
        assert set(found) == authored
    assert acknowledged <= authored


def publish_all(hands: Hands, uri: str, kind: str, size: Size) -> None:
    create(uri, blueprint_of(len(set(tables_of(kind, size)))))
    outcomes = outcomes_of(start(hands, uri, kind, size), size)
    assert [str(each) for each in outcomes] == ["done"] * size.processes
    published = [each for outcome in outcomes for each in outcome.value[0]]
    assert len(published) == size.processes * size.publishes
    graph = reopen(uri)
    require_one_history(graph, published)
    assert len(chain(graph)) == len(published) + 1
    require_every_row_once(graph, set())
    require_typed_losses(outcomes)


def require_typed_losses(outcomes: list[Outcome]) -> None:
    known = {"CommitConflict", "ExpectedVersionMismatch", "Contention", "CommitRejected", "HeadMismatch"}
    met = {name for outcome in outcomes if outcome.succeeded for name in outcome.value[1]}
    assert met <= known, met


def publish_while_two_are_killed(hands: Hands, uri: str, kind: str, size: Size) -> None:
    graph = create(uri, blueprint_of(len(set(tables_of(kind, size)))))
    children = start(hands, uri, kind, size)
    enough = size.processes * size.publishes // 4
    for victim in children[:2]:
        _wait_for_commits(graph, enough)
        REAL.sleep(REAL.random_bits(8) / 256 * 0.1)
        victim.kill()
        enough += size.publishes // 2
    outcomes = outcomes_of(children, size)
    survivors = [each for each in outcomes if not each.killed]
    assert len(survivors) >= size.processes - 2
    assert all(each.succeeded for each in survivors), [str(each) for each in survivors]
    published = [each for outcome in survivors for each in outcome.value[0]]
    assert len(published) == len(survivors) * size.publishes
    fresh = reopen(uri)
    require_one_history(fresh, published)
    require_every_row_once(fresh, set())
    require_typed_losses(survivors)
    works.publish_many(uri, tables_of(kind, size)[0], 99, 2, size.patience)
    assert len(chain(fresh)) >= len(published) + 3


def _wait_for_commits(graph: GraphManifest, number: int) -> None:
    deadline = REAL.monotonic() + 300
    while len(graph.lineage().commits) <= number:
        assert REAL.monotonic() < deadline
        REAL.sleep(0.01)


@pytest.mark.parametrize("kind", [DISJOINT, SAME])
def test_eight_processes_publish_25_times_each(tmp_path: Path, hands: Hands, kind: str) -> None:
    publish_all(hands, str(tmp_path / "g"), kind, FULL)


@pytest.mark.crash
@pytest.mark.parametrize("kind", [DISJOINT, SAME])
def test_eight_processes_publish_8_times_each_and_two_are_killed(tmp_path: Path, hands: Hands, kind: str) -> None:
    publish_while_two_are_killed(hands, str(tmp_path / "g"), kind, KILLED)


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("kind", [DISJOINT, SAME])
def test_eight_processes_publish_25_times_each_and_two_are_killed(tmp_path: Path, hands: Hands, kind: str) -> None:
    publish_while_two_are_killed(hands, str(tmp_path / "g"), kind, FULL)


@pytest.mark.s3
@pytest.mark.parametrize(("kind", "size"), [(DISJOINT, ON_S3), (SAME, SAME_TABLE_ON_S3)])
def test_processes_publish_to_a_bucket(s3_uri: str, hands: Hands, kind: str, size: Size) -> None:
    publish_all(hands, s3_uri, kind, size)


@pytest.mark.s3
@pytest.mark.crash
@pytest.mark.parametrize("kind", [DISJOINT])
def test_processes_publish_to_a_bucket_and_two_are_killed(s3_uri: str, hands: Hands, kind: str) -> None:
    publish_while_two_are_killed(hands, s3_uri, kind, ON_S3)


@pytest.mark.s3
@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", [DISJOINT, SAME])
def test_eight_processes_publish_25_times_each_to_a_bucket(s3_uri: str, hands: Hands, kind: str) -> None:
    publish_all(hands, s3_uri, kind, FULL_ON_S3)


@pytest.mark.s3
@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", [DISJOINT, SAME])
def test_eight_processes_publish_25_times_each_to_a_bucket_and_two_are_killed(
    s3_uri: str, hands: Hands, kind: str
) -> None:
    publish_while_two_are_killed(hands, s3_uri, kind, FULL_ON_S3)


def test_writers_on_their_own_branches_do_not_meet(tmp_path: Path, hands: Hands) -> None:
    from manifest import works as manifest_works

    uri = str(tmp_path / "g")
    graph = create(uri)
    for number in range(3):
        graph.create_branch(f"agent-{number}")
    jobs = [(manifest_works.publish_some, (uri, PAPER, 10, f"agent-{number}")) for number in range(3)]
    outcomes = hands.all_at_once(jobs)
    assert [str(each) for each in outcomes] == ["done"] * 3
    for number, outcome in enumerate(outcomes):
        assert chain(reopen(uri), f"agent-{number}")[:-1] == outcome.value[::-1]
    assert len(chain(graph)) == 1
