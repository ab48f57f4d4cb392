"""Applies a schema change as one commit: tables are created, dropped and rewritten, and the schema files follow.

No other operation has effects meanwhile: the queue entry of a schema change competes with every other one, and the
lease on branches keeps new ones from being created from the old state. Writers that began under the old schema notice
before their first effect, and start again under the new one.

A change that leaves every stored column as it is costs a branch nothing: branches that have main's schema make the same
change, each with a commit of its own. A change that rewrites, moves or drops a table is made on main alone: the
branches keep their schema, are read and written in it, and are merged across it (`history/merge/cross_schema.py`). Only
a permanent drop has to wait until nobody can read the data any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.catalog.rules import type_of
from omnigraph.ddl.data_checks import require_rules_to_hold
from omnigraph.ddl.new_shape import NewShape
from omnigraph.errors import CommitRejected, SchemaChangeRefused
from omnigraph.kernels.report import Report
from omnigraph.language.evolution import MigrationPlan, plan_evolution
from omnigraph.language.stored.files import schema_files
from omnigraph.manifest.branch_lease import acquire_branch_lease, retry_when_lease_lost
from omnigraph.manifest.layout import MAIN, SCHEMA_IR, SCHEMA_SOURCE, SCHEMA_STATE, table_path
from omnigraph.manifest.schema_files import store_schema_text
from omnigraph.manifest.tags import list_tags
from omnigraph.storage.tables.column_writes import stage_new_columns
from omnigraph.storage.tables.staging import stage_overwrite
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.intents.sidecar import DroppedTable, PlannedSchema
from omnigraph.transaction.read_view import ReadView
from omnigraph.transaction.recovery.outcome import sweep
from omnigraph.transaction.write_set import NewTable, SchemaWrite, TableWrite, WriteSet

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.language.evolution import MigrationPlan, TableChange
    from omnigraph.language.stored.files import Accepted, SchemaFiles
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.storage.objects.lease import Lease
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.commit.protocol import Receipt


@dataclass(frozen=True, repr=False)
class Applied(Report):
    """What a change of schema did. `commit` is None when there was nothing to change.

    The branches in `behind` had main's schema and keep it as it was, until main is merged into them.
    """

    plan: MigrationPlan
    commit: GraphCommit | None
    snapshot: Snapshot
    behind: tuple[str, ...] = ()

    @property
    def applied(self) -> bool:
        """Whether the schema is another one now."""
        return self.commit is not None

    def _summary(self) -> str:
        made = "no commit" if self.commit is None else f"commit {self.commit.id}"
        return f"{len(self.plan.steps)} steps, {made}, {len(self.behind)} branches behind"


@dataclass
class SchemaApply:
    """One schema change, from main's current schema to the desired one."""

    manifest: GraphManifest
    accepted: Accepted
    desired: str
    desired_catalog: Catalog
    allow_data_loss: bool = False
    actor: str | None = None
    _followers: dict[str, Snapshot] = field(default_factory=dict)

    def plan(self) -> MigrationPlan:
        """The migration steps. Only the schema is read."""
        return plan_evolution(self.accepted.catalog, self.desired_catalog, self.allow_data_loss)

    def run(self) -> Applied:
        """Apply the change. Raises `SchemaChangeRefused` when the plan, the data or other branches do not allow it."""
        plan = self.plan()
        plan.raise_if_unsupported()
        if not plan.steps:
            return Applied(plan, None, self.manifest.snapshot())
        if self.manifest.read_only:
            raise CommitRejected("the graph was opened read-only: open it for writing to change its schema.")
        # The schema that the plan starts from; if main has another one at the commit, the caller must plan again.
        named = self.manifest.branch(MAIN).schema
        return retry_when_lease_lost(lambda: self._run(plan, named))

    def _run(self, plan: MigrationPlan, named: str | None) -> Applied:
        stores, world = self.manifest.stores, self.manifest.world
        with acquire_branch_lease(stores, "changing the schema", world) as lease:
            sweep(self.manifest)
            refusal = blocked(self.manifest, plan)
            if refusal is not None:
                raise refusal
            behind = self._behind(plan)
            receipt = self._commit(plan, lease, named)
        return Applied(plan, receipt.commit, receipt.snapshot, behind)

    def preview(self) -> Applied:
        """What `run` would do: refused for the same reasons, and nothing is written."""
        plan = self.plan()
        plan.raise_if_unsupported()
        refusal = blocked(self.manifest, plan)
        if refusal is not None:
            raise refusal
        snapshot = self.manifest.snapshot()
        self._check(plan, ReadView(snapshot, self.manifest.stores.tables))
        self._checked_followers(plan)
        return Applied(plan, None, snapshot, self._behind(plan))

    def _commit(self, plan: MigrationPlan, lease: Lease, named: str | None) -> Receipt:
        files = schema_files(self.desired, SCHEMA_SOURCE)
        objects = self.manifest.stores.objects
        store_schema_text(objects, self.accepted.hash, self.accepted.source.encode())
        store_schema_text(objects, files.ir_hash, files.source)
        self._followers = self._checked_followers(plan)
        operation = Operation(
            "SchemaApply",
            lambda view: self._changes(plan, files, view),
            actor=self.actor,
            schema=named,
            final_check=lambda: self._check_again(plan, lease),
        )
        receipt = commit(self.manifest, operation)
        assert receipt is not None, "a change of schema is never nothing"
        return receipt

    def _changes(self, plan: MigrationPlan, files: SchemaFiles, view: ReadView) -> WriteSet:
        self._check(plan, view)
        dropped = sorted(each.from_table_key or "" for each in plan.tables if each.action in ("drop", "move"))
        main = self.manifest.branch(MAIN)
        planned = PlannedSchema(self.accepted.hash, files.ir_hash, tuple(self._followers), purged(plan))
        return WriteSet(
            writes=[self._rewrite(each, view) for each in plan.tables if each.action == "rewrite"],
            added=[self._new_table(each, view) for each in plan.tables if each.action in ("create", "move")],
            dropped=[DroppedTable(view.entry(key).table_key, main.next_tombstone(key)) for key in dropped],
            schema=SchemaWrite(planned, _by_name(files)),
        )

    def _check(self, plan: MigrationPlan, view: ReadView) -> None:
        """Check the existing rows against every new rule."""
        for change in plan.tables:
            if change.checks and change.from_table_key is not None:
                table = view.table(change.from_table_key)
                require_rules_to_hold(self.desired_catalog, self._shape(change), table, branch=view.snapshot.branch)

    def _shape(self, change: TableChange) -> NewShape:
        return NewShape(type_of(self.desired_catalog, change.table_key), change)

    def _rewrite(self, change: TableChange, view: ReadView) -> TableWrite:
        entry = view.entry(change.table_key)
        shape = self._shape(change)
        if entry.row_count and shape.only_adds_columns:
            return TableWrite(entry, partial(stage_new_columns, schema=shape.schema, fills=shape.fills))
        return TableWrite(entry, partial(_overwrite, partial(self._rows, change, view)))

    def _rows(self, change: TableChange, view: ReadView) -> pa.RecordBatchReader:
        shape = self._shape(change)
        if change.from_table_key is None or not view.entry(change.from_table_key).row_count:
            return shape.schema.empty_table().to_reader()
        return shape.reader(view.table(change.from_table_key))

    def _new_table(self, change: TableChange, view: ReadView) -> NewTable:
        """The table of a type that is new or renamed: the path of a table follows from the type's name."""
        # On every branch, the version after which a table of this name can be added is that of its last drop.
        branches = (self.manifest.branch(name) for name in (MAIN, *self._followers))
        dead = max(each.last_tombstone(change.table_key) for each in branches)
        rows = None if change.action == "create" else partial(self._rows, change, view)
        if change.from_table_key is not None and not view.entry(change.from_table_key).row_count:
            rows = None
        return NewTable(change.table_key, self._shape(change).schema, rows, dead)

    def _behind(self, plan: MigrationPlan) -> tuple[str, ...]:
        return () if leaves_tables_alone(plan) else branches_in_step(self.manifest)

    def _checked_followers(self, plan: MigrationPlan) -> dict[str, Snapshot]:
        if not leaves_tables_alone(plan):
            return {}
        found = {name: self.manifest.snapshot(name) for name in branches_in_step(self.manifest)}
        for snapshot in found.values():
            self._check(plan, ReadView(snapshot, self.manifest.stores.tables))
        return found

    def _check_again(self, plan: MigrationPlan, lease: Lease) -> None:
        """Under the queue entry: check that the lease on branches holds, and that rows written since obey the rules."""
        lease.require()
        for name, before in self._followers.items():
            now = self.manifest.snapshot(name)
            if now != before:
                self._check(plan, ReadView(now, self.manifest.stores.tables))


