"""Merges snapshots with different schemas: all are converted to the later schema, which the target has afterwards.

When the target has the earlier schema, its changes are checked as changes on top of the source, where the rules of the
later schema already hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import put_schema
from omnigraph.errors import CommitRejected, NotFound
from omnigraph.history.delta import equal_values, same_rows
from omnigraph.history.merge.conflicts import ConflictList, of_violation
from omnigraph.history.merge.incident_edges import DisputedNodes, incident_edges, is_node_table
from omnigraph.history.merge.merge_base import CommonState, ConvertedCommonState, ConvertedState
from omnigraph.history.merge.reconcile import Reconciled, all_resolved, conflicts_of, reconcile, table_keys
from omnigraph.history.merge.schema_lineage import RowConversion
from omnigraph.history.merge.target_upgrade import catch_up
from omnigraph.history.merge.three_way import merge_table
from omnigraph.kernels.arrays import ID, one_array
from omnigraph.transaction.constraints.validate import violations
from omnigraph.transaction.read_view import ReadView
from omnigraph.transaction.write_set import TableChanges

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.history.delta import TableDelta
    from omnigraph.history.merge.incident_edges import IncidentEdges, Side
    from omnigraph.history.merge.reconcile import MergeSettings
    from omnigraph.history.merge.schema_lineage import MergeSchema
    from omnigraph.history.merge.three_way import TableMerge
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.transaction.write_set import WriteSet


@dataclass(frozen=True)
class CrossSchemaResult:
    """The result of a merge across schemas.

    `left_out`: values that the side with the earlier schema has set, in properties that the later one has dropped, by
    property and number of rows. `write_set` is set when the target takes the later schema.
    """

    reconciled: Reconciled
    left_out: dict[str, int] = field(default_factory=dict)
    write_set: WriteSet | None = None


@dataclass(frozen=True)
class CrossSchemaMerge:
    """The snapshots of one merge: that of the source, and those that both sides have in common."""

    manifest: GraphManifest
    merge_schema: MergeSchema
    theirs: Snapshot
    root: Snapshot | None
    tips: tuple[Snapshot, ...]

    def reconcile(self, view: ReadView, settings: MergeSettings) -> CrossSchemaResult:
        """Apply the changes of the source to the view, and bring the view to the later schema. Writes nothing."""
        if not self._source_stayed or self._fits_in_memory(view.snapshot, settings):
            return self._in_memory(view, settings)
        schema = self.merge_schema
        common = CommonState(self.manifest.stores.tables, self.root, self.tips, schema.to_end(schema.theirs))
        found = reconcile(schema.accepted.catalog, view, common, self.theirs, settings)
        return CrossSchemaResult(found, self._left_out(view.snapshot))

    @property
    def _source_stayed(self) -> bool:
        """Whether the source still has the schema of the common state, and only the target has a later one."""
        schema = self.merge_schema
        return len(self.tips) == 1 and {schema.theirs} == set(schema.bases.values()) and not schema.target_is_behind

    def _in_memory(self, view: ReadView, settings: MergeSettings) -> CrossSchemaResult:
        """The same merge with all changed rows in memory."""
        ours, theirs = (
            self._side(view.snapshot, self.merge_schema.ours),
            self._side(self.theirs, self.merge_schema.theirs),
        )
        left_out = self._left_out(view.snapshot)
        newer = theirs if self.merge_schema.target_is_behind else ours
        common = self._common(newer.snapshot, self.merge_schema.to_end)
        for key in view.snapshot.tables if self.merge_schema.target_is_behind else ():
            view.entry(key)
        merges = self._merges(common, ours, theirs, sorted(newer.snapshot.tables), settings)
        changes = {key: _changes(each) for key, each in merges.items() if each is not None}
        listed = conflicts_of(merge for merge in merges.values() if merge is not None)
        resolved = all_resolved(merges.values())
        if listed:
            found = Reconciled(changes, tuple(listed.conflicts), more=listed.more, resolved=resolved)
            return CrossSchemaResult(found, left_out)
        if self.merge_schema.target_is_behind:
            return self._upgrade_target(view, ours, common, merges, left_out)
        for key in changes:
            view.entry(key)
        broken = self._broken(view, changes)
        found = Reconciled(changes, tuple(broken.conflicts), more=broken.more, resolved=resolved)
        return CrossSchemaResult(found, left_out)

    def _side(self, snapshot: Snapshot, position: int) -> ConvertedState:
        """One side, with its history since the common state as spans of one schema each, if all of them still exist."""
        spans = self._spans(snapshot)
        return ConvertedState(snapshot, self.merge_schema.to_end(position), tuple(spans))

    def _spans(self, side: Snapshot) -> list[tuple[ConvertedState, ConvertedState]]:
        """The spans from each schema change to the next, beginning at the common state.

        Empty when the side has no schema change, or when one came with a merge, which changes rows as well.
        """
        changes = self._changes_of_schema(side)
        if not changes or self.root is None or any(each.merged_parent for each in changes):
            return []
        position, begin, found = self.merge_schema.base(self.root), self.root, []
        for each in changes:
            conversion, after = self.merge_schema.to_end(position), self._after(position, each)
            if each.parent is None or after is None:
                return []
            found.append(
                (ConvertedState(begin, conversion), ConvertedState(self.manifest.snapshot_of(each.parent), conversion))
            )
            position, begin = after, self.manifest.snapshot_of(each.id)
        conversion = self.merge_schema.to_end(position)
        return [*found, (ConvertedState(begin, conversion), ConvertedState(side, conversion))]

    def _after(self, position: int, change: GraphCommit) -> int | None:
        return None if change.schema is None else self.merge_schema.lineage.after(position, change.schema.after)

    def _changes_of_schema(self, side: Snapshot) -> list[GraphCommit]:
        """The schema changes of a side since the common state, oldest first; empty if that is not in its chain."""
        commits = self.manifest.lineage(side.branch).commits
        commit, found = commits.get(side.commit_id or ""), []
        while commit is not None and self.root is not None and commit.id != self.root.commit_id:
            found += [commit] if commit.schema is not None else []
            commit = commits.get(commit.parent or "")
        return found[::-1] if commit is not None else []

    def _fits_in_memory(self, ours: Snapshot, settings: MergeSettings) -> bool:
        """Whether the changes of both sides can be computed span by span, and fit in memory."""
        ranges = [(begin.snapshot, end.snapshot) for begin, end in self._spans(ours)]
        if not ranges or self.root is None:
            return False
        try:
            return not any(self._is_large(*each, settings) for each in (*ranges, (self.root, self.theirs)))
        except NotFound:
            return False  # a cleanup has removed a snapshot in between

    def _is_large(self, begin: Snapshot, end: Snapshot, settings: MergeSettings) -> bool:
        common = CommonState(self.manifest.stores.tables, begin, (begin,))
        pairs = [(each, each) for each in end if not common.has(each)]
        return settings.merge_backend is not None and settings.merge_backend.takes(common, pairs)

    def _merges(
        self,
        common: ConvertedCommonState,
        ours: ConvertedState,
        theirs: ConvertedState,
        keys: list[str],
        settings: MergeSettings,
    ) -> dict[str, TableMerge | None]:
        """Merge the nodes, then the edges, which follow the decisions about their nodes."""
        sides: tuple[tuple[Side, ConvertedState], ...] = (("source", theirs), ("target", ours))
        nodes = [key for key in keys if is_node_table(key)]
        entries = {(side, key): found for side, each in sides for key in nodes if (found := each.entry(key))}
        done = {key: self._merge(common, ours, theirs, key, settings, None) for key in nodes}
        disputed = DisputedNodes.of((key, each.fates) for key, each in done.items() if each is not None)
        catalog, tables = self.merge_schema.accepted.catalog, self.manifest.stores.tables
        for key in (key for key in keys if not is_node_table(key)):
            incident = incident_edges(catalog, tables, disputed, entries, key)
            done[key] = self._merge(common, ours, theirs, key, settings, incident)
        return done

    def _merge(
        self,
        common: ConvertedCommonState,
        ours: ConvertedState,
        theirs: ConvertedState,
        key: str,
        settings: MergeSettings,
        incident: IncidentEdges | None,
    ) -> TableMerge | None:
        """Merge one table; None when the source has nothing that the target lacks."""
        here, there = ours.entry(key), theirs.entry(key)
        if there is None or (here is not None and here.pin == there.pin):
            return None
        if common.has(theirs, key) and incident is None:
            return None
        source = common.delta(theirs, key)
        if source.is_empty and incident is None:
            return None
        return merge_table(
            source,
            common.delta(ours, key),
            by_property=settings.by_property,
            resolver=settings.resolver,
            undecided=common.undecided(key),
            incident=incident,
        )

    def _upgrade_target(
        self,
        view: ReadView,
        ours: ConvertedState,
        common: ConvertedCommonState,
        merges: dict[str, TableMerge | None],
        left_out: dict[str, int],
    ) -> CrossSchemaResult:
        source = self._side(self.theirs, self.merge_schema.theirs)
        mine = {}
        for key, merge in merges.items():
            here = ours.entry(key)
            if here is not None and here.pin != self.theirs[key].pin and not common.has(ours, key):
                mine[key] = _onto_source(common.delta(source, key), common.delta(ours, key), merge)
        changes = {key: _changes(each) for key, each in merges.items() if each is not None}
        broken = self._broken(ReadView(self.theirs, self.manifest.stores.tables), mine)
        before = self.merge_schema.lineage.schemas.of(view.snapshot.schema).hash
        writes = catch_up(
            self.manifest, view, ours, self.theirs, changes, mine, (before, self.merge_schema.accepted.hash)
        )
        resolved, pointers = all_resolved(merges.values()), tuple(writes.pointers)
        found = Reconciled(changes, tuple(broken.conflicts), pointers, more=broken.more, resolved=resolved)
        return CrossSchemaResult(found, left_out, writes)

    def _broken(self, view: ReadView, changes: dict[str, TableChanges]) -> ConflictList:
        """The violations of the later schema's rules among the changes."""
        types, listed = table_keys(view), ConflictList()
        listed.add(of_violation(each, types) for each in violations(self.merge_schema.accepted.catalog, view, changes))
        return listed

    def _common(self, like: Snapshot, way: Callable[[int], RowConversion]) -> ConvertedCommonState:
        """The common state in the schema of `like`; `way` converts to it from a position in the schema lineage."""
        tables = self.manifest.stores.tables

        def columns(table_key: str) -> pa.Schema:
            stored = put_schema(tables.open(like[table_key].pin).schema)
            return pa.schema([field.with_nullable(nullable=True) for field in stored])

        root, *tips = (
            None if each is None else ConvertedState(each, way(self.merge_schema.base(each)))
            for each in (self.root, *self.tips)
        )
        return ConvertedCommonState(tables, root, tuple(each for each in tips if each is not None), columns)

    def _left_out(self, ours: Snapshot) -> dict[str, int]:
        """Count the values that the later schema has no column for. Changed rows of a dropped type are refused."""
        schema = self.merge_schema
        behind, other = (ours, self.theirs) if schema.target_is_behind else (self.theirs, ours)
        way = schema.to_end(schema.behind)
        common, own = self._common(behind, schema.to_behind), ConvertedState(behind, RowConversion())
        found: dict[str, int] = {}
        for key in sorted(behind.tables):
            is_dropped = way.new_key(key) is None
            dropped = [] if way.keeps_tables else way.left_out(key, common.columns(key).names)
            if not (is_dropped or dropped) or common.has(own, key):
                continue
            delta = common.delta(own, key)
            if is_dropped and not delta.is_empty:
                raise _dropped(behind.branch, other.branch, key)
            found |= {f"{key}.{name}": count for name in dropped if (count := _changed_values(delta, name))}
        return found


