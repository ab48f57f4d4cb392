"""Holds the state of one running read: snapshot, parameters, limits, caches, and the tables it has opened.

It also chooses how a traversal finds neighbours: by index lookups, or from CSR adjacency in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from omnigraph.query.columns.table_columns import TableRows
from omnigraph.query.csr.access_path import Lookups, TraversalEstimate, choose_mode, index_covers
from omnigraph.query.csr.edge_adjacency import EdgeTables
from omnigraph.query.exec.bindings import VariableTables

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Hashable, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray
    from sqlglot import exp

    from omnigraph.cache import ReadCache
    from omnigraph.catalog.catalog import Catalog, EdgeType
    from omnigraph.language.ir.query import Traversal, Variable
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.query.columns.table_columns import Int64Array
    from omnigraph.query.csr.access_path import Mode
    from omnigraph.query.csr.adjacency import Adjacency
    from omnigraph.query.csr.bfs import Neighbours
    from omnigraph.query.exec.duckdb import Engine
    from omnigraph.query.exec.limits import Deadline, Profile, ReadOptions
    from omnigraph.query.plan.operators import Step
    from omnigraph.storage.tables.table import TableStore

_BACK = {"out": "in", "in": "out"}


@dataclass
class QueryContext:
    """Everything that the operators of one read share."""

    snapshot: Snapshot
    store: TableStore
    catalog: Catalog
    params: Mapping[str, object]
    now: dt.datetime
    uses_now: bool
    options: ReadOptions
    cache: ReadCache
    engine: Engine
    deadline: Deadline
    profile: Profile
    # The number of the query in the cache: hashing it is cheaper than hashing the query.
    query_number: int = -1
    # For a streamed result: the stored columns that the result reads, by variable.
    streamed: Mapping[str, list[str]] = field(default_factory=dict)
    # Keys that a ranking has chosen for a variable: the variable matches nothing else.
    chosen: dict[str, Int64Array] = field(default_factory=dict)
    # Plans made again for chosen keys. `Profile` identifies operators by `id()`, so they must stay alive.
    replanned: list[tuple[Step, ...]] = field(default_factory=list)
    _tables: dict[str, TableRows] = field(default_factory=dict)
    _edges: dict[str, EdgeTables] = field(default_factory=dict)
    # By `id()` of the variable, which is quicker than hashing; the value holds the variable, so the id stays unique.
    _bounds: dict[int, VariableTables] = field(default_factory=dict)

    @cached_property
    def values_key(self) -> str:
        """The parameter values as a part of cache keys."""
        return repr(self.params)

    def table(self, table_key: str) -> TableRows:
        """A table of the snapshot, opened once."""
        if table_key not in self._tables:
            entry = self.snapshot[table_key]
            self._tables[table_key] = TableRows(
                entry, self.store, self.cache, self.options.traversal, self.profile.note
            )
        return self._tables[table_key]

    def bound(self, variable: Variable) -> VariableTables:
        """The tables that a node or edge variable ranges over."""
        found = self._bounds.get(id(variable))
        if found is None:
            tables = tuple(self.table(f"{variable.kind}:{name}") for name in variable.types)
            found = self._bounds[id(variable)] = VariableTables(variable, tables)
        return found

    def select(
        self,
        key: Hashable,
        query: Callable[[], exp.Query],
        matches: pa.Table | None,
        *,
        most: int | None = None,
    ) -> pa.Table:
        """Run a query over `matches`; its SQL text is cached under `key`."""
        return self.engine.select(self.text(key, query), matches, most=most)

    def text(self, key: Hashable, query: Callable[[], exp.Query]) -> str:
        """The SQL text of a query, cached under the key and the parameter values."""
        whole = (key, self.values_key, self.now if self.uses_now else None)
        return self.cache.get(
            "sql", whole, lambda: query().sql("duckdb", copy=False), lambda made: 4 * len(made) + 1_000
        )

    # -- traversal -----------------------------------------------------------------------------------------------------

    def edge_type(self, traversal: Traversal) -> EdgeType:
        """The edge type that a traversal follows."""
        return self.catalog.edges[traversal.edge]

    def neighbours(self, traversal: Traversal, frontier: int, *, distinct: bool) -> Neighbours:
        """The neighbours along a traversal, from CSR adjacency or index lookups, by the size of the frontier."""
        built = self._edge_tables(traversal).built(traversal.direction, distinct=distinct)
        if built is not None and self.options.traversal != "indexed":
            self.profile.note(f"{traversal.edge}: csr")
            return built
        mode = self.mode(traversal, frontier, distinct=distinct)
        self.profile.note(f"{traversal.edge}: {mode}")
        if mode == "csr":
            return self.adjacency(traversal, distinct=distinct)
        start, end = self._endpoint_tables(traversal)
        edges = self.table(self.edge_type(traversal).table_key)
        return Lookups(edges, start, end, traversal.direction, distinct)

    def mode(self, traversal: Traversal, frontier: int, *, distinct: bool) -> Mode:
        """Choose between CSR adjacency and index lookups for a frontier of this size."""
        edge, (start, _) = self.edge_type(traversal), self._endpoint_tables(traversal)
        edges = self.table(edge.table_key)
        hops = traversal.hops.maximum if edge.source == edge.target else 1
        estimate = TraversalEstimate(frontier, hops, edges.entry.row_count, start.entry.row_count)
        edge_tables = self._edge_tables(traversal)
        columns = {"out": ("src",), "in": ("dst",), "both": ("src", "dst")}[traversal.direction]
        return choose_mode(
            estimate,
            self.options,
            is_built=edge_tables.built(traversal.direction, distinct=distinct) is not None,
            is_covered=lambda: all(index_covers(edges.table, each) for each in columns),
            is_popular=lambda: self._is_popular(edges),
            can_carry=lambda: edge_tables.can_carry(traversal.direction, distinct=distinct),
        )

    def _is_popular(self, edges: TableRows) -> bool:
        rows = edges.entry.row_count
        return self.cache.is_worth_keeping(("edges", edges.identity), rows=rows, size=40 * rows)

    def adjacency(self, traversal: Traversal, *, distinct: bool) -> Adjacency:
        """The CSR adjacency of a traversal, cached for the versions of its three tables."""
        return self._edge_tables(traversal).adjacency(traversal.direction, distinct=distinct)

    def degrees(self, traversal: Traversal, *, distinct: bool) -> Int64Array | None:
        """The degree of each row, counted from cached adjacency of the opposite direction; None without any."""
        edge_tables, direction = self._edge_tables(traversal), traversal.direction
        if direction == "both" or edge_tables.built(direction, distinct=distinct) is not None:
            return None
        back = edge_tables.built(_BACK[direction], distinct=distinct)
        if back is None or self.options.traversal == "indexed":
            return None
        key, size = edge_tables.key(direction, distinct=distinct), self._endpoint_tables(traversal)[0].size
        return self.cache.get("degrees", key, lambda: _degrees(back.targets, size), lambda made: made.nbytes)

    def _edge_tables(self, traversal: Traversal) -> EdgeTables:
        edge = self.edge_type(traversal)
        if edge.name not in self._edges:
            source, target = self.table(f"node:{edge.source}"), self.table(f"node:{edge.target}")
            self._edges[edge.name] = EdgeTables(self.table(edge.table_key), source, target, self.cache)
        return self._edges[edge.name]

    def _endpoint_tables(self, traversal: Traversal) -> tuple[TableRows, TableRows]:
        edge_tables = self._edge_tables(traversal)
        return (
            (edge_tables.targets, edge_tables.sources)
            if traversal.direction == "in"
            else (edge_tables.sources, edge_tables.targets)
        )

    def end_types(self, traversal: Traversal) -> tuple[str, str]:
        """The node types at the start and the end of a traversal, in the direction in which it is followed."""
        edge = self.edge_type(traversal)
        return (edge.target, edge.source) if traversal.direction == "in" else (edge.source, edge.target)


def _degrees(targets: NDArray[Any], size: int) -> Int64Array:
    return np.bincount(targets, minlength=size).astype(np.int64)
