"""Fetches the rows of candidate hashes with their values: a second, narrow pass that only loads with candidates make.

The pass goes in rounds, in the order of the hashes. A task returns the rows of its lowest hashes as long as there is
room for them, and says how far it came; a round yields the rows up to the hash that every task has reached. So the rows
of a hash are compared all together, and memory is bounded whatever the number of candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.kernels.arrays import ID
from omnigraph.kernels.equality import row_numbers
from omnigraph.kernels.hashing import ALL_BITS, PrefixFilter, hash_rows
from omnigraph.kernels.row_address import staged_order
from omnigraph.tasks.runner import BYTES, INT, grouped_rows, pack, sizes_of, unpack
from omnigraph.tasks.staged_rows import FragmentFile
from omnigraph.transaction.constraints.exchange.exchange import read_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from omnigraph.tasks.runner import TaskRunner
    from omnigraph.transaction.constraints.exchange.plan import HashSource

    Hashes = NDArray[np.uint64]

ORDER = "row of the load"
_HASH = "hash of the row"
_MOST_OF_ONE_HASH = 10_000
_FETCHED = pa.schema([("fetch", INT), ("reached", BYTES), ("rows", BYTES)])


@dataclass(frozen=True)
class RowFetch:
    """Rows of a table to fetch by the hash of the columns `match`: committed rows, or rows that are put.

    `whole`: the rows are counted, so all rows of a hash are needed. Otherwise the first of them show a violation.
    """

    table_key: str
    match: tuple[str, ...]
    columns: tuple[str, ...]
    committed: bool
    whole: bool = False

    @property
    def names(self) -> list[str]:
        """The columns to read."""
        return list(dict.fromkeys([ID, *self.columns, *self.match]))

    def reads(self, source: HashSource) -> bool:
        """Whether its rows are in a source."""
        return source.table_key == self.table_key and self.committed != isinstance(source.rows, FragmentFile)


def fetch_rounds(
    runner: TaskRunner, sources: Sequence[HashSource], hashes: Hashes, fetches: Sequence[RowFetch]
) -> Iterator[list[pa.Table]]:
    """Yield the rows of some hashes at a time: for each fetch `id`, its columns, and their order in the load or table.

    Rows with equal hashes are in the same round.
    """
    concerned = [each for each in sources if any(fetch.reads(each) for fetch in fetches)]
    left = np.unique(hashes)
    while len(left):
        tables, reached = _fetched(runner, concerned, left, fetches)
        yield tables
        left = left[left > reached]


def _fetched(
    runner: TaskRunner, sources: Sequence[HashSource], hashes: Hashes, fetches: Sequence[RowFetch]
) -> tuple[list[pa.Table], np.uint64]:
    """The rows of the lowest hashes, and the hash up to which they are complete."""
    wanted, small = list(fetches), sizes_of(runner).small_load
    room = max(1, small // 100, 2 * small // max(1, len(sources)))

    def work(group: list[HashSource]) -> Iterator[pa.RecordBatch]:
        for source, (number, fetch) in product(group, enumerate(wanted)):
            if fetch.reads(source):
                rows, reached = _matching(source, fetch, hashes, room)
                if rows.num_rows:
                    yield pa.record_batch([[number], [reached.tobytes()], [pack(rows)]], schema=_FETCHED)

    groups = grouped_rows(runner, sources, lambda each: each.size)
    results: Any = runner.map(groups, work, _FETCHED).collect()
    reached = min((np.frombuffer(each, np.uint64)[0] for each in results.column("reached").to_pylist()), default=_LAST)
    return [_gathered(results, number, fetch, reached) for number, fetch in enumerate(wanted)], reached


_LAST = np.uint64(ALL_BITS)


def _matching(source: HashSource, fetch: RowFetch, hashes: Hashes, room: int) -> tuple[pa.Table, np.uint64]:
    """The rows of a source with the lowest of the hashes, and the hash up to which they are complete."""
    wanted, start = PrefixFilter.of(hashes), 0
    base = staged_order(source.rows.number, 0) if isinstance(source.rows, FragmentFile) else 0
    held: list[pa.Table] = []
    count, reached = 0, _LAST
    for batch in read_source(source, fetch.names):
        found, valid = hash_rows([batch.column(name) for name in fetch.match])
        chosen = wanted.accepts(found) & (found <= reached)
        rows = np.flatnonzero(valid)[chosen]
        if len(rows):
            held.append(_chosen(batch, fetch, rows, base + start, found[chosen]))
            count += len(rows)
        if count > 2 * room:
            lowest, reached = _lowest(pa.concat_tables(held), room, reached, whole=fetch.whole)
            held, count = [lowest], min(room, lowest.num_rows)
        start += batch.num_rows
    if not held:
        return pa.table({}), reached
    return _lowest(pa.concat_tables(held), room, reached, whole=fetch.whole)


def _chosen(batch: pa.RecordBatch, fetch: RowFetch, rows: NDArray[np.int64], start: int, hashes: Hashes) -> pa.Table:
    table = pa.Table.from_batches([batch.take(row_numbers(rows))]).select(fetch.names)
    return table.append_column(ORDER, pa.array(start + rows, pa.int64())).append_column(_HASH, pa.array(hashes))


def _lowest(rows: pa.Table, room: int, reached: np.uint64, *, whole: bool) -> tuple[pa.Table, np.uint64]:
    """The rows of the lowest hashes that there is room for, and the last of these hashes; of one hash at least."""
    if rows.num_rows <= room:
        return rows, reached
    hashes = rows.column(_HASH).to_numpy()
    first_left = np.partition(hashes, room)[room]
    fitting = hashes < first_left
    if fitting.any():
        return rows.filter(pa.array(fitting)), first_left - np.uint64(1)
    only = rows.filter(pa.array(hashes == first_left))
    return only if whole else only.slice(0, _MOST_OF_ONE_HASH), first_left


def _gathered(results: Any, number: int, fetch: RowFetch, reached: np.uint64) -> pa.Table:
    mine = results.filter(pc.equal(results.column("fetch"), pa.scalar(number, pa.int32())))
    tables = [unpack(body) for body in mine.column("rows").to_pylist()]
    if not tables:
        columns: dict[str, Any] = {name: pa.array([], pa.string()) for name in fetch.names}
        return pa.table({**columns, ORDER: pa.array([], pa.int64())})
    rows = pa.concat_tables(tables, promote_options="permissive")
    complete = rows.filter(pc.less_equal(rows.column(_HASH), pa.scalar(reached, pa.uint64())))
    return complete.drop_columns([_HASH]).sort_by(ORDER)
