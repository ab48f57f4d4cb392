"""Compaction by Spark tasks: the same outcome as in this process, and nothing visible before the driver lands it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from maintenance.library import answers, library, plain, slugs, table
from omnigraph.maintenance.optimize import Optimize
from omnigraph.spark.maintenance import execute_on_spark
from omnigraph.storage.tables.compaction import stage_compaction
from omnigraph.storage.tables.staging import commit_staged

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_graph_is_optimized_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    graph = library(tmp_path, 6)
    report = Optimize(graph._manifest, graph.catalog, "main", execute=execute_on_spark(spark)).run()
    (done,) = [each for each in report.tables if each.committed]
    assert (done.fragments_removed, done.fragments_added) == (6, 1)
    assert len(slugs(graph)) == 6
    words = [f"word{each}" for each in range(6)]
    assert answers(table(graph), words) == answers(plain(table(graph), tmp_path / "plain"), words)
    assert graph.optimize(engine="spark").commit is None


def test_several_tasks_come_back_in_their_order(spark: SparkSession, tmp_path: Path) -> None:
    graph = library(tmp_path, 8)
    before = table(graph)
    staged = stage_compaction(before, rows_per_file=2, execute=execute_on_spark(spark))
    here = stage_compaction(before, rows_per_file=2)
    assert staged is not None
    assert here is not None
    assert table(graph).fragment_ids() == before.fragment_ids()
    landed = commit_staged(staged).table
    assert landed.read(["slug"]) == before.read(["slug"])
    assert len(landed.fragment_ids()) == len(list(here.transaction.operation.groups))
