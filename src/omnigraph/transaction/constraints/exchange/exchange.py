"""The hash exchange: checks rules over rows that fit in no memory, by hash first and by value after.

1.  `plan.py` names the spaces of a load (ids of a type, tuples of a unique rule, sources of counted edges), and which
    columns of which rows have a role in them (put, committed, endpoint, …).
2.  Every task computes 64-bit hashes of these columns. The hash space is cut into 2^k ranges, the partitions; all
    hashes of a partition meet in one task, as sorted hash runs in a directory that the tasks share, or else as packets
    of a shuffle: Spark moves a few large binary values instead of millions of rows.
3.  `candidates.py` compares the hashes of each partition, in every space: sorted arrays, no values. A hash that may
    violate a rule is a candidate. Equal values have equal hashes, so rows without candidates satisfy every rule.
4.  `fetch.py` reads the rows of the candidates, some hashes at a time, and `violations.py` evaluates the rules on their
    values (`constraints/evaluate.py`). Values that only moved from row to row are candidates, too, and pass here.

Memory: a partition has `numbersPerPart` hashes of 8 bytes, a round of candidates and their rows about `smallLoad` of
each, whatever the size of the load. Work is linear in the rows, and one more pass for every `smallLoad` candidates.
What is reported was compared by value. What is not reported may be missed in one case: a node that does not exist has
the hash of one that does, with a probability of n / 2^64 for n nodes in the graph (5e-11 for a billion).
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.kernels.arrays import rebatch
from omnigraph.kernels.hashing import PrefixFilter
from omnigraph.tasks.hash_runs import HashRunWriter, compute_hashes
from omnigraph.tasks.runner import BYTES, FEW_ROWS, INT, PARTITION, grouped_rows, sizes_of
from omnigraph.tasks.staged_rows import FragmentFile
from omnigraph.transaction.constraints.exchange.plan import COMMITTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from omnigraph.tasks.hash_runs import HashRun
    from omnigraph.tasks.runner import Batches, TaskRunner
    from omnigraph.transaction.constraints.exchange.plan import CheckPlan, HashOutput, HashSource

    Hashes = NDArray[np.uint64]
    PartitionHashes = dict[tuple[int, int], Hashes]

Item = TypeVar("Item")

MOST_PARTITIONS = 4_096
PACKET = pa.schema([(PARTITION, INT), ("space", INT), ("role", INT), ("width", INT), ("numbers", BYTES)])


def partitions_for(hashes: int, runner: TaskRunner) -> int:
    """The number of partitions that keeps memory bounded and all cores busy: a power of two."""
    least = min(runner.cores, 1 + hashes // FEW_ROWS)
    wanted = max(least, -(-hashes // sizes_of(runner).hashes_per_partition))
    return min(MOST_PARTITIONS, 1 << (wanted - 1).bit_length())


def packets(space: int, role: int, rows: Hashes, partitions: int) -> Iterator[pa.RecordBatch]:
    """Split hashes by partition into packets; a row of several hashes is partitioned by the first."""
    if not len(rows):
        return
    width = 1 if rows.ndim == 1 else rows.shape[1]
    ordered, counts = _by_partition(rows, partitions)
    present = np.flatnonzero(counts)
    ends = np.cumsum(counts[present]) * 8 * width
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    blobs = pa.Array.from_buffers(
        pa.binary(), len(present), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(ordered.tobytes())]
    )
    same: list[Any] = [pa.array(np.full(len(present), each, np.int32)) for each in (space, role, width)]
    yield pa.RecordBatch.from_arrays([pa.array(present.astype(np.int32)), *same, blobs], schema=PACKET)


def exchange_packets(
    runner: TaskRunner,
    items: Sequence[Item],
    emit: Callable[[Item], Iterable[pa.RecordBatch]],
    evaluate: Callable[[int, PartitionHashes], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
    *,
    partitions: int,
) -> Batches:
    """Let each item emit packets, bring those of a partition together, and evaluate each partition, by its number."""

    def reduce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = [each for each in batches if each.num_rows]
        if held:
            yield from evaluate(int(held[0].column(0)[0].as_py()), gathered(held))

    return runner.exchange(runner.map(items, emit, PACKET), partitions, reduce, schema)


def gathered(batches: Iterable[pa.RecordBatch]) -> PartitionHashes:
    """The hashes of all packets, by space and role; single ones are sorted."""
    found: dict[tuple[int, int], list[Hashes]] = {}
    for batch in batches:
        columns: list[list[Any]] = [batch.column(index).to_pylist() for index in range(1, 4)]
        for space, role, width, value in zip(*columns, batch.column(4), strict=True):
            hashes = np.frombuffer(value.as_buffer(), np.uint64)
            found.setdefault((space, role), []).append(hashes if width == 1 else hashes.reshape(-1, width))
    return {key: _concatenated(arrays) for key, arrays in found.items()}


def read_partition(runs: Iterable[tuple[HashOutput, HashRun]], partition: int, partitions: int) -> PartitionHashes:
    """The hashes of one partition from the runs, by space and role; single ones are sorted."""
    found: dict[tuple[int, int], list[Hashes]] = {}
    for output, run in runs:
        hashes = run.of_partition(partition, partitions)
        if len(hashes):
            found.setdefault((output.space, output.role), []).append(hashes)
    return {key: _concatenated(arrays) for key, arrays in found.items()}


def _concatenated(arrays: list[Hashes]) -> Hashes:
    hashes = np.concatenate(arrays)
    if hashes.ndim == 1:
        hashes.sort()
    return hashes


def _by_partition(rows: Hashes, partitions: int) -> tuple[Hashes, NDArray[np.int64]]:
    shift = np.uint64(64 - (partitions.bit_length() - 1))
    if rows.ndim == 1:
        ordered = np.sort(rows)
        bounds = np.arange(1, partitions, dtype=np.uint64) << shift if partitions > 1 else np.empty(0, np.uint64)
        cuts = np.searchsorted(ordered, bounds)
        return ordered, np.diff(np.concatenate([[0], cuts, [len(ordered)]]))
    partition = (rows[:, 0] >> shift).astype(np.uint16) if partitions > 1 else np.zeros(len(rows), np.uint16)
    return rows[np.argsort(partition, kind="stable")], np.bincount(partition, minlength=partitions)


# Up to this many hashes of the load, committed hashes that are not among them are filtered out before they are written.
FEW_HASHES = 4_000_000
# Rows to hash per call: much work per call, in memory that stays small.
ROWS_AT_ONCE = 200_000
_RUN = pa.schema([("run", BYTES)])


def hashes_of(source: HashSource) -> Iterator[tuple[HashOutput, Hashes]]:
    """Compute the hashes of a source, for each of its outputs."""
    wanted = list(dict.fromkeys(each.hashed for each in source.outputs))
    for rows in rebatch(read_source(source, source.columns), rows=ROWS_AT_ONCE):
        hashes = dict(compute_hashes(rows, wanted))
        yield from ((each, hashes[each.hashed]) for each in source.outputs)


def write_missing_runs(runner: TaskRunner, plan: CheckPlan, directory: str) -> list[tuple[HashOutput, HashRun]]:
    """Write the missing hash runs, in tasks. Committed hashes are limited to those that the load can match."""
    missing = plan.without_runs()
    if not missing:
        return []
    matchable = _matchable(plan, missing)

    def work(group: list[HashSource]) -> Iterator[pa.RecordBatch]:
        filters = {space: PrefixFilter.of(_first_hashes_of(runs)) for space, runs in matchable.items()}
        for source in group:
            for output, run in _write_runs(source, filters, directory):
                yield pa.record_batch([[pickle.dumps((output, run))]], schema=_RUN)

    groups = grouped_rows(runner, missing, lambda each: each.size)
    results: Any = runner.map(groups, work, _RUN).collect()
    return [pickle.loads(each) for each in results.column("run").to_pylist()]  # noqa: S301


def read_source(source: HashSource, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Read some columns of a source, in row order."""
    if isinstance(source.rows, FragmentFile):
        yield from source.rows.read(columns)
        return
    scan = source.rows
    yield from scan.table().scan(columns, fragments=scan.fragments, batch_size=65_536)


