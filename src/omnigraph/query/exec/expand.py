"""Follows a traversal from the rows of a batch: to a new variable (expand), or between two bound ones (expand into).

Neighbours are looked up once per distinct start, filtered, and then joined back to the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from omnigraph.kernels.arrays import distinct
from omnigraph.query.csr.adjacency import Adjacency, Neighbourhood, ragged
from omnigraph.query.csr.bfs import bfs
from omnigraph.query.exec.variable_filter import VariableFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.language.ir.query import Traversal
    from omnigraph.query.columns.table_columns import Int64Array
    from omnigraph.query.exec.bindings import Bindings
    from omnigraph.query.exec.scope import Scope
    from omnigraph.query.plan.operators import Expand, ExpandInto

# Starts of a traversal of several hops that are processed at once; bounds the visited set.
_STARTS_AT_ONCE = 4_096


def expand(scope: Scope, step: Expand, rows: Bindings) -> Iterator[Bindings]:
    """Join each row with every node that the traversal reaches from it, in batches."""
    starts, inverse, different = _starts(scope, step, rows)
    most = scope.read.options.batch_rows
    for near, first in _reached(scope, step.traversal, different):
        near = _allowed(scope, step, near)
        here = np.flatnonzero((inverse >= first) & (inverse < first + len(near.counts)) & (starts >= 0))
        counts = near.counts[inverse[here] - first]
        for chunk in _batches(counts, most):
            yield _followed(scope, step, rows, here[chunk], near, inverse[here[chunk]] - first)


def _starts(scope: Scope, step: Expand, rows: Bindings) -> tuple[Int64Array, Int64Array, Int64Array]:
    start, _ = scope.read.end_types(step.traversal)
    starts = scope.read.bound(step.source).rows_in(start, rows.keys[step.source.name])
    different, inverse = distinct(starts)
    return starts, inverse, different


def _reached(scope: Scope, traversal: Traversal, starts: Int64Array) -> Iterator[tuple[Neighbourhood, int]]:
    """The targets of the starts, a slice of starts at a time, and the index of the first start of each slice."""
    read, edge = scope.read, scope.read.edge_type(traversal)
    bound_edge = traversal.edge_variable is not None
    neighbours = read.neighbours(traversal, len(starts), distinct=not bound_edge)
    chains = edge.source == edge.target and not bound_edge
    size = len(starts) if traversal.hops.maximum == 1 or not chains else _STARTS_AT_ONCE
    for first in range(0, len(starts), max(size, 1)):
        read.deadline.check()
        some = starts[first : first + size]
        yield bfs(neighbours, some, traversal.hops, chains=chains, edge=edge.name), first


def _allowed(scope: Scope, step: Expand, near: Neighbourhood) -> Neighbourhood:
    """Drop the targets and edges that their own conditions exclude."""
    _, end = scope.read.end_types(step.traversal)
    candidates = VariableFilter(scope, step.target, step.conditions)
    mask = np.ones(len(near.targets), np.bool_)
    if not candidates.is_everything:
        mask &= candidates.allows(candidates.bound.keys_of(end, near.targets))
    if step.edge is not None and step.edge_conditions and near.edges is not None:
        mask &= VariableFilter(scope, step.edge, step.edge_conditions).allows(near.edges)
    if mask.all():
        return near
    counts = np.bincount(near.owners[mask], minlength=len(near.counts)).astype(np.int64)
    return Neighbourhood(counts, near.targets[mask], None if near.edges is None else near.edges[mask])


def _batches(counts: Int64Array, most: int) -> Iterator[slice]:
    """Slice rows so that each batch produces about `most` results; a row is never split."""
    if int(counts.sum()) <= most:
        yield slice(0, len(counts))
        return
    running, first = np.cumsum(counts), 0
    while first < len(counts):
        before = int(running[first - 1]) if first else 0
        stop = max(first + 1, int(np.searchsorted(running, before + most, side="right")))
        yield slice(first, stop)
        first = stop


def _followed(
    scope: Scope, step: Expand, rows: Bindings, chosen: Int64Array, near: Neighbourhood, inverse: Int64Array
) -> Bindings:
    offsets = np.cumsum(near.counts) - near.counts
    counts = near.counts[inverse]
    entries = ragged(offsets[inverse], counts)
    _, end = scope.read.end_types(step.traversal)
    found = rows.take(np.repeat(chosen, counts))
    found = found.bind(**{step.target.name: scope.read.bound(step.target).keys_of(end, near.targets[entries])})
    if step.edge is None or near.edges is None:
        return found
    return found.bind(**{step.edge.name: near.edges[entries]})


# -- between bound endpoints ------------------------------------------------------------------------------------------


def expand_into(scope: Scope, step: ExpandInto, rows: Bindings) -> Bindings:
    """Keep the rows whose endpoints are connected; with a bound edge, one row for each such edge."""
    start_type, end_type = scope.read.end_types(step.traversal)
    starts = scope.read.bound(step.source).rows_in(start_type, rows.keys[step.source.name])
    targets = scope.read.bound(step.target).rows_in(end_type, rows.keys[step.target.name])
    if step.edge is not None:
        return _with_edges(scope, step, rows, starts, targets)
    neighbours = scope.read.neighbours(step.traversal, len(distinct(starts)[0]), distinct=True)
    if isinstance(neighbours, Adjacency) and step.traversal.hops.maximum == 1:
        return rows.where(neighbours.connects(starts, targets))
    return rows.where(_within_hops(scope, step.traversal, starts, targets))


def _within_hops(
    scope: Scope, traversal: Traversal, starts: Int64Array, targets: Int64Array
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    different, inverse = distinct(starts)
    connected = np.zeros(len(starts), np.bool_)
    for near, first in _reached(scope, traversal, different):
        here = np.flatnonzero((inverse >= first) & (inverse < first + len(near.counts)) & (targets >= 0))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(near.counts)])
        adjacency = Adjacency(offsets, near.targets)
        first_positions = np.where(starts[here] >= 0, inverse[here] - first, -1)
        connected[here] = adjacency.connects(first_positions, targets[here])
    return connected


def _with_edges(scope: Scope, step: ExpandInto, rows: Bindings, starts: Int64Array, targets: Int64Array) -> Bindings:
    different, inverse = distinct(starts)
    near = scope.read.neighbours(step.traversal, len(different), distinct=False).of(different)
    assert near.edges is not None
    assert step.edge is not None
    offsets = np.cumsum(near.counts) - near.counts
    counts = near.counts[inverse]
    entries = ragged(offsets[inverse], counts)
    owners = np.repeat(np.arange(rows.count), counts)
    mask = near.targets[entries] == targets[owners]
    if step.edge_conditions:
        mask &= VariableFilter(scope, step.edge, step.edge_conditions).allows(near.edges[entries])
    return rows.take(owners[mask]).bind(**{step.edge.name: near.edges[entries][mask]})
