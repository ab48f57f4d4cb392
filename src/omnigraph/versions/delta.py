"""The rows that differ between two states of one table, at a cost that follows the change.

Where one state descends from the other, Lance's stable row ids and row versions say which rows to look at; the rest of
the table is not read. Otherwise both states are compared by id.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.filters import Compare, one_of
from omnigraph.store.lance_errors import lance_errors
from omnigraph.store.tables import ID
from omnigraph.versions.same_rows import same_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.store.tables import Table, TableStore

ROW_ID = "_rowid"
_CREATED = "_row_created_at_version"
_UPDATED = "_row_last_updated_at_version"
_CHUNK = 5_000


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
        nothing = tables.open(side.pin).schema_of(_columns(tables.open(side.pin))).empty_table()
        return TableDelta(side.table_key, nothing, nothing)
    if descends(tables, side, base):
        return _net(side.table_key, *_touched(tables, base, side))
    return _net(side.table_key, _all(tables, base), _all(tables, side))


def descends(tables: TableStore, entry: TableEntry, ancestor: TableEntry) -> bool:
    """Whether a state of a table was reached from another one of it, through the branches it was forked from."""
    if entry.path != ancestor.path:
        return False
    branch, version = entry.branch, entry.version
    references = _references(tables, entry) if branch != ancestor.branch else {}
    while branch != ancestor.branch:
        if branch is None or branch not in references:
            return False
        branch, version = references[branch]["parent_branch"], references[branch]["parent_version"]
    return ancestor.version <= version


def _references(tables: TableStore, entry: TableEntry) -> dict[str, dict[str, Any]]:
    main = tables.open_newest(entry.path)
    with lance_errors(f"listing branches of {entry.path}"):
        return dict(main.dataset.branches.list())


def _touched(tables: TableStore, base: TableEntry, side: TableEntry) -> tuple[pa.Table, pa.Table]:
    """The rows that any commit in between wrote or removed, as they were and as they are."""
    old, new = tables.open(base.pin), tables.open(side.pin)
    columns = _columns(new)
    written = new.read([*columns, ROW_ID, _CREATED], Compare(_UPDATED, ">", base.version))
    rewritten = written.filter(pc.less_equal(written.column(_CREATED), pa.scalar(base.version, pa.uint64()))).column(
        ROW_ID
    )
    with lance_errors(f"looking for removed rows of {side.path}"):
        removed = pa.Table.from_batches(
            list(new.dataset.delta(compared_against=base.version).get_deleted_row_ids()),
            schema=pa.schema([pa.field(ROW_ID, pa.uint64())]),
        ).column(ROW_ID)
    wanted: list[Any] = [*rewritten.to_pylist(), *removed.to_pylist()]
    return _rows_by_row_id(old, wanted, _columns(old)), written.select(columns)


def _rows_by_row_id(table: Table, row_ids: Sequence[int], columns: list[str]) -> pa.Table:
    """Rows by Lance's own ids, which it finds without reading the others."""
    pieces = [
        table.read(columns, one_of(ROW_ID, row_ids[start : start + _CHUNK])) for start in range(0, len(row_ids), _CHUNK)
    ]
    return pa.concat_tables(pieces) if pieces else table.schema_of(columns).empty_table()


def _net(table_key: str, before: pa.Table, after: pa.Table) -> TableDelta:
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
    return table.read(_columns(table)).sort_by(ID)


def _columns(table: Table) -> list[str]:
    return list(table.schema.names)


def _array(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
