"""CSR adjacency in memory: for each row of a node table the rows that it is connected with, as two flat arrays.

`targets[offsets[n]:offsets[n + 1]]` are the neighbours of row n, ascending. Distinct adjacency has each neighbour once;
otherwise there is one entry for each edge, and `edges` holds its row in the edge table.

`Renumbering` maps the row numbers of nodes in one version of a table to those in another, so that cached adjacency can
be carried over instead of rebuilt.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from omnigraph.kernels.equality import id_positions
from omnigraph.storage.tables.version_diff import DELETED, NEW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omnigraph.query.columns.table_columns import Int64Array, State, TableRows
    from omnigraph.storage.tables.version_diff import RowRemap

# When more than one neighbour of so many would have to be sorted again, rebuilding is as fast.
_SHUFFLED = 4


@dataclass(frozen=True)
class Neighbourhood:
    """The neighbours of several rows, concatenated: `counts[i]` of them belong to the i-th requested row."""

    counts: Int64Array
    targets: Int64Array
    edges: Int64Array | None = None

    @property
    def owners(self) -> Int64Array:
        """For each neighbour, the index of the requested row that it belongs to."""
        return np.repeat(np.arange(len(self.counts), dtype=np.int64), self.counts)


@dataclass(frozen=True)
class Adjacency:
    """All neighbours of all rows, as compressed sparse rows."""

    offsets: Int64Array
    targets: NDArray[Any]
    edges: NDArray[Any] | None = None

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """The memory that it holds, including the cached degrees."""
        return int(self.offsets.nbytes * 2 + self.targets.nbytes + (0 if self.edges is None else self.edges.nbytes))

    @cached_property
    def degrees(self) -> Int64Array:
        """The number of neighbours of each row."""
        return np.diff(self.offsets)

    @cached_property
    def largest(self) -> int:
        """The largest degree."""
        return int(self.degrees.max(initial=0))

    def of(self, rows: Int64Array) -> Neighbourhood:
        """The neighbours of some rows; a negative row has none."""
        valid = rows >= 0
        if not valid.all():
            counts = np.zeros(len(rows), np.int64)
            counts[valid] = self.degrees[rows[valid]]
            inner = self.of(rows[valid])
            return Neighbourhood(counts, inner.targets, inner.edges)
        counts = self.degrees[rows]
        positions = ragged(self.offsets[rows], counts)
        edges = None if self.edges is None else self.edges[positions].astype(np.int64)
        return Neighbourhood(counts, self.targets[positions].astype(np.int64), edges)

    def sums(self, weights: Int64Array) -> Int64Array:
        """For each row the sum of its neighbours' weights."""
        largest = int(weights.max(initial=0))
        # Narrow integers need less memory bandwidth.
        narrow = weights.astype(np.uint8) if largest < 256 else weights
        running = np.zeros(len(self.targets) + 1, np.int32 if largest * len(self.targets) < 2**31 else np.int64)
        np.cumsum(narrow[self.targets], dtype=running.dtype, out=running[1:])
        bounds: NDArray[Any] = running[self.offsets]
        total: Int64Array = (bounds[1:] - bounds[:-1]).astype(np.int64)
        return total

    def connects(self, starts: Int64Array, targets: Int64Array) -> NDArray[np.bool_]:
        """For each pair of a start and a target, whether the target is a neighbour of the start."""
        found = np.zeros(len(starts), np.bool_)
        valid = (starts >= 0) & (targets >= 0)
        wanted, high = targets[valid], self.offsets[starts[valid] + 1]
        low = self._lower_bounds(starts[valid], wanted)
        hit: NDArray[np.bool_] = low < high
        hit[hit] = self.targets[low[hit]] == wanted[hit]
        found[valid] = hit
        return found

    def _lower_bounds(self, starts: Int64Array, wanted: Int64Array) -> Int64Array:
        """Binary search: the position of the first neighbour of each start that is not below the wanted one."""
        low, top = self.offsets[starts].copy(), self.offsets[starts + 1].copy()
        while (open_ := low < top).any():
            middle = (low + top) // 2
            below = np.zeros(len(low), np.bool_)
            below[open_] = self.targets[middle[open_]] < wanted[open_]
            low = np.where(open_ & below, middle + 1, low)
            top = np.where(open_ & ~below, middle, top)
        return low

    def renumbered(self, starts: Renumbering, targets: Renumbering) -> Adjacency | None:
        """The same adjacency under the row numbers of another version; None when rebuilding takes no longer.

        Runs of rows that keep their relative order are copied as a whole. Only the neighbours of a row that has a
        moved neighbour are sorted again.
        """
        there = starts.row_numbers >= 0
        if starts.is_fragmented or self.degrees[~there].any():
            return None
        degrees = np.zeros(starts.size, np.int64)
        degrees[starts.row_numbers[there]] = self.degrees[there]
        offsets = np.concatenate([[0], np.cumsum(degrees)])
        spans = [slice(int(self.offsets[first]), int(self.offsets[last])) for first, last in starts.spans]
        copied = np.concatenate([self.targets[:0], *(self.targets[each] for each in spans)])
        changed = np.unique(np.searchsorted(offsets, np.flatnonzero(targets.is_moved[copied]), side="right") - 1)
        positions = ragged(offsets[changed], degrees[changed])
        renamed = targets.row_numbers[copied]
        if len(positions) * _SHUFFLED > len(copied) or renamed.min(initial=0) < 0:
            return None
        edges = None
        if self.edges is not None:
            edges = np.concatenate([self.edges[:0], *(self.edges[each] for each in spans)])
        owners = np.repeat(changed, degrees[changed])
        order = np.lexsort(
            (renamed[positions], owners) if edges is None else (edges[positions], renamed[positions], owners)
        )
        renamed[positions] = renamed[positions][order]
        if edges is not None:
            edges[positions] = edges[positions][order]
        return Adjacency(offsets, renamed, edges)

    def with_more(self, starts: NDArray[Any], targets: NDArray[Any], edges: Int64Array | None, size: int) -> Adjacency:
        """Add a few entries, of edges whose rows come after all existing ones, and grow to `size` rows."""
        grown = np.concatenate([self.offsets, np.full(size - self.size, self.offsets[-1], np.int64)])
        whole = Adjacency(grown, self.targets, self.edges)
        if edges is None:
            starts, targets = _different(starts, targets)
            new = ~whole.connects(starts, targets)
            starts, targets = starts[new], targets[new]
        else:
            order = np.lexsort((edges, targets, starts))
            starts, targets, edges = starts[order], targets[order], edges[order]
        if not len(starts):
            return whole
        # Insert after equal targets: the existing edges have lower row numbers.
        positions = whole._lower_bounds(starts, targets + 1)
        added = np.concatenate([[0], np.cumsum(np.bincount(starts, minlength=size))])
        return Adjacency(
            grown + added,
            np.insert(self.targets, positions, targets),
            None if self.edges is None or edges is None else np.insert(self.edges, positions, edges),
        )


