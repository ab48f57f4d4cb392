"""Two states of the graph with something in common become one: the changes to make, and what stands in the way.

Merges and reverts are the same work on different states.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import CommitRejected
from omnigraph.versions.merge.conflicts import Conflict, Resolver, of_violation
from omnigraph.versions.merge.three_way import TableMerge, merge_table
from omnigraph.write.changes import TableChanges
from omnigraph.write.constraints import violations
from omnigraph.write.write_set import Pointer

if TYPE_CHECKING:
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.versions.merge.bases import CommonState
    from omnigraph.write.view import View


@dataclass(frozen=True)
class Settings:
    """How to settle what both sides touched. `by_property=False`: two changes of one entity always conflict."""

    by_property: bool = True
    resolver: Resolver = None


@dataclass(frozen=True)
class Reconciled:
    """The changes that bring one side's work to the other, by table; all conflicts when they cannot be made."""

    changes: dict[str, TableChanges] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    # Tables whose state the receiving side takes as it is, from the line that both have them from.
    pointers: tuple[Pointer, ...] = ()

    @property
    def puts(self) -> dict[str, int]:
        """How many rows are put, by table."""
        return {key: each.puts.num_rows for key, each in self.changes.items() if each.puts is not None}

    @property
    def adopted(self) -> tuple[str, ...]:
        """The tables of which no row has to be written."""
        return tuple(each.to.table_key for each in self.pointers)

    @property
    def to_write(self) -> dict[str, TableChanges]:
        """The changes to tables that are not taken as they are."""
        return {key: each for key, each in self.changes.items() if key not in self.adopted}

    @property
    def deletes(self) -> dict[str, int]:
        """How many rows are removed, by table."""
        return {key: len(each.deletes) for key, each in self.changes.items() if each.deletes}


def reconcile(catalog: Catalog, view: View, common: CommonState, theirs: Snapshot, settings: Settings) -> Reconciled:
    """Bring what `theirs` changed since the common state to the view.

    Conflicts between rows come first; when there are none, the rules of the schema are checked over the merged whole.
    """
    pointers = _pointers(view, common, theirs) if common.reshaping is None else ()
    if common.reshaping is None and _is_only_behind(view, common, theirs, pointers):
        return Reconciled(pointers=pointers)
    found = [_merge_table(view, common, there, here, settings) for there, here in _pairs(view, common, theirs)]
    merges = [each for each in found if each is not None]
    changes = {each.table_key: _changes(each) for each in merges}
    contested = tuple(conflict for each in merges for conflict in each.conflicts)
    if contested:
        return Reconciled(changes, contested)
    types = {key.partition(":")[2]: key for key in view.snapshot.tables}
    broken = tuple(of_violation(each, types) for each in violations(catalog, view, changes))
    return Reconciled(changes, broken, pointers)


def _pointers(view: View, common: CommonState, theirs: Snapshot) -> tuple[Pointer, ...]:
    """The tables that the view has from the same line as the other side, only older, and has never changed itself.

    Whatever keeps that line from being deleted or cleaned up under the branch now does so afterwards. The line of the
    other side's own changes would have to be kept for the sake of this one: those rows are written instead.
    """
    found = []
    for key in sorted(theirs.tables.keys() & view.snapshot.tables.keys()):
        here, there = view.snapshot.tables[key], theirs.tables[key]
        one_line = (here.path, here.branch) == (there.path, there.branch)
        if one_line and here.version < there.version and common.has(here):
            found.append(Pointer(view.entry(key), there))
    return tuple(found)


def _is_only_behind(view: View, common: CommonState, theirs: Snapshot, pointers: tuple[Pointer, ...]) -> bool:
    """Whether the view becomes the other side's state, which has been checked when it was made."""
    here, taken = view.snapshot.tables, {each.to.table_key for each in pointers}
    return here.keys() == theirs.tables.keys() and all(
        common.has(here[key]) and (key in taken or here[key].pin == theirs.tables[key].pin) for key in here
    )


def _pairs(view: View, common: CommonState, theirs: Snapshot) -> list[tuple[TableEntry, TableEntry]]:
    """Each table of the other side with what it is in the view."""
    here = view.snapshot.tables
    if common.reshaping is None:
        return [(theirs.tables[key], here[key]) for key in sorted(theirs.tables.keys() & here.keys())]
    found = {each.table_key: common.reshaping.new_key(each.table_key) for each in theirs}
    for key, now in found.items():
        if now is None and not common.has(theirs[key]) and not common.delta_is_empty(theirs[key]):
            raise CommitRejected(
                f"branch {theirs.branch!r} has changed rows of {key}, and {view.snapshot.branch!r} has dropped that "
                f"type since: take those changes back on {theirs.branch!r} first, or export them."
            )
    return [(theirs[key], here[now]) for key, now in sorted(found.items()) if now is not None and now in here]


def _merge_table(
    view: View, common: CommonState, there: TableEntry, here: TableEntry, settings: Settings
) -> TableMerge | None:
    """None when the other side has nothing that the view lacks: the table is then not even opened."""
    if there.pin == here.pin or common.has(there):
        return None
    view.entry(here.table_key)
    source = common.delta_of_source(there, here)
    if source.is_empty:
        return None
    return merge_table(
        source,
        common.delta(here),
        by_property=settings.by_property,
        resolver=settings.resolver,
        undecided=common.undecided(here.table_key),
    )


def _changes(merge: TableMerge) -> TableChanges:
    return TableChanges(merge.table_key, merge.puts if merge.puts.num_rows else None, merge.deletes)
