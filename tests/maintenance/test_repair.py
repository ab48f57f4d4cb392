"""Repair: what another program did to a table is looked at, and taken into the graph only when that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

import omnigraph as og
from maintenance.library import doc, library, put, slugs, table
from omnigraph import errors
from omnigraph.storage.lance.paths import version_file

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.maintenance.repair import RepairedTable, RepairReport


def foreign(graph: og.Graph, branch: str = "main") -> lance.LanceDataset:
    """The documents as a program sees them that knows nothing of the graph."""
    return lance.dataset(table(graph, branch=branch).handle.uri)


def documents(report: RepairReport, branch: str = "main") -> RepairedTable:
    found: RepairedTable = next(each for each in report.tables if (each.table_key, each.branch) == ("node:Doc", branch))
    return found


def test_a_graph_in_order_needs_nothing(tmp_path: Path) -> None:
    graph = library(tmp_path, 3)
    report = graph.repair(confirm=True)
    assert {(each.classification, each.action) for each in report.tables} == {("no_drift", "no_op")}
    assert report.commits == ()


def test_a_look_changes_nothing(tmp_path: Path) -> None:
    graph = library(tmp_path, 3)
    foreign(graph).optimize.compact_files()
    commits = graph.commits()
    found = documents(graph.repair())
    assert (found.classification, found.action) == ("verified_maintenance", "preview")
    assert found.operations == ("ReserveFragments", "Rewrite")
    assert found.head_version == found.published_version + 2
    assert graph.commits() == commits


def test_a_foreign_compaction_is_taken_when_confirmed(tmp_path: Path) -> None:
    graph = library(tmp_path, 3)
    graph.ensure_indices()
    foreign(graph).optimize.compact_files()
    with pytest.raises(errors.CommitRejected, match="repair"):
        put(graph, doc(5))
    report = graph.repair(confirm=True)
    assert documents(report).action == "healed"
    assert report.commits == (graph.commits()[0],)
    put(graph, doc(6))
    assert slugs(graph) == ["d0", "d1", "d2", "d6"]
    assert documents(graph.repair()).classification == "no_drift"


def test_foreign_rows_are_refused_until_it_is_forced(tmp_path: Path) -> None:
    graph = library(tmp_path, 3)
    foreign(graph).delete("slug = 'd1'")
    report = graph.repair(confirm=True)
    assert (documents(report).classification, documents(report).action) == ("suspicious", "refused")
    assert documents(report).operations == ("Delete",)
    assert report.refused == (documents(report),)
    assert slugs(graph) == ["d0", "d1", "d2"]
    forced = graph.repair(confirm=True, force=True)
    assert documents(forced).action == "forced"
    assert slugs(graph) == ["d0", "d2"]
    put(graph, doc(1))
    assert slugs(graph) == ["d0", "d1", "d2"]


def test_what_cannot_be_told_any_more_is_unverifiable(tmp_path: Path) -> None:
    graph = library(tmp_path, 3)
    ours = table(graph)
    foreign(graph).delete("slug = 'd0'")
    foreign(graph).delete("slug = 'd1'")
    middle = tmp_path / "graph" / version_file(ours.path, None, ours.version + 1)
    middle.unlink()
    assert documents(graph.repair()).classification == "unverifiable"
    assert documents(graph.repair(confirm=True)).action == "refused"
    assert documents(graph.repair(confirm=True, force=True)).action == "forced"
    assert slugs(graph) == ["d2"]


def test_each_branch_is_repaired_for_itself(tmp_path: Path) -> None:
    graph = library(tmp_path, 3)
    graph.branches.create("side")
    put(graph, doc(4), branch="side")
    foreign(graph, "side").optimize.compact_files()
    report = graph.repair(confirm=True)
    assert documents(report).action == "no_op"
    assert documents(report, "side").action == "healed"
    assert [each.branch for each in report.commits] == ["side"]
    put(graph, doc(5), branch="side")
    assert len(slugs(graph, branch="side")) == 5


def test_a_table_of_an_operation_that_died_is_recovered_and_not_adopted(tmp_path: Path) -> None:
    from omnigraph import failpoints
    from omnigraph.failpoints import InjectedFaultError

    graph = library(tmp_path, 2)
    failpoints.arm("commit.before_publish=raise")
    with pytest.raises(InjectedFaultError):
        put(graph, doc(7))
    assert {each.action for each in graph.repair(confirm=True).tables} == {"no_op"}
    assert slugs(graph) == ["d0", "d1"]


def test_force_alone_and_read_only_graphs_are_refused(tmp_path: Path) -> None:
    graph = library(tmp_path, 1)
    with pytest.raises(errors.InvalidInput, match="confirm"):
        graph.repair(force=True)
    reader = og.open(graph.uri, read_only=True)
    assert documents(reader.repair()).action == "no_op"
    with pytest.raises(errors.CommitRejected):
        reader.repair(confirm=True)


def test_a_table_that_lost_versions_is_not_touched(tmp_path: Path) -> None:
    graph = library(tmp_path, 3)
    ours = table(graph)
    (tmp_path / "graph" / version_file(ours.path, None, ours.version)).unlink()
    found = documents(og.open(graph.uri).repair(confirm=True, force=True))
    assert (found.classification, found.action) == ("lost_versions", "refused")
