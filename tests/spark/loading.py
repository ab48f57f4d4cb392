"""One graph twice, for loads by both engines, and what can be compared of them: rows, ids, errors."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import omnigraph as og
from omnigraph.errors import OmniGraphError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    email: String? @unique
    @range(age, 0..150)
}
node City {
    title: String @key
}
node Note {
    text: String
    @check(text, "^[a-z ]+$")
}
edge Knows: Person -> Person {
    since: Date?
}
edge LivesIn: Person -> City @card(0..1)
edge Owns: Person -> City @card(1..2) {
    weight: F64?
}
edge Likes: Person -> City {
    stars: I32?
    @key(src, dst)
}
"""
_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


@dataclass(frozen=True)
class Outcome:
    """What a load did, with every minted id told as `*`."""

    rows: dict[str, list[Any]]
    error: tuple[str, str, Any] | None
    counts: dict[str, int] | None


@contextmanager
def small_tasks(
    spark: SparkSession, *, split_bytes: int, rows_per_file: int, small_load: int = 1_000_000
) -> Iterator[None]:
    """Tasks so small that a small input has many."""
    names = {"splitBytes": split_bytes, "rowsPerFile": rows_per_file, "smallLoad": small_load}
    for name, value in names.items():
        spark.conf.set(f"spark.omnigraph.{name}", str(value))
    try:
        yield
    finally:
        for name in names:
            spark.conf.unset(f"spark.omnigraph.{name}")


def make_graph(place: Path, schema: str = SCHEMA) -> og.Graph:
    return og.init(place, schema=schema)


def outcome_of(
    graph: og.Graph, source: object, mode: Any, engine: Any, spark: SparkSession | None, **options: Any
) -> Outcome:
    try:
        done = graph.load(source, mode=mode, engine=engine, spark=spark, **options)
    except OmniGraphError as error:
        place = (getattr(error, "line", None), getattr(error, "row", None))
        return Outcome(rows_of(graph), (type(error).__name__, _ULID.sub("*", str(error)), place), None)
    return Outcome(rows_of(graph), None, {**done.summary.nodes, **done.summary.edges})


def rows_of(graph: og.Graph) -> dict[str, list[Any]]:
    """The rows of every table, in an order that does not hang on minted ids."""
    return {entry.table_key: sorted(_rows(graph, entry), key=repr) for entry in graph.snapshot()}


def _rows(graph: og.Graph, entry: Any) -> list[dict[str, Any]]:
    rows = graph._manifest.stores.tables.open(entry.pin).read().to_pylist()
    return [{**row, "id": _ULID.sub("*", row["id"])} for row in rows]


def row_ids(graph: og.Graph, table_key: str) -> dict[str, int]:
    """The stable row id of every row, by its id."""
    table = graph._manifest.stores.tables.open(graph.snapshot()[table_key].pin).handle
    rows = table.to_table(columns=["id"], with_row_id=True)
    return dict(zip(rows["id"].to_pylist(), rows["_rowid"].to_pylist(), strict=True))