def ragged(starts: Int64Array, counts: Int64Array) -> Int64Array:
    """`starts[0], starts[0] + 1, …` for the first count, then the same for the second, and so on."""
    total = int(counts.sum())
    if not total:
        return np.zeros(0, np.int64)
    before = np.cumsum(counts) - counts
    positions: Int64Array = np.arange(total, dtype=np.int64) + np.repeat(starts - before, counts)
    return positions


def _different(starts: NDArray[Any], targets: NDArray[Any]) -> tuple[Int64Array, Int64Array]:
    """The distinct pairs, sorted."""
    once = np.unique(np.stack([starts, targets]).astype(np.int64), axis=1)
    return once[0], once[1]


# Copying more spans than this one by one takes longer than sorting.
_MANY_SPANS = 2_000


@dataclass(frozen=True)
class Renumbering:
    """The new row number of each node, or `DELETED`, and whether the node was moved by an update."""

    row_numbers: NDArray[np.int32]
    is_moved: NDArray[np.bool_]
    remap: RowRemap
    size: int

    @property
    def is_fragmented(self) -> bool:
        """Whether there are too many spans to copy one by one."""
        return len(self.remap.runs) + int(self.is_moved.sum()) > _MANY_SPANS

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The remaining nodes in their new order, as spans of old row numbers."""
        old = {int(self.row_numbers[each]): int(each) for each in np.flatnonzero(self.is_moved)}
        found: list[tuple[int, int]] = []
        at = 0
        for each in self.remap.runs:
            if each.start == NEW:
                found += [(old[row], old[row] + 1) for row in range(at, at + each.rows) if row in old]
            else:
                found.append((each.start, each.start + each.rows))
            at += each.rows
        return found


def renumbering(rows: TableRows, earlier: State, remap: RowRemap) -> Renumbering | None:
    """Map the row numbers of another version to this one; None when the ids of that version are no longer cached."""
    row_numbers = remap.later_row_numbers()
    is_moved = row_numbers == DELETED
    if is_moved.any():
        # An updated node is a new row with the same id.
        ids = rows.column_of(earlier, "id")
        if ids is None:
            return None
        row_numbers[is_moved] = id_positions(ids.take(np.flatnonzero(is_moved)), rows.column("id"))
    return Renumbering(row_numbers.astype(np.int32), is_moved, remap, rows.size)
