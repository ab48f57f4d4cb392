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

    from omnigraph.query.columns.table_columns import Numbers, TableRows
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
    walk: TraversalEstimate,
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
    if is_built or walk.edges <= _SMALL or walk.frontier > options.indexed_frontier or walk.hops > options.indexed_hops:
        return "csr"
    built = (_CARRY_COST if can_carry() else _BUILD_COST) * walk.edges
    if walk.hops * walk.frontier * (walk.edges / max(walk.nodes, 1)) >= built:
        return "csr"
    if not is_covered() and walk.hops * walk.edges >= built:
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
    ends: TableRows
    direction: str
    distinct: bool
    # Ids of nodes that were found on the way: the next hop starts from them.
    _ids: dict[int, str] = field(default_factory=dict)

    def of(self, rows: Numbers) -> Neighbourhood:
        """The neighbours of some rows; a negative row has none."""
        asked, places = np.unique(rows, return_inverse=True)
        asked_ids = self._ids_of(asked)
        found = [self._found(asked, asked_ids, near, far) for near, far in _COLUMNS[self.direction]]
        owners, ends, edges = (np.concatenate(parts) for parts in zip(*found, strict=True))
        owners, ends, edges = self._ordered(owners, ends, edges)
        counts = np.bincount(owners, minlength=len(asked)).astype(np.int64)
        whole = Neighbourhood(counts, ends, None if self.distinct else edges)
        return whole if len(asked) == len(rows) and (asked == rows).all() else _again(whole, places)

    def _found(self, asked: Numbers, asked_ids: list[str | None], near: str, far: str) -> tuple[Numbers, ...]:
        ids = [each for each in asked_ids if each is not None]
        if not ids:
            return (np.zeros(0, np.int64),) * 3
        rows = self.edges.search_store(["src", "dst"], one_of(near, ids))
        numbers = {each: place for place, each in enumerate(asked_ids) if each is not None}
        near_ids: list[Any] = rows.column(near).to_pylist()
        owners = np.array([numbers[each] for each in near_ids], np.int64)
        far_ids = one_array(rows.column(far))
        ends = self.ends.rows_of_ids(far_ids)
        if self.starts.entry.table_key == self.ends.entry.table_key:
            self._remember(ends, far_ids)
        edges = rows.column(ROW_NUMBER).to_numpy().astype(np.int64)
        # In both directions a loop is found twice; it is one edge, so the second time is dropped.
        kept = (ends >= 0) & ((near == "src") | (self.direction != "both") | (ends != asked[owners]))
        return owners[kept], ends[kept], edges[kept]

    def _ordered(self, owners: Numbers, ends: Numbers, edges: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        order = np.lexsort((edges, ends, owners))
        owners, ends, edges = owners[order], ends[order], edges[order]
        if not self.distinct or not len(owners):
            return owners, ends, edges
        first = np.concatenate([[True], (owners[1:] != owners[:-1]) | (ends[1:] != ends[:-1])])
        return owners[first], ends[first], edges[first]

    def _ids_of(self, rows: Numbers) -> list[str | None]:
        unknown = np.array([row for row in rows.tolist() if row >= 0 and row not in self._ids], np.int64)
        if len(unknown):
            self._remember(unknown, self.starts.values(["id"], unknown)["id"])
        return [self._ids.get(row) for row in rows.tolist()]

    def _remember(self, rows: Numbers, ids: pa.Array[Any]) -> None:
        texts: list[Any] = ids.to_pylist()
        self._ids.update(zip(rows.tolist(), texts, strict=True))


def _again(whole: Neighbourhood, places: Numbers) -> Neighbourhood:
    """Expand the answers for distinct rows to the rows as requested, in their order and with repeats."""
    starts = np.cumsum(whole.counts) - whole.counts
    counts = whole.counts[places]
    chosen = ragged(starts[places], counts)
    return Neighbourhood(counts, whole.ends[chosen], None if whole.edges is None else whole.edges[chosen])
