"""The rows that differ between two states of one table, at a cost that follows the change.

The files of both states say where to look (`store/shared_files.py`). Where a compaction has rewritten many rows, and
one state descends from the other, Lance's row ids and row versions say which of them are only in another place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.manifest.references import branch_references
from omnigraph.store.blobs import read_blobs
from omnigraph.store.filters import one_of
from omnigraph.store.shared_files import ROW_ADDRESS, differing_parts
from omnigraph.store.tables import ID
from omnigraph.versions.same_rows import same_rows
from omnigraph.write.row_shape import put_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.store.shared_files import Numbers, Part
    from omnigraph.store.tables import Table, TableStore

ROW_ID = "_rowid"
_UPDATED = "_row_last_updated_at_version"
_CHUNK = 5_000
# Above this many single rows, a scan of their pieces is quicker than fetching them.
FETCHED_ROWS = 20_000
# Below this many rewritten rows it does not matter whether they only moved.
MOVED_ROWS = 5_000


@dataclass(frozen=True)
class TableDelta:
    """What turns one state of a table into another. Rows that were rewritten with the same values are not in it.

    `before` has the rows that are changed or removed, as they were; `after` those that are changed or added, as they
    are. Both are sorted by id.
    """

    table_key: str
    before: pa.Table
    after: pa.Table

    @cached_property
    def before_ids(self) -> pa.Array[Any]:
        """The ids of rows that are changed or removed."""
        return _array(self.before.column(ID))

    @cached_property
    def after_ids(self) -> pa.Array[Any]:
        """The ids of rows that are changed or added."""
        return _array(self.after.column(ID))

    @cached_property
    def inserted(self) -> pa.Table:
        """Rows that were not there before."""
        return self.after.filter(pc.invert(pc.is_in(self.after_ids, value_set=self.before_ids)))

    @cached_property
    def deleted(self) -> pa.Table:
        """Rows that are there no more, as they were."""
        return self.before.filter(pc.invert(pc.is_in(self.before_ids, value_set=self.after_ids)))

    @cached_property
    def updated(self) -> tuple[pa.Table, pa.Table]:
        """Rows that have other values now: as they were, and as they are, in the same order."""
        both = pc.is_in(self.before_ids, value_set=self.after_ids), pc.is_in(self.after_ids, value_set=self.before_ids)
        return self.before.filter(both[0]), self.after.filter(both[1])

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not (self.before.num_rows or self.after.num_rows)


def table_delta(tables: TableStore, base: TableEntry | None, side: TableEntry | None) -> TableDelta:
    """What turns `base` into `side`; None stands for a table that is not there."""
    if side is None:
        assert base is not None
        rows = _all(tables, base)
        return TableDelta(base.table_key, rows, rows.slice(0, 0))
    if base is None:
        rows = _all(tables, side)
        return TableDelta(side.table_key, rows.slice(0, 0), rows)
    if base.pin == side.pin:
        nothing = put_schema(tables.open(side.pin).schema).empty_table()
        return TableDelta(side.table_key, nothing, nothing)
    return net(side.table_key, *differing_rows(tables, base, side))


def differing_rows(tables: TableStore, base: TableEntry, side: TableEntry) -> tuple[pa.Table, pa.Table]:
    """The rows of either state among which the changed ones are, each in the columns of its own state."""
    if base.path != side.path:
        return _all(tables, base), _all(tables, side)
    return _differing(tables, base, side)


def descends(tables: TableStore, entry: TableEntry, ancestor: TableEntry) -> bool:
    """Whether a state of a table was reached from another one of it, through the branches it was forked from."""
    if entry.path != ancestor.path:
        return False
    branch, version = entry.branch, entry.version
    references = branch_references(tables.open_newest(entry.path)) if branch != ancestor.branch else {}
    while branch != ancestor.branch:
        if branch is None or branch not in references:
            return False
        branch, version = references[branch]["parent_branch"], references[branch]["parent_version"]
    return ancestor.version <= version


def _differing(tables: TableStore, base: TableEntry, side: TableEntry) -> tuple[pa.Table, pa.Table]:
    """The rows of either state that are not, by their place, also in the other."""
    old, new = tables.open(base.pin), tables.open(side.pin)
    gone, come = differing_parts(tables, old, new)
    if min(gone.rows, come.rows) > MOVED_ROWS and descends(tables, side, base):
        before, after = _not_only_moved(old, new, gone, come)
    else:
        before, after = _rows_of(old, gone), _rows_of(new, come)
    return _with_blobs(old, before), _with_blobs(new, after)


def _not_only_moved(old: Table, new: Table, gone: Part, come: Part) -> tuple[pa.Table, pa.Table]:
    """The same without rows that a compaction rewrote as they were: of one row id, last changed at one version."""
    there, here = _row_versions(old, gone), _row_versions(new, come)
    shared, at, again = np.intersect1d(there[0], here[0], assume_unique=True, return_indices=True)
    same = shared[there[1][at] == here[1][again]]
    before = _picked(old, ROW_ID, np.setdiff1d(there[0], same), gone.pieces)
    after = _picked(new, ROW_ID, np.setdiff1d(here[0], same), come.pieces)
    return pa.concat_tables([_rows_at(old, gone), before]), pa.concat_tables([_rows_at(new, come), after])


def _row_versions(table: Table, part: Part) -> tuple[Numbers, Numbers]:
    """The ids of the rows of a part's pieces, and the versions at which they were last changed."""
    rows = table.read([ROW_ID, _UPDATED], fragments=part.pieces)
    return rows.column(ROW_ID).to_numpy(), rows.column(_UPDATED).to_numpy()


