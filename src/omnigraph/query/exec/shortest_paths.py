"""Finds a shortest path between bound nodes: breadth first backwards from the end, then forwards along the levels.

Of several shortest paths it returns the one whose node ids, and then edge ids, sort first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.errors import HopCapReached
from omnigraph.language.ir.query import Traversal
from omnigraph.query.exec.bindings import FoundPath, FoundPaths
from omnigraph.query.plan.count_reduction import reversed_traversal

if TYPE_CHECKING:
    from omnigraph.language.ir.query import Hops
    from omnigraph.query.columns.table_columns import Int64Array, TableRows
    from omnigraph.query.csr.bfs import Neighbours
    from omnigraph.query.exec.bindings import Bindings
    from omnigraph.query.exec.scope import Scope
    from omnigraph.query.plan.operators import FindShortestPath


def find_paths(scope: Scope, step: FindShortestPath, rows: Bindings) -> Bindings:
    """Bind a shortest path to each row; rows without one are dropped. Equal pairs of endpoints are searched once."""
    path = step.path
    traversal = Traversal(path.source, path.target, path.edge, path.direction, path.hops)
    start_type, end_type = scope.read.end_types(traversal)
    starts = scope.read.bound(step.source).rows_in(start_type, rows.keys[step.source.name])
    targets = scope.read.bound(step.target).rows_in(end_type, rows.keys[step.target.name])
    found = scope.paths.setdefault(path.variable, FoundPaths())
    pairs, inverse = np.unique(np.stack([targets, starts]), axis=1, return_inverse=True)
    keys = _PathSearch(scope, traversal, found).keys(pairs[1], pairs[0])[inverse.reshape(-1)]
    return rows.bind(**{path.variable: keys}).where(keys >= 0)


class _PathSearch:
    """Searches paths of one traversal: backwards from each end until every start is found, then forwards by id."""

    def __init__(self, scope: Scope, traversal: Traversal, found: FoundPaths) -> None:
        self.scope = scope
        self.hops: Hops = traversal.hops
        self.edge = traversal.edge
        self.found = found
        self.traversal = traversal
        self.nodes: TableRows = scope.read.table(f"node:{scope.read.edge_type(traversal).source}")
        self.edge_table: TableRows = scope.read.table(scope.read.edge_type(traversal).table_key)

    def keys(self, starts: Int64Array, targets: Int64Array) -> Int64Array:
        """The key of a path for each pair, -1 where there is none. Pairs are sorted by their end."""
        keys = np.full(len(starts), -1, np.int64)
        self.back = self._neighbours(reversed_traversal(self.traversal), len(np.unique(targets)), distinct=True)
        self.forth = self._neighbours(self.traversal, len(np.unique(starts)), distinct=False)
        firsts: list[int] = np.flatnonzero(np.concatenate([[True], targets[1:] != targets[:-1]]))[
            : len(targets)
        ].tolist()
        for first, stop in zip(firsts, [*firsts[1:], len(targets)], strict=True):
            self.scope.read.deadline.check()
            if targets[first] >= 0:
                self._to_one_end(int(targets[first]), starts[first:stop], keys[first:stop])
        return keys

    def _neighbours(self, traversal: Traversal, frontier: int, *, distinct: bool) -> Neighbours:
        return self.scope.read.neighbours(traversal, frontier, distinct=distinct)

    def _to_one_end(self, end: int, starts: Int64Array, keys: Int64Array) -> None:
        levels = self._levels(end, starts[starts >= 0])
        for position, start in enumerate(starts.tolist()):
            depth = next((depth for depth, level in enumerate(levels) if _has(level, start)), None)
            if depth is not None and self.hops.minimum <= depth <= self.hops.maximum:
                keys[position] = self.found.add(self._path(start, levels[:depth]))

    def _levels(self, end: int, starts: Int64Array) -> list[Int64Array]:
        """The nodes at each distance from the end, until all starts are among them or the hop limit is reached."""
        levels = [np.array([end], np.int64)]
        visited = levels[0]
        while not np.isin(starts, visited).all():
            if len(levels) > self.hops.maximum:
                if self.hops.capped:
                    raise HopCapReached(self.edge, self.hops.maximum)
                break
            fresh = np.setdiff1d(self.back.of(levels[-1]).targets, visited)
            if not len(fresh):
                break
            levels.append(fresh)
            visited = np.union1d(visited, fresh)
        return levels

    def _path(self, start: int, levels: list[Int64Array]) -> FoundPath:
        """Walk from a start to the end, at each level to the neighbour whose id sorts first."""
        nodes, edges, here = [self._ids(self.nodes, np.array([start]))[0]], [], start
        for level in reversed(levels):
            near = self.forth.of(np.array([here], np.int64))
            assert near.edges is not None
            closer = np.isin(near.targets, level)
            targets, target_edges = near.targets[closer], near.edges[closer]
            node = min(self._ids(self.nodes, np.unique(targets)))
            here = int(self.nodes.rows_of_ids(pa.array([node]))[0])
            nodes.append(node)
            edges.append(min(self._ids(self.edge_table, target_edges[targets == here])))
        return FoundPath(tuple(nodes), tuple(edges))

    def _ids(self, table: TableRows, rows: Int64Array) -> list[str]:
        found: list[Any] = table.values(["id"], rows)["id"].to_pylist()
        return found


def _has(level: Int64Array, node: int) -> bool:
    position = int(np.searchsorted(level, node))
    return position < len(level) and int(level[position]) == node
