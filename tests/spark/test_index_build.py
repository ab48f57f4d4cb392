"""Index builds by Spark tasks: the same answers as from indexes built in this process, as one segment each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from maintenance.library import answers, doc, library, plain, put, table
from omnigraph.maintenance.indexes import IndexBuild
from omnigraph.maintenance.optimize import Optimize
from omnigraph.spark.maintenance import build_on_spark

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_every_kind_of_index_is_built_in_parts_and_joined(spark: SparkSession, tmp_path: Path) -> None:
    graph = library(tmp_path, 5)
    report = IndexBuild(graph._manifest, graph.catalog, branch="main", build=build_on_spark(spark)).run()
    assert report.commit is not None
    indexes = table(graph).handle.describe_indices()
    assert sorted(each.name for each in indexes) == sorted(report.built["node:Doc"])
    assert {(len(each.segments), each.num_rows_indexed) for each in indexes} == {(1, 5)}
    words = [f"word{each}" for each in range(5)]
    assert answers(table(graph), words) == answers(plain(table(graph), tmp_path / "plain"), words)
    assert graph.ensure_indices(engine="spark").commit is None


def test_a_large_vector_index_is_built_around_common_centres(spark: SparkSession, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node Point { slug: String @key  v: Vector(2)? @index }")
    rows = 26_000
    for first in (0, rows):
        places = np.arange(first, first + rows)
        flat = np.stack([places % 229, places // 229], axis=1).astype(np.float32).ravel()
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat), 2)
        graph.load({"Point": pa.table({"slug": [f"p{each}" for each in places], "v": vectors})}, mode="append")
    IndexBuild(graph._manifest, graph.catalog, branch="main", build=build_on_spark(spark)).run()
    (index,) = [each for each in table(graph, "node:Point").handle.describe_indices() if each.name.startswith("v")]
    assert (len(index.segments), index.num_rows_indexed) == (1, 2 * rows)
    for number in (7, 30_000, 51_999):
        near = {"column": "v", "q": [float(number % 229), float(number // 229)], "k": 1}
        found = table(graph, "node:Point").handle.to_table(columns=["slug"], nearest=near)
        assert found.column("slug").to_pylist() == [f"p{number}"]


def test_optimize_compacts_and_indexes_what_came_since(spark: SparkSession, tmp_path: Path) -> None:
    graph = library(tmp_path, 3)
    graph.ensure_indices()
    for number in range(3, 6):
        put(graph, doc(number))
    Optimize(graph._manifest, graph.catalog, "main", build=build_on_spark(spark)).run()
    words = [f"word{each}" for each in range(6)]
    assert answers(table(graph), words) == answers(plain(table(graph), tmp_path / "plain"), words)
