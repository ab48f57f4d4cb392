"""Computes the hashes of sources, writes them to runs where missing, and brings those of a partition together.

Hashes are shuffled in packets: Spark moves a few large binary values instead of millions of rows, so the JVM's cost per
row is paid per packet. Each value holds the hashes of one partition of the 64-bit range, of one space and role. All
hashes of a partition meet in one task.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.kernels.hashing import PrefixFilter, among, sieve_of
from omnigraph.kernels.rebatch import rebatch
from omnigraph.tasks.hash_runs import HashRunWriter, draw
from omnigraph.tasks.runner import BYTES, FEW_ROWS, INT, grouped_rows, sizes_of
from omnigraph.tasks.staged_rows import FragmentFile
from omnigraph.transaction.constraints.exchange.plan import THERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from omnigraph.tasks.hash_runs import HashRun
    from omnigraph.tasks.runner import Batches, TaskRunner
    from omnigraph.transaction.constraints.exchange.plan import CheckPlan, HashOutput, HashSource

    Numbers = NDArray[np.uint64]

Item = TypeVar("Item")

MOST_PARTS = 4_096
PACKET = pa.schema([("part", INT), ("space", INT), ("role", INT), ("width", INT), ("numbers", BYTES)])
Collected = dict[tuple[int, int], "Numbers"]


def parts_for(numbers: int, runner: TaskRunner) -> int:
    """The number of partitions that keeps memory bounded and all cores busy: a power of two."""
    least = min(runner.cores, 1 + numbers // FEW_ROWS)
    wanted = max(least, -(-numbers // sizes_of(runner).numbers_per_part))
    return min(MOST_PARTS, 1 << (wanted - 1).bit_length())


def packets(space: int, role: int, rows: Numbers, parts: int) -> Iterator[pa.RecordBatch]:
    """Split hashes by partition into packets; a row of several hashes is partitioned by the first."""
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
    runner: TaskRunner,
    items: Sequence[Item],
    emit: Callable[[Item], Iterable[pa.RecordBatch]],
    evaluate: Callable[[Collected], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
    *,
    parts: int,
) -> Batches:
    """Let each item emit packets, bring the packets of a partition together, and evaluate each partition once."""

    def reduce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from evaluate(collected(batches))

    sent = runner.map(items, emit, PACKET)
    return runner.exchange(sent, parts, reduce, schema)


def collected(batches: Iterable[pa.RecordBatch]) -> Collected:
    """The hashes of all packets, by space and role; those of width one are sorted."""
    found: dict[tuple[int, int], list[Numbers]] = {}
    for batch in batches:
        columns: list[list[Any]] = [batch.column(index).to_pylist() for index in range(1, 4)]
        for space, role, width, value in zip(*columns, batch.column(4), strict=True):
            numbers = np.frombuffer(value.as_buffer(), np.uint64)
            found.setdefault((space, role), []).append(numbers if width == 1 else numbers.reshape(-1, width))
    return {key: joined_numbers(fragments) for key, fragments in found.items()}


def joined_numbers(fragments: list[Numbers]) -> Numbers:
    """Concatenate; single hashes are sorted."""
    joined = np.concatenate(fragments)
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


# Up to this many hashes of the load, committed hashes that are not among them are filtered out before they are written.
FEW_NUMBERS = 4_000_000
# Rows to hash per call: much work per call, in memory that stays small.
ROWS_AT_ONCE = 200_000
_NOTED = pa.schema([("noted", BYTES)])


def emitted(source: HashSource) -> Iterator[tuple[HashOutput, Numbers]]:
    """Compute the hashes of a source, for each of its outputs."""
    wanted = list(dict.fromkeys(each.drawn for each in source.emissions))
    for rows in rebatch(read_source(source, source.columns), rows=ROWS_AT_ONCE):
        numbers = dict(draw(rows, wanted))
        yield from ((each, numbers[each.drawn]) for each in source.emissions)


def note_unread(runner: TaskRunner, questions: CheckPlan, directory: str) -> list[tuple[HashOutput, HashRun]]:
    """Write the missing hash runs, in tasks. Committed hashes are limited to those that the load can match."""
    unread = questions.unread()
    if not unread:
        return []
    related = _related(questions, unread)

    def work(group: list[HashSource]) -> Iterator[pa.RecordBatch]:
        sieves = {space: sieve_of(_all(files)) for space, files in related.items()}
        for source in group:
            for emission, noted in _note(source, sieves, directory):
                yield pa.record_batch([[pickle.dumps((emission, noted))]], schema=_NOTED)

    groups = grouped_rows(runner, unread, lambda each: each.size)
    told: Any = runner.map(groups, work, _NOTED).collect()
    return [pickle.loads(each) for each in told.column("noted").to_pylist()]  # noqa: S301


def read_part(noted: Iterable[tuple[HashOutput, HashRun]], part: int, parts: int) -> Collected:
    """The hashes of one partition from the runs, by space and role; single ones sorted."""
    found: dict[tuple[int, int], list[Numbers]] = {}
    for emission, each in noted:
        numbers = each.of_part(part, parts)
        if len(numbers):
            found.setdefault((emission.space, emission.role), []).append(numbers)
    return {key: joined_numbers(fragments) for key, fragments in found.items()}


def read_source(source: HashSource, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Read some columns of a source, in row order."""
    if isinstance(source.rows, FragmentFile):
        yield from source.rows.read(columns)
        return
    scan = source.rows
    yield from scan.table().scan(columns, fragments=scan.fragments, batch_size=65_536)


def _related(questions: CheckPlan, unread: Sequence[HashSource]) -> dict[int, list[HashRun]]:
    """The spaces in which committed rows matter only if the load has the same hash, with the runs of the load's hashes.

    Endpoints of committed edges that stay, and rows that are deleted, matter on their own.
    """
    whole = {each.space for source in unread for each in source.emissions if each.role != THERE}
    found: dict[int, list[HashRun]] = {}
    for emission, noted in questions.noted:
        found.setdefault(emission.space, []).append(noted)
    return {
        space: files
        for space, files in found.items()
        if space not in whole and sum(each.count for each in files) <= FEW_NUMBERS
    }


def _note(
    source: HashSource, sieves: Mapping[int, PrefixFilter], directory: str
) -> Iterator[tuple[HashOutput, HashRun]]:
    ledgers = {each: HashRunWriter(directory) for each in source.emissions}
    for emission, numbers in emitted(source):
        sieve = sieves.get(emission.space)
        left = numbers if sieve is None else numbers[among(sieve, _firsts(numbers))]
        yield from ((emission, noted) for noted in ledgers[emission].note(emission.drawn, left))
    for emission, ledger in ledgers.items():
        yield from ((emission, noted) for noted in ledger.finish())


def _all(files: Sequence[HashRun]) -> Numbers:
    return np.concatenate([_firsts(each.numbers()) for each in files])


def _firsts(numbers: Numbers) -> Numbers:
    return numbers if numbers.ndim == 1 else numbers[:, 0]
