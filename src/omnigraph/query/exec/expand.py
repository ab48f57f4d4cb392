"""Follows a traversal from the rows of a batch: to a new variable (expand), or between two bound ones (expand into).

Neighbours are looked up once per distinct start, filtered, and then joined back to the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from omnigraph.kernels.arrays import distinct
from omnigraph.query.csr.adjacency import Adjacency, Neighbourhood, ragged
from omnigraph.query.csr.bfs import reach
from omnigraph.query.exec.variable_filter import VariableFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.language.ir.query import Traversal
    from omnigraph.query.columns.table_columns import Numbers
    from omnigraph.query.exec.bindings import Bindings
    from omnigraph.query.exec.scope import Scope
    from omnigraph.query.plan.operators import Expand, ExpandInto

# Starts of a walk of several hops that are processed at once; bounds the visited set.
_WALKS = 4_096


def expand(scope: Scope, step: Expand, rows: Bindings) -> Iterator[Bindings]:
    """Join each row with every end that the traversal reaches from it, in batches."""
    starts, places, different = _starts(scope, step, rows)
    most = scope.read.options.batch_rows
    for near, first in _reached(scope, step.traversal, different):
        near = _allowed(scope, step, near)
        here = np.flatnonzero((places >= first) & (places < first + len(near.counts)) & (starts >= 0))
        counts = near.counts[places[here] - first]
        for chunk in _batches(counts, most):
            yield _followed(scope, step, rows, here[chunk], near, places[here[chunk]] - first)


def _starts(scope: Scope, step: Expand, rows: Bindings) -> tuple[Numbers, Numbers, Numbers]:
    start, _ = scope.read.end_types(step.traversal)
    starts = scope.read.bound(step.source).rows_in(start, rows.keys[step.source.name])
    different, places = distinct(starts)
    return starts, places, different


def _reached(scope: Scope, traversal: Traversal, starts: Numbers) -> Iterator[tuple[Neighbourhood, int]]:
    """The ends of the starts, a slice of starts at a time, and the index of the first start of each slice."""
    read, edge = scope.read, scope.read.edge_type(traversal)
    bound_edge = traversal.edge_variable is not None
    neighbours = read.neighbours(traversal, len(starts), distinct=not bound_edge)
    chains = edge.source == edge.target and not bound_edge
    size = len(starts) if traversal.hops.maximum == 1 or not chains else _WALKS
    for first in range(0, len(starts), max(size, 1)):
        read.deadline.check()
        some = starts[first : first + size]
        yield reach(neighbours, some, traversal.hops, chains=chains, edge=edge.name), first


def _allowed(scope: Scope, step: Expand, near: Neighbourhood) -> Neighbourhood:
    """Drop the ends and edges that their own conditions exclude."""
    _, end = scope.read.end_types(step.traversal)
    candidates = VariableFilter(scope, step.target, step.conditions)
    keep = np.ones(len(near.ends), np.bool_)
    if not candidates.is_everything:
        keep &= candidates.allows(candidates.bound.keys_of(end, near.ends))
    if step.edge is not None and step.edge_conditions and near.edges is not None:
        keep &= VariableFilter(scope, step.edge, step.edge_conditions).allows(near.edges)
    if keep.all():
        return near
    counts = np.bincount(near.owners[keep], minlength=len(near.counts)).astype(np.int64)
    return Neighbourhood(counts, near.ends[keep], None if near.edges is None else near.edges[keep])


def _batches(counts: Numbers, most: int) -> Iterator[slice]:
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
    scope: Scope, step: Expand, rows: Bindings, chosen: Numbers, near: Neighbourhood, places: Numbers
) -> Bindings:
    offsets = np.cumsum(near.counts) - near.counts
    counts = near.counts[places]
    entries = ragged(offsets[places], counts)
    _, end = scope.read.end_types(step.traversal)
    found = rows.take(np.repeat(chosen, counts))
    found = found.bind(**{step.target.name: scope.read.bound(step.target).keys_of(end, near.ends[entries])})
    if step.edge is None or near.edges is None:
        return found
    return found.bind(**{step.edge.name: near.edges[entries]})


# -- between bound ends ------------------------------------------------------------------------------------------------


def meet(scope: Scope, step: ExpandInto, rows: Bindings) -> Bindings:
    """Keep the rows whose endpoints are connected; with a bound edge, one row for each such edge."""
    start_type, end_type = scope.read.end_types(step.traversal)
    starts = scope.read.bound(step.source).rows_in(start_type, rows.keys[step.source.name])
    ends = scope.read.bound(step.target).rows_in(end_type, rows.keys[step.target.name])
    if step.edge is not None:
        return _with_edges(scope, step, rows, starts, ends)
    neighbours = scope.read.neighbours(step.traversal, len(distinct(starts)[0]), distinct=True)
    if isinstance(neighbours, Adjacency) and step.traversal.hops.maximum == 1:
        return rows.where(neighbours.connects(starts, ends))
    return rows.where(_within_reach(scope, step.traversal, starts, ends))


def _within_reach(
    scope: Scope, traversal: Traversal, starts: Numbers, ends: Numbers
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    different, places = distinct(starts)
    connected = np.zeros(len(starts), np.bool_)
    for near, first in _reached(scope, traversal, different):
        here = np.flatnonzero((places >= first) & (places < first + len(near.counts)) & (ends >= 0))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(near.counts)])
        adjacency = Adjacency(offsets, near.ends)
        known = np.where(starts[here] >= 0, places[here] - first, -1)
        connected[here] = adjacency.connects(known, ends[here])
    return connected


def _with_edges(scope: Scope, step: ExpandInto, rows: Bindings, starts: Numbers, ends: Numbers) -> Bindings:
    different, places = distinct(starts)
    near = scope.read.neighbours(step.traversal, len(different), distinct=False).of(different)
    assert near.edges is not None
    assert step.edge is not None
    offsets = np.cumsum(near.counts) - near.counts
    counts = near.counts[places]
    entries = ragged(offsets[places], counts)
    owners = np.repeat(np.arange(rows.count), counts)
    keep = near.ends[entries] == ends[owners]
    if step.edge_conditions:
        keep &= VariableFilter(scope, step.edge, step.edge_conditions).allows(near.edges[entries])
    return rows.take(owners[keep]).bind(**{step.edge.name: near.edges[entries][keep]})
