"""Turns candidates into violations: fetches the rows, compares them by value, and builds the errors of the rules.

The order is the embedded loader's: duplicate ids, value rules, unique tuples, edge endpoints, edge cardinality, ids
that exist already; tables by name, rows in input order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.rules import EdgeCount, Unique, endpoint_rules
from omnigraph.errors import KeyConflict
from omnigraph.kernels.arrays import ID, one_array
from omnigraph.kernels.equality import NO_VALUE, first_rows, tuple_codes, value_at
from omnigraph.kernels.hashing import numbers_of
from omnigraph.transaction.constraints.exchange.candidates import HELD, MISCOUNTED, MISSING, REPEATED, STRANDED, TAKEN
from omnigraph.transaction.constraints.exchange.fetch import ORDER, RowFetch, look
from omnigraph.transaction.constraints.exchange.plan import IdSpace, Moves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.errors import OmniGraphError
    from omnigraph.tasks.runner import TaskRunner
    from omnigraph.tasks.staged_rows import StagedRows
    from omnigraph.transaction.constraints.exchange.candidates import Candidates
    from omnigraph.transaction.constraints.exchange.plan import CheckPlan, HashSource
    from omnigraph.values.batches import Mode


@dataclass(frozen=True)
class RowViolation:
    """A violation of a rule: the row's position in the load, and the error. `order` is None for a committed row.

    `to_drop` are the rows without which the rule would hold, when that is not this row alone.
    """

    table_key: str
    order: int | None
    error: OmniGraphError
    to_drop: tuple[int, ...] = ()

    @property
    def orders(self) -> tuple[int, ...]:
        """The positions of the rows to reject."""
        return self.to_drop or (() if self.order is None else (self.order,))


@dataclass(frozen=True)
class DuplicateRow:
    """An id that occurs twice: its two positions in the load."""

    table_key: str
    row_id: str
    first: int
    second: int


@dataclass(frozen=True)
class ViolationSearch:
    """One check plan and the candidates that it found."""

    runner: TaskRunner
    catalog: Catalog
    mode: Mode
    staged: Mapping[str, StagedRows]
    questions: CheckPlan
    suspects: Candidates

    def repeats(self) -> list[DuplicateRow]:
        """Ids that occur twice, by table and position of the second."""
        found = [
            each
            for space, numbers in self.suspects.of_kind(REPEATED).items()
            for each in self._repeats(self._id_space(space), numbers)
        ]
        return sorted(found, key=lambda each: (each.table_key, each.second))

    def offenders(self) -> Iterator[RowViolation]:
        """Yield all other violations, in the order in which they are reported."""
        yield from self._held()
        yield from self._ends()
        yield from self._miscounted()
        if self.mode == "append":
            yield from self._taken()

    def _id_space(self, number: int) -> str:
        space = self.questions.spaces[number]
        assert isinstance(space, IdSpace)
        return space.table_key

    def _look(self, looks: Sequence[RowFetch]) -> list[pa.Table]:
        sources: Sequence[HashSource] = self.questions.sources
        return look(self.runner, sources, looks) if looks else []

    def _repeats(self, key: str, numbers: Any) -> Iterator[DuplicateRow]:
        (rows,) = self._look([RowFetch(key, (ID,), numbers, (), committed=False)])
        seen: dict[str, int] = {}
        for row_id, order in _pairs(rows):
            if row_id in seen:
                yield DuplicateRow(key, row_id, seen[row_id], order)
            seen.setdefault(row_id, order)

    def _taken(self) -> Iterator[RowViolation]:
        for space, numbers in sorted(self.suspects.of_kind(TAKEN).items(), key=lambda each: self._id_space(each[0])):
            key = self._id_space(space)
            if not self._is_put(key):
                continue
            put, there = self._look([RowFetch(key, (ID,), numbers, (), committed=each) for each in (False, True)])
            for row_id, order in _pairs(put.filter(pc.is_in(put.column(ID), value_set=one_array(there.column(ID))))):
                yield RowViolation(key, order, KeyConflict(key.partition(":")[2], row_id))

    def _held(self) -> Iterator[RowViolation]:
        rules = [(self.questions.spaces[space], numbers) for space, numbers in self.suspects.of_kind(HELD).items()]
        found: list[tuple[str, int, int, RowViolation]] = []
        for position, (rule, numbers) in enumerate(rules):
            assert isinstance(rule, Unique)
            for each in self._conflicts(rule, numbers):
                assert each.order is not None
                found.append((rule.table_key, each.order, position, each))
        yield from (each for *_, each in sorted(found, key=lambda each: each[:3]))

    def _conflicts(self, rule: Unique, numbers: Any) -> Iterator[RowViolation]:
        put, there = self._look(
            [RowFetch(rule.table_key, rule.columns, numbers, rule.columns, committed=each) for each in (False, True)]
        )
        there = self._staying(rule.table_key, there)
        columns = [_stacked(put, there, name) for name in rule.columns]
        codes, size = tuple_codes(columns)
        mine, theirs = codes[: put.num_rows], codes[put.num_rows :]
        earliest, holders = first_rows(mine, size), first_rows(theirs, size)
        ids, other_ids = put.column(ID), there.column(ID)
        for row in np.flatnonzero(mine != NO_VALUE):
            code, holder = mine[row], None
            if holders[code] != NO_VALUE:
                holder = other_ids[int(holders[code])].as_py()
            elif earliest[code] != row:
                holder = ids[int(earliest[code])].as_py()
            if holder is not None:
                values = tuple(value_at(put.column(name), int(row)) for name in rule.columns)
                error = rule.violation(ids[int(row)].as_py(), values, holder)
                yield RowViolation(rule.table_key, put.column(ORDER)[int(row)].as_py(), error)

    def _staying(self, key: str, there: pa.Table) -> pa.Table:
        """The committed rows that the load does not touch."""
        if not there.num_rows or self.mode == "overwrite":
            return there.slice(0, 0)
        replaced = self._put_ids(key, there.column(ID))
        return there.filter(pc.invert(pc.is_in(there.column(ID), value_set=replaced)))

    def _put_ids(self, key: str, ids: Any) -> pa.Array[Any]:
        """Those of the ids that the load puts."""
        (put,) = self._look([RowFetch(key, (ID,), np.unique(numbers_of(ids)), (), committed=False)])
        return one_array(put.column(ID))

    def _ends(self) -> Iterator[RowViolation]:
        missing = {self._id_space(space): each for space, each in self.suspects.of_kind(MISSING).items()}
        stranded = {self._id_space(space): each for space, each in self.suspects.of_kind(STRANDED).items()}
        for name in sorted(self.catalog.edges):
            rules = endpoint_rules(self.catalog.edges[name])
            asked = [rule for rule in rules if rule.node_key in missing and self._is_put(rule.edge_key)]
            put = self._look(
                [RowFetch(r.edge_key, (r.end,), missing[r.node_key], (r.end,), committed=False) for r in asked]
            )
            found = [
                (order, rule.end == "dst", rule.violation(row_id, node_id))
                for rule, rows in zip(asked, put, strict=True)
                for row_id, order, node_id in _triples(rows, rule.end)
            ]
            for order, _, error in sorted(found, key=lambda each: each[:2]):
                yield RowViolation(rules[0].edge_key, order, error)
            left = [rule for rule in rules if rule.node_key in stranded and not self._is_put(rule.edge_key)]
            kept = self._look(
                [RowFetch(r.edge_key, (r.end,), stranded[r.node_key], (r.end,), committed=True) for r in left]
            )
            lost = [
                (row_id, rule.end == "dst", rule.violation(row_id, node_id))
                for rule, rows in zip(left, kept, strict=True)
                for row_id, _, node_id in _triples(rows, rule.end)
            ]
            for _, _, error in sorted(lost, key=lambda each: each[:2]):
                yield RowViolation(rules[0].edge_key, None, error)

    def _miscounted(self) -> Iterator[RowViolation]:
        suspects: dict[EdgeCount, list[Any]] = {}
        for space, numbers in self.suspects.of_kind(MISCOUNTED).items():
            rule = self.questions.spaces[space]
            rule = rule.rule if isinstance(rule, Moves) else rule
            assert isinstance(rule, EdgeCount)
            suspects.setdefault(rule, []).append(numbers)
        for rule in sorted(suspects, key=lambda each: each.type_name):
            yield from self._wrong_counts(rule, np.unique(np.concatenate(suspects[rule])))

    def _wrong_counts(self, rule: EdgeCount, numbers: Any) -> Iterator[RowViolation]:
        """Yield violations for sources that gain edges, in input order, then for those that only lose edges, by id."""
        put, there = self._look(
            [RowFetch(rule.edge_key, ("src",), numbers, ("src",), committed=each) for each in (False, True)]
        )
        staying = self._staying(rule.edge_key, there)
        counts = Counter([*put.column("src").to_pylist(), *staying.column("src").to_pylist()])
        # Rows that must be new replace nothing.
        before = set() if self.mode == "append" else set(_edges(there)) - set(_edges(staying))
        gained: dict[str, list[int]] = {}
        for row_id, order, src in _triples(put, "src"):
            if (row_id, src) not in before:
                gained.setdefault(src, []).append(order)
        lost = {src for _, src in before - set(_edges(put))} - gained.keys()
        if rule.node_key in self.staged and self.mode == "overwrite" and lost:
            lost &= set(self._put_ids(rule.node_key, pa.array(sorted(lost), pa.string())).to_pylist())
        for src, orders in sorted(gained.items(), key=lambda each: each[1]):
            if _is_wrong(rule, counts[src]):
                yield RowViolation(
                    rule.edge_key, orders[0], rule.violation(src, counts[src]), _excess(rule, counts[src], orders)
                )
        for src in sorted(lost):
            if _is_wrong(rule, counts[src]):
                yield RowViolation(rule.edge_key, None, rule.violation(src, counts[src]))

    def _is_put(self, key: str) -> bool:
        return key in self.staged


def _is_wrong(rule: EdgeCount, count: int) -> bool:
    return count < rule.minimum or (rule.maximum is not None and count > rule.maximum)


def _excess(rule: EdgeCount, count: int, orders: list[int]) -> tuple[int, ...]:
    """The last edges of a source that has too many, or all new edges of one that has too few."""
    if rule.maximum is None or count <= rule.maximum:
        return tuple(orders)
    return tuple(orders[-(count - rule.maximum) :])


def _edges(rows: pa.Table) -> Iterator[tuple[str, str]]:
    yield from ((row_id, src) for row_id, _, src in _triples(rows, "src"))


def _stacked(put: pa.Table, there: pa.Table, name: str) -> pa.ChunkedArray[Any]:
    mine = put.column(name)
    theirs = there.column(name).cast(mine.type).chunks if there.num_rows else []
    return pa.chunked_array([*mine.chunks, *theirs], mine.type)


def _pairs(rows: pa.Table) -> Iterator[tuple[str, int]]:
    columns: list[list[Any]] = [rows.column(name).to_pylist() for name in (ID, ORDER)]
    yield from zip(*columns, strict=True)


def _triples(rows: pa.Table, column: str) -> Iterator[tuple[str, int, str]]:
    columns: list[list[Any]] = [rows.column(name).to_pylist() for name in (ID, ORDER, column)]
    yield from zip(*columns, strict=True)
