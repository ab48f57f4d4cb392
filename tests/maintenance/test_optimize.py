"""Optimize: fewer fragments and complete indexes in one commit; the same answers, and no history lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

import omnigraph as og
from maintenance.library import SCHEMA, answers, doc, library, plain, put, slugs, table
from omnigraph import errors, failpoints
from omnigraph.counters import counting
from omnigraph.storage.tables.indexes import MOST_SEGMENTS
from omnigraph.transaction.commit import table_commits
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.write_set import TableWrite, WriteSet
from storage.joined_changes import stage_upsert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.commit.protocol import Receipt
    from omnigraph.transaction.read_view import ReadView

WORDS = [*(f"word{each}" for each in range(16)), "changed", "renewed"]


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")


def uncovered(asked: Table) -> dict[str, int]:
    there = set(asked.fragment_ids())
    return {
        each.name: len(there - {number for one in each.segments for number in one.fragment_ids})
        for each in asked.handle.describe_indices()
    }


def test_many_fragments_become_one_with_every_index_in_one_commit(tmp_path: Path) -> None:
    graph = library(tmp_path)
    before = len(graph.commits())
    report = graph.optimize()
    assert len(graph.commits()) == before + 1
    assert report.commit == graph.commits()[0]
    (done,) = [each for each in report.tables if each.committed]
    assert (done.table_key, done.fragments_removed, done.fragments_added) == ("node:Doc", 10, 1)
    assert set(done.indexed) == {"id_idx", "slug_idx", "slug_idx_equality", "title_idx", "year_idx", "tags_idx",
                                 "vector_idx"}  # fmt: skip
    assert set(uncovered(table(graph)).values()) == {0}
    assert answers(table(graph), WORDS) == answers(plain(table(graph), tmp_path / "plain"), WORDS)


def test_a_second_time_there_is_nothing_to_do(tmp_path: Path) -> None:
    graph = library(tmp_path)
    graph.optimize()
    commits = graph.commits()
    assert graph.optimize().commit is None
    assert graph.commits() == commits


def test_every_commit_from_before_reads_as_it_was(tmp_path: Path) -> None:
    graph = library(tmp_path, 5)
    before = [(each.id, slugs(graph, each.id)) for each in graph.commits()]
    graph.optimize()
    again = og.open(graph.uri)
    assert [(each, slugs(again, each)) for each, _ in before] == before


def test_rows_that_come_and_change_afterwards_are_found_before_and_after_the_next_time(tmp_path: Path) -> None:
    graph = library(tmp_path)
    graph.optimize()
    for number in (10, 11):
        put(graph, doc(number))
    put(graph, doc(3, "changed"), doc(12))
    put(graph, doc(3, "renewed"))
    wanted = answers(plain(table(graph), tmp_path / "plain"), WORDS)
    assert answers(table(graph), WORDS) == wanted
    graph.optimize()
    assert set(uncovered(table(graph)).values()) == {0}
    assert answers(table(graph), WORDS) == wanted
    assert wanted["text"] == {**dict(wanted["text"]), "word3": [], "changed": [], "renewed": ["d3"]}  # type: ignore[call-overload]


def test_new_rows_extend_an_index_and_many_extensions_become_one(tmp_path: Path) -> None:
    graph = library(tmp_path, 2)
    graph.optimize()
    first = next(each for each in table(graph).handle.describe_indices() if each.name == "title_idx").segments[0].uuid
    most = 0
    kept = []
    for number in range(2, 10):
        put(graph, doc(number))
        graph.optimize()
        segments = next(each for each in table(graph).handle.describe_indices() if each.name == "title_idx").segments
        most = max(most, len(segments))
        kept.append(first in {each.uuid for each in segments})
        assert set(uncovered(table(graph)).values()) == {0}
    assert kept[0]
    assert not kept[-1]
    assert most <= MOST_SEGMENTS
    assert answers(table(graph), WORDS) == answers(plain(table(graph), tmp_path / "plain"), WORDS)


def test_removed_rows_leave_the_files(tmp_path: Path) -> None:
    graph = library(tmp_path)
    graph.optimize()
    for number in range(6):
        graph.mutate("query q($s: String) { delete Doc where slug = $s }", {"s": f"d{number}"})
    graph.optimize()
    assert sum(each.metadata.physical_rows for each in table(graph).handle.get_fragments()) == 4
    assert slugs(graph) == ["d6", "d7", "d8", "d9"]


def test_row_ids_and_row_versions_stay(tmp_path: Path) -> None:
    graph = library(tmp_path)
    columns = ["slug", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]

    def told() -> list[tuple[object, ...]]:
        rows = table(graph).handle.scanner(columns=columns).to_table()
        return sorted(zip(*(each.to_pylist() for each in rows.columns), strict=True))

    before = told()
    graph.optimize()
    assert told() == before


def test_a_table_that_another_program_has_written_to_is_skipped_and_the_others_are_done(tmp_path: Path) -> None:
    graph = library(tmp_path)
    graph.load({"Cites": [{"from": "d1", "to": "d2"}]})
    lance.dataset(table(graph).handle.uri).delete("slug = 'd1'")
    report = graph.optimize()
    by_key = {each.table_key: each for each in report.tables}
    assert by_key["node:Doc"].skipped == "drift_needs_repair"
    assert by_key["node:Doc"].head_version == by_key["node:Doc"].published_version + 1
    assert by_key["edge:Cites"].committed
    assert "d1" in slugs(graph)


def test_a_table_that_cannot_be_read_is_told_and_the_others_are_done(tmp_path: Path) -> None:
    graph = library(tmp_path)
    graph.load({"Cites": [{"from": "d1", "to": "d2"}]})
    from pathlib import Path as RealPath

    next(RealPath(table(graph).handle.uri, "data").iterdir()).unlink()
    report = og.open(graph.uri).optimize()
    by_key = {each.table_key: each for each in report.tables}
    assert by_key["node:Doc"].error
    assert not by_key["node:Doc"].committed
    assert by_key["edge:Cites"].committed


def test_an_index_that_was_not_published_is_not_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program commits to the table between its compaction and its index: the graph gets the compaction only."""
    graph = library(tmp_path)
    uri, before = table(graph).handle.uri, table(graph).version

    def intrude(point: str) -> None:
        if point == "commit.table_landed" and lance.dataset(uri).version == before + 1:
            lance.dataset(uri).delete("slug = 'd1'")

    monkeypatch.setattr(table_commits, "reach", intrude)
    report = graph.optimize()
    doc = next(each for each in report.tables if each.table_key == "node:Doc")
    assert (doc.committed, doc.fragments_removed > 0, doc.published_version) == (True, True, before + 1)
    assert doc.indexed == ()
    assert doc.error is not None
    assert "run optimize again" in doc.error


