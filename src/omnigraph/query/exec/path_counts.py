"""Counts the matches of branches of a pattern without listing them: sums over neighbours, from the leaves inwards.

A count that might not fit into 64 bits is refused instead of wrapping around.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.errors import QueryTooLarge
from omnigraph.kernels.arrays import distinct
from omnigraph.query.csr.adjacency import Adjacency, Neighbourhood
from omnigraph.query.csr.bfs import bfs
from omnigraph.query.exec.variable_filter import VariableFilter
from omnigraph.query.plan.count_reduction import reversed_traversal

if TYPE_CHECKING:
    from omnigraph.language.ir.query import Variable
    from omnigraph.query.columns.table_columns import Int64Array
    from omnigraph.query.exec.scope import Scope
    from omnigraph.query.plan.operators import CountedBranch

# Larger products of two counts might not fit into 64 bits.
_MOST = 2**62
# When less than one of so many nodes is selected, traversing back from those is faster than summing over all.
_FEW = 32


@dataclass(frozen=True)
class Weights:
    """Counts the matches of branches at the rows of a variable."""

    scope: Scope

    def of(self, variable: Variable, branches: tuple[CountedBranch, ...], keys: Int64Array) -> Int64Array:
        """For each key of a bound variable, the product of the numbers of matches of its branches."""
        total = np.ones(len(keys), np.int64)
        for branch in branches:
            self.scope.read.deadline.check()
            total = _product(total, self._of_branch(variable, branch, keys))
        return total

    def _of_branch(self, variable: Variable, branch: CountedBranch, keys: Int64Array) -> Int64Array:
        start, _ = self.scope.read.end_types(branch.traversal)
        rows = self.scope.read.bound(variable).rows_in(start, keys)
        weights = np.zeros(len(rows), np.int64)
        valid = rows >= 0
        if valid.any():
            different, inverse = distinct(rows[valid])
            weights[valid] = self._of_rows(branch, different)[inverse]
        return weights

    def _of_rows(self, branch: CountedBranch, rows: Int64Array) -> Int64Array:
        read, hops = self.scope.read, branch.traversal.hops
        counts_edges = branch.traversal.edge_variable is not None
        if hops.maximum == 1 and self._is_counted_whole(branch):
            degrees = read.degrees(branch.traversal, distinct=not counts_edges)
            if degrees is not None:
                return degrees[rows]
        neighbours = read.neighbours(branch.traversal, len(rows), distinct=not counts_edges)
        if isinstance(neighbours, Adjacency) and hops.maximum == 1 and not branch.edge_conditions:
            return self._from_memory(branch, neighbours, rows)
        edge = read.edge_type(branch.traversal)
        chains = edge.source == edge.target and not counts_edges
        near = bfs(neighbours, rows, hops, chains=chains, edge=edge.name)
        return self._summed(branch, near)

    def _is_counted_whole(self, branch: CountedBranch) -> bool:
        """Whether every target counts exactly once, so that the count is the degree."""
        if branch.branches or branch.edge_conditions:
            return False
        return VariableFilter(self.scope, branch.target, branch.conditions).is_everything

    def _summed(self, branch: CountedBranch, near: Neighbourhood) -> Int64Array:
        """For each row, the sum over its neighbours of the number of matches beyond the neighbour."""
        _, end = self.scope.read.end_types(branch.traversal)
        keys = self.scope.read.bound(branch.target).keys_of(end, near.targets)
        allowed = VariableFilter(self.scope, branch.target, branch.conditions).allows(keys)
        if branch.edge_conditions and near.edges is not None and branch.traversal.edge_variable is not None:
            edge = self.scope.variables[branch.traversal.edge_variable]
            allowed &= VariableFilter(self.scope, edge, branch.edge_conditions).allows(near.edges)
        weights = allowed.astype(np.int64)
        if branch.branches and allowed.any():
            weights[allowed] = self.of(branch.target, branch.branches, keys[allowed])
        return _segments(weights, near.counts)

    def _from_memory(self, branch: CountedBranch, adjacency: Adjacency, rows: Int64Array) -> Int64Array:
        candidates = VariableFilter(self.scope, branch.target, branch.conditions)
        if candidates.is_everything and not branch.branches:
            return adjacency.degrees[rows]
        if len(rows) * 4 < adjacency.size or not candidates.bound.is_plain:
            return self._summed(branch, adjacency.of(rows))
        selected = candidates.keys()
        ways = self.of(branch.target, branch.branches, selected)
        if len(selected) * _FEW < candidates.bound.size:
            return self._scattered(branch, selected, ways, adjacency.size)[rows]
        weights = np.zeros(candidates.bound.size, np.int64)
        weights[selected] = ways
        _refuse_overflow(float(ways.max(initial=0)) * max(len(adjacency.targets), 1))
        return adjacency.sums(weights)[rows]

    def _scattered(self, branch: CountedBranch, selected: Int64Array, ways: Int64Array, size: int) -> Int64Array:
        """The same sums, computed from the selected targets back to the starts."""
        once = branch.traversal.edge_variable is None
        near = self.scope.read.adjacency(reversed_traversal(branch.traversal), distinct=once).of(selected)
        if (ways == 1).all():
            return np.bincount(near.targets, minlength=size).astype(np.int64)
        _refuse_overflow(float(ways.max(initial=0)) * max(len(near.targets), 1))
        total = np.zeros(size, np.int64)
        np.add.at(total, near.targets, np.repeat(ways, near.counts))
        return total


def _segments(weights: Int64Array, counts: Int64Array) -> Int64Array:
    _refuse_overflow(float(weights.max(initial=0)) * max(len(weights), 1))
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(weights)])
    stops = np.cumsum(counts)
    total: Int64Array = running[stops] - running[stops - counts]
    return total


def _product(left: Int64Array, right: Int64Array) -> Int64Array:
    _refuse_overflow(float(left.max(initial=0)) * float(right.max(initial=0)))
    return left * right


def _refuse_overflow(largest: float) -> None:
    if largest >= _MOST:
        raise QueryTooLarge("the query counts more matches than a 64-bit integer can hold: narrow the pattern.")
