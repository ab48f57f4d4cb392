"""Reads on Spark: the same rows as the embedded engine, over generated graphs and queries."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from decimal import Decimal
from random import Random  # noqa: TID251 - seeded, so that a failure can be repeated
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from omnigraph.language.ir.params import bind_params
from omnigraph.query.run import PreparedQuery
from omnigraph.spark.query.run import run_on_spark
from omnigraph.world import REAL
from query.generated import SCHEMA, graph
from query.graphs import NOW, make_graph
from query.test_differential import PARAMS, written

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from query.graphs import Graph

pytestmark = pytest.mark.spark


def on_spark(spark: SparkSession, made: Graph, text: str, params: dict[str, Any]) -> DataFrame:
    checked = made.checked(text if text.lstrip().startswith("query") else f"query q() {{ {text} }}")
    bound = bind_params(checked, params)
    return run_on_spark(
        spark, PreparedQuery(made.snapshot, made.store, made.catalog, checked, bound, now=NOW, world=REAL)
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
        return value if math.isnan(value) else float(f"{value:.12g}")
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


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.init(tmp_path_factory.mktemp("spark") / "graph.omni", schema=LIBRARY)
    made.load(
        {
            "Person": [{"name": "Ada", "age": 36}, {"name": "Bo", "age": None}, {"name": "Cy", "age": 2**32 - 1}],
            "Doc": [{"slug": "d", "text": "graphs and { braces }", "at": "2024-05-06T07:08:09.123Z", "size": 2**63}],
            "Knows": [{"from": "Ada", "to": "Bo"}, {"from": "Bo", "to": "Cy"}, {"from": "Cy", "to": "Ada"}],
            "Wrote": [{"from": "Ada", "to": "d"}],
        },
        mode="overwrite",
    )
    return made


LIBRARY = """
node Person { name: String @key
  age: U32? }
node Doc { slug: String @key
  text: String @index
  at: DateTime
  size: U64 }
edge Knows: Person -> Person
edge Wrote: Person -> Doc
"""


def both(library: og.Graph, spark: SparkSession, text: str, **options: Any) -> list[Any]:
    """The rows of a query, which must be the same from both engines."""
    text = f"query q() {{ {text} }}"
    frame = library.query(text, engine="spark", spark=spark, **options)
    local = library.query(text, **options)
    rows = rows_of(frame)
    assert frame.columns == local.columns
    assert rows == [tuple(comparable(each) for each in row.values()) for row in local.to_pylist()]
    return rows


def test_values_that_spark_has_no_type_for_are_carried_whole(library: og.Graph, spark: SparkSession) -> None:
    text = """match { $p wrote $d $d.at = datetime("2024-05-06T07:08:09.123Z") $d.size >= 9223372036854775807
        $d.text contains "{ braces }" } return { $p.name, $d }"""
    ((name, doc),) = both(library, spark, text)
    assert (name, dict(doc)["size"]) == ("Ada", 2**63)
    assert both(library, spark, "match { $p: Person } return { sum($p.age) as s, max($p.age) as m }") == [
        (float(2**32 + 35), 2**32 - 1)
    ]


def test_hops_until_nothing_new_is_reached(library: og.Graph, spark: SparkSession) -> None:
    text = "match { $p: Person $p knows{2,} $f } return { $p.name, $f.name as f } order { $p.name, f }"
    assert both(library, spark, text) == [("Ada", "Cy"), ("Bo", "Ada"), ("Cy", "Bo")]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('match { $d: Doc search($d.text, "graph") } return { $d.slug }', [("d",)]),
        ('match { $d: Doc search($d.text, "absent") } return { $d.slug, $d.at }', []),
        (
            'match { $a: Person $b: Person { name: "Cy" } $r: shortest($a knows{2,2} $b) } return { $r.nodes }',
            [(("Ada", "Bo", "Cy"),)],
        ),
    ],
)
def test_what_spark_cannot_do_is_done_here_and_handed_over(
    library: og.Graph, spark: SparkSession, text: str, rows: list[Any]
) -> None:
    assert both(library, spark, text) == rows


def test_a_frame_reads_the_state_it_was_made_from(library: og.Graph, spark: SparkSession) -> None:
    library.branches.create("later")
    text = "query q() { match { $p: Person } return { count($p) as n } }"
    frame = library.query(text, branch="later", engine="spark", spark=spark)
    library.mutate('query m() { insert Person { name: "Di" } }', branch="later")
    assert rows_of(frame) == [(3,)]
    assert rows_of(library.query(text, branch="later", engine="spark", spark=spark)) == [(4,)]


@pytest.mark.parametrize("seed", [3])
def test_generated_queries_give_the_same_on_spark(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    assert differences(spark, seed, tmp_path, queries=5) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500, 530))
def test_many_generated_queries_give_the_same_on_spark(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    assert differences(spark, seed, tmp_path, queries=10) == []
