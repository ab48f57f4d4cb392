"""Taking back what one commit did, as a new commit: a merge of the state before it, measured from the one after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import InvalidInput, RevertConflicts
from omnigraph.versions.merge.bases import CommonState
from omnigraph.versions.merge.reconcile import Reconciled, Settings, reconcile
from omnigraph.write.commit import Operation, WriteSet, commit
from omnigraph.write.view import View

if TYPE_CHECKING:
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.versions.merge.conflicts import Conflict


@dataclass(frozen=True)
class Reverted:
    """What a revert did, or would do. `commit` is None when there was nothing left to take back.

    Of very many conflicts some are listed, and `more_conflicts` counts the others.
    """

    reverted: GraphCommit
    branch: str
    commit: GraphCommit | None = None
    puts: dict[str, int] = field(default_factory=dict)
    deletes: dict[str, int] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    more_conflicts: int = 0

    @property
    def conflict_count(self) -> int:
        """How many conflicts there are, listed or not."""
        return len(self.conflicts) + self.more_conflicts


class Revert:
    """One commit of a branch's history, taken back on the branch as it is now."""

    def __init__(
        self, manifest: GraphManifest, catalog: Catalog, commit_id: str, branch: str, settings: Settings
    ) -> None:
        self._manifest = manifest
        self._catalog = catalog
        self._branch = branch
        self._settings = settings
        self._commit = manifest.commit(commit_id)
        self._after = manifest.snapshot_of(commit_id)
        self._before = manifest.snapshot_of(_parent(manifest, self._commit, branch))
        self._found = Reconciled()

    def run(self, actor: str | None) -> Reverted:
        """Take it back; `RevertConflicts` with all of them when later changes stand in the way."""
        receipt = commit(self._manifest, Operation("Mutation", self._prepare, branch=self._branch, actor=actor))
        return self._told(None if receipt is None else receipt.commit)

    def preview(self) -> Reverted:
        """What `run` would do, conflicts included; nothing is written."""
        self._find(View(self._manifest.snapshot(self._branch), self._manifest.stores.tables))
        return self._told(None)

    def _prepare(self, view: View) -> WriteSet | None:
        self._find(view)
        if self._found.conflicts:
            raise RevertConflicts(self._commit.id, self._branch, self._found.conflicts, self._found.more)
        writes, pointers = self._found.writes(view), self._found.pointers
        return WriteSet(writes, pointers=pointers) if writes or pointers else None

    def _find(self, view: View) -> None:
        common = CommonState(self._manifest.stores.tables, self._after, (self._after,))
        self._found = reconcile(self._catalog, view, common, self._before, self._settings)

    def _told(self, made: GraphCommit | None) -> Reverted:
        found = self._found
        return Reverted(self._commit, self._branch, made, found.puts, found.deletes, found.conflicts, found.more)


def _parent(manifest: GraphManifest, commit: GraphCommit, branch: str) -> str:
    if commit.parent is None:
        raise InvalidInput(f"commit {commit.id} is the first of the graph: there is nothing before it to go back to.")
    if commit.schema is not None:
        raise InvalidInput(f"commit {commit.id} changed the schema: apply the schema that you want instead.")
    if not manifest.has_in_history(branch, commit.id):
        raise InvalidInput(f"commit {commit.id} is not in the history of branch {branch!r}: it did nothing there.")
    return commit.parent