def _overwrite(rows: partial[pa.RecordBatchReader], table: Table) -> Staged:
    return stage_overwrite(table, rows())


def _by_name(files: SchemaFiles) -> dict[str, bytes]:
    return {SCHEMA_SOURCE: files.source, SCHEMA_IR: files.ir_json, SCHEMA_STATE: files.state_json}


CODE = "OG-LK-101"


def branches_in_step(manifest: GraphManifest) -> tuple[str, ...]:
    """The other branches that have main's schema."""
    schema = manifest.fresh_branch(MAIN).schema
    others = [each.name for each in manifest.branches() if each.name != MAIN]
    return tuple(name for name in others if manifest.fresh_branch(name).schema == schema)


def leaves_tables_alone(plan: MigrationPlan) -> bool:
    """Whether every existing table stays as it is, so that other branches can make the same change."""
    return all(each.action in ("keep", "create") for each in plan.tables)


def purged(plan: MigrationPlan) -> tuple[str, ...]:
    """The tables whose earlier versions are deleted with the change, because they hold what was dropped permanently."""
    return tuple(table_path(_now(each)) for each in plan.tables if _forgets(each))


def blocked(manifest: GraphManifest, plan: MigrationPlan) -> SchemaChangeRefused | None:
    """Why existing branches or tags prevent the plan; None when they do not."""
    if not purged(plan):
        return None
    others = tuple(each.name for each in manifest.branches() if each.name != MAIN)
    if others:
        return _refusal(f"{_branches(others)} may still read what is to be dropped for good. Delete the branch first.")
    tags = [each.name for each in list_tags(manifest.stores)]
    if tags:
        return _refusal(
            f"the tag {tags[0]!r} keeps a commit that may have what is to be dropped for good. Delete the tag first, "
            "or drop softly, without allowing data loss."
        )
    return None


def _forgets(change: TableChange) -> bool:
    return change.mode == "hard" and (change.action == "drop" or bool(change.dropped_columns))


def _now(change: TableChange) -> str:
    """The table that holds the earlier versions; a renamed type has left them under its old name."""
    return change.from_table_key or change.table_key


def _refusal(reason: str) -> SchemaChangeRefused:
    return SchemaChangeRefused(f"[{CODE}] {reason} Nothing was changed.", change_code=CODE)


def _branches(names: tuple[str, ...]) -> str:
    return f"branch {names[0]!r}" if len(names) == 1 else f"each of the branches {', '.join(names)}"
