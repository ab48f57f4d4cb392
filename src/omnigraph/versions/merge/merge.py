"""Merging one branch into another as one commit with two parents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import InvalidInput, MergeConflicts
from omnigraph.versions.delta import TableDelta, table_delta
from omnigraph.versions.merge.conflicts import Conflict, Resolver, of_violation
from omnigraph.versions.merge.three_way import TableMerge, merge_table
from omnigraph.write.changes import TableChanges
from omnigraph.write.commit import Operation, WriteSet, commit
from omnigraph.write.constraints import violations
from omnigraph.write.stage import writes_of
from omnigraph.write.view import View

if TYPE_CHECKING:
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot, TableEntry

Kind = Literal["already_up_to_date", "fast_forward", "merged"]


@dataclass(frozen=True)
class MergeOptions:
    """How to merge. `by_property=False`: two sides that changed one entity conflict, whatever they changed of it."""

    by_property: bool = True
    resolver: Resolver = None
    actor: str | None = None


@dataclass(frozen=True)
class Merged:
    """What a merge did, or would do: per table, how many rows it puts and removes on the target."""

    kind: Kind
    source: str
    target: str
    commit: GraphCommit | None = None
    puts: dict[str, int] = field(default_factory=dict)
    deletes: dict[str, int] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()


class Merge:
    """One merge of the newest commit of `source`, as it is now, into `target`."""

    def __init__(
        self, manifest: GraphManifest, catalog: Catalog, source: str, target: str, options: MergeOptions
    ) -> None:
        if source == target:
            raise InvalidInput(f"branch {source!r} cannot be merged into itself.")
        self._manifest = manifest
        self._catalog = catalog
        self._source, self._target = source, target
        self._options = options
        self._theirs = manifest.snapshot(source)
        self._base = manifest.merge_base(source, target)
        self.changes: dict[str, TableChanges] = {}

    @property
    def kind(self) -> Kind:
        """What relation the two branches are in."""
        base = self._base.id if self._base else None
        if base == self._theirs.commit_id:
            return "already_up_to_date"
        return "fast_forward" if base == self._manifest.snapshot(self._target).commit_id else "merged"

    def run(self) -> Merged:
        """Merge, as one commit; `MergeConflicts` with all of them when the branches disagree."""
        kind = self.kind
        if kind == "already_up_to_date":
            return Merged(kind, self._source, self._target)
        operation = Operation(
            "BranchMerge",
            self._prepare,
            branch=self._target,
            actor=self._options.actor,
            merged_parent=self._theirs.commit_id,
        )
        receipt = commit(self._manifest, operation)
        assert receipt is not None
        return self._told(kind, receipt.commit, ())

    def preview(self) -> Merged:
        """What `run` would do, conflicts included; nothing is written."""
        kind = self.kind
        if kind == "already_up_to_date":
            return Merged(kind, self._source, self._target)
        view = View(self._manifest.snapshot(self._target), self._manifest.stores.tables)
        return self._told(kind, None, self._compute(view))

    def _prepare(self, view: View) -> WriteSet:
        conflicts = self._compute(view)
        if conflicts:
            raise MergeConflicts(self._source, self._target, conflicts)
        return WriteSet(writes_of(view, self.changes))

    def _compute(self, view: View) -> tuple[Conflict, ...]:
        """Fill `changes`; the conflicts, those between rows first."""
        base = self._manifest.snapshot_of(self._base.id) if self._base else None
        merges = [
            merge
            for key in sorted(self._theirs.tables.keys() & view.snapshot.tables.keys())
            if (merge := self._merge_table(view, base, key)) is not None
        ]
        self.changes = {each.table_key: _changes(each) for each in merges}
        contested = tuple(conflict for each in merges for conflict in each.conflicts)
        if contested:
            return contested
        types = {key.partition(":")[2]: key for key in self._theirs.tables}
        return tuple(of_violation(each, types) for each in violations(self._catalog, view, self.changes))

    def _merge_table(self, view: View, base: Snapshot | None, table_key: str) -> TableMerge | None:
        """None when the source has nothing that the target lacks: the table is then not even opened."""
        theirs, ours = self._theirs.tables[table_key], view.snapshot.tables[table_key]
        start = base.tables.get(table_key) if base is not None else None
        if theirs.pin == ours.pin or (start is not None and start.pin == theirs.pin):
            return None
        view.entry(table_key)
        source = self._delta(start, theirs)
        if source.is_empty:
            return None
        target = self._delta(start, ours)
        return merge_table(source, target, by_property=self._options.by_property, resolver=self._options.resolver)

    def _delta(self, start: TableEntry | None, side: TableEntry) -> TableDelta:
        return table_delta(self._manifest.stores.tables, start, side)

    def _told(self, kind: Kind, made: GraphCommit | None, conflicts: tuple[Conflict, ...]) -> Merged:
        puts = {key: each.puts.num_rows for key, each in self.changes.items() if each.puts is not None}
        deletes = {key: len(each.deletes) for key, each in self.changes.items()}
        return Merged(kind, self._source, self._target, made, puts, deletes, conflicts)


def _changes(merge: TableMerge) -> TableChanges:
    return TableChanges(merge.table_key, merge.puts if merge.puts.num_rows else None, merge.deletes)
