"""The rows behind suspicious numbers, fetched with their values: a second, narrow pass that only bad input pays for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.spark.bulk.columns import BYTES, INT
from omnigraph.spark.bulk.grouping import grouped_rows
from omnigraph.spark.bulk.numbers.hashing import tuple_numbers
from omnigraph.spark.bulk.numbers.noting import read_source
from omnigraph.spark.bulk.numbers.sieve import among, sieve_of
from omnigraph.spark.bulk.pieces.staged import PieceFile
from omnigraph.spark.tasks import errors_of_tasks, one_task_each
from omnigraph.store.tables import ID
from omnigraph.write.same_value import row_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from omnigraph.spark.bulk.rules.questions import Source

    Numbers = NDArray[np.uint64]

# Of one file, for one question: enough for the first of every kind, little enough for the driver.
MOST_PER_FILE = 10_000
ORDER = "row of the load"
_FOUND = pa.schema([("question", INT), ("rows", BYTES)])


@dataclass(frozen=True)
class Look:
    """Rows of a table to fetch: those whose tuple of `match` has one of the numbers. Committed ones, or put ones."""

    table_key: str
    match: tuple[str, ...]
    numbers: Any
    columns: tuple[str, ...]
    committed: bool


def look(session: SparkSession, sources: Sequence[Source], looks: Sequence[Look]) -> list[pa.Table]:
    """For each look the rows it is after, with `id`, the columns it wants, and their order in the load or table."""
    wanted = list(looks)
    asked = [each for each in sources if any(_concerns(each, one) for one in wanted)]

    def work(group: list[Source]) -> Iterator[pa.RecordBatch]:
        for source, (number, one) in product(group, enumerate(wanted)):
            if _concerns(source, one):
                for rows in _matching(source, one):
                    yield pa.record_batch([[number], [_packed(rows)]], schema=_FOUND)

    groups = grouped_rows(session, asked, lambda each: each.size)
    with errors_of_tasks():
        told: Any = one_task_each(session, groups, work, _FOUND).toArrow()
    return [_gathered(told, number, one) for number, one in enumerate(wanted)]


def _concerns(source: Source, one: Look) -> bool:
    return source.table_key == one.table_key and one.committed != isinstance(source.rows, PieceFile)


def _matching(source: Source, one: Look) -> Iterator[pa.Table]:
    columns = list(dict.fromkeys([ID, *one.columns, *one.match]))
    sieve = sieve_of(one.numbers)
    start, kept = 0, 0
    base = source.rows.number << 32 if isinstance(source.rows, PieceFile) else 0
    for batch in read_source(source, columns):
        numbers, valid = tuple_numbers([batch.column(name) for name in one.match])
        places = np.flatnonzero(valid)[among(sieve, numbers)][: MOST_PER_FILE - kept]
        if len(places):
            order = pa.array(base + start + places, pa.int64())
            chosen = pa.Table.from_batches([batch.take(row_numbers(places))]).select(columns)
            yield chosen.append_column(ORDER, order)
        kept += len(places)
        start += batch.num_rows


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def _gathered(told: pa.Table, number: int, one: Look) -> pa.Table:
    pieces = [pa.ipc.open_stream(row["rows"]).read_all() for row in told.to_pylist() if row["question"] == number]
    if not pieces:
        columns: Mapping[str, Any] = {
            name: pa.array([], pa.string()) for name in dict.fromkeys([ID, *one.columns, *one.match])
        }
        return pa.table({**columns, ORDER: pa.array([], pa.int64())})
    return pa.concat_tables(pieces, promote_options="permissive").sort_by(ORDER)
