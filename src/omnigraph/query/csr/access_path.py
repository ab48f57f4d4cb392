"""Chooses how a traversal finds neighbours (index lookups or CSR adjacency), and does the index lookups.

The choice goes to whichever touches fewer edges; the result is the same. A lookup reads the edge table through its
indexes, builds nothing and caches nothing beyond the read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from omnigraph.kernels.arrays import one_array
from omnigraph.kernels.row_address import ROW_NUMBER
from omnigraph.query.csr.adjacency import Neighbourhood, ragged
from omnigraph.storage.filters.model import one_of
from omnigraph.storage.tables.indexes import indexes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from omnigraph.query.columns.table_columns import Int64Array, TableRows
    from omnigraph.storage.tables.table import Table

Mode = Literal["indexed", "csr"]
TraversalMode = Literal["auto", "indexed", "csr"]
# Cost per edge: building adjacency reads and sorts every edge, carrying it over only copies it.
_BUILD_COST = 1.5
_CARRY_COST = 0.1
# Up to this many edges, building adjacency is faster than a single index lookup.
_SMALL = 20_000


class TraversalOptions(Protocol):
    """The options of a read that concern traversals; `query.exec.limits.ReadOptions` implements it."""

    @property
    def traversal(self) -> TraversalMode:
        """A forced mode, or `auto`."""

    @property
    def indexed_frontier(self) -> int:
        """The largest frontier that index lookups are used for."""

    @property
    def indexed_hops(self) -> int:
        """The largest number of hops that index lookups are used for."""


@dataclass(frozen=True)
class TraversalEstimate:
    """The sizes that are known before a traversal: frontier, hops, and the rows of the edge and start tables."""

    frontier: int
    hops: int
    edges: int
    nodes: int


def choose_mode(
    estimate: TraversalEstimate,
    options: TraversalOptions,
    *,
    is_built: bool,
    is_covered: Callable[[], bool],
    is_popular: Callable[[], bool] = lambda: False,
    can_carry: Callable[[], bool] = lambda: False,
) -> Mode:
    """Choose the mode of one traversal.

    `is_covered` and `can_carry` open the edge table, and `is_popular` counts its uses, so each is called only when its
    answer can matter. An edge table that is looked up again and again is worth having in memory.
    """
    if options.traversal != "auto":
        return options.traversal
    if (
        is_built
        or estimate.edges <= _SMALL
        or estimate.frontier > options.indexed_frontier
        or estimate.hops > options.indexed_hops
    ):
        return "csr"
    built = (_CARRY_COST if can_carry() else _BUILD_COST) * estimate.edges
    if estimate.hops * estimate.frontier * (estimate.edges / max(estimate.nodes, 1)) >= built:
        return "csr"
    if not is_covered() and estimate.hops * estimate.edges >= built:
        return "csr"
    return "csr" if is_popular() else "indexed"


def index_covers(table: Table, column: str) -> bool:
    """Whether a B-tree index of a column covers every fragment."""
    fragments = set(table.fragment_ids())
    for index in indexes_of(table):
        if index.columns == (column,) and index.kind == "BTREE":
            return fragments <= index.fragments
    return not fragments


_COLUMNS = {"out": (("src", "dst"),), "in": (("dst", "src"),), "both": (("src", "dst"), ("dst", "src"))}


@dataclass(frozen=True)
class Lookups:
    """Finds neighbours by index lookups in the edge table; has the interface of `Adjacency.of`."""

    edges: TableRows
    starts: TableRows
    targets: TableRows
    direction: str
    distinct: bool
    # Ids of nodes that were found on the way: the next hop starts from them.
    _ids: dict[int, str] = field(default_factory=dict)

    def of(self, rows: Int64Array) -> Neighbourhood:
        """The neighbours of some rows; a negative row has none."""
        distinct_rows, inverse = np.unique(rows, return_inverse=True)
        node_ids = self._ids_of(distinct_rows)
        found = [self._looked_up(distinct_rows, node_ids, near, far) for near, far in _COLUMNS[self.direction]]
        owners, targets, edges = (np.concatenate(columns) for columns in zip(*found, strict=True))
        owners, targets, edges = self._ordered(owners, targets, edges)
        counts = np.bincount(owners, minlength=len(distinct_rows)).astype(np.int64)
        distinct_neighbours = Neighbourhood(counts, targets, None if self.distinct else edges)
        return (
            distinct_neighbours
            if len(distinct_rows) == len(rows) and (distinct_rows == rows).all()
            else _repeated(distinct_neighbours, inverse)
        )

    def _looked_up(
        self, distinct_rows: Int64Array, node_ids: list[str | None], near: str, far: str
    ) -> tuple[Int64Array, ...]:
        ids = [each for each in node_ids if each is not None]
        if not ids:
            return (np.zeros(0, np.int64),) * 3
        rows = self.edges.search_store(["src", "dst"], one_of(near, ids))
        positions = {each: position for position, each in enumerate(node_ids) if each is not None}
        near_ids: list[Any] = rows.column(near).to_pylist()
        owners = np.array([positions[each] for each in near_ids], np.int64)
        far_ids = one_array(rows.column(far))
        targets = self.targets.rows_of_ids(far_ids)
        if self.starts.entry.table_key == self.targets.entry.table_key:
            self._cache_ids(targets, far_ids)
        edges = rows.column(ROW_NUMBER).to_numpy().astype(np.int64)
        # In both directions a loop is found twice; it is one edge, so the second time is dropped.
        mask = (targets >= 0) & ((near == "src") | (self.direction != "both") | (targets != distinct_rows[owners]))
        return owners[mask], targets[mask], edges[mask]

    def _ordered(
        self, owners: Int64Array, targets: Int64Array, edges: Int64Array
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        order = np.lexsort((edges, targets, owners))
        owners, targets, edges = owners[order], targets[order], edges[order]
        if not self.distinct or not len(owners):
            return owners, targets, edges
        first = np.concatenate([[True], (owners[1:] != owners[:-1]) | (targets[1:] != targets[:-1])])
        return owners[first], targets[first], edges[first]

    def _ids_of(self, rows: Int64Array) -> list[str | None]:
        unknown = np.array([row for row in rows.tolist() if row >= 0 and row not in self._ids], np.int64)
        if len(unknown):
            self._cache_ids(unknown, self.starts.values(["id"], unknown)["id"])
        return [self._ids.get(row) for row in rows.tolist()]

    def _cache_ids(self, rows: Int64Array, ids: pa.Array[Any]) -> None:
        texts: list[Any] = ids.to_pylist()
        self._ids.update(zip(rows.tolist(), texts, strict=True))


def _repeated(distinct_neighbours: Neighbourhood, inverse: Int64Array) -> Neighbourhood:
    """Expand the answers for distinct rows to the rows as requested, in their order and with repeats."""
    starts = np.cumsum(distinct_neighbours.counts) - distinct_neighbours.counts
    counts = distinct_neighbours.counts[inverse]
    chosen = ragged(starts[inverse], counts)
    return Neighbourhood(
        counts,
        distinct_neighbours.targets[chosen],
        None if distinct_neighbours.edges is None else distinct_neighbours.edges[chosen],
    )
