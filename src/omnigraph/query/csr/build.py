"""Builds CSR adjacency from an edge table: the endpoints of every edge as row numbers, then grouped by start.

A pair of rows is encoded as one integer, the start in the bits above the end, so that one sort of plain integers does
all the grouping.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.kernels.equality import id_positions
from omnigraph.query.csr.adjacency import Adjacency

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omnigraph.query.columns.table_columns import Int64Array, TableRows

    Pairs = tuple[NDArray[np.int32], NDArray[np.int32], Int64Array | None]

# A few large batches take two thirds of the time of many small ones.
_BATCH_ROWS = 131_072
# Below this many edges a second thread costs more than it saves.
_WORTH_A_THREAD = 50_000
_BITS = 63


@dataclass(frozen=True)
class EdgeEndpoints:
    """The endpoints of every edge as row numbers of the node tables; edges with a missing endpoint are left out.

    `edges` are the rows of the edges, ascending; None when no edge was left out, so that they are 0, 1, 2, …
    """

    sources: NDArray[np.int32]
    targets: NDArray[np.int32]
    edges: Int64Array | None
    source_size: int
    target_size: int

    @property
    def nbytes(self) -> int:
        """The memory that it holds."""
        return int(self.sources.nbytes + self.targets.nbytes + (0 if self.edges is None else self.edges.nbytes))

    def since(self, edge: int) -> EdgeEndpoints:
        """The endpoints of the edges from this row on; valid only when no edge was left out."""
        edge_rows = np.arange(edge, len(self.sources), dtype=np.int64)
        return EdgeEndpoints(self.sources[edge:], self.targets[edge:], edge_rows, self.source_size, self.target_size)

    def adjacency(self, direction: str, *, distinct: bool) -> Adjacency:
        """The adjacency in one direction: `out` from sources, `in` from targets, or `both`."""
        starts, targets, edges = pairs(self, direction, with_edges=not distinct)
        sizes = (self.target_size, self.source_size) if direction == "in" else (self.source_size, self.target_size)
        return _grouped(starts, targets, edges, *sizes)


def pairs(endpoints: EdgeEndpoints, direction: str, *, with_edges: bool = True) -> Pairs:
    """Start, end and edge of every step in a direction; in both directions a loop is one step."""
    edges = None
    if with_edges:
        edges = np.arange(len(endpoints.sources), dtype=np.int64) if endpoints.edges is None else endpoints.edges
    if direction == "out":
        return endpoints.sources, endpoints.targets, edges
    if direction == "in":
        return endpoints.targets, endpoints.sources, edges
    proper = endpoints.sources != endpoints.targets
    return (
        np.concatenate([endpoints.sources, endpoints.targets[proper]]),
        np.concatenate([endpoints.targets, endpoints.sources[proper]]),
        None if edges is None else np.concatenate([edges, edges[proper]]),
    )


def read_endpoints(edges: TableRows, sources: TableRows, targets: TableRows) -> EdgeEndpoints:
    """Read the edge table and look its endpoints up in the node tables."""
    table = edges.table
    batches = list(table.scan(["src", "dst"], batch_size=_BATCH_ROWS))
    columns = pa.Table.from_batches(batches, schema=table.schema_of(["src", "dst"]))
    src, dst = looked_up((columns.column("src"), sources.column("id")), (columns.column("dst"), targets.column("id")))
    return complete_endpoints(src, dst, sources.size, targets.size)


def complete_endpoints(
    src: NDArray[np.int32], dst: NDArray[np.int32], source_size: int, target_size: int
) -> EdgeEndpoints:
    """Leave out the edges with a missing endpoint."""
    whole = (src >= 0) & (dst >= 0)
    if whole.all():
        return EdgeEndpoints(src, dst, None, source_size, target_size)
    return EdgeEndpoints(src[whole], dst[whole], np.flatnonzero(whole), source_size, target_size)


def looked_up(*lookups: tuple[pa.ChunkedArray[Any], pa.Array[Any]]) -> list[NDArray[np.int32]]:
    """The row numbers of ids in a node table, for both endpoints in parallel."""
    if len(lookups[0][0]) < _WORTH_A_THREAD:
        return [id_positions(*each) for each in lookups]
    with ThreadPoolExecutor(len(lookups)) as pool:
        return list(pool.map(lambda each: id_positions(*each), lookups))


def _grouped(
    starts: NDArray[np.int32], targets: NDArray[np.int32], edges: Int64Array | None, start_size: int, target_size: int
) -> Adjacency:
    """Adjacency with one entry for each edge, or, without edges, for each distinct pair."""
    shift = max(target_size - 1, 1).bit_length()
    codes = starts.astype(np.int64)
    # In place: allocating another array of this size costs more than the arithmetic.
    codes <<= shift
    codes |= targets
    if edges is None:
        codes.sort()
        codes = _once(codes)
    else:
        codes, edges = in_order(codes, edges, max(start_size - 1, 1).bit_length() + shift)
    firsts = np.arange(start_size + 1, dtype=np.int64) << shift
    offsets = np.searchsorted(codes, firsts)
    codes &= (1 << shift) - 1
    return Adjacency(offsets, codes.astype(np.int32), edges)


def _once(codes: Int64Array) -> Int64Array:
    """Sorted codes without duplicates."""
    repeated = codes[1:] == codes[:-1]
    return codes[np.concatenate([[True], ~repeated])] if repeated.any() else codes


def in_order(codes: Int64Array, edges: Int64Array, bits: int) -> tuple[Int64Array, Int64Array]:
    """Sort by code, then by edge. When a code and an edge fit into 63 bits, they are sorted as one integer."""
    edge_bits = int(edges.max(initial=0)).bit_length()
    if bits + edge_bits > _BITS:
        order = np.lexsort((edges, codes))
        return codes[order], edges[order]
    codes <<= edge_bits
    codes |= edges
    codes.sort()
    edges = codes & ((1 << edge_bits) - 1)
    codes >>= edge_bits
    return codes, edges
