"""Optimize compacts fragments, completes indexes and shrinks `__manifest`; the rows stay the same. It makes one commit.

Everything is staged before any writer has to wait. A table that was written to meanwhile is staged again: a small one
at once, while this operation has its turn in the queue, a large one in another round. Nothing that a commit needs is
removed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from omnigraph.catalog.indexes import table_indexes
from omnigraph.errors import CommitConflict, CommitRejected, LeaseLost, OmniGraphError, RecoveryRequired
from omnigraph.failpoints import reach
from omnigraph.kernels.report import Report
from omnigraph.maintenance.indexes import PendingIndex
from omnigraph.manifest.compaction import collect, compact
from omnigraph.manifest.layout import physical_branch
from omnigraph.storage.lance.paths import detached_version_file
from omnigraph.storage.tables.compaction import stage_compaction
from omnigraph.storage.tables.immediate import cleans_itself, preview, stage_auto_cleanup_off
from omnigraph.storage.tables.indexes import IndexSpec, has_vectors, stage_coverage, staged_upon
from omnigraph.storage.tables.staging import are_ours
from omnigraph.storage.tables.table import ROWS_PER_FILE
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.intents.queue import list_sidecars
from omnigraph.transaction.write_set import TableWrite, WriteSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.storage.tables.compaction import Execute
    from omnigraph.storage.tables.indexes import Build
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.read_view import ReadView

log = logging.getLogger(__name__)

ROUNDS = 4
DRIFT = "drift_needs_repair"
BUSY = "written_to_meanwhile"
INHERITED = "inherited"


@dataclass(frozen=True)
class OptimizedTable:
    """The outcome for one table. `skipped` says why nothing was done to it; `error` why it, or a part of it, failed."""

    table_key: str
    fragments_removed: int = 0
    fragments_added: int = 0
    indexed: tuple[str, ...] = ()
    committed: bool = False
    skipped: str | None = None
    error: str | None = None
    published_version: int = 0
    head_version: int = 0
    pending: tuple[PendingIndex, ...] = ()


@dataclass(frozen=True, repr=False)
class OptimizeReport(Report):
    """What was done, by table. `commit` is None when nothing was to gain. `manifest_compacted`: `__manifest` too."""

    commit: GraphCommit | None
    tables: tuple[OptimizedTable, ...]
    manifest_compacted: bool

    def _summary(self) -> str:
        removed, added = (
            sum(getattr(each, f"fragments_{name}") for each in self.tables) for name in ("removed", "added")
        )
        made = "no commit" if self.commit is None else f"commit {self.commit.id}"
        return f"{len(self.tables)} tables: {removed:,} fragments replaced by {added:,}, {made}"


@dataclass
class _Prepared:
    """The staged maintenance of a table."""

    entry: TableEntry
    report: OptimizedTable
    compaction: Staged | None = None
    coverage: Staged | None = None
    # Lance's automatic cleanup is on, and must not be. Any other write to the table switches it off, too.
    auto_cleanup_on: bool = False

    def write(self) -> TableWrite | None:
        first = self.compaction or self.coverage
        if first is None:
            return TableWrite(self.entry, stage_auto_cleanup_off) if self.auto_cleanup_on else None
        then = None if self.compaction is None else self._index
        return TableWrite(self.entry, lambda _: first, then)

    def report_at(self, published: int) -> OptimizedTable:
        """The report of a published version. Indexes follow a compaction as a version of their own, or failed."""
        done = replace(self.report, committed=True, published_version=published, head_version=published)
        if self.compaction is None or self.coverage is None or published > self.entry.version + 1:
            return done
        return replace(
            done, indexed=(), error="it was compacted, and its indexes were not completed: run optimize again."
        )

    def _index(self, table: Table) -> Staged | None:
        return None if self.coverage is None else staged_upon(self.coverage, table)


@dataclass
class Optimize:
    """Optimizes the tables of a branch. `execute` runs compaction tasks, `build` builds indexes; None: locally."""

    manifest: GraphManifest
    catalog: Catalog
    branch: str
    actor: str | None = None
    execute: Execute | None = None
    build: Build | None = None
    _prepared: dict[str, _Prepared] = field(default_factory=dict)
    _reports: dict[str, OptimizedTable] = field(default_factory=dict)

    def run(self) -> OptimizeReport:
        """Optimize what can be improved, in one commit unless other writers intervene."""
        newest: GraphCommit | None = None
        todo = [each.table_key for each in self._kinds()]
        for _ in range(ROUNDS):
            done = self._round(todo)
            newest = done or newest
            todo = [key for key in todo if self._reports[key].skipped == BUSY]
            if not todo:
                break
        compacted = self._compact_manifest()
        return OptimizeReport(newest, tuple(self._reports[each] for each in sorted(self._reports)), compacted)

    def _round(self, todo: list[str]) -> GraphCommit | None:
        """Stage everything first; when the protocol prepares again, it gets what was staged."""
        snapshot = self.manifest.snapshot(self.branch)
        kinds = [each for each in self._kinds() if each.table_key in todo]
        self._prepared = {each.table_key: self._prepare(snapshot[each.table_key], each) for each in kinds}
        reach("optimize.staged")
        operation = Operation("Optimize", self._still_good, branch=self.branch, actor=self.actor)
        try:
            receipt = commit(self.manifest, operation)
        except (CommitConflict, CommitRejected) as error:
            log.warning("nothing was optimized, and it is tried again: %s", error)
            receipt = None
        self._record_reports(receipt.snapshot.tables if receipt else {})
        return receipt.commit if receipt else None

    def _still_good(self, view: ReadView) -> WriteSet | None:
        """The staged writes; tables that have changed since are staged again if that is quick."""
        writes = []
        for kind in self._kinds():
            prepared = self._prepared.get(kind.table_key)
            entry = view.snapshot.tables.get(kind.table_key)
            if prepared is None or entry is None:
                continue
            if entry.version != prepared.entry.version and entry.row_count <= ROWS_PER_FILE:
                prepared = self._prepared[kind.table_key] = self._prepare(entry, kind)
            write = prepared.write()
            if write is not None and entry.version == prepared.entry.version:
                writes.append(write)
        return WriteSet(writes) if writes else None

    def _record_reports(self, published: Mapping[str, TableEntry]) -> None:
        for key, prepared in self._prepared.items():
            now = published.get(key)
            if prepared.write() is None:
                self._reports[key] = prepared.report
            elif now is None or now.version == prepared.entry.version:
                self._reports[key] = replace(_unchanged(prepared.entry), skipped=BUSY)
            else:
                self._reports[key] = prepared.report_at(now.version)

    def _prepare(self, entry: TableEntry, kind: NodeType | EdgeType) -> _Prepared:
        report = _unchanged(entry)
        prepared = _Prepared(entry, report)
        if entry.branch != physical_branch(self.branch):
            prepared.report = replace(report, skipped=INHERITED)
            return prepared
        try:
            table = self.manifest.stores.tables.open(entry.pin)
            head = table.latest_version()
            if head != entry.version and (why := self._why_ahead(entry)) is not None:
                prepared.report = replace(report, skipped=why, head_version=head)
                return prepared
            self._stage(prepared, table, kind)
        except LeaseLost:
            raise  # another process has taken the whole operation over, not this table alone
        except OmniGraphError as error:
            prepared.compaction = prepared.coverage = None
            prepared.report = replace(report, error=str(error))
        return prepared

    def _stage(self, prepared: _Prepared, table: Table, kind: NodeType | EdgeType) -> None:
        prepared.auto_cleanup_on = cleans_itself(table)
        prepared.compaction = stage_compaction(table, rows_per_file=ROWS_PER_FILE, execute=self.execute)
        after = table if prepared.compaction is None else preview(prepared.compaction)
        try:
            specs, pending = _declared(after, kind)
            prepared.coverage, indexed = stage_coverage(after, specs, self.build)
        finally:
            if after is not table:
                self._drop(after)
        groups = [] if prepared.compaction is None else list(prepared.compaction.transaction.operation.groups)
        prepared.report = replace(
            prepared.report,
            fragments_removed=sum(len(list(each.old_fragments)) for each in groups),
            fragments_added=sum(len(list(each.new_fragments)) for each in groups),
            indexed=indexed,
            pending=pending,
        )

    def _drop(self, previewed: Table) -> None:
        file = detached_version_file(previewed.path, previewed.branch, previewed.version)
        self.manifest.stores.objects.delete(file)

    def _why_ahead(self, entry: TableEntry) -> str | None:
        """Why a table is ahead of the manifest: it is being written to, or another program wrote to it.

        None when a suspended writer of this program left it so: the commit reverts that.
        """
        table_ref = (entry.table_key, entry.branch)
        unreadable: list[RecoveryRequired] = []
        found = list_sidecars(self.manifest.stores.objects, unreadable=unreadable.append)
        named = any(table_ref in each.sidecar.table_refs for each in found) or any(
            each.concerns(entry.table_key) for each in unreadable
        )
        now = self.manifest.snapshot(self.branch).tables.get(entry.table_key)
        if now is None or now.version != entry.version or named:
            return BUSY
        newest = self.manifest.stores.tables.open_newest(entry.path, entry.branch)
        return None if are_ours(newest, after=entry.version) else DRIFT

    def _compact_manifest(self) -> bool:
        """Compact `__manifest`. Losing to a publisher is fine: publishing keeps `__manifest` small by itself."""
        branch_manifest = self.manifest.fresh_branch(self.branch)
        try:
            compacted = compact(branch_manifest, replace(self.manifest.manifest_policy, small_fragments=1))
            collect(branch_manifest, self.manifest.manifest_policy, self.manifest.world)
        except (CommitConflict, CommitRejected):
            return False
        return compacted

    def _kinds(self) -> list[NodeType | EdgeType]:
        return [*self.catalog.nodes.values(), *self.catalog.edges.values()]


def _unchanged(entry: TableEntry) -> OptimizedTable:
    return OptimizedTable(entry.table_key, published_version=entry.version, head_version=entry.version)


def _declared(table: Table, kind: NodeType | EdgeType) -> tuple[list[IndexSpec], tuple[PendingIndex, ...]]:
    """The indexes that the table should have, and those that cannot be built yet. An empty table has neither."""
    specs: list[IndexSpec] = []
    pending: list[PendingIndex] = []
    for each in table_indexes(kind) if table.count_rows() else ():
        if each.kind == "vector" and not has_vectors(table, each.column):
            pending.append(PendingIndex(kind.table_key, each.column, "no row has a vector yet"))
        else:
            specs.append(IndexSpec(each.column, each.kind, each.name, each.metric))
    return specs, tuple(pending)
