"""Breadth-first search: the nodes within reach of each start, every end once, at its shortest distance.

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
    from omnigraph.query.columns.table_columns import Numbers


class Neighbours(Protocol):
    """A source of neighbours: CSR adjacency or index lookups."""

    def of(self, rows: Numbers) -> Neighbourhood:
        """The neighbours of some rows."""


def reach(neighbours: Neighbours, starts: Numbers, hops: Hops, *, chains: bool, edge: str) -> Neighbourhood:
    """The ends of each start within the hop bounds, ascending. Without `chains` a walk ends after one hop."""
    if hops.minimum == 1 and (hops.maximum == 1 or not chains):
        return neighbours.of(starts)
    if not chains:
        return Neighbourhood(np.zeros(len(starts), np.int64), np.zeros(0, np.int64))
    return _walk(neighbours, starts, hops, edge)


def _walk(neighbours: Neighbours, starts: Numbers, hops: Hops, edge: str) -> Neighbourhood:
    known = np.flatnonzero(starts >= 0)
    owners, nodes = known.astype(np.int64), starts[known]
    width = np.int64(max(int(starts.max(initial=0)) + 1, 1))
    visited = _Visited(owners, nodes, width)
    found_owners: list[Numbers] = []
    found_ends: list[Numbers] = []
    for depth in range(1, hops.maximum + 1):
        near = neighbours.of(nodes)
        reached_owners, reached = owners[near.owners], near.ends
        loops = (reached == starts[reached_owners]) if depth == 1 else np.zeros(len(reached), np.bool_)
        fresh_owners, fresh = visited.add(reached_owners, reached)
        if depth >= hops.minimum:
            found_owners += [fresh_owners, reached_owners[loops]]
            found_ends += [fresh, reached[loops]]
        owners, nodes = fresh_owners, fresh
        if not len(nodes):
            break
    else:
        if hops.capped and _goes_on(neighbours, visited, owners, nodes):
            raise HopCapReached(edge, hops.maximum)
    return _by_owner(found_owners, found_ends, len(starts))


def _goes_on(neighbours: Neighbours, visited: _Visited, owners: Numbers, nodes: Numbers) -> bool:
    near = neighbours.of(nodes)
    return bool(len(visited.add(owners[near.owners], near.ends)[0]))


def _by_owner(owners: list[Numbers], ends: list[Numbers], size: int) -> Neighbourhood:
    if not owners:
        return Neighbourhood(np.zeros(size, np.int64), np.zeros(0, np.int64))
    all_owners, all_ends = np.concatenate(owners), np.concatenate(ends)
    order = np.lexsort((all_ends, all_owners))
    counts = np.bincount(all_owners, minlength=size).astype(np.int64)
    return Neighbourhood(counts, all_ends[order])


class _Visited:
    """The visited pairs of a start and a node, as a sorted array of codes."""

    def __init__(self, owners: Numbers, nodes: Numbers, width: np.int64) -> None:
        self._width = width
        self._codes = np.sort(owners * width + nodes)

    def add(self, owners: Numbers, nodes: Numbers) -> tuple[Numbers, Numbers]:
        """Add pairs, and return those that were not there before, without duplicates."""
        if not len(nodes):
            return owners, nodes
        self._widen(int(nodes.max()) + 1)
        codes = np.unique(owners * self._width + nodes)
        places = np.searchsorted(self._codes, codes)
        places[places == len(self._codes)] = 0
        fresh = codes[self._codes[places] != codes] if len(self._codes) else codes
        self._codes = np.sort(np.concatenate([self._codes, fresh]), kind="stable")
        return fresh // self._width, fresh % self._width

    def _widen(self, width: int) -> None:
        if width <= self._width:
            return
        owners, nodes = self._codes // self._width, self._codes % self._width
        self._width = np.int64(max(width, 2 * int(self._width)))
        self._codes = np.sort(owners * self._width + nodes)
