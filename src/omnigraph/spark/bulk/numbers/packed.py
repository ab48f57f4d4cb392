"""A shuffle of numbers, packed: Spark moves a few large binary values instead of millions of rows.

Each value holds the numbers of one part of the 64-bit range, of one space and role. All numbers of a part meet in one
task. What takes Java per row is paid per packet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.spark.bulk.columns import BYTES, INT
from omnigraph.spark.bulk.grouping import FEW_ROWS, cores_of
from omnigraph.spark.bulk.sizes import sizes_of
from omnigraph.spark.tasks import one_task_each
from omnigraph.spark.types import spark_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    Numbers = NDArray[np.uint64]

Item = TypeVar("Item")

MOST_PARTS = 4_096
PACKET = pa.schema([("part", INT), ("space", INT), ("role", INT), ("width", INT), ("numbers", BYTES)])
Collected = dict[tuple[int, int], "Numbers"]


def parts_for(numbers: int, session: SparkSession) -> int:
    """How many parts keep memory bounded and all cores busy: a power of two."""
    least = min(cores_of(session), 1 + numbers // FEW_ROWS)
    wanted = max(least, -(-numbers // sizes_of(session).numbers_per_part))
    return min(MOST_PARTS, 1 << (wanted - 1).bit_length())


def packets(space: int, role: int, rows: Numbers, parts: int) -> Iterator[pa.RecordBatch]:
    """Numbers, or rows of several that go where the first of them does, cut by part."""
    if not len(rows):
        return
    width = 1 if rows.ndim == 1 else rows.shape[1]
    ordered, counts = _by_part(rows, parts)
    present = np.flatnonzero(counts)
    ends = np.cumsum(counts[present]) * 8 * width
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    blobs = pa.Array.from_buffers(
        pa.binary(), len(present), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(ordered.tobytes())]
    )
    same: list[Any] = [pa.array(np.full(len(present), each, np.int32)) for each in (space, role, width)]
    yield pa.RecordBatch.from_arrays([pa.array(present.astype(np.int32)), *same, blobs], schema=PACKET)


def shuffled(
    session: SparkSession,
    items: Sequence[Item],
    emit: Callable[[Item], Iterable[pa.RecordBatch]],
    evaluate: Callable[[Collected], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
    *,
    parts: int,
) -> DataFrame:
    """Let each item emit packets, bring those of a part together, and evaluate each part once."""

    def reduce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from evaluate(collected(batches))

    sent = one_task_each(session, items, emit, PACKET)
    return sent.repartitionById(parts, "part").mapInArrow(reduce, spark_schema(schema))


def collected(batches: Iterable[pa.RecordBatch]) -> Collected:
    """The numbers of all packets, by space and role; those of width one are sorted."""
    found: dict[tuple[int, int], list[Numbers]] = {}
    for batch in batches:
        columns: list[list[Any]] = [batch.column(index).to_pylist() for index in range(1, 4)]
        for space, role, width, value in zip(*columns, batch.column(4), strict=True):
            numbers = np.frombuffer(value.as_buffer(), np.uint64)
            found.setdefault((space, role), []).append(numbers if width == 1 else numbers.reshape(-1, width))
    return {key: joined_numbers(pieces) for key, pieces in found.items()}


def joined_numbers(pieces: list[Numbers]) -> Numbers:
    """All of them; single numbers sorted."""
    joined = np.concatenate(pieces)
    if joined.ndim == 1:
        joined.sort()
    return joined


def _by_part(rows: Numbers, parts: int) -> tuple[Numbers, NDArray[np.int64]]:
    shift = np.uint64(64 - (parts.bit_length() - 1))
    if rows.ndim == 1:
        ordered = np.sort(rows)
        bounds = np.arange(1, parts, dtype=np.uint64) << shift if parts > 1 else np.empty(0, np.uint64)
        cuts = np.searchsorted(ordered, bounds)
        return ordered, np.diff(np.concatenate([[0], cuts, [len(ordered)]]))
    part = (rows[:, 0] >> shift).astype(np.uint16) if parts > 1 else np.zeros(len(rows), np.uint16)
    return rows[np.argsort(part, kind="stable")], np.bincount(part, minlength=parts)
