"""The committed rows that a small load may replace: all committed ids pass a sieve of the load's own.

Nothing but these rows leaves the tasks that read the table, so what is sent follows the load, not the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.spark.bulk.columns import BYTES
from omnigraph.spark.bulk.grouping import grouped_rows
from omnigraph.spark.bulk.numbers.drawing import IDS
from omnigraph.spark.bulk.numbers.hashing import numbers_of, second_numbers_of
from omnigraph.spark.bulk.numbers.noting import in_chunks
from omnigraph.spark.bulk.numbers.sieve import among, sieve_of
from omnigraph.spark.table_scan import ROWS_PER_TASK, tasks_of
from omnigraph.spark.tasks import errors_of_tasks, one_task_each
from omnigraph.store.tables import ID
from omnigraph.write.same_value import row_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from omnigraph.spark.bulk.pieces.staged import PieceFile, StagedTable
    from omnigraph.spark.table_scan import TableScan
    from omnigraph.store.comparable_values import Values

    Numbers = NDArray[np.uint64]

_BATCH = 65_536
_NUMBERS = pa.schema([("numbers", BYTES)])


def known_rows(session: SparkSession, scan: TableScan, put: Numbers) -> Numbers:
    """Two numbers of the id, the row id and the address of each committed row whose id has one of the numbers."""

    def work(group: list[TableScan]) -> Iterator[pa.RecordBatch]:
        sieve = sieve_of(put)
        for each in group:
            for rows in id_chunks(each):
                places = np.flatnonzero(among(sieve, numbers_of(rows.column(ID))))
                if len(places):
                    yield _packed(located(rows.take(row_numbers(places))))

    groups = grouped_rows(session, tasks_of(scan), lambda _: ROWS_PER_TASK)
    with errors_of_tasks():
        told: Any = one_task_each(session, groups, work, _NUMBERS).toArrow()
    return _gathered(told).reshape(-1, 4)


def put_numbers(session: SparkSession, table: StagedTable, pieces: Sequence[PieceFile]) -> Numbers:
    """The numbers of all ids that came with the input, which these pieces have."""
    noted = table.noted.get(IDS)
    if noted is not None:
        return _joined(each.numbers() for each in noted)

    def work(group: list[PieceFile]) -> Iterator[pa.RecordBatch]:
        for each in group:
            yield from (_packed(numbers_of(rows.column(ID))) for rows in in_chunks(each.read([ID])))

    with errors_of_tasks():
        groups = grouped_rows(session, pieces, lambda each: each.rows)
        told: Any = one_task_each(session, groups, work, _NUMBERS).toArrow()
    return _gathered(told)


def id_chunks(scan: TableScan) -> Iterator[pa.Table]:
    """The ids of committed rows, with their row ids and addresses."""
    dataset = scan.table().dataset
    fragments = [dataset.get_fragment(each) for each in scan.fragments or ()]
    scanner = dataset.scanner(
        columns=[ID], fragments=fragments, with_row_id=True, with_row_address=True, batch_size=_BATCH
    )
    yield from in_chunks(scanner.to_batches())


def located(rows: pa.Table) -> Numbers:
    """Two numbers of each id, its row id and its address."""
    where = [rows.column(name).to_numpy() for name in ("_rowid", "_rowaddr")]
    return np.column_stack([*two_numbers(rows.column(ID)), *where])


def two_numbers(ids: Values) -> tuple[Numbers, Numbers]:
    """Two ids that differ hardly share both."""
    return numbers_of(ids), second_numbers_of(ids)


def _packed(numbers: Numbers) -> pa.RecordBatch:
    return pa.record_batch([[numbers.tobytes()]], schema=_NUMBERS)


def _gathered(told: pa.Table) -> Numbers:
    pieces: list[Any] = told.column("numbers").to_pylist()
    return _joined(np.frombuffer(each, np.uint64) for each in pieces)


def _joined(pieces: Iterable[Numbers]) -> Numbers:
    return np.concatenate([np.empty(0, np.uint64), *pieces])
