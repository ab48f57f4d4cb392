"""Stages a change of very many rows: located, ordered and written partition by partition, as one transaction.

The counterpart of `storage/tables/row_rewrite.py` for changes larger than memory. Replaced rows are written in the
order of their old row addresses, so that the row ids they keep form few ranges; to sort them, they are spilled once
more, by the fragment that they were in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.merge.partitioned.hash_partitions import MOST_PARTITIONS, HashPartitions, groups_of
from omnigraph.kernels.arrays import ID, one_array, rebatch
from omnigraph.kernels.hashing import hash_column, prefixes
from omnigraph.kernels.row_address import ROW_ADDRESS, ROW_ID, fragment_of
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.tables.row_rewrite import RowRewrite
from omnigraph.storage.tables.table import ROWS_PER_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from omnigraph.history.merge.partitioned.deltas import SpillDirectory
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table, TableStore

    RowIds = NDArray[np.uint64]

_BATCH = 65_536
_MARK_BITS = 24
_TEXT: pa.DataType = pa.string()
_NUMBER: pa.DataType = pa.uint64()
_LOCATIONS = pa.schema([(ID, _TEXT), (ROW_ID, _NUMBER), (ROW_ADDRESS, _NUMBER)])
_ADDRESSES = pa.schema([(ROW_ADDRESS, _NUMBER)])


@dataclass
class SpilledChange:
    """The rows to write and the ids to remove of one merged table, on disk by hash partition."""

    folder: Path
    partitions: int
    puts: HashPartitions | None = None
    deletes: HashPartitions | None = None

    def put(self, rows: pa.Table) -> None:
        """Add rows to write."""
        if self.puts is None:
            self.puts = HashPartitions(self.folder / "puts", rows.schema, self.partitions)
        self.puts.add(rows)

    def delete(self, ids: pa.Table) -> None:
        """Add the ids of rows to remove."""
        if self.deletes is None:
            self.deletes = HashPartitions(self.folder / "deletes", ids.schema, self.partitions)
        self.deletes.add(ids)

    def ids(self) -> Iterator[pa.Array[Any]]:
        """The ids of all rows to write or remove."""
        for each in (self.puts, self.deletes):
            yield from (batch.column(ID) for batch in (() if each is None else each.batches()))


def stage_large(
    table: Table, *, tables: TableStore, change: SpilledChange, spill: SpillDirectory, group_bytes: int
) -> Staged:
    """Stage the puts and deletes of a merge, on a handle of the version that it was computed from."""
    rewrite = _SpilledRewrite(tables, table, change, spill.folder(), group_bytes)
    locations = rewrite.locate()
    with lance_errors(f"staging a change to {table.path}"):
        rewrite.sort_rows(locations)
        return rewrite.stage()


@dataclass
class _SpilledRewrite:
    tables: TableStore
    table: Table
    change: SpilledChange
    folder: Path
    group_bytes: int
    replaced: int = 0
    _old_rows: HashPartitions | None = None
    _new_rows: HashPartitions | None = None
    _deleted_rows: HashPartitions | None = None
    _lowest: int = 0
    _highest: int = 0
    _groups: dict[int, int] = field(default_factory=dict)

    def locate(self) -> HashPartitions:
        """Find the locations of changed rows, and of a few others that pass the prefix filter: one scan of all ids."""
        marks = np.zeros(1 << _MARK_BITS, dtype=bool)
        for ids in self.change.ids():
            marks[prefixes(hash_column(ids), _MARK_BITS)] = True
        locations = HashPartitions(self.folder / "locations", _LOCATIONS, self.change.partitions)
        for batch in self.table.scan(_LOCATIONS.names, batch_size=_BATCH):
            rows = pa.Table.from_batches([batch]).select(_LOCATIONS.names)
            some = rows.filter(pa.array(marks[prefixes(hash_column(batch.column(ID)), _MARK_BITS)]))
            locations.add(some.cast(_LOCATIONS))
        return locations

    def sort_rows(self, locations: HashPartitions) -> None:
        """Per partition: spill replaced rows by the group of fragments that they were in, and new rows separately."""
        fragments = self.table.fragment_ids()
        groups = min(MOST_PARTITIONS, max(1, len(fragments)))
        self._groups = {fragment: at * groups // len(fragments) for at, fragment in enumerate(fragments)}
        self._deleted_rows = HashPartitions(self.folder / "removed", _ADDRESSES, groups)
        puts, deletes = self.change.puts, self.change.deletes
        if puts is not None:
            located = puts.schema.append(_LOCATIONS.field(ROW_ID)).append(_LOCATIONS.field(ROW_ADDRESS))
            self._old_rows = HashPartitions(self.folder / "old-rows", located, groups)
            self._new_rows = HashPartitions(self.folder / "new-rows", puts.schema, 1)
        for partition in range(self.change.partitions):
            there = locations.read([partition])
            if puts is not None and puts.rows[partition]:
                self._sort_puts(puts.read([partition]), there)
            if deletes is not None and deletes.rows[partition]:
                deleted_ids = deletes.read([partition]).column(ID)
                self._remove(there.filter(pc.is_in(there.column(ID), value_set=deleted_ids)).column(ROW_ADDRESS))

    def stage(self) -> Staged:
        """Write the rows as new fragments of the table, and delete the replaced and removed ones."""
        rewrite = RowRewrite(self.tables, self.table, replaced=self.replaced, row_id_span=self._highest - self._lowest)
        if self._old_rows is not None and self._new_rows is not None:
            for groups in groups_of(self._old_rows.bytes, self.group_bytes):
                self._replace(rewrite, self._old_rows.read(groups))
            rewrite.add(rebatch(self._new_rows.batches(), rows=ROWS_PER_FILE, nbytes=self.group_bytes))
        assert self._deleted_rows is not None
        for group in np.flatnonzero(self._deleted_rows.rows).tolist():
            rewrite.remove(self._deleted_rows.read([group]).column(ROW_ADDRESS).to_numpy())
        return rewrite.stage()

    def _replace(self, rewrite: RowRewrite, rows: pa.Table) -> None:
        order = np.argsort(rows.column(ROW_ADDRESS).to_numpy(), kind="stable")
        rewrite.put(rows.select(rows.column_names[:-2]), order, rows.column(ROW_ID).to_numpy()[order])

    def _sort_puts(self, rows: pa.Table, there: pa.Table) -> None:
        assert self._old_rows is not None
        assert self._new_rows is not None
        at = one_array(pc.index_in(rows.column(ID), value_set=one_array(there.column(ID))))
        found = there.take(at.drop_null())
        old = rows.filter(at.is_valid())
        for name in (ROW_ID, ROW_ADDRESS):
            old = old.append_column(_LOCATIONS.field(name), found.column(name))
        new = rows.filter(at.is_null())
        self._new_rows.put(new, np.zeros(new.num_rows, np.int64))
        if old.num_rows:
            self._old_rows.put(old, self._group_of(old.column(ROW_ADDRESS)))
            self._remove(old.column(ROW_ADDRESS))
            self._record_row_ids(old.column(ROW_ID).to_numpy())

    def _remove(self, addresses: pa.ChunkedArray[Any]) -> None:
        assert self._deleted_rows is not None
        self._deleted_rows.put(pa.table({ROW_ADDRESS: addresses}), self._group_of(addresses))

    def _record_row_ids(self, row_ids: RowIds) -> None:
        low, high = int(row_ids.min()), int(row_ids.max())
        self._lowest = min(self._lowest, low) if self.replaced else low
        self._highest = max(self._highest, high)
        self.replaced += len(row_ids)

    def _group_of(self, addresses: pa.ChunkedArray[Any]) -> NDArray[np.int64]:
        fragments, which = np.unique(fragment_of(addresses.to_numpy()), return_inverse=True)
        found: NDArray[np.int64] = np.array([self._groups[int(each)] for each in fragments], np.int64)[which]
        return found