def _onto_source(source: TableDelta, target: TableDelta, merge: TableMerge | None) -> TableChanges:
    """The changes from the source's version of a table to the merged one: those of the target, as merged."""
    changed_ids = pc.unique(pa.concat_arrays([target.before_ids, target.after_ids]))
    puts = target.after
    if merge is not None:
        merged_ids = pa.concat_arrays([one_array(merge.puts.column(ID)), pa.array(sorted(merge.deletes), pa.string())])
        unchanged = puts.filter(pc.invert(pc.is_in(target.after_ids, value_set=merged_ids)))
        restored = [] if merge.restored is None else [merge.restored]
        puts = pa.concat_tables(
            [unchanged, merge.puts.filter(pc.is_in(merge.puts.column(ID), value_set=changed_ids)), *restored]
        )
    deleted = changed_ids.filter(pc.invert(pc.is_in(changed_ids, value_set=one_array(puts.column(ID)))))
    deleted = deleted.filter(pc.invert(pc.is_in(deleted, value_set=source.deleted.column(ID))))
    same = same_rows(source.after, puts.sort_by(ID))
    puts = puts.filter(pc.invert(pc.is_in(puts.column(ID), value_set=same)))
    return TableChanges(target.table_key, puts if puts.num_rows else None, frozenset(map(str, deleted.to_pylist())))


def _changed_values(delta: TableDelta, column: str) -> int:
    """In how many rows a side has set a column, or changed its value."""
    before, after = delta.updated
    changed = np.count_nonzero(~equal_values(before.column(column), after.column(column)))
    new = delta.inserted.column(column)
    return int(changed) + len(new) - new.null_count


def _changes(merge: TableMerge) -> TableChanges:
    return TableChanges(merge.table_key, merge.puts if merge.puts.num_rows else None, merge.deletes)


def _dropped(branch: str, other: str, table_key: str) -> CommitRejected:
    if branch == other:
        return CommitRejected(
            f"the commit changed rows of {table_key}, and branch {branch!r} has dropped that type since: they cannot "
            "be taken back."
        )
    return CommitRejected(
        f"branch {branch!r} has changed rows of {table_key}, and {other!r} has dropped that type since: take those "
        f"changes back on {branch!r} first, or export them."
    )
