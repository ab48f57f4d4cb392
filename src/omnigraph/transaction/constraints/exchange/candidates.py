"""The numbers that may break a rule: all that are compared meet, part by part. No suspect means that every rule holds.

They meet by a packed shuffle, or where all tasks see a directory, through the files of a ledger.

A suspect is a number; which rows have it, and whether they break the rule, is looked up afterwards (`offenders`).
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

# The kinds of suspicion.
REPEATED, TAKEN, MISSING, STRANDED, HELD, MISCOUNTED = range(6)
# How many of a kind each part tells: more bad rows than that are told when these are mended.
MOST_PER_PART = 5_000
SUSPECTS = pa.schema([("space", INT), ("kind", INT), ("numbers", BYTES)])
_NONE = np.empty(0, np.uint64)


@dataclass(frozen=True)
class Candidates:
    """Numbers by space and kind of suspicion, sorted."""

    numbers: dict[tuple[int, int], Any]

    def of_kind(self, kind: int) -> dict[int, Any]:
        """The spaces with suspects of a kind."""
        return {space: found for (space, each), found in self.numbers.items() if each == kind}

    def __bool__(self) -> bool:
        return bool(self.numbers)


def find_suspects(runner: TaskRunner, questions: CheckPlan, directory: str | None = None) -> Candidates:
    """Ask everything at once. `directory`: one that all tasks see, for numbers that are not noted yet."""
    if not questions.sources:
        return Candidates({})
    find = by_shuffle if directory is None else partial(by_ledger, directory=directory)
    told: Any = find(runner, questions).collect()
    return Candidates(_gathered(told))


def by_shuffle(runner: TaskRunner, questions: CheckPlan) -> Batches:
    """Draw all numbers, and let Spark bring those of a part together."""
    parts, spaces = parts_for(questions.numbers, runner), questions.spaces

    def emit(group: list[HashSource]) -> Iterator[pa.RecordBatch]:
        for source in group:
            for emission, rows in emitted(source):
                few = emission.beside is None and emission.role in (ASKED, KEPT)
                yield from packets(emission.space, emission.role, once(np.sort(rows)) if few else rows, parts)

    groups = grouped_rows(runner, questions.sources, lambda each: each.size)
    return shuffled(runner, groups, emit, lambda found: _evaluated(spaces, found), SUSPECTS, parts=parts)


def by_ledger(runner: TaskRunner, questions: CheckPlan, directory: str) -> Batches:
    """Take the numbers that are noted, note the others, and let the task of a part read its range of each file."""
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
    """Each of sorted numbers once. Quicker than hashing them."""
    same = ordered[1:] == ordered[:-1]
    return ordered[np.concatenate([[True], ~same])] if same.any() else ordered


def repeated(ordered: Numbers) -> Numbers:
    """Those of sorted numbers that stand more than once, each once."""
    return once(ordered[1:][ordered[1:] == ordered[:-1]])


def _absent(asked: Numbers, present: Numbers) -> Numbers:
    """Sorting both together is quicker than looking each up, and mostly nothing is absent."""
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
    """The pairs that are not among the others."""
    if not len(rows) or not len(others):
        return rows
    return rows[~np.isin(joined(rows[:, 0], rows[:, 1]), joined(others[:, 0], others[:, 1]))]


def _miscounted(rule: EdgeCount, roles: dict[int, Numbers]) -> Numbers:
    """Sources whose edges are put or removed, with a wrong number of them afterwards."""
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
    """The sources of committed edges that are put with another source."""
    put, there = roles.get(PUT, _NONE).reshape(-1, 2), roles.get(THERE, _NONE).reshape(-1, 2)
    replaced = there[np.isin(there[:, 0], put[:, 0])]
    return _without(replaced, put)[:, 1]


def _gathered(told: pa.Table) -> dict[tuple[int, int], Any]:
    found: dict[tuple[int, int], list[Numbers]] = {}
    for row in told.to_pylist():
        found.setdefault((row["space"], row["kind"]), []).append(np.frombuffer(row["numbers"], np.uint64))
    return {key: np.unique(np.concatenate(fragments)) for key, fragments in found.items()}
