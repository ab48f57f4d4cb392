"""Neighbours of a few rows, looked up in the edge table by its indexes. Nothing is built and nothing is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from omnigraph.read.execute.table_rows import ROW_NUMBER
from omnigraph.read.traversal.adjacency import Neighbourhood, ragged
from omnigraph.store.arrow_columns import one_array
from omnigraph.store.filters import one_of

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.read.execute.table_rows import Numbers, TableRows

_COLUMNS = {"out": (("src", "dst"),), "in": (("dst", "src"),), "both": (("src", "dst"), ("dst", "src"))}


@dataclass(frozen=True)
class Lookups:
    """Answers like `Adjacency.of`, from the store."""

    edges: TableRows
    starts: TableRows
    ends: TableRows
    direction: str
    distinct: bool
    # Ids of rows that were found on the way: the next hop starts from them.
    _ids: dict[int, str] = field(default_factory=dict)

    def of(self, rows: Numbers) -> Neighbourhood:
        """The neighbours of some rows; a row below zero has none."""
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
        # Both orientations of a loop are one edge, which the first has found.
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
    """The same answers for rows that were asked for in another order, or more than once."""
    starts = np.cumsum(whole.counts) - whole.counts
    counts = whole.counts[places]
    chosen = ragged(starts[places], counts)
    return Neighbourhood(counts, whole.ends[chosen], None if whole.edges is None else whole.edges[chosen])
