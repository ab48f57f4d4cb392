"""The numbers that may break a rule, found in one packed shuffle. No suspect means that every rule holds.

A suspect is a number; which rows have it, and whether they break the rule, is looked up afterwards (`offenders`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.spark.bulk.columns import BYTES, INT
from omnigraph.spark.bulk.grouping import grouped_rows
from omnigraph.spark.bulk.hashing import joined, numbers_of, tuple_numbers
from omnigraph.spark.bulk.packed import packets, parts_for, shuffled
from omnigraph.spark.bulk.questions import ASKED, GONE, KEPT, PUT, THERE, IdSpace, Moves, Source
from omnigraph.spark.bulk.staged import PieceFile
from omnigraph.spark.tasks import errors_of_tasks
from omnigraph.write.constraints.rules import EdgeCount, Unique

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from omnigraph.spark.bulk.packed import Collected
    from omnigraph.spark.bulk.questions import Emission, Questions, Space

    Numbers = NDArray[np.uint64]

# The kinds of suspicion.
REPEATED, TAKEN, MISSING, STRANDED, HELD, MISCOUNTED = range(6)
# How many of a kind each part tells: more bad rows than that are told when these are mended.
MOST_PER_PART = 5_000
SUSPECTS = pa.schema([("space", INT), ("kind", INT), ("numbers", BYTES)])
_NONE = np.empty(0, np.uint64)


@dataclass(frozen=True)
class Suspects:
    """Numbers by space and kind of suspicion, sorted."""

    numbers: dict[tuple[int, int], Any]

    def of_kind(self, kind: int) -> dict[int, Any]:
        """The spaces with suspects of a kind."""
        return {space: found for (space, each), found in self.numbers.items() if each == kind}

    def __bool__(self) -> bool:
        return bool(self.numbers)


def find_suspects(session: SparkSession, questions: Questions) -> Suspects:
    """Ask everything at once."""
    if not questions.sources:
        return Suspects({})
    parts, spaces = parts_for(questions.numbers, session), questions.spaces

    def emit(group: list[Source]) -> Iterator[pa.RecordBatch]:
        for source in group:
            for emission, rows in emitted(source):
                yield from packets(emission.space, emission.role, rows, parts)

    def evaluate(found: Collected) -> Iterator[pa.RecordBatch]:
        for number, space in enumerate(spaces):
            for kind, suspects in _suspects(space, _roles(found, number)):
                if len(suspects):
                    few = np.unique(suspects)[:MOST_PER_PART].tobytes()
                    yield pa.record_batch([[number], [kind], [few]], schema=SUSPECTS)

    groups = grouped_rows(session, questions.sources, lambda each: each.size)
    with errors_of_tasks():
        told: Any = shuffled(session, groups, emit, evaluate, SUSPECTS, parts=parts).toArrow()
    return Suspects(_gathered(told))


def emitted(source: Source) -> Iterator[tuple[Emission, Numbers]]:
    """The numbers of a source, for each of its emissions; asked ones once each."""
    for batches in _chunks(source):
        rows = pa.Table.from_batches(batches)
        made: dict[tuple[str, ...], tuple[Numbers, NDArray[np.bool_]]] = {}
        for each in source.emissions:
            if each.columns not in made:
                made[each.columns] = tuple_numbers([rows.column(name) for name in each.columns])
            numbers, valid = made[each.columns]
            if each.beside is not None:
                other = numbers_of(rows.column(each.beside))
                yield each, np.column_stack([numbers, other if valid.all() else other[valid]])
            else:
                yield each, distinct(np.sort(numbers))[0] if each.role in (ASKED, KEPT) else numbers


def _chunks(source: Source) -> Iterator[list[pa.RecordBatch]]:
    """A file at once, or as many committed rows: the work per packet is large, memory stays small."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in read_source(source, source.columns):
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= 200_000:
            yield waiting
            waiting, rows = [], 0
    if waiting:
        yield waiting


def read_source(source: Source, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a source, in the order of its rows."""
    if isinstance(source.rows, PieceFile):
        yield from source.rows.read(columns)
        return
    scan = source.rows
    yield from scan.table().scan(columns, fragments=scan.fragments, batch_size=65_536)


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
    mine, repeated = distinct(put)
    yield REPEATED, repeated
    committed, _ = distinct(there)
    yield TAKEN, _common(mine, committed)
    for role, kind in ((ASKED, MISSING), (KEPT, STRANDED)):
        if role in roles:
            present, _ = distinct(np.sort(np.concatenate([mine, committed])))
            yield kind, _absent(distinct(roles[role])[0], present)


def distinct(ordered: Numbers) -> tuple[Numbers, Numbers]:
    """Each of sorted numbers once, and those that stand more than once. Quicker than hashing them."""
    if len(ordered) < 2:
        return ordered, _NONE
    same = ordered[1:] == ordered[:-1]
    if not same.any():
        return ordered, _NONE
    return ordered[np.concatenate([[True], ~same])], np.unique(ordered[1:][same])


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
    mine, repeated = distinct(np.sort(put[:, 0]))
    if not len(there):
        return repeated
    candidates = there[np.isin(there[:, 0], mine)]
    others = _without(candidates, put)
    return np.unique(np.concatenate([repeated, others[:, 0]]))


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
    return {key: np.unique(np.concatenate(pieces)) for key, pieces in found.items()}
