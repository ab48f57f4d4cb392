"""A checked mutation as an operation of the commit protocol."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.language.query.checked import Insert, Upsert
from omnigraph.store.tables import ID
from omnigraph.write.commit import WriteSet
from omnigraph.write.constraints import validate
from omnigraph.write.mutation.statements import Affected, Executor
from omnigraph.write.pending import PendingWrites
from omnigraph.write.stage import writes_of
from omnigraph.write.view import LISTED_VALUES
from omnigraph.write.view_pieces import remember

if TYPE_CHECKING:
    from omnigraph.language.query.checked import CheckedMutation
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.relational.request import RequestValues
    from omnigraph.store.staging import Staged
    from omnigraph.store.tables import Table
    from omnigraph.world import World
    from omnigraph.write.changes import TableChanges
    from omnigraph.write.view import View
    from omnigraph.write.write_set import TableWrite


@dataclass
class Mutation:
    """Prepares a mutation from a view; `affected` tells what the last preparation would change."""

    catalog: Catalog
    checked: CheckedMutation
    request: RequestValues
    world: World
    affected: Affected

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be computed again whatever was first: inserts and upserts may, updates and deletes not."""
        return all(isinstance(each, Insert | Upsert) for each in self.checked.statements)

    def prepare(self, view: View) -> WriteSet | None:
        """Carry out the statements on pending writes, validate the whole once, and say what to stage."""
        self.affected = Affected()
        pending = PendingWrites(view, self.catalog)
        executor = Executor(self.catalog, pending, self.request, self.world, self.affected)
        for statement in self.checked.statements:
            executor.run(statement)
        changes = {key: change for key, change in pending.changes().items() if not change.is_empty}
        if not changes:
            return None
        validate(self.catalog, view, changes)
        changes = {key: _placed(view, change) for key, change in changes.items()}
        return WriteSet([_remembered(view, changes[each.entry.table_key], each) for each in writes_of(view, changes)])


def _placed(view: View, change: TableChanges) -> TableChanges:
    """The change with the places of the rows that it replaces or removes, which the view may know."""
    if change.overwrite or (change.only_new and not change.deletes):
        return change
    puts = [] if change.puts is None else change.puts.column(ID).chunks
    touched = pa.concat_arrays([pa.array(sorted(change.deletes), pa.string()), *puts])
    return change if len(touched) > LISTED_VALUES else replace(change, places=view.places(change.table_key, touched))


def _remembered(view: View, change: TableChanges, write: TableWrite) -> TableWrite:
    """The write, whose rows are remembered once they are staged: the next mutation need not read them."""
    rows = change.puts
    if rows is None:
        return write

    def stage(table: Table) -> Staged:
        staged = write.stage(table)
        remember(view.tables, staged, rows)
        return staged

    return replace(write, stage=stage)
