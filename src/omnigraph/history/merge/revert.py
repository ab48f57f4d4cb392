"""Reverts one commit with a new commit: a merge of the snapshot before it, with the snapshot after it as the base."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import InvalidInput, RevertConflicts, SchemaChanged
from omnigraph.history.merge.cross_schema import CrossSchemaMerge
from omnigraph.history.merge.merge_base import CommonState
from omnigraph.history.merge.reconcile import MergeSettings, Reconciled, reconcile
from omnigraph.history.merge.schema_lineage import meeting
from omnigraph.kernels.report import Report
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.read_view import ReadView
from omnigraph.transaction.write_set import WriteSet

if TYPE_CHECKING:
    from omnigraph.errors.commits import Conflict
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.transaction.schemas import Schemas


@dataclass(frozen=True, repr=False)
class Reverted(Report):
    """What a revert did, or would do. `commit` is None when there was nothing left to take back.

    Of very many conflicts some are listed, and `more_conflicts` counts the others. `left_out`: values that the commit
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
        made = "no commit" if self.commit is None else f"commit {self.commit.id}"
        rows = f"{sum(self.puts.values()):,} rows put, {sum(self.deletes.values()):,} deleted"
        return f"{self.reverted.id} on {self.branch}: {rows}, {self.conflict_count:,} conflicts, {made}"


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
        self._catalog, self._meeting = meeting(manifest, schemas, self._before, ours, (self._after,))
        self._found, self._left_out = Reconciled(), dict[str, int]()

    def run(self, actor: str | None) -> Reverted:
        """Revert the commit; raises `RevertConflicts` with the conflicts when later changes prevent it."""
        operation = Operation("Mutation", self._prepare, branch=self._branch, actor=actor, schema=self._schema)
        receipt = commit(self._manifest, operation)
        return self._told(None if receipt is None else receipt.commit)

    def preview(self) -> Reverted:
        """What `run` would do, conflicts included; writes nothing."""
        self._find(ReadView(self._manifest.snapshot(self._branch), self._manifest.stores.tables))
        return self._told(None)

    def _prepare(self, view: ReadView) -> WriteSet | None:
        self._find(view)
        if self._found.conflicts:
            raise RevertConflicts(self._commit.id, self._branch, self._found.conflicts, self._found.more)
        writes, pointers = self._found.writes(view), self._found.pointers
        return WriteSet(writes, pointers=pointers) if writes or pointers else None

    def _find(self, view: ReadView) -> None:
        if view.snapshot.schema != self._schema:
            raise SchemaChanged(self._branch)
        if self._meeting is None:
            common = CommonState(self._manifest.stores.tables, self._after, (self._after,))
            self._found = reconcile(self._catalog, view, common, self._before, self._settings)
            return
        across = CrossSchemaMerge(self._manifest, self._meeting, self._before, self._after, (self._after,))
        found = across.meet(view, self._settings)
        self._found, self._left_out = found.reconciled, found.left_out

    def _told(self, made: GraphCommit | None) -> Reverted:
        found = self._found
        told = found.puts, found.deletes, found.conflicts, found.more
        return Reverted(self._commit, self._branch, made, *told, self._left_out)


def _parent(manifest: GraphManifest, commit: GraphCommit, branch: str) -> str:
    if commit.parent is None:
        raise InvalidInput(f"commit {commit.id} is the first of the graph: there is nothing before it to go back to.")
    if commit.schema is not None:
        raise InvalidInput(f"commit {commit.id} changed the schema: apply the schema that you want instead.")
    if not manifest.has_in_history(branch, commit.id):
        raise InvalidInput(f"commit {commit.id} is not in the history of branch {branch!r}: it did nothing there.")
    return commit.parent
