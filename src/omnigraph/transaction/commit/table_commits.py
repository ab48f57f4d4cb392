"""`TableCommits` stages, commits and publishes the tables of one operation. The commit protocol drives it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.errors import (
    CommitConflict,
    CommitFailed,
    CommitOutcomeUnknown,
    CommitRejected,
    LeaseLost,
    OmniGraphError,
    ReadSetChanged,
    TableAhead,
)
from omnigraph.failpoints import reach
from omnigraph.manifest.layout import physical_branch, table_path
from omnigraph.manifest.publisher import NewVersion, PublishRequest
from omnigraph.manifest.reclaimed import require_retained
from omnigraph.manifest.schema_files import stage_files
from omnigraph.storage.tables.compaction import stage_minor_compaction
from omnigraph.storage.tables.immediate import cleans_itself, stage_auto_cleanup_off
from omnigraph.storage.tables.new_tables import commit_new_table, stage_new_table
from omnigraph.storage.tables.staging import Committed, are_ours, commit_staged
from omnigraph.transaction.commit.forked_tables import ForkedTables, fork_and_stage, require_no_earlier_fork
from omnigraph.transaction.intents.queue_rules import new_operation_id
from omnigraph.transaction.intents.sidecar import AddedTable, FastForwardedTable, PlannedCommit, Sidecar, TablePin
from omnigraph.transaction.write_set import ReadSet

if TYPE_CHECKING:
    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.storage.tables.new_tables import StagedNewTable
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.intents.queue import QueueEntry
    from omnigraph.transaction.intents.sidecar import DroppedTable, TableBranch
    from omnigraph.transaction.read_view import ReadView
    from omnigraph.transaction.write_set import Adoption, FastForward, Operation, TableWrite, WriteSet

log = logging.getLogger(__name__)

# Writers whose many small changes would leave many small fragments: their tables are compacted as they are committed.
_COMPACTING = frozenset({"Mutation", "Load", "BranchMerge"})


class TableCommits:
    """The changes of one operation to its tables, computed from one read view of a branch."""

    def __init__(
        self,
        manifest: GraphManifest,
        operation: Operation,
        write_set: WriteSet,
        view: ReadView,
        branch_manifest: BranchManifest,
        *,
        begun_at: int,
    ) -> None:
        self.manifest = manifest
        self.operation = operation
        self.begun_at = begun_at
        self._write_set = write_set
        self._writes = sorted(write_set.writes, key=lambda each: each.entry.table_key)
        self._branch_manifest = branch_manifest
        self._branch = physical_branch(operation.branch)
        entries = [each.entry for each in self._writes]
        entries += [each.entry for each in write_set.adopted]
        entries += [each.entry for each in write_set.pointers if each.entry is not None]
        versions = {**view.reads, **{each.table_key: each.version for each in entries}}
        self.read_set = ReadSet(branch_manifest, versions)
        self._staged: dict[str, Staged] = {}
        self._new: list[tuple[str, StagedNewTable]] = []
        forked = sorted(write_set.forked, key=lambda each: each.table_key)
        self._forked = ForkedTables(manifest.stores, self._branch, forked)
        self._committed: dict[str, Committed] = {}
        self._adopted: list[NewVersion] = []

    def is_empty(self) -> bool:
        """Whether no table is changed, added or dropped, and the schema stays."""
        changes = self._write_set
        changed = self._writes or changes.adopted or changes.added or changes.dropped or changes.pointers
        return not (changed or changes.forked or changes.schema is not None)

    def table_refs(self) -> list[TableBranch]:
        """The tables that it changes or was computed from, each with its branch."""
        return [(table_key, self._branch) for table_key in self.read_set.versions]

    def only_read(self) -> tuple[str, ...]:
        """The tables that it was computed from and does not change."""
        moved = {each.table_key for each in self.pins()} | {each.table_key for each in self.fast_forwarded()}
        return tuple(sorted(self.read_set.versions.keys() - moved))

    def fits(self, queued: QueueEntry) -> bool:
        """Whether a queue entry covers every table that this operation changes or was computed from."""
        forwarded = {(each.table_key, self._branch) for each in self.fast_forwarded()}
        changed = {pin.table_ref for pin in self.pins()} | forwarded
        return queued.sidecar.covers(changed, set(self.table_refs()))

    def with_auto_cleanup(self) -> list[str]:
        """The tables on which Lance would delete old versions at this commit, even if it is the first on a fork."""
        written = [each.entry for each in self._writes if each.stage is not stage_auto_cleanup_off]
        open_table = self.manifest.stores.tables.open
        return [each.table_key for each in written if cleans_itself(open_table(each.pin))]

    def stage_ahead(self) -> None:
        """Stage what can be staged before the sidecar is written: all but tables yet to be forked for this branch."""
        tables = self.manifest.stores.tables
        for write in self._writes:
            if write.entry.branch == self._branch:
                self._staged[write.entry.table_key] = write.stage(tables.open(write.entry.pin))
        for new in sorted(self._write_set.added, key=lambda each: each.table_key):
            rows = new.rows() if new.rows is not None else None
            staged = stage_new_table(tables, table_path(new.table_key), new.schema, rows, dead=new.dead)
            self._new.append((new.table_key, staged))

    def sidecar(self) -> Sidecar:
        """The sidecar to write before the first effect."""
        world, operation = self.manifest.world, self.operation
        now = world.now_us()
        return Sidecar(
            operation_id=new_operation_id(world),
            started_at=now,
            writer_kind=operation.kind,
            branch=self._branch,
            actor=operation.actor,
            tables=self.pins(),
            merge_source_commit_id=operation.merged_parent if operation.kind == "BranchMerge" else None,
            added=self.added(),
            dropped=self.dropped(),
            commit=PlannedCommit(world.ulid(), now, operation.merged_parent, operation.idempotency_key),
            reads=self.only_read(),
            incarnation=self._branch_manifest.incarnation,
            schema=self._write_set.schema.planned if self._write_set.schema is not None else None,
            fast_forwarded=self.fast_forwarded(),
        )

    def added(self) -> tuple[AddedTable, ...]:
        """The sidecar's entries for tables that the operation adds."""
        new = (
            AddedTable(key, staged.path, version=staged.version, row_count=staged.row_count, transaction=staged.uuid)
            for key, staged in self._new
        )
        return (*new, *self._forked.added())

    def dropped(self) -> tuple[DroppedTable, ...]:
        """The sidecar's entries for tables that the operation drops."""
        return tuple(self._write_set.dropped)

    def fast_forwarded(self) -> tuple[FastForwardedTable, ...]:
        """The sidecar's entries for tables that are fast-forwarded to a version that exists already."""
        ordered = sorted(self._write_set.pointers, key=lambda each: each.to.table_key)
        return tuple(map(_fast_forwarded, ordered))

    def pins(self) -> tuple[TablePin, ...]:
        """The sidecar's entries for tables that the operation changes, with the transactions of those staged so far."""
        adopted = (self._adopted_pin(each) for each in self._write_set.adopted)
        return tuple(sorted((*map(self._pin, self._writes), *adopted), key=lambda each: each.table_key))

    def commit_tables(self, queued: QueueEntry) -> None:
        """Commit every table, in sorted order."""
        for each in self._write_set.adopted:
            self._adopt(each)
        self._require_there()
        for write in self._writes:
            key = write.entry.table_key
            queued.may_have_committed = True
            if key not in self._staged:
                self._fork_and_stage(write, queued)
            committed = self._commit_table(self._staged[key], queued)
            reach("commit.table_landed")
            self._committed[key] = self._compacted(write, committed, queued)
        for _, staged in self._new:
            queued.may_have_committed = True
            commit_new_table(self.manifest.stores.tables, staged, operation_id=queued.sidecar.operation_id)
            reach("commit.table_landed")
        self._forked.commit_tables(
            queued,
            lambda each: self._commit_table(each, queued),
            lambda: queued.update(added=self.added()),
        )
        if self.operation.final_check is not None:
            self.operation.final_check()
        self._stage_schema(queued)

    def _stage_schema(self, queued: QueueEntry) -> None:
        """Write the new schema files beside the live ones.

        With them everything is durable, and others may finish the operation.
        """
        if self._write_set.schema is None:
            return
        queued.may_have_committed = True
        if self._write_set.schema.files:
            stage_files(self.manifest.stores.objects, self._write_set.schema.files)
        queued.update(schema=replace(self._write_set.schema.planned, confirmed=True))
        reach("schema.staged")

    def cache_handles(self) -> None:
        """Cache the handles of the new versions for the next reader."""
        for committed in self._committed.values():
            self.manifest.stores.tables.cache_handle(committed.table)

    def request(self, sidecar: Sidecar) -> PublishRequest:
        """The publish request, once every table is committed."""
        planned = sidecar.commit
        assert planned is not None
        return PublishRequest(
            commit_id=planned.commit_id,
            created_at=planned.created_at,
            versions=[
                *(self._new_version(each) for each in self._writes),
                *self._adopted,
                *sidecar.added_versions(),
                *sidecar.fast_forwarded_versions(),
            ],
            drops=[each.table_key for each in sidecar.dropped],
            expected_versions=self.read_set.versions,
            expected_head=self.operation.expected_head,
            actor=self.operation.actor,
            merged_parent=self.operation.merged_parent,
            idempotency_key=self.operation.idempotency_key,
            schema=sidecar.schema_change(),
            excluded_by=(sidecar.derived_commit_id("back"),),
        )

    def _commit_table(self, staged: Staged, queued: QueueEntry) -> Committed:
        """Commit a staged table as exactly the next version.

        Every writer that knows of the graph waits for its turn, so a commit in between was made by another program, or
        by a writer of this one that was suspended past its lease.
        """
        try:
            committed = commit_staged(staged, operation_id=queued.sidecar.operation_id)
        except (CommitConflict, CommitRejected) as error:
            raise self._is_ahead(staged) from error
        if not committed.contiguous:
            raise self._is_ahead(staged)
        return committed

    def _is_ahead(self, staged: Staged) -> CommitFailed:
        table = self.manifest.stores.tables.open_newest(staged.table.path, staged.table.branch)
        if are_ours(table, after=staged.read_version):
            return TableAhead(table.path)
        return CommitRejected(
            f"{table.path} has commits that the graph does not know of, made by another program: nothing was changed, "
            "and they are kept. Run repair to look at them."
        )

    def _compacted(self, write: TableWrite, committed: Committed, queued: QueueEntry) -> Committed:
        """Compact the table if that is due. A compaction that fails does not fail the commit."""
        try:
            staged = self._stage_compaction(write, committed.table)
            if staged is None:
                return committed
            staged.transaction.uuid = self._pin(write).compaction_uuid(queued.sidecar.operation_id)
            compacted = commit_staged(staged, operation_id=queued.sidecar.operation_id)
        except (CommitOutcomeUnknown, LeaseLost):
            raise
        except (OmniGraphError, OSError) as error:
            log.warning("%s was written and not compacted, which is tried again later: %s", committed.table.path, error)
            return committed
        # If not contiguous, another program committed in between, and only the version before that belongs to the
        # graph.
        return compacted if compacted.contiguous else committed

    def _stage_compaction(self, write: TableWrite, table: Table) -> Staged | None:
        if write.then is not None:
            return write.then(table)
        policy = self.manifest.minor_compaction
        if policy is None or self.operation.kind not in _COMPACTING:
            return None
        return stage_minor_compaction(table, policy)

    def _adopt(self, adoption: Adoption) -> None:
        """Check that the newest version is still the one to adopt. Nothing is written to the table."""
        entry = adoption.entry
        newest = self.manifest.stores.tables.open_newest(entry.path, entry.branch)
        if newest.version != adoption.version:
            raise ReadSetChanged(self.operation.branch, [entry.table_key])
        self._adopted.append(NewVersion(entry.table_key, newest.version, newest.count_rows(), entry.branch))

    def _require_there(self) -> None:
        """Check that the versions to fast-forward to and to fork from still exist.

        The sidecar protects them from now on; a cleanup that did not see it may have condemned them before.
        """
        fast_forwarded = [each.to for each in self._write_set.pointers]
        require_retained(self.manifest.stores, [*fast_forwarded, *(each.parent for each in self._write_set.forked)])
        for entry in fast_forwarded:
            self.manifest.stores.tables.open_once(entry.pin)

    def _adopted_pin(self, adoption: Adoption) -> TablePin:
        entry = adoption.entry
        table_uri = self.manifest.stores.tables.location.child(entry.path)
        return TablePin(entry.table_key, table_uri, entry.version, adoption.version, table_branch=self._branch)

    def _fork_and_stage(self, write: TableWrite, queued: QueueEntry) -> None:
        """Fork a table at the branch's first write to it, and stage the write. The sidecar is on the store by now."""
        assert self._branch is not None
        require_no_earlier_fork(self._branch_manifest, write.entry.table_key)
        staged = fork_and_stage(self.manifest.stores, self._branch, write.entry, write.stage)
        self._staged[write.entry.table_key] = staged
        queued.update(tables=self.pins())

    def _pin(self, write: TableWrite) -> TablePin:
        staged = self._staged.get(write.entry.table_key)
        return TablePin(
            table_key=write.entry.table_key,
            table_path=self.manifest.stores.tables.location.child(write.entry.path),
            expected_version=write.entry.version,
            post_commit_pin=write.entry.version + 1,
            table_branch=self._branch,
            transaction=staged.uuid if staged is not None else None,
        )

    def _new_version(self, write: TableWrite) -> NewVersion:
        committed = self._committed[write.entry.table_key]
        return NewVersion(write.entry.table_key, committed.version, committed.table.count_rows(), self._branch)


def _fast_forwarded(fast_forward: FastForward) -> FastForwardedTable:
    now, to = fast_forward.entry, fast_forward.to
    return FastForwardedTable(to.table_key, 0 if now is None else now.version, to.version, to.row_count, to.branch)
