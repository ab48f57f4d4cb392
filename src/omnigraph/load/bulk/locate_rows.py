"""Finds the committed rows that a small load may replace, by testing all committed ids against a filter of its hashes.

Only matching rows leave the tasks that scan the table, so the data sent is proportional to the load, not to the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.kernels.arrays import ID, rebatch
from omnigraph.kernels.equality import row_numbers
from omnigraph.kernels.hashing import PrefixFilter, hash_column, hash_rows
from omnigraph.kernels.row_address import ROW_ADDRESS, ROW_ID
from omnigraph.tasks.hash_runs import IDS
from omnigraph.tasks.runner import BYTES, grouped_rows
from omnigraph.tasks.table_scan import ROWS_PER_TASK, tasks_of
from omnigraph.transaction.constraints.exchange.exchange import ROWS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from omnigraph.kernels.arrays import Values
    from omnigraph.tasks.runner import TaskRunner
    from omnigraph.tasks.staged_rows import FragmentFile, StagedRows
    from omnigraph.tasks.table_scan import TableScan

    Hashes = NDArray[np.uint64]

_BATCH = 65_536
_HASHES = pa.schema([("hashes", BYTES)])


def candidate_locations(runner: TaskRunner, scan: TableScan, put: Hashes) -> Hashes:
    """For each committed row whose id hash is in `put`: both hashes of the id, the row id and the row address."""

    def work(group: list[TableScan]) -> Iterator[pa.RecordBatch]:
        wanted = PrefixFilter.of(put)
        for each in group:
            for rows in id_chunks(each):
                rows_found = np.flatnonzero(wanted.accepts(hash_column(rows.column(ID))))
                if len(rows_found):
                    yield _packed(located(rows.take(row_numbers(rows_found))))

    groups = grouped_rows(runner, tasks_of(scan), lambda _: ROWS_PER_TASK)
    packets = runner.map(groups, work, _HASHES).collect()
    return _unpacked(packets).reshape(-1, 4)


def load_hashes(runner: TaskRunner, table: StagedRows, fragments: Sequence[FragmentFile]) -> Hashes:
    """The hashes of all given ids in these fragments, from the hash runs of the load if it wrote any."""
    runs = table.hash_runs.get(IDS)
    if runs is not None:
        return _concatenated(each.hashes() for each in runs)

    def work(group: list[FragmentFile]) -> Iterator[pa.RecordBatch]:
        for each in group:
            for rows in rebatch(each.read([ID]), rows=ROWS_AT_ONCE):
                yield _packed(hash_column(rows.column(ID)))

    groups = grouped_rows(runner, fragments, lambda each: each.rows)
    packets = runner.map(groups, work, _HASHES).collect()
    return _unpacked(packets)


def id_chunks(scan: TableScan) -> Iterator[pa.Table]:
    """Scan the ids of committed rows with their row ids and row addresses."""
    columns = [ID, ROW_ID, ROW_ADDRESS]
    batches = scan.table().scan(columns, fragments=scan.fragments or (), batch_size=_BATCH)
    yield from rebatch(batches, rows=ROWS_AT_ONCE)


def located(rows: pa.Table) -> Hashes:
    """Both hashes of each id, its row id and its row address."""
    where = [rows.column(name).to_numpy() for name in (ROW_ID, ROW_ADDRESS)]
    return np.column_stack([*two_hashes(rows.column(ID)), *where])


def two_hashes(ids: Values) -> tuple[Hashes, Hashes]:
    """Two independent 64-bit hashes of each id; different ids practically never share both."""
    pairs, _ = hash_rows([ids], width=2)
    return pairs[:, 0], pairs[:, 1]


def _packed(hashes: Hashes) -> pa.RecordBatch:
    return pa.record_batch([[hashes.tobytes()]], schema=_HASHES)


def _unpacked(packets: pa.Table) -> Hashes:
    bodies: list[Any] = packets.column("hashes").to_pylist()
    return _concatenated(np.frombuffer(each, np.uint64) for each in bodies)


def _concatenated(arrays: Iterable[Hashes]) -> Hashes:
    return np.concatenate([np.empty(0, np.uint64), *arrays])
