"""Breadth-first search: the nodes that each start reaches, each of them once, at its shortest distance.

A start counts as visited from the beginning, so a cycle does not return to it. Only a loop at the start itself reaches
it, at the first hop, and leads nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from omnigraph.errors import HopCapReached
from omnigraph.query.csr.adjacency import Neighbourhood

if TYPE_CHECKING:
    from omnigraph.language.ir.query import Hops
    from omnigraph.query.columns.table_columns import Int64Array


class Neighbours(Protocol):
    """A source of neighbours: CSR adjacency or index lookups."""

    def of(self, rows: Int64Array) -> Neighbourhood:
        """The neighbours of some rows."""


def bfs(neighbours: Neighbours, starts: Int64Array, hops: Hops, *, chains: bool, edge: str) -> Neighbourhood:
    """The targets of each start within the hop bounds, ascending. Without `chains` a traversal has one hop."""
    if hops.minimum == 1 and (hops.maximum == 1 or not chains):
        return neighbours.of(starts)
    if not chains:
        return Neighbourhood(np.zeros(len(starts), np.int64), np.zeros(0, np.int64))
    return _multi_hop(neighbours, starts, hops, edge)


def _multi_hop(neighbours: Neighbours, starts: Int64Array, hops: Hops, edge: str) -> Neighbourhood:
    valid = np.flatnonzero(starts >= 0)
    owners, nodes = valid.astype(np.int64), starts[valid]
    width = np.int64(max(int(starts.max(initial=0)) + 1, 1))
    visited = _Visited(owners, nodes, width)
    found_owners: list[Int64Array] = []
    found_targets: list[Int64Array] = []
    for depth in range(1, hops.maximum + 1):
        near = neighbours.of(nodes)
        reached_owners, reached = owners[near.owners], near.targets
        loops = (reached == starts[reached_owners]) if depth == 1 else np.zeros(len(reached), np.bool_)
        fresh_owners, fresh = visited.add(reached_owners, reached)
        if depth >= hops.minimum:
            found_owners += [fresh_owners, reached_owners[loops]]
            found_targets += [fresh, reached[loops]]
        owners, nodes = fresh_owners, fresh
        if not len(nodes):
            break
    else:
        if hops.capped and _goes_on(neighbours, visited, owners, nodes):
            raise HopCapReached(edge, hops.maximum)
    return _by_owner(found_owners, found_targets, len(starts))


def _goes_on(neighbours: Neighbours, visited: _Visited, owners: Int64Array, nodes: Int64Array) -> bool:
    near = neighbours.of(nodes)
    return bool(len(visited.add(owners[near.owners], near.targets)[0]))


def _by_owner(owners: list[Int64Array], targets: list[Int64Array], size: int) -> Neighbourhood:
    if not owners:
        return Neighbourhood(np.zeros(size, np.int64), np.zeros(0, np.int64))
    all_owners, all_targets = np.concatenate(owners), np.concatenate(targets)
    order = np.lexsort((all_targets, all_owners))
    counts = np.bincount(all_owners, minlength=size).astype(np.int64)
    return Neighbourhood(counts, all_targets[order])


class _Visited:
    """The visited pairs of a start and a node, as a sorted array of codes."""

    def __init__(self, owners: Int64Array, nodes: Int64Array, width: np.int64) -> None:
        self._width = width
        self._codes = np.sort(owners * width + nodes)

    def add(self, owners: Int64Array, nodes: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Add pairs, and return those that were not there before, without duplicates."""
        if not len(nodes):
            return owners, nodes
        self._widen(int(nodes.max()) + 1)
        codes = np.unique(owners * self._width + nodes)
        positions = np.searchsorted(self._codes, codes)
        positions[positions == len(self._codes)] = 0
        fresh = codes[self._codes[positions] != codes] if len(self._codes) else codes
        self._codes = np.sort(np.concatenate([self._codes, fresh]), kind="stable")
        return fresh // self._width, fresh % self._width

    def _widen(self, width: int) -> None:
        if width <= self._width:
            return
        owners, nodes = self._codes // self._width, self._codes % self._width
        self._width = np.int64(max(width, 2 * int(self._width)))
        self._codes = np.sort(owners * self._width + nodes)