def _matchable(plan: CheckPlan, missing: Sequence[HashSource]) -> dict[int, list[HashRun]]:
    """The spaces in which committed rows matter only if the load has the same hash, with the runs of the load's hashes.

    Endpoints of committed edges that stay, and rows that are removed, matter on their own.
    """
    whole = {each.space for source in missing for each in source.outputs if each.role != COMMITTED}
    found: dict[int, list[HashRun]] = {}
    for output, run in plan.runs:
        found.setdefault(output.space, []).append(run)
    return {
        space: runs
        for space, runs in found.items()
        if space not in whole and sum(each.count for each in runs) <= FEW_HASHES
    }


def _write_runs(
    source: HashSource, filters: Mapping[int, PrefixFilter], directory: str
) -> Iterator[tuple[HashOutput, HashRun]]:
    writers = {each: HashRunWriter(directory) for each in source.outputs}
    for output, hashes in hashes_of(source):
        matchable = filters.get(output.space)
        left = hashes if matchable is None else hashes[matchable.accepts(_firsts(hashes))]
        yield from ((output, run) for run in writers[output].add(output.hashed, left))
    for output, writer in writers.items():
        yield from ((output, run) for run in writer.finish())


def _first_hashes_of(runs: Sequence[HashRun]) -> Hashes:
    return np.concatenate([_firsts(each.hashes()) for each in runs])


def _firsts(hashes: Hashes) -> Hashes:
    return hashes if hashes.ndim == 1 else hashes[:, 0]
