"""Index builds by Spark tasks: the same answers as from indexes built in this process, as one segment each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from omnigraph.spark.index_build import build_on_spark
from omnigraph.upkeep.indices import IndexBuild
from omnigraph.upkeep.optimize import Optimize
from upkeep.library import answers, doc, library, plain, put, table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_every_kind_of_index_is_built_in_parts_and_joined(spark: SparkSession, tmp_path: Path) -> None:
    graph = library(tmp_path, 5)
    report = IndexBuild(graph._manifest, graph.catalog, branch="main", build=build_on_spark(spark)).run()
    assert report.commit is not None
    indexes = table(graph).dataset.describe_indices()
    assert sorted(each.name for each in indexes) == sorted(report.built["node:Doc"])
    assert {(len(each.segments), each.num_rows_indexed) for each in indexes} == {(1, 5)}
    words = [f"word{each}" for each in range(5)]
    assert answers(table(graph), words) == answers(plain(table(graph), tmp_path / "plain"), words)
    assert graph.ensure_indices(engine="spark").commit is None


def test_optimize_compacts_and_indexes_what_came_since(spark: SparkSession, tmp_path: Path) -> None:
    graph = library(tmp_path, 3)
    graph.ensure_indices()
    for number in range(3, 6):
        put(graph, doc(number))
    Optimize(graph._manifest, graph.catalog, "main", build=build_on_spark(spark)).run()
    words = [f"word{each}" for each in range(6)]
    assert answers(table(graph), words) == answers(plain(table(graph), tmp_path / "plain"), words)