def test_a_write_in_the_middle_is_kept_and_optimized_too(tmp_path: Path) -> None:
    graph = library(tmp_path)
    other = og.open(graph.uri)
    from omnigraph.maintenance.optimize import Optimize

    class Interrupted(Optimize):
        def _prepare(self, entry, kind):  # type: ignore[no-untyped-def]
            prepared = super()._prepare(entry, kind)
            if kind.table_key == "node:Doc" and len(slugs(other)) == 10:
                put(other, doc(10))
            return prepared

    report = Interrupted(graph._manifest, graph.catalog, "main").run()
    assert [each.table_key for each in report.tables if each.committed] == ["node:Doc"]
    assert len(slugs(graph)) == 11
    assert len(table(graph).fragment_ids()) == 1


def test_an_update_is_not_refused_because_its_table_was_tidied_meanwhile(tmp_path: Path) -> None:
    graph = library(tmp_path)
    other = og.open(graph.uri)
    looks: list[int] = []

    def rewrite_first(meanwhile: Callable[[], object]) -> Receipt | None:
        def prepare(view: ReadView) -> WriteSet:
            looks.append(view.snapshot["node:Doc"].version)
            if len(looks) == 1:
                meanwhile()
            return WriteSet([TableWrite(view.entry("node:Doc"), lambda on: stage_upsert(on, on.read().slice(0, 1)))])

        return commit(graph._manifest, Operation("Mutation", prepare, repeatable=False))

    assert rewrite_first(other.optimize) is not None
    assert len(looks) == 2
    looks.clear()
    with pytest.raises(errors.ReadSetChanged):
        rewrite_first(lambda: put(other, doc(10)))
    assert len(slugs(graph)) == 11


def test_a_branch_is_optimized_for_itself(tmp_path: Path) -> None:
    graph = library(tmp_path)
    graph.ensure_indices()
    graph.branches.create("side")
    assert {each.skipped for each in graph.optimize(branch="side").tables} == {"inherited"}
    put(graph, doc(3, "changed"), branch="side")
    put(graph, doc(10), branch="side")
    report = graph.optimize(branch="side")
    assert [each.table_key for each in report.tables if each.committed] == ["node:Doc"]
    side = table(graph, branch="side")
    assert answers(side, WORDS) == answers(plain(side, tmp_path / "plain"), WORDS)
    assert len(slugs(graph)) == 10
    graph.merge("side")
    assert len(slugs(graph)) == 11


def test_an_empty_graph_has_nothing_to_optimize(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", schema=SCHEMA)
    report = graph.optimize()
    assert report.commit is None
    assert {each.table_key for each in report.tables} == {"node:Doc", "edge:Cites"}


def test_vectors_that_are_not_there_yet_are_pending(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", schema=SCHEMA)
    put(graph, {**doc(1), "vector": None})
    (done,) = [each for each in graph.optimize().tables if each.committed]
    assert [(each.property, each.reason) for each in done.pending] == [("vector", "no row has a vector yet")]
    put(graph, doc(2))
    graph.optimize()
    assert answers(table(graph), WORDS)["near"] == ["d2"]


def test_no_preview_is_left_behind(tmp_path: Path) -> None:
    graph = library(tmp_path)
    graph.optimize()
    assert list(tmp_path.rglob("d*.manifest")) == []


def test_the_cost_does_not_follow_the_history(tmp_path: Path) -> None:
    def cost(graph: og.Graph) -> int:
        with counting() as counts:
            graph.optimize()
        return counts.objects + counts.table_opens + counts.table_probes + counts.table_commits + counts.table_scans

    short = library(tmp_path / "short", 8)
    long = library(tmp_path / "long", 40)
    assert cost(long) <= cost(short) + 8


def test_two_at_once_do_the_work_once(tmp_path: Path) -> None:
    graph, other = library(tmp_path), og.open(tmp_path / "graph")
    before = len(graph.commits())
    graph.optimize()
    other.optimize()
    assert len(graph.commits()) == before + 1
