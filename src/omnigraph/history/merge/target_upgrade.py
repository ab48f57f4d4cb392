"""Upgrades the tables of a target with an earlier schema to the merged state, in the schema of the source.

A table that the branch has not changed becomes a pointer to the version on the table branch that it was forked from, or
on main's. A table whose stored columns stay the same takes the source's changes. Any other table is the source's
content with the branch's changes applied: on a new fork of main's table where the branch has no such table, otherwise
overwritten on the branch's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import put_schema
from omnigraph.ddl.new_shape import whole_rows
from omnigraph.errors import CommitRejected
from omnigraph.kernels.arrays import ID
from omnigraph.manifest.snapshot import TableEntry
from omnigraph.storage.tables.row_rewrite import stage_rewrite
from omnigraph.storage.tables.staging import Staged, stage_overwrite
from omnigraph.transaction.intents.sidecar import DroppedTable, PlannedSchema
from omnigraph.transaction.table_writes import writes_of
from omnigraph.transaction.write_set import FastForward, ForkedTable, SchemaWrite, TableWrite, WriteSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.history.merge.merge_base import ConvertedState
    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.storage.tables.table import Table, TableStore
    from omnigraph.transaction.read_view import ReadView
    from omnigraph.transaction.write_set import TableChanges


def catch_up(
    manifest: GraphManifest,
    view: ReadView,
    ours: ConvertedState,
    theirs: Snapshot,
    forward: Mapping[str, TableChanges],
    mine: Mapping[str, TableChanges],
    schema: tuple[str, str],
) -> WriteSet:
    """Plan everything that the merge changes on the target; nothing is staged yet.

    `forward` are the changes from the target's tables to the merged ones, `mine` those from the source's. `schema` are
    the schema hashes before and after.
    """
    target = manifest.branch(view.snapshot.branch)
    plan = _UpgradePlan(manifest, view, target)
    for key in sorted(theirs.tables):
        here, there = ours.entry(key), theirs[key]
        changes = mine.get(key)
        if changes is not None and changes.is_empty:
            changes = None
        if here is None or here.table_key != key:
            plan.bring(there, changes)
        elif here.pin != there.pin:
            plan.change(here, there, forward.get(key), changes)
    dropped = [key for key in sorted(view.snapshot.tables) if ours.conversion.new_key(key) != key]
    return WriteSet(
        writes=plan.writes,
        forked=plan.forked,
        pointers=plan.pointers,
        dropped=[DroppedTable(key, target.next_tombstone(key)) for key in dropped],
        schema=SchemaWrite(PlannedSchema(*schema), {}),
    )


@dataclass
class _UpgradePlan:
    """Collects what becomes of each table."""

    manifest: GraphManifest
    view: ReadView
    target: BranchManifest
    writes: list[TableWrite] = field(default_factory=list)
    forked: list[ForkedTable] = field(default_factory=list)
    pointers: list[FastForward] = field(default_factory=list)

    def bring(self, there: TableEntry, mine: TableChanges | None) -> None:
        """Add a table whose name the branch does not have."""
        if there.branch is None and mine is None:
            self._require_new(there, there.version)
            self.pointers.append(FastForward(None, there))
            return
        if there.branch is None and mine is not None:
            parent, stage = there, partial(_apply, mine=mine, tables=self.manifest.stores.tables)
        else:
            # A fork of the source's table branch would keep the source from being deleted.
            parent, stage = self._on_main(there), partial(_rewrite, source=self._table(there), mine=mine)
        self._require_new(there, parent.version + 1)
        self.forked.append(ForkedTable(there.table_key, parent, stage))

    def change(
        self, here: TableEntry, there: TableEntry, forward: TableChanges | None, mine: TableChanges | None
    ) -> None:
        """Change a table that both sides have under the same name."""
        same_branch = (here.path, here.branch) == (there.path, there.branch)
        if mine is None and same_branch and here.version < there.version:
            self.pointers.append(FastForward(here, there))
        elif self._table(here).schema.equals(self._table(there).schema):
            self.writes += writes_of(self.view, {here.table_key: forward} if forward is not None else {})
        else:
            self.writes.append(TableWrite(here, partial(_rewrite, source=self._table(there), mine=mine)))

    def _table(self, entry: TableEntry) -> Table:
        return self.manifest.stores.tables.open(entry.pin)

    def _on_main(self, there: TableEntry) -> TableEntry:
        newest = self.manifest.stores.tables.open_newest(there.path)
        return TableEntry(there.table_key, there.path, newest.version, None, newest.count_rows())

    def _require_new(self, there: TableEntry, version: int) -> None:
        """Refuse a name for which the branch has had a table branch of its own, or later versions."""
        key, branch = there.table_key, self.view.snapshot.branch
        used = self.target.has_forked(key) or self.target.last_version(key) >= version
        if used or key in self.view.snapshot.tables:
            raise CommitRejected(
                f"branch {branch!r} has had a table {key} of its own before, and cannot take another of that name. "
                f"Make a new branch of the one with the later schema, and merge {branch!r} into that."
            )


def _apply(table: Table, mine: TableChanges, tables: TableStore) -> Staged:
    return stage_rewrite(table, mine.puts, sorted(mine.deletes), tables=tables)


def _rewrite(table: Table, source: Table, mine: TableChanges | None) -> Staged:
    """Overwrite a table with the source's content and the branch's changes, as a stream."""
    schema = put_schema(source.schema)
    return stage_overwrite(table, pa.RecordBatchReader.from_batches(schema, _merged(source, mine, schema)))


def _merged(source: Table, mine: TableChanges | None, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    puts = None if mine is None else mine.puts
    for rows in whole_rows(source):
        unchanged = (
            rows if mine is None else rows.filter(pc.invert(pc.is_in(rows.column(ID), value_set=_changed_ids(mine))))
        )
        yield from pa.table(unchanged.columns, schema=schema).to_batches()
    if puts is not None:
        yield from pa.table(puts.columns, schema=schema).to_batches()


def _changed_ids(mine: TableChanges) -> pa.Array[Any]:
    deleted = pa.array(sorted(mine.deletes), pa.string())
    if mine.puts is None:
        return deleted
    return pa.concat_arrays([*mine.puts.column(ID).chunks, deleted])
