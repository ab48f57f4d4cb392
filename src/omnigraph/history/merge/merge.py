"""Merges one branch into another as one commit with two parents, and reverts a commit with a new one.

A revert is a merge of the snapshot before the commit, with the snapshot after it as the base.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import InvalidInput, MergeConflicts, RevertConflicts, SchemaChanged
from omnigraph.history.merge.conflicts import require_all_resolved
from omnigraph.history.merge.cross_schema import CrossSchemaMerge, CrossSchemaResult
from omnigraph.history.merge.merge_base import CommonState
from omnigraph.history.merge.reconcile import MergeSettings, Reconciled, reconcile
from omnigraph.history.merge.schema_lineage import merge_schema
from omnigraph.kernels.report import Report
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.read_view import ReadView
from omnigraph.transaction.write_set import WriteSet

if TYPE_CHECKING:
    from omnigraph.errors.commits import Conflict
    from omnigraph.history.merge.conflicts import Resolver
    from omnigraph.history.merge.reconcile import MergeBackend
    from omnigraph.language.evolution import Step
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.transaction.schemas import Schemas

MergeKind = Literal["already_up_to_date", "fast_forward", "merged"]


@dataclass(frozen=True)
class MergeOptions:
    """How to merge. `by_property=False`: two changes of one entity conflict, whichever properties they changed.

    `merge_backend` is the backend for merges that do not fit in memory.
    """

    by_property: bool = True
    resolver: Resolver = None
    actor: str | None = None
    idempotency_key: str | None = None
    merge_backend: MergeBackend | None = None


@dataclass(frozen=True, repr=False)
class Merged(Report):
    """What a merge did, or would do: per table, how many rows it puts and removes on the target.

    No row of the tables in `adopted` is written: the target had not changed them, and takes the version that the source
    has, on the table branch that both share. `kept_because` says why the source, which was to be deleted, was not.
    At most 10,000 conflicts are listed; `more_conflicts` counts the others.

    `schema_steps` bring the target to the schema of the source, when that is the later one. `left_out`: values that the
    side with the earlier schema has set, in properties that the later one has dropped, by property and number of rows.
    """

    kind: MergeKind
    source: str
    target: str
    commit: GraphCommit | None = None
    puts: dict[str, int] = field(default_factory=dict)
    deletes: dict[str, int] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    adopted: tuple[str, ...] = ()
    source_deleted: bool = False
    kept_because: str | None = None
    more_conflicts: int = 0
    schema_steps: tuple[Step, ...] = ()
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def conflict_count(self) -> int:
        """How many conflicts there are, listed or not."""
        return len(self.conflicts) + self.more_conflicts

    def _summary(self) -> str:
        outcome = "no commit" if self.commit is None else f"commit {self.commit.id}"
        rows = f"{sum(self.puts.values()):,} rows put, {sum(self.deletes.values()):,} deleted"
        return f"{self.source} into {self.target}: {self.kind}, {rows}, {self.conflict_count:,} conflicts, {outcome}"


class Merge:
    """A merge of the newest commit of `source`, as of now, into `target`."""

    def __init__(
        self,
        manifest: GraphManifest,
        schemas: Schemas,
        source: str,
        target: str,
        options: MergeOptions,
    ) -> None:
        if source == target:
            raise InvalidInput(f"branch {source!r} cannot be merged into itself.")
        self._manifest = manifest
        self._source, self._target = source, target
        self._options = options
        self._theirs, self._ours = manifest.snapshot(source), manifest.snapshot(target)
        self._bases = manifest.merge_bases(source, target)
        root = self._bases.root
        self._root = None if root is None else manifest.snapshot_of(root.id)
        self._tips = tuple(manifest.snapshot_of(each.id) for each in self._bases.tips)
        common = self._tips if self._root is None else (*self._tips, self._root)
        self._catalog, self._merge_schema = merge_schema(manifest, schemas, self._theirs, self._ours, common)
        self._reconciled = Reconciled()
        self._cross_schema: CrossSchemaResult | None = None

    @property
    def kind(self) -> MergeKind:
        """How the two branches are related."""
        bases = {each.id for each in self._bases.tips}
        if self._theirs.commit_id in bases:
            return "already_up_to_date"
        return "fast_forward" if self._ours.commit_id in bases else "merged"

    def run(self) -> Merged:
        """Merge, as one commit; raises `MergeConflicts` with the conflicts when the branches disagree."""
        kind = self.kind
        if kind == "already_up_to_date":
            return Merged(kind, self._source, self._target)
        operation = Operation(
            "BranchMerge",
            self._prepare,
            branch=self._target,
            actor=self._options.actor,
            merged_parent=self._theirs.commit_id,
            idempotency_key=self._options.idempotency_key,
            schema=self._ours.schema,
        )
        receipt = commit(self._manifest, operation)
        if receipt is None:
            return Merged("already_up_to_date", self._source, self._target)
        return self._report(kind, receipt.commit)

    def preview(self) -> Merged:
        """What `run` would do, conflicts included; writes nothing."""
        kind = self.kind
        if kind == "already_up_to_date":
            return Merged(kind, self._source, self._target)
        self._find(ReadView(self._manifest.snapshot(self._target), self._manifest.stores.tables))
        return self._report(kind, None)

    def _prepare(self, view: ReadView) -> WriteSet | None:
        if self._is_merged_into(view):
            return None
        self._find(view)
        if self._reconciled.conflicts:
            raise MergeConflicts(self._source, self._target, self._reconciled.conflicts, self._reconciled.more)
        if self._cross_schema is not None and self._cross_schema.write_set is not None:
            return self._cross_schema.write_set
        return WriteSet(self._reconciled.writes(view), pointers=self._reconciled.pointers)

    def _is_merged_into(self, view: ReadView) -> bool:
        """Whether the target has moved since this merge began, and now has the source's commit in its history."""
        theirs, head = self._theirs.commit_id, view.snapshot.commit_id
        if theirs is None or head is None or head == self._ours.commit_id:
            return False
        lineage = self._manifest.lineage(self._target)
        reached = lineage.ancestors(head)
        return theirs in reached or any(theirs in lineage.parents(each) for each in reached)

    def _find(self, view: ReadView) -> None:
        if view.snapshot.schema != self._ours.schema:
            raise SchemaChanged(self._target)
        options = self._options
        settings = MergeSettings(
            by_property=options.by_property, resolver=options.resolver, merge_backend=options.merge_backend
        )
        tables, schema = self._manifest.stores.tables, self._merge_schema
        if schema is None:
            common = CommonState(tables, self._root, self._tips)
            self._reconciled = reconcile(self._catalog, view, common, self._theirs, settings)
        else:
            cross_schema = CrossSchemaMerge(self._manifest, schema, self._theirs, self._root, self._tips)
            self._cross_schema = cross_schema.reconcile(view, settings)
            self._reconciled = self._cross_schema.reconciled
        require_all_resolved(options.resolver, self._reconciled.resolved, self._reconciled.conflicts)

    def _report(self, kind: MergeKind, commit: GraphCommit | None) -> Merged:
        found = self._reconciled
        return Merged(
            kind,
            self._source,
            self._target,
            commit,
            found.puts,
            found.deletes,
            found.conflicts,
            found.adopted,
            more_conflicts=found.more,
            schema_steps=() if self._merge_schema is None else self._merge_schema.steps_of_target,
            left_out={} if self._cross_schema is None else self._cross_schema.left_out,
        )


