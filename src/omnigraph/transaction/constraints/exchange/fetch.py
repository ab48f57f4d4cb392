"""Fetches the rows behind candidate hashes with their values: a second, narrow pass that only bad input pays for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.kernels.arrays import ID
from omnigraph.kernels.equality import row_numbers
from omnigraph.kernels.hashing import among, sieve_of, tuple_numbers
from omnigraph.kernels.row_address import staged_order
from omnigraph.tasks.runner import BYTES, INT, grouped_rows, pack, unpack
from omnigraph.tasks.staged_rows import FragmentFile
from omnigraph.transaction.constraints.exchange.exchange import read_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from omnigraph.tasks.runner import TaskRunner
    from omnigraph.transaction.constraints.exchange.plan import HashSource

    Numbers = NDArray[np.uint64]

# Per file and fetch: enough for the first rows of every kind, little enough for the driver's memory.
MOST_PER_FILE = 10_000
ORDER = "row of the load"
_FOUND = pa.schema([("question", INT), ("rows", BYTES)])


@dataclass(frozen=True)
class RowFetch:
    """Rows of a table to fetch: those whose hash of the columns `match` is among `numbers`; committed or put rows."""

    table_key: str
    match: tuple[str, ...]
    numbers: Any
    columns: tuple[str, ...]
    committed: bool


def look(runner: TaskRunner, sources: Sequence[HashSource], looks: Sequence[RowFetch]) -> list[pa.Table]:
    """For each fetch, its rows with `id`, the requested columns, and their order in the load or table."""
    wanted = list(looks)
    asked = [each for each in sources if any(_concerns(each, one) for one in wanted)]

    def work(group: list[HashSource]) -> Iterator[pa.RecordBatch]:
        for source, (number, one) in product(group, enumerate(wanted)):
            if _concerns(source, one):
                for rows in _matching(source, one):
                    yield pa.record_batch([[number], [pack(rows)]], schema=_FOUND)

    groups = grouped_rows(runner, asked, lambda each: each.size)
    told = runner.map(groups, work, _FOUND).collect()
    return [_gathered(told, number, one) for number, one in enumerate(wanted)]


def _concerns(source: HashSource, one: RowFetch) -> bool:
    return source.table_key == one.table_key and one.committed != isinstance(source.rows, FragmentFile)


def _matching(source: HashSource, one: RowFetch) -> Iterator[pa.Table]:
    columns = list(dict.fromkeys([ID, *one.columns, *one.match]))
    sieve = sieve_of(one.numbers)
    start, kept = 0, 0
    base = staged_order(source.rows.number, 0) if isinstance(source.rows, FragmentFile) else 0
    for batch in read_source(source, columns):
        numbers, valid = tuple_numbers([batch.column(name) for name in one.match])
        places = np.flatnonzero(valid)[among(sieve, numbers)][: MOST_PER_FILE - kept]
        if len(places):
            order = pa.array(base + start + places, pa.int64())
            chosen = pa.Table.from_batches([batch.take(row_numbers(places))]).select(columns)
            yield chosen.append_column(ORDER, order)
        kept += len(places)
        start += batch.num_rows


def _gathered(told: pa.Table, number: int, one: RowFetch) -> pa.Table:
    fragments = [unpack(row["rows"]) for row in told.to_pylist() if row["question"] == number]
    if not fragments:
        columns: Mapping[str, Any] = {
            name: pa.array([], pa.string()) for name in dict.fromkeys([ID, *one.columns, *one.match])
        }
        return pa.table({**columns, ORDER: pa.array([], pa.int64())})
    return pa.concat_tables(fragments, promote_options="permissive").sort_by(ORDER)
