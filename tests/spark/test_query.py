"""Reads on Spark: the same rows as the embedded engine, over generated graphs and queries."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from decimal import Decimal
from random import Random  # noqa: TID251 - seeded, so that a failure can be repeated
from typing import TYPE_CHECKING, Any

import pytest

from omnigraph.language.query import bind_params
from omnigraph.read.options import DEFAULT_OPTIONS
from omnigraph.spark.query.run import run_on_spark
from read.generated import SCHEMA, graph
from read.graphs import NOW, make_graph
from read.test_differential import PARAMS, written

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from read.graphs import Graph

pytestmark = pytest.mark.spark


def on_spark(spark: SparkSession, made: Graph, text: str, params: dict[str, Any]) -> DataFrame:
    checked = made.checked(text if text.lstrip().startswith("query") else f"query q() {{ {text} }}")
    bound = bind_params(checked, params)
    return run_on_spark(
        spark, made.snapshot, made.store, made.catalog, checked, bound, options=DEFAULT_OPTIONS, now=NOW
    )


def comparable(value: Any) -> Any:
    """Values of both engines in one form; floats that were added in another order may differ in their last digits."""
    if isinstance(value, dict):
        return tuple(sorted((name, comparable(each)) for name, each in value.items()))
    if isinstance(value, list):
        return tuple(comparable(each) for each in value)
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, float):
        return value if math.isnan(value) else float(f"{value:.9g}")
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC) if value.tzinfo else value.replace(tzinfo=dt.UTC)
    return value


def rows_of(frame: DataFrame) -> list[Any]:
    return [tuple(comparable(each) for each in row.values()) for row in frame.toArrow().to_pylist()]


def differences(spark: SparkSession, seed: int, folder: Path, queries: int) -> list[str]:
    random = Random(seed)
    made = make_graph(folder, SCHEMA, graph(random))
    found = []
    for _ in range(queries):
        text, checked = written(made, random)
        given = {**PARAMS, "t": random.choice(["a", "b", None]), "n": random.choice([20, None])}
        result = made.query(text, given)
        wanted = [tuple(comparable(each) for each in row.values()) for row in result.to_pylist()]
        frame = on_spark(spark, made, text, given)
        rows = rows_of(frame)
        ordered = bool(checked.order) or checked.aggregated or checked.distinct
        same = rows == wanted if ordered else Counter(map(repr, rows)) == Counter(map(repr, wanted))
        if not same or frame.columns != result.columns:
            found.append(f"seed {seed}, {given}:\n{text}\n  got    {rows}\n  wanted {wanted}")
    return found


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_generated_queries_give_the_same_on_spark(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    assert differences(spark, seed, tmp_path, queries=8) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500, 530))
def test_many_generated_queries_give_the_same_on_spark(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    assert differences(spark, seed, tmp_path, queries=10) == []
