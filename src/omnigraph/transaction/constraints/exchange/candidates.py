"""Finds candidate hashes that may violate a rule, by bringing equal hashes together. No candidates: every rule holds.

Hashes are partitioned by range. They meet in a packed shuffle or, where all tasks share a directory, through files of
sorted hash runs.

A candidate is a hash; which rows have it, and whether they violate the rule, is looked up afterwards (`violations.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.catalog.rules import EdgeCount, Unique
from omnigraph.kernels.hashing import joined
from omnigraph.tasks.runner import BYTES, INT, grouped_rows
from omnigraph.transaction.constraints.exchange.exchange import (
    emitted,
    note_unread,
    packets,
    parts_for,
    read_part,
    shuffled,
)
from omnigraph.transaction.constraints.exchange.plan import ASKED, GONE, KEPT, PUT, THERE, IdSpace, Moves

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from omnigraph.tasks.runner import Batches, TaskRunner
    from omnigraph.transaction.constraints.exchange.exchange import Collected
    from omnigraph.transaction.constraints.exchange.plan import CheckPlan, HashSource, Space

    Numbers = NDArray[np.uint64]

# The kinds of candidates.
REPEATED, TAKEN, MISSING, STRANDED, HELD, MISCOUNTED = range(6)
# How many candidates of a kind each partition reports: further bad rows are reported once these are corrected.
MOST_PER_PART = 5_000
SUSPECTS = pa.schema([("space", INT), ("kind", INT), ("numbers", BYTES)])
_NONE = np.empty(0, np.uint64)


@dataclass(frozen=True)
class Candidates:
    """Candidate hashes by space and kind, sorted."""

    numbers: dict[tuple[int, int], Any]

    def of_kind(self, kind: int) -> dict[int, Any]:
        """The candidates of a kind, by space."""
        return {space: found for (space, each), found in self.numbers.items() if each == kind}

    def __bool__(self) -> bool:
        return bool(self.numbers)


def find_suspects(runner: TaskRunner, questions: CheckPlan, directory: str | None = None) -> Candidates:
    """Run all checks at once. `directory`: one that all tasks share, for hashes that are not written to runs yet."""
    if not questions.sources:
        return Candidates({})
    find = by_shuffle if directory is None else partial(by_ledger, directory=directory)
    told: Any = find(runner, questions).collect()
    return Candidates(_gathered(told))


def by_shuffle(runner: TaskRunner, questions: CheckPlan) -> Batches:
    """Compute all hashes, and exchange them so that those of a partition meet in one task."""
    parts, spaces = parts_for(questions.numbers, runner), questions.spaces

    def emit(group: list[HashSource]) -> Iterator[pa.RecordBatch]:
        for source in group:
            for emission, rows in emitted(source):
                few = emission.beside is None and emission.role in (ASKED, KEPT)
                yield from packets(emission.space, emission.role, once(np.sort(rows)) if few else rows, parts)

    groups = grouped_rows(runner, questions.sources, lambda each: each.size)
    return shuffled(runner, groups, emit, lambda found: _evaluated(spaces, found), SUSPECTS, parts=parts)


def by_ledger(runner: TaskRunner, questions: CheckPlan, directory: str) -> Batches:
    """Use the hash runs that exist, write the missing ones, and let the task of a partition read its range of each."""
    parts, spaces = parts_for(questions.numbers, runner), questions.spaces
    noted = [*questions.noted, *note_unread(runner, questions, directory)]

    def work(group: list[int]) -> Iterator[pa.RecordBatch]:
        for part in group:
            yield from _evaluated(spaces, read_part(noted, part, parts))

    share = questions.numbers // parts
    groups = grouped_rows(runner, range(parts), lambda _: share)
    return runner.map(groups, work, SUSPECTS)


def _evaluated(spaces: Sequence[Space], found: Collected) -> Iterator[pa.RecordBatch]:
    for number, space in enumerate(spaces):
        for kind, suspects in _suspects(space, _roles(found, number)):
            if len(suspects):
                few = np.unique(suspects)[:MOST_PER_PART].tobytes()
                yield pa.record_batch([[number], [kind], [few]], schema=SUSPECTS)


def _roles(found: Collected, space: int) -> dict[int, Numbers]:
    return {role: numbers for (number, role), numbers in found.items() if number == space}


def _suspects(space: Space, roles: dict[int, Numbers]) -> Iterator[tuple[int, Numbers]]:
    match space:
        case IdSpace():
            yield from _of_ids(roles)
        case Unique():
            yield HELD, _held(roles)
        case EdgeCount():
            yield MISCOUNTED, _miscounted(space, roles)
        case Moves():
            yield MISCOUNTED, _left(roles)


def _of_ids(roles: dict[int, Numbers]) -> Iterator[tuple[int, Numbers]]:
    put, there = roles.get(PUT, _NONE), roles.get(THERE, _NONE)
    mine, committed = once(put), once(there)
    yield REPEATED, repeated(put)
    yield TAKEN, _common(mine, committed)
    for role, kind in ((ASKED, MISSING), (KEPT, STRANDED)):
        if role in roles:
            present = once(np.sort(np.concatenate([mine, committed]))) if len(committed) else mine
            yield kind, _absent(once(roles[role]), present)


def once(ordered: Numbers) -> Numbers:
    """Sorted numbers without duplicates. Faster than hashing them."""
    same = ordered[1:] == ordered[:-1]
    return ordered[np.concatenate([[True], ~same])] if same.any() else ordered


def repeated(ordered: Numbers) -> Numbers:
    """Those of sorted numbers that occur more than once, each once."""
    return once(ordered[1:][ordered[1:] == ordered[:-1]])


def _absent(asked: Numbers, present: Numbers) -> Numbers:
    """The asked numbers that are not present.

    Intersecting first is faster than looking each number up, and usually none is absent.
    """
    if len(_common(asked, present)) == len(asked):
        return _NONE
    return np.setdiff1d(asked, present, assume_unique=True)


def _common(first: Numbers, second: Numbers) -> Numbers:
    """The numbers that two sets share."""
    return np.intersect1d(first, second, assume_unique=True) if len(first) and len(second) else _NONE


def _held(roles: dict[int, Numbers]) -> Numbers:
    """Tuples of two rows that are put, or of one and a committed row of another id."""
    put, there = roles.get(PUT, _NONE.reshape(0, 2)), roles.get(THERE, _NONE.reshape(0, 2))
    ordered = np.sort(put[:, 0])
    mine, twice = once(ordered), repeated(ordered)
    if not len(there):
        return twice
    candidates = there[np.isin(there[:, 0], mine)]
    others = _without(candidates, put)
    return np.unique(np.concatenate([twice, others[:, 0]]))


def _without(rows: Numbers, others: Numbers) -> Numbers:
    """The pairs of `rows` that are not among `others`."""
    if not len(rows) or not len(others):
        return rows
    return rows[~np.isin(joined(rows[:, 0], rows[:, 1]), joined(others[:, 0], others[:, 1]))]


def _miscounted(rule: EdgeCount, roles: dict[int, Numbers]) -> Numbers:
    """Sources whose edges are put or deleted, and whose number of edges is wrong afterwards."""
    put, there, gone = (roles.get(role, _NONE) for role in (PUT, THERE, GONE))
    if put.ndim == 2 or there.ndim == 2:
        put, there = put.reshape(-1, 2), there.reshape(-1, 2)
        there, put = np.sort(_without(there, put)[:, 0]), np.sort(put[:, 0])
    sources, counts = np.unique(put, return_counts=True)
    counts = counts + np.searchsorted(there, sources, "right") - np.searchsorted(there, sources, "left")
    wrong = counts < rule.minimum
    if rule.maximum is not None:
        wrong |= counts > rule.maximum
    left = np.setdiff1d(gone, sources) if rule.minimum and len(gone) else _NONE
    return np.concatenate([sources[wrong], left])


def _left(roles: dict[int, Numbers]) -> Numbers:
    """The sources of committed edges that are put again with another source."""
    put, there = roles.get(PUT, _NONE).reshape(-1, 2), roles.get(THERE, _NONE).reshape(-1, 2)
    replaced = there[np.isin(there[:, 0], put[:, 0])]
    return _without(replaced, put)[:, 1]


def _gathered(told: pa.Table) -> dict[tuple[int, int], Any]:
    found: dict[tuple[int, int], list[Numbers]] = {}
    for row in told.to_pylist():
        found.setdefault((row["space"], row["kind"]), []).append(np.frombuffer(row["numbers"], np.uint64))
    return {key: np.unique(np.concatenate(fragments)) for key, fragments in found.items()}
