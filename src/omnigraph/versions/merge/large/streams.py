"""What to read of two states of a table to have the rows that differ, and reading it batch by batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.store.shared_files import ROW_ADDRESS, differing_parts
from omnigraph.versions.delta import MOVED_ROWS, ROW_ID, descends, with_blobs
from omnigraph.versions.merge.large.budget import batch_rows
from omnigraph.versions.merge.large.parted import Parted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.store.shared_files import Numbers, Part
    from omnigraph.store.tables import Table, TableStore

_UPDATED = "_row_last_updated_at_version"
_BATCH = 131_072
_VERSIONS = pa.schema([(ROW_ID, pa.uint64()), (_UPDATED, pa.uint64())])
_MOVED_PARTS = 64


@dataclass(frozen=True)
class Read:
    """Rows of some pieces of a table: all, or those that have one of the `wanted` numbers, which are sorted."""

    pieces: tuple[int, ...]
    column: str = ROW_ADDRESS
    wanted: Numbers | None = None

    def batches(self, table: Table) -> Iterator[pa.Table]:
        """The rows as they are put, with their blobs."""
        for batch in self._scanned(table):
            if batch.num_rows:
                yield with_blobs(table, pa.Table.from_batches([batch]))

    def _scanned(self, table: Table) -> Iterator[pa.RecordBatch]:
        names = table.schema.names
        if self.wanted is None:
            yield from table.scan(names, fragments=self.pieces, batch_size=batch_rows(table))
            return
        for batch in table.scan([*names, self.column], fragments=self.pieces, batch_size=batch_rows(table)):
            numbers = batch.column(self.column).to_numpy()
            at = np.minimum(np.searchsorted(self.wanted, numbers), len(self.wanted) - 1)
            yield batch.filter(pa.array(self.wanted[at] == numbers)).select(names)


def rows_schema(table: Table) -> pa.Schema:
    """The columns that reads of a table give."""
    return with_blobs(table, table.schema_of(None).empty_table()).schema


def differing_reads(
    tables: TableStore, base: TableEntry | None, side: TableEntry, folder: Path
) -> tuple[list[Read], list[Read]]:
    """What to read of either state to have all rows that differ. `folder` is for what has to wait on the way."""
    new = tables.open(side.pin)
    if base is None:
        return [], _all(new)
    old = tables.open(base.pin)
    if base.path != side.path:
        return _all(old), _all(new)
    gone, come = differing_parts(tables, old, new)
    if min(gone.rows, come.rows) > MOVED_ROWS and descends(tables, side, base):
        left, came = _changed_row_ids(old, new, gone, come, folder)
        return [*_by_row_id(gone, left), *_at(gone)], [*_by_row_id(come, came), *_at(come)]
    return [*_pieces(gone), *_at(gone)], [*_pieces(come), *_at(come)]


def _all(table: Table) -> list[Read]:
    return [Read(table.fragment_ids())] if table.fragment_ids() else []


def _pieces(part: Part) -> list[Read]:
    return [Read(part.pieces)] if part.pieces else []


def _by_row_id(part: Part, wanted: Numbers) -> list[Read]:
    return [Read(part.pieces, ROW_ID, wanted)] if len(wanted) else []


def _at(part: Part) -> list[Read]:
    """Single rows of pieces that both states have, by their addresses."""
    pieces = tuple(np.unique(part.addresses >> np.uint64(32)).tolist())
    return [Read(pieces, ROW_ADDRESS, np.sort(part.addresses))] if pieces else []


def _changed_row_ids(old: Table, new: Table, gone: Part, come: Part, folder: Path) -> tuple[Numbers, Numbers]:
    """Of either state's pieces, the rows that a compaction has not just moved: eight bytes for each are held.

    A row that was only moved has one row id, and was last changed at one version, in both.
    """
    there, here = _row_versions(old, gone, folder / "old-versions"), _row_versions(new, come, folder / "new-versions")
    left: list[Numbers] = []
    came: list[Numbers] = []
    for part in range(_MOVED_PARTS):
        before, after = there.read([part]), here.read([part])
        left.append(_not_in(before, after))
        came.append(_not_in(after, before))
    return np.sort(np.concatenate(left)), np.sort(np.concatenate(came))


def _row_versions(table: Table, part: Part, path: Path) -> Parted:
    made = Parted(path, _VERSIONS, _MOVED_PARTS)
    for batch in table.scan([ROW_ID, _UPDATED], fragments=part.pieces, batch_size=_BATCH):
        made.put(pa.Table.from_batches([batch]), (batch.column(ROW_ID).to_numpy() % _MOVED_PARTS).astype(np.int64))
    return made


def _not_in(rows: pa.Table, others: pa.Table) -> Numbers:
    ids, versions = _columns_of(rows)
    other_ids, other_versions = _columns_of(others)
    shared, at, again = np.intersect1d(ids, other_ids, assume_unique=True, return_indices=True)
    found: Numbers = np.setdiff1d(ids, shared[versions[at] == other_versions[again]], assume_unique=True)
    return found


def _columns_of(rows: pa.Table) -> tuple[Any, Any]:
    return rows.column(ROW_ID).to_numpy(), rows.column(_UPDATED).to_numpy()