def _rows_of(table: Table, part: Part) -> pa.Table:
    rows = _rows_at(table, part)
    return pa.concat_tables([rows, table.read(_columns(table), fragments=part.pieces)]) if part.pieces else rows


def _rows_at(table: Table, part: Part) -> pa.Table:
    pieces = np.unique(part.addresses >> np.uint64(32)).tolist()
    return _picked(table, ROW_ADDRESS, part.addresses, pieces)


def _picked(table: Table, column: str, numbers: Numbers, pieces: Sequence[int]) -> pa.Table:
    """Rows by Lance's own numbers: a few are fetched; many are picked from a scan of their pieces."""
    if len(numbers) <= FETCHED_ROWS:
        return _rows_by(table, column, numbers.tolist())
    wanted = np.sort(numbers)
    found = [
        each.filter(pa.array(_is_in(each.column(column).to_numpy(), wanted))).select(_columns(table))
        for each in table.scan([*_columns(table), column], fragments=pieces)
    ]
    return pa.Table.from_batches(found, schema=table.schema_of(None))


def _is_in(numbers: Numbers, wanted: Numbers) -> NDArray[np.bool_]:
    """Which of the numbers are wanted; those are sorted once, where a set would be made anew for each batch."""
    places = np.minimum(np.searchsorted(wanted, numbers), len(wanted) - 1)
    found: NDArray[np.bool_] = wanted[places] == numbers
    return found


def _rows_by(table: Table, column: str, values: Sequence[int]) -> pa.Table:
    """Rows by Lance's own numbers, which it finds without reading the others."""
    pieces = [
        table.read(_columns(table), one_of(column, values[start : start + _CHUNK]))
        for start in range(0, len(values), _CHUNK)
    ]
    return pa.concat_tables(pieces) if pieces else table.schema_of(None).empty_table()


def net(table_key: str, before: pa.Table, after: pa.Table) -> TableDelta:
    """Without the rows that are the same on both sides; in the columns of the later state."""
    before, after = _aligned(before, after.schema).sort_by(ID), after.sort_by(ID)
    same = same_rows(before, after)
    return TableDelta(
        table_key,
        before.filter(pc.invert(pc.is_in(before.column(ID), value_set=same))),
        after.filter(pc.invert(pc.is_in(after.column(ID), value_set=same))),
    )


def _aligned(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of an earlier schema in the columns of a later one; what they did not have yet is null."""
    if rows.schema.equals(schema):
        return rows
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
        for field in schema
    ]
    return pa.table(columns, schema=pa.schema([field.with_nullable(nullable=True) for field in schema]))


def _all(tables: TableStore, entry: TableEntry) -> pa.Table:
    table = tables.open(entry.pin)
    return _with_blobs(table, table.read(_columns(table))).sort_by(ID)


def _with_blobs(table: Table, rows: pa.Table) -> pa.Table:
    """The rows with their blobs, as they are put. A scan only says where blobs lie, not what they are."""
    wanted = put_schema(table.schema)
    for at, field in enumerate(wanted):
        if rows.schema.field(field.name).type != field.type:
            ids: list[Any] = rows.column(ID).to_pylist()
            blobs = {}
            for start in range(0, len(ids), _CHUNK):
                blobs.update(read_blobs(table, field.name, ids[start : start + _CHUNK]))
            rows = rows.set_column(at, field, pa.array([blobs.get(each) for each in ids], field.type))
    return rows


def _columns(table: Table) -> list[str]:
    return list(table.schema.names)


def _array(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
