"""The rules over several rows on Spark, by hash exchange and by SQL: the violations that the check in memory finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from omnigraph.history.merge.partitioned.constraints import Changed, RuleCheck
from omnigraph.history.merge.partitioned.task import RESULT, TableJob, has_foreign_ids
from omnigraph.kernels.arrays import ID
from omnigraph.spark.merge import SparkRelations
from omnigraph.spark.runner import SparkRunner, one_task_each
from omnigraph.tasks.runner import pack
from spark.loading import small_tasks
from transaction.constraints.test_drivers import Drivers, by_id, schema_of, told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from transaction.constraints.test_drivers import Tables

pytestmark = pytest.mark.spark


def node(name: str, **values: Any) -> dict[str, Any]:
    return {ID: name, "name": name, **values}


def edge(row_id: str, src: str, dst: str, **values: Any) -> dict[str, Any]:
    return {ID: row_id, "src": src, "dst": dst, **values}


STATE: dict[str, list[dict[str, Any]]] = {
    "node:A": [node("a", s="x", n=1), node("b", s="y", n=1), node("c", s="z", f=0.0), node("d")],
    "node:B": [node("a"), node("b")],
    "edge:E": [edge("1", "a", "a"), edge("2", "a", "b"), edge("3", "b", "a"), edge("4", "c", "a")],
    "edge:F": [edge("1", "a", "d")],
}
# Values that move, the tuple of an unchanged row, tuples put twice, absent nodes, too many edges, an edge that moves.
PUTS: dict[str, list[dict[str, Any]]] = {
    "node:A": [node("a", s="y", n=1), node("b", s="x", n=1), node("e", f=-0.0), node("f", s="q"), node("g", s="q")],
    "edge:E": [edge("3", "a", "b"), edge("5", "d", "nobody"), edge("6", "e", "a")],
    "edge:F": [edge("2", "nobody", "f"), edge("3", "e", "f")],
}
DELETES = {"node:A": frozenset({"d"}), "edge:E": frozenset({"4"})}


@pytest.fixture
def drivers(tmp_path: Path) -> Drivers:
    made = Drivers(tmp_path, schema_of("@unique(s)\n@unique(f)", "@card(1..2)", ""))
    made.reset(STATE)
    return made


@pytest.mark.parametrize("shared", [True, False])
def test_the_hash_exchange_finds_what_memory_finds(drivers: Drivers, spark: SparkSession, shared: bool) -> None:
    with small_tasks(spark, split_bytes=400, rows_per_file=2, small_load=4):
        found = drivers.in_tasks(PUTS, "merge", SparkRunner(spark), shared=shared)
    assert found == drivers.in_memory(PUTS)
    assert {kind for kind, *_ in found} == {"unique", "endpoint", "count"}


@pytest.mark.slow
def test_sql_finds_what_memory_finds(drivers: Drivers, spark: SparkSession) -> None:
    puts = by_id(PUTS)
    found = in_spark_sql(drivers, spark, puts)
    assert sorted(found) == sorted(drivers.in_memory(puts, deletes=DELETES))
    assert {kind for kind, *_ in found} == {"unique", "endpoint", "count"}


def in_spark_sql(drivers: Drivers, spark: SparkSession, puts: Tables) -> list[Any]:
    view, catalog = drivers.graph.view(), drivers.graph.catalog
    results, tables, changed = [], {}, {}
    for number, key in enumerate(sorted({*puts, *DELETES})):
        rows, gone = drivers.graph.rows(key, puts.get(key, [])), sorted(DELETES.get(key, ()))
        results += [
            ("puts", number, pack(rows)),
            ("deletes", number, pack(pa.table({ID: pa.array(gone, pa.string())}))),
        ]
        tables[key] = (number, TableJob(view.entry(key), view.entry(key), (), 0, tuple(rows.column_names)))
        changed[key] = Changed(rows.num_rows, len(gone), has_foreign_ids(catalog, key, rows))

    def work(result: tuple[str, int, bytes]) -> Iterator[pa.RecordBatch]:
        kind, number, body = result
        yield pa.record_batch([[kind], [number], [0], [body]], schema=RESULT)

    relations = SparkRelations(spark, catalog, view, one_task_each(spark, results, work, RESULT), tables, "rules")
    found = [each for some, _ in RuleCheck(catalog, changed, relations).violations() for each in some]
    relations.close()
    return [told(each) for each in found]
