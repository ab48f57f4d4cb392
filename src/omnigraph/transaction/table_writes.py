"""Turns net changes into table writes, choosing for each table the cheapest correct way to stage it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import put_schema
from omnigraph.errors import KeyConflict
from omnigraph.kernels.arrays import ID, one_array
from omnigraph.kernels.equality import texts
from omnigraph.storage.tables.row_rewrite import stage_rewrite
from omnigraph.storage.tables.staging import Staged, stage_append, stage_overwrite
from omnigraph.transaction.buffered_table import BufferedTable
from omnigraph.transaction.read_view import cache_staged
from omnigraph.transaction.write_set import TableWrite

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.read_view import ReadView
    from omnigraph.transaction.write_set import TableChanges

    Stage = Callable[[Table], Staged]


def writes_of(view: ReadView, changes: Mapping[str, TableChanges]) -> list[TableWrite]:
    """The writes that make the changes, in table order; none for a table in which nothing would change.

    Nothing is staged yet. Each write holds rows and ids only, so it can be staged on any handle of the same content,
    such as a branch's fork of the table. Raises `KeyConflict` when a row that must be new exists.
    """
    writes = []
    for table_key in sorted(changes):
        stage = _staging(view, changes[table_key])
        if stage is not None:
            writes.append(TableWrite(view.entry(table_key), stage))
    return writes


def cached_writes(view: ReadView, changes: Mapping[str, TableChanges]) -> list[TableWrite]:
    """The same writes. Their rows enter the fragment cache when they are staged: the next writer need not read them."""
    return [_cached(view, changes[each.entry.table_key], each) for each in writes_of(view, changes)]


def _cached(view: ReadView, change: TableChanges, write: TableWrite) -> TableWrite:
    rows = change.puts
    if rows is None:
        return write

    def stage(table: Table) -> Staged:
        staged = write.stage(table)
        cache_staged(view.tables, staged, rows)
        return staged

    return replace(write, stage=stage)


def _staging(view: ReadView, change: TableChanges) -> Stage | None:
    if change.is_empty:
        return None
    if change.overwrite:
        return partial(_overwrite, rows=change.puts)
    puts = change.puts if change.puts is not None and change.puts.num_rows else None
    rewrite = partial(stage_rewrite, tables=view.tables, locations=change.locations)
    if puts is not None and not (change.only_new or change.new_ids):
        return partial(rewrite, puts=puts, deletes=sorted(change.deletes))
    committed = _committed_ids(view, change)
    _refuse_committed(change, committed)
    deletes = [str(each) for each in committed.to_pylist() if each in change.deletes]
    if puts is None:
        return partial(rewrite, puts=None, deletes=deletes) if deletes else None
    # No other row can intervene: the commit protocol commits a write onto the version that it was computed from.
    if not len(committed):
        return partial(stage_append, rows=puts)
    return partial(rewrite, puts=puts, deletes=deletes)


def _committed_ids(view: ReadView, change: TableChanges) -> pa.Array[Any]:
    """Those of the ids put and deleted that are committed: one lookup for both, unless they have been located."""
    located = change.locations
    if located is None:
        located = view.locations(change.table_key, BufferedTable(view, change).changed_ids)
    return located.ids


def _refuse_committed(change: TableChanges, committed: pa.Array[Any]) -> None:
    if change.puts is None or not len(committed) or not (change.only_new or change.new_ids):
        return
    ids = one_array(change.puts.column(ID))
    for row_id in texts(ids.filter(pc.is_in(ids, value_set=committed))):
        if change.only_new or row_id in change.new_ids:
            raise KeyConflict(change.table_key.partition(":")[2], row_id)


def _overwrite(table: Table, rows: pa.Table | None) -> Staged:
    return stage_overwrite(table, put_schema(table.schema).empty_table() if rows is None else rows)