@dataclass(frozen=True, repr=False)
class Reverted(Report):
    """What a revert did, or would do. `commit` is None when there was nothing left to revert.

    At most 10,000 conflicts are listed; `more_conflicts` counts the others. `left_out`: values that the commit
    changed, in properties that were dropped since, by property and number of rows.
    """

    reverted: GraphCommit
    branch: str
    commit: GraphCommit | None = None
    puts: dict[str, int] = field(default_factory=dict)
    deletes: dict[str, int] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    more_conflicts: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def conflict_count(self) -> int:
        """How many conflicts there are, listed or not."""
        return len(self.conflicts) + self.more_conflicts

    def _summary(self) -> str:
        outcome = "no commit" if self.commit is None else f"commit {self.commit.id}"
        rows = f"{sum(self.puts.values()):,} rows put, {sum(self.deletes.values()):,} deleted"
        return f"{self.reverted.id} on {self.branch}: {rows}, {self.conflict_count:,} conflicts, {outcome}"


class Revert:
    """The revert of one commit of a branch's history, on the branch as it is now."""

    def __init__(
        self, manifest: GraphManifest, schemas: Schemas, commit_id: str, branch: str, settings: MergeSettings
    ) -> None:
        self._manifest = manifest
        self._branch = branch
        self._settings = settings
        self._commit = manifest.commit(commit_id)
        self._after = manifest.snapshot_of(commit_id)
        self._before = manifest.snapshot_of(_parent(manifest, self._commit, branch))
        ours = manifest.snapshot(branch)
        self._schema = ours.schema
        self._catalog, self._merge_schema = merge_schema(manifest, schemas, self._before, ours, (self._after,))
        self._reconciled, self._left_out = Reconciled(), dict[str, int]()

    def run(self, actor: str | None) -> Reverted:
        """Revert the commit; raises `RevertConflicts` with the conflicts when later changes prevent it."""
        operation = Operation("Mutation", self._prepare, branch=self._branch, actor=actor, schema=self._schema)
        receipt = commit(self._manifest, operation)
        return self._report(None if receipt is None else receipt.commit)

    def preview(self) -> Reverted:
        """What `run` would do, conflicts included; writes nothing."""
        self._find(ReadView(self._manifest.snapshot(self._branch), self._manifest.stores.tables))
        return self._report(None)

    def _prepare(self, view: ReadView) -> WriteSet | None:
        self._find(view)
        if self._reconciled.conflicts:
            raise RevertConflicts(self._commit.id, self._branch, self._reconciled.conflicts, self._reconciled.more)
        writes, pointers = self._reconciled.writes(view), self._reconciled.pointers
        return WriteSet(writes, pointers=pointers) if writes or pointers else None

    def _find(self, view: ReadView) -> None:
        if view.snapshot.schema != self._schema:
            raise SchemaChanged(self._branch)
        if self._merge_schema is None:
            common = CommonState(self._manifest.stores.tables, self._after, (self._after,))
            self._reconciled = reconcile(self._catalog, view, common, self._before, self._settings)
        else:
            cross_schema = CrossSchemaMerge(
                self._manifest, self._merge_schema, self._before, self._after, (self._after,)
            )
            found = cross_schema.reconcile(view, self._settings)
            self._reconciled, self._left_out = found.reconciled, found.left_out
        require_all_resolved(self._settings.resolver, self._reconciled.resolved, self._reconciled.conflicts)

    def _report(self, commit: GraphCommit | None) -> Reverted:
        found = self._reconciled
        result = found.puts, found.deletes, found.conflicts, found.more
        return Reverted(self._commit, self._branch, commit, *result, self._left_out)


def _parent(manifest: GraphManifest, commit: GraphCommit, branch: str) -> str:
    if commit.parent is None:
        raise InvalidInput(f"commit {commit.id} is the first of the graph: there is no earlier state to revert to.")
    if commit.schema is not None:
        raise InvalidInput(f"commit {commit.id} changed the schema: apply the schema that you want instead.")
    if not manifest.has_in_history(branch, commit.id):
        raise InvalidInput(f"commit {commit.id} is not in the history of branch {branch!r}: it did nothing there.")
    return commit.parent
