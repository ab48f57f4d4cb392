"""Finds the candidates of a check: the hashes that may violate a rule. No candidates: every rule holds.

A partition reports a bounded number of candidates of each kind, and whether it has more; the next round reports those
after them. A caller that confirmed few violations asks for all rounds, so harmless candidates hide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.catalog.rules import EdgeCount, Unique
from omnigraph.kernels.hashing import joined
from omnigraph.tasks.runner import BYTES, INT, grouped_rows, sizes_of
from omnigraph.transaction.constraints.evaluate import is_forbidden
from omnigraph.transaction.constraints.exchange.exchange import (
    exchange_packets,
    hashes_of,
    packets,
    partitions_for,
    read_partition,
    write_missing_runs,
)
from omnigraph.transaction.constraints.exchange.plan import (
    COMMITTED,
    COMMITTED_ENDPOINT,
    ENDPOINT,
    PUT,
    REMOVED,
    IdSpace,
    MovedEdges,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from omnigraph.tasks.hash_runs import HashRun
    from omnigraph.tasks.runner import Batches, TaskRunner
    from omnigraph.transaction.constraints.exchange.exchange import PartitionHashes
    from omnigraph.transaction.constraints.exchange.plan import CheckPlan, HashOutput, HashSource, Space

    Hashes = NDArray[np.uint64]

# The kinds of candidates: ids put twice, ids put that exist, endpoints of edges put that do not exist, endpoints of
# committed edges that do not exist any more, tuples that two rows have, sources with a forbidden number of edges.
DUPLICATE_ID, EXISTING_ID, MISSING_NODE, REMOVED_NODE, SHARED_TUPLE, EDGE_COUNT = range(6)
_REPORT = pa.schema([("space", INT), ("kind", INT), ("partition", INT), ("more", INT), ("hashes", BYTES)])
_NONE = np.empty(0, np.uint64)
# By space and kind, the partitions that have more candidates, each with the last hash that it reported.
Reported = dict[tuple[int, int], dict[int, int]]


@dataclass(frozen=True)
class Candidates:
    """Candidate hashes by space and kind, sorted, and where there are more."""

    hashes: Mapping[tuple[int, int], Hashes]
    more: Reported

    def of_kind(self, kind: int) -> dict[int, Hashes]:
        """The candidates of a kind, by space."""
        return {space: found for (space, each), found in self.hashes.items() if each == kind}


@dataclass(frozen=True)
class CandidateSearch:
    """Runs all checks of a plan. `directory`: one that all tasks share, for hashes that are not written to runs yet."""

    runner: TaskRunner
    plan: CheckPlan
    directory: str | None = None

    def __bool__(self) -> bool:
        return bool(self._first.hashes)

    def rounds(self, kind: int) -> Iterator[dict[int, Hashes]]:
        """Yield all candidates of a kind by space, a bounded number at a time."""
        found = self._first
        while True:
            if any(each == kind for _, each in found.hashes):
                yield found.of_kind(kind)
            more = {key: last for key, last in found.more.items() if key[1] == kind}
            if not more:
                return
            found = self._find(more)

    @cached_property
    def _first(self) -> Candidates:
        return self._find(None) if self.plan.sources else Candidates({}, {})

    @cached_property
    def _runs(self) -> list[tuple[HashOutput, HashRun]]:
        assert self.directory is not None
        return [*self.plan.runs, *write_missing_runs(self.runner, self.plan, self.directory)]

    def _find(self, after: Reported | None) -> Candidates:
        partitions, small = partitions_for(self.plan.hashes, self.runner), sizes_of(self.runner).small_load
        report = _Report(self.plan.spaces, self.plan.ids_are_new, max(1, small // 200, small // partitions), after)
        if self.directory is None:
            found = _by_shuffle(self.runner, self.plan, report, partitions)
        else:
            found = _by_runs(self.runner, self._runs, self.plan.hashes // partitions, report, partitions)
        return _gathered(found.collect())


def _by_shuffle(runner: TaskRunner, plan: CheckPlan, report: _Report, partitions: int) -> Batches:
    """Compute all hashes, and exchange them so that those of a partition meet in one task."""

    def emit(group: list[HashSource]) -> Iterator[pa.RecordBatch]:
        for source in group:
            for output, rows in hashes_of(source):
                is_set = output.beside is None and output.role in (ENDPOINT, COMMITTED_ENDPOINT)
                yield from packets(output.space, output.role, once(np.sort(rows)) if is_set else rows, partitions)

    groups = grouped_rows(runner, plan.sources, lambda each: each.size)
    return exchange_packets(runner, groups, emit, report.of_partition, _REPORT, partitions=partitions)


def _by_runs(
    runner: TaskRunner, runs: list[tuple[HashOutput, HashRun]], share: int, report: _Report, partitions: int
) -> Batches:
    """Let the task of a partition read its range of each hash run."""

    def work(group: list[int]) -> Iterator[pa.RecordBatch]:
        for partition in group:
            yield from report.of_partition(partition, read_partition(runs, partition, partitions))

    return runner.map(grouped_rows(runner, range(partitions), lambda _: share), work, _REPORT)


@dataclass(frozen=True)
class _Report:
    """What a partition reports: at most `most` candidates of each space and kind, after those reported already."""

    spaces: Sequence[Space]
    ids_are_new: bool
    most: int
    after: Reported | None

    def of_partition(self, partition: int, found: PartitionHashes) -> Iterator[pa.RecordBatch]:
        """Yield the candidates of a partition as batches for the driver."""
        for number, space in enumerate(self.spaces):
            roles = {role: hashes for (each, role), hashes in found.items() if each == number}
            for kind, hashes in self._candidates(space, roles) if roles else ():
                left = self._left((number, kind), partition, np.unique(hashes)) if len(hashes) else hashes
                if len(left):
                    few, more = left[: self.most], int(len(left) > self.most)
                    yield pa.record_batch([[number], [kind], [partition], [more], [few.tobytes()]], schema=_REPORT)

    def _left(self, key: tuple[int, int], partition: int, hashes: Hashes) -> Hashes:
        if self.after is None:
            return hashes
        last = self.after.get(key, {}).get(partition)
        return _NONE if last is None else hashes[hashes > np.uint64(last)]

    def _candidates(self, space: Space, roles: dict[int, Hashes]) -> Iterator[tuple[int, Hashes]]:
        match space:
            case IdSpace():
                yield from _of_ids(roles, ids_are_new=self.ids_are_new)
            case Unique():
                yield SHARED_TUPLE, _shared_tuples(roles)
            case EdgeCount():
                yield EDGE_COUNT, _forbidden_counts(space, roles)
            case MovedEdges():
                yield EDGE_COUNT, _left_sources(roles)


def _of_ids(roles: dict[int, Hashes], *, ids_are_new: bool) -> Iterator[tuple[int, Hashes]]:
    put = roles.get(PUT, _NONE)
    mine, committed = once(put), once(roles.get(COMMITTED, _NONE))
    yield DUPLICATE_ID, repeated(put)
    if ids_are_new:
        yield EXISTING_ID, _common(mine, committed)
    for role, kind in ((ENDPOINT, MISSING_NODE), (COMMITTED_ENDPOINT, REMOVED_NODE)):
        if role in roles:
            present = once(np.sort(np.concatenate([mine, committed]))) if len(committed) else mine
            yield kind, _absent(once(roles[role]), present)


def once(ordered: Hashes) -> Hashes:
    """Sorted hashes without duplicates. Faster than hashing them."""
    same = ordered[1:] == ordered[:-1]
    return ordered[np.concatenate([[True], ~same])] if same.any() else ordered


def repeated(ordered: Hashes) -> Hashes:
    """Those of sorted hashes that occur more than once, each once."""
    return once(ordered[1:][ordered[1:] == ordered[:-1]])


def _absent(wanted: Hashes, present: Hashes) -> Hashes:
    """The wanted hashes that are not present.

    Intersecting first is faster than looking each hash up, and usually none is absent.
    """
    if len(_common(wanted, present)) == len(wanted):
        return _NONE
    return np.setdiff1d(wanted, present, assume_unique=True)


def _common(first: Hashes, second: Hashes) -> Hashes:
    """The hashes that two sets share."""
    return np.intersect1d(first, second, assume_unique=True) if len(first) and len(second) else _NONE


def _shared_tuples(roles: dict[int, Hashes]) -> Hashes:
    """Tuples of two rows that are put, or of one and a committed row of another id."""
    put, committed = (roles.get(role, _NONE.reshape(0, 2)) for role in (PUT, COMMITTED))
    ordered = np.sort(put[:, 0])
    mine, twice = once(ordered), repeated(ordered)
    if not len(committed):
        return twice
    others = _without(committed[np.isin(committed[:, 0], mine)], put)
    return np.concatenate([twice, others[:, 0]])


def _without(rows: Hashes, others: Hashes) -> Hashes:
    """The pairs of `rows` that are not among `others`. Both hashes of a pair are compared, 128 bits."""
    if not len(rows) or not len(others):
        return rows
    wanted, keys = joined(rows[:, 0], rows[:, 1]), joined(others[:, 0], others[:, 1])
    order = np.argsort(keys)
    nearest = order[np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)]
    differs: NDArray[np.bool_] = (others[nearest] != rows).any(axis=1)
    return rows[differs]


def _forbidden_counts(rule: EdgeCount, roles: dict[int, Hashes]) -> Hashes:
    """Sources whose edges are put or removed, and whose number of edges is forbidden afterwards."""
    put, committed, removed = (roles.get(role, _NONE) for role in (PUT, COMMITTED, REMOVED))
    if put.ndim == 2 or committed.ndim == 2:
        put, committed = put.reshape(-1, 2), committed.reshape(-1, 2)
        committed, put = np.sort(_without(committed, put)[:, 0]), np.sort(put[:, 0])
    sources, counts = np.unique(put, return_counts=True)
    counts = counts + np.searchsorted(committed, sources, "right") - np.searchsorted(committed, sources, "left")
    left = np.setdiff1d(removed, sources) if rule.minimum and len(removed) else _NONE
    return np.concatenate([sources[is_forbidden(rule, counts)], left])


def _left_sources(roles: dict[int, Hashes]) -> Hashes:
    """The sources of committed edges that are put again with another source."""
    put, committed = (roles.get(role, _NONE).reshape(-1, 2) for role in (PUT, COMMITTED))
    replaced = committed[np.isin(committed[:, 0], put[:, 0])]
    return _without(replaced, put)[:, 1]


def _gathered(reports: pa.Table) -> Candidates:
    found: dict[tuple[int, int], list[Hashes]] = {}
    more: Reported = {}
    rows: list[dict[str, Any]] = reports.to_pylist()
    for row in rows:
        key, hashes = (row["space"], row["kind"]), np.frombuffer(row["hashes"], np.uint64)
        found.setdefault(key, []).append(hashes)
        if row["more"]:
            more.setdefault(key, {})[row["partition"]] = int(hashes[-1])
    return Candidates({key: np.unique(np.concatenate(arrays)) for key, arrays in found.items()}, more)
