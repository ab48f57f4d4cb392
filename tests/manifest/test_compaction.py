"""The cost of a publish follows the change and not the history: counted exactly, and held as the history grows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import lance
import pytest

from manifest.graphs import (
    AUTHOR,
    EAGER,
    NEVER,
    PAPER,
    chain,
    dataset_of,
    manifest_rows,
    publish_next,
    reopen,
    request,
    version,
)
from omnigraph.counters import Counts, counting
from omnigraph.manifest.compaction import DEFAULT_MANIFEST_POLICY, ManifestPolicy, collect, compact
from omnigraph.manifest.layout import MANIFEST
from omnigraph.world import REAL

if TYPE_CHECKING:
    from omnigraph.manifest.graph_manifest import GraphManifest


def publish(graph: GraphManifest, number: int, *, branch: str = "main") -> None:
    graph.publish(request(version(AUTHOR, number, branch=None if branch == "main" else branch)), branch=branch)


def cost(counts: Counts) -> dict[str, int]:
    """What was counted and is not zero."""
    found = {name: value for name, value in vars(counts).items() if name != "requests" and value}
    return dict(sorted(found.items()))


def newest_version_file(uri: str) -> int:
    """The size of the file that every publish writes and every cold open reads."""
    from pathlib import Path

    return min(Path(uri, MANIFEST, "_versions").glob("*.manifest")).stat().st_size


# -- exact costs -------------------------------------------------------------------------------------------------------


def test_a_warm_publish_is_one_commit_and_nothing_else(graph: GraphManifest) -> None:
    for number in range(2, 6):
        with counting() as counts:
            publish(graph, number)
        assert cost(counts) == {"table_commits": 1}


def test_a_warm_publish_on_a_branch_also_looks_that_the_branch_is_the_same(graph: GraphManifest) -> None:
    graph.create_branch("b")
    publish(graph, 2, branch="b")
    publish(graph, 3, branch="b")
    with counting() as counts:
        publish(graph, 4, branch="b")
    assert cost(counts) == {"object_reads": 1, "table_commits": 1}


def test_what_a_cold_open_a_warm_look_and_a_catch_up_cost(graph: GraphManifest, uri: str) -> None:
    with counting() as counts:
        reader = reopen(uri)
    assert cost(counts) == {"table_opens": 1, "table_scans": 1}
    with counting() as counts:
        reader.snapshot()
    assert cost(counts) == {"table_probes": 1}
    for number in range(2, 7):
        publish(graph, number)
    with counting() as counts:
        assert reader.snapshot()[AUTHOR].version == 6
    assert cost(counts) == {"table_opens": 1, "table_probes": 1, "table_scans": 1}


def test_a_catch_up_reads_only_fragments_it_has_not_seen(
    graph: GraphManifest, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2, 12):
        publish(graph, number)
    reader = reopen(uri)
    for number in range(12, 15):
        publish(graph, number)
    read: list[list[int]] = []
    scan = lance.LanceDataset.scanner

    def noted(self: lance.LanceDataset, *args: object, **more: object) -> object:
        fragments = more.get("fragments")
        assert isinstance(fragments, list)
        read.append([each.fragment_id for each in fragments])
        return scan(self, *args, **more)

    monkeypatch.setattr(lance.LanceDataset, "scanner", noted)
    reader.snapshot()
    assert read == [[dataset_of(graph).get_fragments()[-1].fragment_id]], "the tail, and nothing else"


def test_time_travel_on_a_warm_main_asks_the_store_for_nothing(graph: GraphManifest) -> None:
    published = [publish_next(graph).commit.id for _ in range(5)]
    with counting() as counts:
        for each in published:
            graph.snapshot_of(each)
    assert cost(counts) == {}


def test_an_expectation_that_fails_costs_one_look(graph: GraphManifest) -> None:
    with counting() as counts, pytest.raises(Exception, match="expected at version 7"):
        graph.publish(request(version(AUTHOR, 2), expected_versions={AUTHOR: 7}))
    assert cost(counts) == {"table_probes": 1}


# -- growth ------------------------------------------------------------------------------------------------------------


def test_fragments_and_version_files_stay_small_over_500_publishes(graph: GraphManifest, uri: str) -> None:
    fragments, sizes = [], []
    for number in range(2, 502):
        publish(graph, number)
        fragments.append(len(graph.branch().table.fragment_ids()))
        sizes.append(newest_version_file(uri))
    assert max(fragments) <= DEFAULT_MANIFEST_POLICY.small_fragments + 2
    assert max(sizes) < 6_000, "bytes, before a compaction"
    assert min(sizes[-40:]) < 2_500, "bytes, after one"
    assert max(sizes[-100:]) <= 1.1 * max(sizes[100:200]), "flat"
    assert len(chain(graph)) == 501
    assert len(manifest_rows(reopen(uri))) == 8 + 2 * 500


def test_old_versions_go_when_there_are_many_and_the_newest_stay(graph: GraphManifest, uri: str) -> None:
    policy = ManifestPolicy(4, rows_per_fragment=40, versions=20, keep_versions=8, commit_grace_seconds=0)
    busy = reopen(uri, manifest_policy=policy)
    most = 0
    for number in range(2, 80):
        publish(busy, number)
        most = max(most, len(dataset_of(graph).versions()))
    assert most <= policy.versions + 3 * policy.small_fragments
    assert len(dataset_of(graph).versions()) >= policy.keep_versions
    assert len(chain(reopen(uri))) == 79


def test_collecting_never_takes_a_version_that_a_branch_stands_on(graph: GraphManifest, uri: str) -> None:
    busy = reopen(uri, manifest_policy=EAGER)
    for number in range(2, 6):
        publish(busy, number)
    graph.create_branch("quiet")
    graph.create_branch("busy")
    expected = graph.snapshot("quiet").tables
    for number in range(6, 30):
        publish(busy, number)
        publish(busy, number, branch="busy")
    for each in (graph, reopen(uri), reopen(uri, read_only=True)):
        assert each.snapshot("quiet").tables == expected
        assert len(chain(each, "quiet")) == 5
        assert len(chain(each, "busy")) == 29
    publish_next(graph, PAPER, branch="quiet")
    assert len(chain(reopen(uri), "quiet")) == 6


def test_collecting_a_branch_leaves_its_own_branches_whole(graph: GraphManifest, uri: str) -> None:
    busy = reopen(uri, manifest_policy=EAGER)
    busy.create_branch("b")
    for number in range(2, 10):
        publish(busy, number, branch="b")
    busy.create_branch("c", source="b")
    for number in range(10, 30):
        publish(busy, number, branch="b")
        publish(busy, number)
    assert len(chain(reopen(uri), "c")) == 9
    publish_next(busy, PAPER, branch="c")


def test_a_reader_that_is_far_behind_catches_up_after_everything_it_knew_was_collected(
    graph: GraphManifest, uri: str
) -> None:
    reader = reopen(uri, read_only=True)
    busy = reopen(uri, manifest_policy=EAGER)
    for number in range(2, 60):
        publish(busy, number)
    assert reader.branch().table.version not in [each["version"] for each in dataset_of(graph).versions()]
    assert reader.snapshot()[AUTHOR].version == 59
    assert len(chain(reader)) == 59


def test_a_snapshot_outlives_the_manifest_version_it_came_from(graph: GraphManifest, uri: str) -> None:
    first = graph.snapshot()
    busy = reopen(uri, manifest_policy=EAGER)
    for number in range(2, 30):
        publish(busy, number)
    assert [graph.stores.tables.open(entry.pin).count_rows() for entry in first] == [0, 0, 0]


def test_compacting_does_nothing_while_there_are_few_fragments(graph: GraphManifest) -> None:
    before = dataset_of(graph).version
    assert not compact(graph.branch(), DEFAULT_MANIFEST_POLICY)
    assert collect(graph.branch(), DEFAULT_MANIFEST_POLICY, REAL) == 0
    assert dataset_of(graph).version == before


def test_a_publisher_lays_its_own_publishes_down_without_reading_them(graph: GraphManifest, uri: str) -> None:
    policy = replace(DEFAULT_MANIFEST_POLICY, small_fragments=8)
    busy = reopen(uri, manifest_policy=NEVER)
    for number in range(2, 14):
        publish(busy, number)
    columns = ["object_id", "metadata", "table_version", "_rowid"]
    before = dataset_of(graph).to_table(columns=columns)
    with counting() as counts:
        assert compact(busy.branch(), policy)
    assert counts.table_scans == 0
    after = dataset_of(graph)
    assert sorted(after.to_table(columns=columns).to_pylist(), key=str) == sorted(before.to_pylist(), key=str)
    assert [each.metadata.physical_rows for each in after.get_fragments()] == [7, 24, 1]
    after.validate()
    for number in range(14, 26):
        publish(busy, number)
    assert compact(busy.branch(), policy)
    dataset_of(graph).validate()
    assert [each.id for each in reopen(uri).lineage().newest_first()] == chain(busy)
    assert reopen(uri).snapshot_of(chain(busy)[13])[AUTHOR].version == 12


def test_publishes_of_other_processes_are_laid_down_as_well(graph: GraphManifest, uri: str) -> None:
    """Two that publish in turns: each has written half of them."""
    policy = replace(DEFAULT_MANIFEST_POLICY, small_fragments=8)
    first, second = reopen(uri, manifest_policy=NEVER), reopen(uri, manifest_policy=NEVER)
    for number in range(2, 22, 2):
        publish(first, number)
        publish(second, number + 1)
    versions = {each: graph.snapshot_of(each)[AUTHOR].version for each in chain(graph)}
    first.branch().refresh()
    assert compact(first.branch(), policy)
    assert len(dataset_of(graph).get_fragments()) <= 5
    dataset_of(graph).validate()
    for each in (first, second, reopen(uri)):
        assert {name: each.snapshot_of(name)[AUTHOR].version for name in chain(each)} == versions


def test_without_upkeep_a_graph_grows_and_one_tidy_writer_makes_it_small_again(graph: GraphManifest, uri: str) -> None:
    careless = reopen(uri, manifest_policy=NEVER)
    for number in range(2, 60):
        publish(careless, number)
    assert [each.metadata.physical_rows for each in dataset_of(graph).get_fragments()] == [7, 2 * 58 + 1]
    publish(reopen(uri, manifest_policy=replace(DEFAULT_MANIFEST_POLICY, small_fragments=8)), 60)
    assert [each.metadata.physical_rows for each in dataset_of(graph).get_fragments()] == [7, 2 * 59, 1]
    assert len(chain(careless)) == 60


def test_tidying_that_fails_does_not_fail_the_publish_that_succeeded(
    graph: GraphManifest, uri: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraph.errors import StoreError
    from omnigraph.manifest import compaction

    busy = reopen(uri, manifest_policy=EAGER)

    def refuse(*arguments: object) -> object:
        raise StoreError("the disk is full")

    monkeypatch.setattr(compaction, "commit_staged", refuse)
    for number in range(2, 8):
        publish(busy, number)
    assert len(chain(graph)) == 7
    assert "the disk is full" in caplog.text
