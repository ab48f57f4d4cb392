"""Evaluates the rules of a load on the rows of the candidates, and reports violations in the embedded loader's order.

That is: duplicate ids, value rules, unique tuples, edge endpoints, edge cardinality, ids that exist already; tables by
name, rows in input order. A rule reports at most about `MOST_VIOLATIONS`: further ones are found once these are
corrected, or set aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.rules import EdgeCount, Unique, endpoint_rules
from omnigraph.errors import KeyConflict
from omnigraph.kernels.arrays import ID, one_array
from omnigraph.kernels.hashing import hash_column
from omnigraph.transaction.constraints.evaluate import (
    SOURCE,
    altered_sources,
    count_violations,
    edges_only_in,
    endpoint_violations,
    unique_violations,
)
from omnigraph.transaction.constraints.exchange.candidates import (
    DUPLICATE_ID,
    EDGE_COUNT,
    EXISTING_ID,
    MISSING_NODE,
    REMOVED_NODE,
    SHARED_TUPLE,
)
from omnigraph.transaction.constraints.exchange.fetch import ORDER, RowFetch, fetch_rounds
from omnigraph.transaction.constraints.exchange.plan import IdSpace, MovedEdges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.catalog.rules import Endpoint
    from omnigraph.errors import CardinalityViolation, OmniGraphError
    from omnigraph.tasks.staged_rows import StagedRows
    from omnigraph.transaction.constraints.exchange.candidates import CandidateSearch
    from omnigraph.values.batches import Mode

    Hashes = NDArray[np.uint64]

MOST_VIOLATIONS = 5_000
Found = TypeVar("Found")


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
    """The candidates of one check plan, and the rows that the load puts."""

    catalog: Catalog
    mode: Mode
    staged: Mapping[str, StagedRows]
    candidates: CandidateSearch

    def duplicates(self) -> list[DuplicateRow]:
        """Ids that occur twice, by table and position of the second."""
        found: list[DuplicateRow] = []
        for key, hashes in self._ids(DUPLICATE_ID).items():
            fetch = RowFetch(key, (ID,), (), committed=False)
            found += _capped([*_duplicates(key, rows)] for (rows,) in self._rows(hashes, fetch))
        return sorted(found, key=lambda each: (each.table_key, each.second))

    def violations(self) -> Iterator[RowViolation]:
        """Yield all other violations, in the order in which they are reported."""
        yield from self._shared_tuples()
        yield from self._endpoints()
        yield from self._edge_counts()
        yield from self._existing_ids()

    def _shared_tuples(self) -> Iterator[RowViolation]:
        found: list[tuple[str, int, int, RowViolation]] = []
        for spaces in self.candidates.rounds(SHARED_TUPLE):
            for space, hashes in spaces.items():
                rule = self.candidates.plan.spaces[space]
                assert isinstance(rule, Unique)
                mine = _capped(self._of_tuples(rule, hashes))
                found += [(rule.table_key, order, space, each) for order, each in mine]
            if len(found) >= MOST_VIOLATIONS:
                break
        yield from (each for *_, each in sorted(found, key=lambda each: each[:3]))

    def _of_tuples(self, rule: Unique, hashes: Hashes) -> Iterator[list[tuple[int, RowViolation]]]:
        fetches = [RowFetch(rule.table_key, rule.columns, rule.columns, committed=each) for each in (False, True)]
        for put, committed in self._rows(hashes, *fetches):
            orders = put.column(ORDER)
            unchanged = committed.filter(self._is_unchanged(rule.table_key, committed))
            yield [
                (orders[row].as_py(), RowViolation(rule.table_key, orders[row].as_py(), error))
                for row, error in unique_violations(rule, put, unchanged)
            ]

    def _endpoints(self) -> Iterator[RowViolation]:
        missing, removed = self._ids(MISSING_NODE), self._ids(REMOVED_NODE)
        for name in sorted(self.catalog.edges):
            rules = endpoint_rules(self.catalog.edges[name])
            is_put = rules[0].edge_key in self.staged
            nodes = missing if is_put else removed
            found = [each for rule in rules if rule.node_key in nodes for each in self._dangling(rule, nodes)]
            for (place, _), error in sorted(found, key=lambda each: each[0]):
                yield RowViolation(rules[0].edge_key, place if is_put else None, error)

    def _dangling(self, rule: Endpoint, nodes: Mapping[str, Hashes]) -> list[tuple[tuple[Any, bool], OmniGraphError]]:
        """The edges at absent nodes: those put by position, those committed by id; sources before targets.

        Nothing that exists has the hash of one of these nodes, so none of them is present.
        """
        is_put = rule.edge_key in self.staged
        fetch = RowFetch(rule.edge_key, (rule.end,), (rule.end,), committed=not is_put)
        place = ORDER if is_put else ID
        return _capped(
            [
                ((edges.column(place)[row].as_py(), rule.end == "dst"), error)
                for row, error in endpoint_violations(rule, edges, pa.array(np.zeros(edges.num_rows, bool)))
            ]
            for (edges,) in self._rows(nodes[rule.node_key], fetch)
        )

    def _edge_counts(self) -> Iterator[RowViolation]:
        """Yield violations for sources that gain edges, in input order, then for those that only lose edges, by id."""
        found: dict[EdgeCount, dict[str, RowViolation]] = {}
        for spaces in self.candidates.rounds(EDGE_COUNT):
            for rule, hashes in self._counted(spaces).items():
                mine = _capped(self._of_counts(rule, hashes))
                found.setdefault(rule, {}).update((each.source_id, violation) for each, violation in mine)
            if sum(map(len, found.values())) >= MOST_VIOLATIONS:
                break
        for rule in sorted(found, key=lambda each: each.type_name):
            by_row = sorted(found[rule].items(), key=lambda each: (each[1].order is None, each[1].order or 0, each[0]))
            yield from (violation for _, violation in by_row)

    def _counted(self, spaces: Mapping[int, Hashes]) -> dict[EdgeCount, Hashes]:
        """The candidate sources by rule, from the counts of edges and from the edges that moved."""
        found: dict[EdgeCount, list[Hashes]] = {}
        for number, hashes in spaces.items():
            space = self.candidates.plan.spaces[number]
            rule = space.rule if isinstance(space, MovedEdges) else space
            assert isinstance(rule, EdgeCount)
            found.setdefault(rule, []).append(hashes)
        return {rule: np.concatenate(arrays) for rule, arrays in found.items()}

    def _of_counts(self, rule: EdgeCount, hashes: Hashes) -> Iterator[list[tuple[CardinalityViolation, RowViolation]]]:
        key = rule.edge_key
        fetches = [RowFetch(key, (SOURCE,), (SOURCE,), committed=each, whole=True) for each in (False, True)]
        for put, committed in self._rows(hashes, *fetches):
            is_unchanged = self._is_unchanged(key, committed)
            unchanged, before = committed.filter(is_unchanged), committed.filter(pc.invert(is_unchanged))
            if self.mode == "append":
                before = before.slice(0, 0)  # rows that must be new replace nothing
            sources = self._staying_sources(rule, altered_sources(put, before))
            gained = _orders_by_source(edges_only_in(put, before))
            errors = count_violations(rule, sources, put, unchanged)
            yield [(each, _count_violation(rule, each, gained.get(each.source_id, []))) for each in errors]

    def _staying_sources(self, rule: EdgeCount, sources: pa.Array[Any]) -> pa.Array[Any]:
        """The sources that are not themselves removed; those are not counted."""
        if self.mode != "overwrite" or rule.node_key not in self.staged or not len(sources):
            return sources
        return sources.filter(pc.is_in(sources, value_set=self._put_ids(rule.node_key, sources)))

    def _existing_ids(self) -> Iterator[RowViolation]:
        for key, hashes in sorted(self._ids(EXISTING_ID).items(), key=lambda each: each[0]):
            fetches = [RowFetch(key, (ID,), (), committed=each) for each in (False, True)]
            found = _capped([*_existing(*rows)] for rows in self._rows(hashes, *fetches))
            for order, row_id in sorted(found):
                yield RowViolation(key, order, KeyConflict(key.partition(":")[2], row_id))

    def _ids(self, kind: int) -> dict[str, Hashes]:
        """Candidate ids by table. Each is a violation unless hashes collide, so some are enough."""
        found: dict[str, list[Hashes]] = {}
        for spaces in self.candidates.rounds(kind):
            for number, hashes in spaces.items():
                space = self.candidates.plan.spaces[number]
                assert isinstance(space, IdSpace)
                found.setdefault(space.table_key, []).append(hashes)
            if sum(len(each) for arrays in found.values() for each in arrays) >= MOST_VIOLATIONS:
                break
        return {key: np.concatenate(arrays) for key, arrays in found.items()}

    def _rows(self, hashes: Hashes, *fetches: RowFetch) -> Iterator[list[pa.Table]]:
        return fetch_rounds(self.candidates.runner, self.candidates.plan.sources, hashes, fetches)

    def _is_unchanged(self, key: str, committed: pa.Table) -> pa.Array[Any]:
        """For each committed row, whether the load leaves it as it is."""
        if not committed.num_rows or self.mode == "overwrite":
            return pa.array(np.zeros(committed.num_rows, bool))
        ids = one_array(committed.column(ID))
        return pc.invert(pc.is_in(ids, value_set=self._put_ids(key, ids)))

    def _put_ids(self, key: str, ids: pa.Array[Any]) -> pa.Array[Any]:
        """The ids that the load puts and that have the hash of one of these."""
        rounds = self._rows(hash_column(ids), RowFetch(key, (ID,), (), committed=False))
        return pa.concat_arrays([_NO_IDS, *(one_array(rows.column(ID)) for (rows,) in rounds)])


_NO_IDS = pa.array([], pa.string())


def _capped(rounds: Iterable[list[Found]]) -> list[Found]:
    """What the rounds find, until it is enough."""
    found: list[Found] = []
    for each in rounds:
        found += each
        if len(found) >= MOST_VIOLATIONS:
            break
    return found


def _duplicates(key: str, rows: pa.Table) -> Iterator[DuplicateRow]:
    """Every row whose id an earlier row has."""
    seen: dict[str, int] = {}
    for row_id, order in _ids_and_orders(rows):
        if row_id in seen:
            yield DuplicateRow(key, row_id, seen[row_id], order)
        seen.setdefault(row_id, order)


def _existing(put: pa.Table, committed: pa.Table) -> Iterator[tuple[int, str]]:
    """The position and the id of every row that is put with an id that exists."""
    existing = put.filter(pc.is_in(put.column(ID), value_set=one_array(committed.column(ID))))
    yield from ((order, row_id) for row_id, order in _ids_and_orders(existing))


def _count_violation(rule: EdgeCount, error: CardinalityViolation, orders: list[int]) -> RowViolation:
    """The violation of a source that gains the edges at these positions; without any, it only loses edges."""
    if not orders:
        return RowViolation(rule.edge_key, None, error)
    return RowViolation(rule.edge_key, orders[0], error, _excess(rule, error.count, orders))


def _excess(rule: EdgeCount, count: int, orders: list[int]) -> tuple[int, ...]:
    """The last edges of a source that has too many, or all new edges of one that has too few."""
    if rule.maximum is None or count <= rule.maximum:
        return tuple(orders)
    return tuple(orders[-(count - rule.maximum) :])


def _orders_by_source(edges: pa.Table) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    columns: list[list[Any]] = [edges.column(name).to_pylist() for name in (SOURCE, ORDER)]
    for source, order in zip(*columns, strict=True):
        found.setdefault(source, []).append(order)
    return found


def _ids_and_orders(rows: pa.Table) -> Iterator[tuple[str, int]]:
    columns: list[list[Any]] = [rows.column(name).to_pylist() for name in (ID, ORDER)]
    yield from zip(*columns, strict=True)
