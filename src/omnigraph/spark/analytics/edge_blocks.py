"""Packs edges into blocks: one row holds all edges into some vertices as arrays of vertex numbers, sorted by target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.spark.analytics.topology import materialize
from omnigraph.spark.runner import SparkRunner, errors_of_tasks, one_task_each
from omnigraph.spark.types import spark_schema
from omnigraph.tasks.runner import BYTES, INT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    VertexNumbers = NDArray[np.int32]
    Packet = tuple[VertexNumbers, VertexNumbers]
    Answer = Callable[["EdgeBlock"], tuple[VertexNumbers, NDArray[Any]]]

Item = TypeVar("Item")
# 32 MB of pairs; a task holds a few copies.
EDGES_PER_BLOCK = 4_000_000
_EDGES, _DEGREES = range(2)
_PACKET = pa.schema([("block", INT), ("role", INT), ("a", BYTES), ("b", BYTES)])
_BLOCK = pa.schema(
    [
        (name, INT if name == "block" else BYTES)
        for name in ("block", "sources", "targets", "starts", "givers", "degrees")
    ]
)
_ANSWER = pa.schema([("at", BYTES), ("values", BYTES)])


@dataclass(frozen=True)
class EdgeBlock:
    """Incoming edges in CSR form: `targets` is sorted and distinct, and the sources of the i-th begin at `starts[i]`.

    `givers` is an independent set of vertices, with the out-degree of each in `degrees`.
    """

    sources: VertexNumbers
    targets: VertexNumbers
    starts: NDArray[np.int64]
    givers: VertexNumbers
    degrees: NDArray[np.int64]

    def repeated_targets(self) -> VertexNumbers:
        """The target of each edge, parallel to `sources`."""
        return np.repeat(self.targets, np.diff(self.starts, append=len(self.sources)))


def blocks_of(
    session: SparkSession,
    items: Sequence[Item],
    pairs: Callable[[Item], Iterable[Packet]],
    rows: int,
    *,
    both_ways: bool,
) -> DataFrame:
    """Build blocks from the edges that `pairs` yields for the items, checkpointed; `rows` estimates their number.

    `both_ways`: every distinct pair of different adjacent vertices, once in each direction.
    """
    count = max(SparkRunner(session).cores, -(-rows * (2 if both_ways else 1) // EDGES_PER_BLOCK))

    def emit(item: Item) -> Iterator[pa.RecordBatch]:
        for src, dst in pairs(item):
            if both_ways:
                apart = src != dst
                yield from _cut(
                    _EDGES, np.concatenate([src[apart], dst[apart]]), np.concatenate([dst[apart], src[apart]]), count
                )
            else:
                yield from _cut(_EDGES, src, dst, count)
                givers, degrees = np.unique(src, return_counts=True)
                yield from _cut(_DEGREES, degrees.astype(np.int32), givers, count)

    def assemble(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [row for batch in batches for row in batch.to_pylist()]
        for block in sorted({row["block"] for row in rows}):
            yield _assembled(block, [row for row in rows if row["block"] == block], both_ways=both_ways)

    sent = one_task_each(session, items, emit, _PACKET)
    return materialize(sent.repartitionById(count, "block").mapInArrow(assemble, spark_schema(_BLOCK)))


def degrees_of(blocks: DataFrame, count: int) -> NDArray[np.int64]:
    """The out-degree of each vertex."""
    return answers(blocks, lambda block: (block.givers, block.degrees), np.zeros(count, np.int64))


def answers(blocks: DataFrame, answer: Answer, otherwise: NDArray[Any]) -> NDArray[Any]:
    """One value per vertex, from the block that computes it; other vertices keep their value of `otherwise`."""
    found = otherwise.copy()
    for at, values in batches(blocks, answer, otherwise.dtype):
        found[at] = values
    return found


def batches(blocks: DataFrame, answer: Answer, kind: np.dtype[Any]) -> Iterator[tuple[VertexNumbers, NDArray[Any]]]:
    """Run `answer` on each block. Yields vertex numbers with a value for each."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                at, values = answer(_read(row))
                yield pa.record_batch([[at.tobytes()], [values.astype(kind).tobytes()]], schema=_ANSWER)

    with errors_of_tasks():
        results: Any = blocks.mapInArrow(work, spark_schema(_ANSWER)).toArrow()
    for row in results.to_pylist():
        yield np.frombuffer(row["at"], np.int32), np.frombuffer(row["values"], kind)


def _cut(role: int, a: VertexNumbers, b: VertexNumbers, count: int) -> Iterator[pa.RecordBatch]:
    """Partition pairs by the block of their second vertex."""
    block = b % count
    order = np.argsort(block, kind="stable")
    a, b, bounds = a[order], b[order], np.cumsum(np.bincount(block, minlength=count))
    for number, (start, end) in enumerate(zip([0, *bounds[:-1]], bounds, strict=True)):
        if end > start:
            row = [[number], [role], [a[start:end].tobytes()], [b[start:end].tobytes()]]
            yield pa.record_batch(row, schema=_PACKET)


def _assembled(number: int, rows: list[dict[str, Any]], *, both_ways: bool) -> pa.RecordBatch:
    sources, targets = _joined(rows, _EDGES)
    if both_ways:
        both = np.unique((targets.astype(np.int64) << 32) | sources)
        sources, targets = (both & 0xFFFF_FFFF).astype(np.int32), (both >> 32).astype(np.int32)
    else:
        order = np.argsort(targets, kind="stable")
        sources, targets = sources[order], targets[order]
    each, starts = np.unique(targets, return_index=True)
    counts, owners = _joined(rows, _DEGREES)
    givers, where = np.unique(owners, return_inverse=True)
    degrees = np.zeros(len(givers), np.int64)
    np.add.at(degrees, where, counts)
    held = (sources, each, starts.astype(np.int64), givers, degrees)
    return pa.record_batch([[number], *([array.tobytes()] for array in held)], schema=_BLOCK)


def _joined(rows: list[dict[str, Any]], role: int) -> Packet:
    mine = [row for row in rows if row["role"] == role]
    a, b = (b"".join(row[name] for row in mine) for name in ("a", "b"))
    return np.frombuffer(a, np.int32), np.frombuffer(b, np.int32)


def _read(row: dict[str, Any]) -> EdgeBlock:
    sources, targets, givers = (np.frombuffer(row[name], np.int32) for name in ("sources", "targets", "givers"))
    starts, degrees = (np.frombuffer(row[name], np.int64) for name in ("starts", "degrees"))
    return EdgeBlock(sources, targets, starts, givers, degrees)
