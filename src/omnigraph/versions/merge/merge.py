"""Merging one branch into another as one commit with two parents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import InvalidInput, MergeConflicts
from omnigraph.versions.merge.bases import CommonState
from omnigraph.versions.merge.reconcile import Reconciled, Settings, reconcile
from omnigraph.write.commit import Operation, WriteSet, commit
from omnigraph.write.stage import writes_of
from omnigraph.write.view import View

if TYPE_CHECKING:
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.versions.merge.conflicts import Conflict, Resolver
    from omnigraph.versions.merge.reshaping import Reshaping

Kind = Literal["already_up_to_date", "fast_forward", "merged"]


@dataclass(frozen=True)
class MergeOptions:
    """How to merge. `by_property=False`: two sides that changed one entity conflict, whatever they changed of it."""

    by_property: bool = True
    resolver: Resolver = None
    actor: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True)
class Merged:
    """What a merge did, or would do: per table, how many rows it puts and removes on the target.

    Of the tables in `adopted` no row is written: the target had not changed them, and takes the version that the source
    has from the line that both have them from. A source that was to be deleted and could not be is `kept_because`.
    """

    kind: Kind
    source: str
    target: str
    commit: GraphCommit | None = None
    puts: dict[str, int] = field(default_factory=dict)
    deletes: dict[str, int] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    adopted: tuple[str, ...] = ()
    source_deleted: bool = False
    kept_because: str | None = None


class Merge:
    """One merge of the newest commit of `source`, as it is now, into `target`."""

    def __init__(
        self,
        manifest: GraphManifest,
        catalog: Catalog,
        source: str,
        target: str,
        options: MergeOptions,
        reshaping: Reshaping | None = None,
    ) -> None:
        if source == target:
            raise InvalidInput(f"branch {source!r} cannot be merged into itself.")
        self._manifest = manifest
        self._catalog = catalog
        self._source, self._target = source, target
        self._options = options
        self._reshaping = reshaping
        self._theirs = manifest.snapshot(source)
        self._bases = manifest.merge_bases(source, target)
        self._found = Reconciled()

    @property
    def kind(self) -> Kind:
        """What relation the two branches are in."""
        bases = {each.id for each in self._bases.tips}
        if self._theirs.commit_id in bases:
            return "already_up_to_date"
        return "fast_forward" if self._manifest.snapshot(self._target).commit_id in bases else "merged"

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
            idempotency_key=self._options.idempotency_key,
        )
        receipt = commit(self._manifest, operation)
        assert receipt is not None
        return self._told(kind, receipt.commit)

    def preview(self) -> Merged:
        """What `run` would do, conflicts included; nothing is written."""
        kind = self.kind
        if kind == "already_up_to_date":
            return Merged(kind, self._source, self._target)
        self._find(View(self._manifest.snapshot(self._target), self._manifest.stores.tables))
        return self._told(kind, None)

    def _prepare(self, view: View) -> WriteSet:
        self._find(view)
        if self._found.conflicts:
            raise MergeConflicts(self._source, self._target, self._found.conflicts)
        return WriteSet(writes_of(view, self._found.to_write), pointers=self._found.pointers)

    def _find(self, view: View) -> None:
        states = [self._manifest.snapshot_of(each.id) for each in self._bases.tips]
        root = self._bases.root
        common = CommonState(
            self._manifest.stores.tables,
            self._manifest.snapshot_of(root.id) if root is not None else None,
            tuple(states),
            self._reshaping,
        )
        settings = Settings(by_property=self._options.by_property, resolver=self._options.resolver)
        self._found = reconcile(self._catalog, view, common, self._theirs, settings)

    def _told(self, kind: Kind, made: GraphCommit | None) -> Merged:
        found = self._found
        return Merged(kind, self._source, self._target, made, found.puts, found.deletes, found.conflicts, found.adopted)
