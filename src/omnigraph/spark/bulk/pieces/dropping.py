"""Staged pieces without some of their rows: what is left when rows are set aside after they were written."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.spark.bulk.columns import INT, TEXT
from omnigraph.spark.bulk.pieces.staged import PieceFile, StagedTable, piece_files
from omnigraph.spark.fragments import write_rows
from omnigraph.spark.tasks import errors_of_tasks, one_task_each
from omnigraph.write.load.rows import rows_schema
from omnigraph.write.same_value import row_numbers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import SparkSession

    from omnigraph.spark.fragments import Mode

_WRITTEN = pa.schema([("number", INT), ("fragment", TEXT)])


def without(session: SparkSession, table: StagedTable, orders: Collection[int], mode: Mode) -> StagedTable:
    """The table without the rows of these orders; only pieces that have one are written again."""
    gone: dict[int, list[int]] = {}
    for order in sorted(orders):
        gone.setdefault(order >> 32, []).append(order & 0xFFFF_FFFF)
    files = [each for each in piece_files(table) if each.number in gone]
    uri, schema = table.location.child(table.line), rows_schema(table.type)

    def work(file: PieceFile) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([[file.number], [_rest(file, gone[file.number], uri, schema, mode)]], schema=_WRITTEN)

    with errors_of_tasks():
        told: Any = one_task_each(session, files, work, _WRITTEN).toArrow()
    pieces = list(table.pieces)
    for each in told.to_pylist():
        piece, offsets = pieces[each["number"]], gone[each["number"]]
        pieces[each["number"]] = replace(
            piece,
            rows=piece.rows - len(offsets),
            fragment=each["fragment"],
            dropped=tuple(sorted([*piece.dropped, *(piece.original(offset) for offset in offsets)])),
        )
    return replace(table, pieces=tuple(each for each in pieces if each.rows), noted={})


def _rest(file: PieceFile, gone: list[int], uri: str, schema: pa.Schema, mode: Mode) -> str:
    whole = pa.Table.from_batches(list(file.read(None)))
    keep = np.setdiff1d(np.arange(whole.num_rows), gone)
    if not len(keep):
        return ""
    rows = whole.take(row_numbers(keep))
    stored = pa.Table.from_arrays([rows.column(each.name) for each in schema], schema=schema).combine_chunks()
    options = None if file.options is None else dict(file.options)
    (written,) = write_rows(iter(stored.to_batches()), uri, options, schema, len(stored), mode)
    return json.dumps(written.to_json())
