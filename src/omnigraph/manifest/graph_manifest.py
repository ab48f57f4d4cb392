"""The manifest of a whole graph: its branches, their history, and the door to publish through."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from omnigraph.errors import BranchReplaced, CommitRejected, InvalidInput, NotAGraph, NotFound
from omnigraph.manifest.branches import (
    Branch,
    claim_branches,
    list_branches,
    make_branch,
    remove_branch,
    settled,
    with_known_outcome,
)
from omnigraph.manifest.genesis import Blueprint, initialize, require_whole_graph
from omnigraph.manifest.layout import MAIN, MANIFEST, physical_branch
from omnigraph.manifest.line import ManifestLine, Stores
from omnigraph.manifest.lineage import Lineage, MergeBases, merge_bases, unknown_ancestors
from omnigraph.manifest.migrations import bring_up_to_date
from omnigraph.manifest.publisher import Published, PublishRequest, publish
from omnigraph.manifest.reclaimed import require_kept, require_still_kept, superseded
from omnigraph.manifest.references import branch_references
from omnigraph.manifest.tags import Tag, check_tag_name, find_tag, remove_tag, take_back_tag, write_tag
from omnigraph.manifest.upkeep import DEFAULT_UPKEEP, UpkeepPolicy
from omnigraph.store.compaction import DEFAULT_FOLD, FoldPolicy
from omnigraph.store.objects import open_control_store
from omnigraph.store.tables import TableStore
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.store.location import Location


def open_stores(location: Location, world: World = REAL) -> Stores:
    """Both halves of the store below one root. Nothing is asked of it yet."""
    return Stores(TableStore(location), open_control_store(location, world))


def create_manifest(
    location: Location, blueprint: Blueprint, world: World = REAL, *, fold: FoldPolicy | None = DEFAULT_FOLD
) -> GraphManifest:
    """Make a new graph and open it."""
    initialize(open_stores(location, world), blueprint, world)
    return GraphManifest(location, world=world, fold=fold)


class GraphManifest:
    """An open graph's manifest. Safe to use from several threads.

    A read-write open migrates main in place when an older release wrote the graph; a read-only one never writes.
    """

    def __init__(
        self,
        location: Location,
        *,
        read_only: bool = False,
        world: World = REAL,
        upkeep: UpkeepPolicy = DEFAULT_UPKEEP,
        fold: FoldPolicy | None = DEFAULT_FOLD,
    ) -> None:
        self.stores = open_stores(location, world)
        self.read_only = read_only
        self.world = world
        self.upkeep = upkeep
        # When writers join the small pieces of tables; None: never.
        self.fold = fold
        self._lines: dict[str, ManifestLine] = {}
        self._lock = threading.Lock()
        try:
            main = self.line(MAIN)
        except NotAGraph:
            require_whole_graph(self.stores)
            raise
        if not read_only:
            bring_up_to_date(main)

    def line(self, branch: str = MAIN) -> ManifestLine:
        """The warm manifest of a branch, opened at its first use."""
        with self._lock:
            if branch not in self._lines:
                self._lines[branch] = ManifestLine(self.stores, branch)
            return self._lines[branch]

    def fresh_line(self, branch: str = MAIN) -> ManifestLine:
        """The manifest of a branch, caught up with the store; one that was deleted and made anew is opened anew."""
        line = self.line(branch)
        try:
            line.refresh()
        except BranchReplaced:
            self.forget(branch)
            line = self.line(branch)
        return line

    def forget(self, branch: str) -> None:
        """Drop what is kept of a branch, and the handles of its tables: another of the name has other files."""
        with self._lock:
            line = self._lines.pop(branch, None)
        paths = [] if line is None else list(line.state.locations.values())
        for path in (MANIFEST, *paths):
            self.stores.tables.forget(path, physical_branch(branch))

    def snapshot(self, branch: str = MAIN) -> Snapshot:
        """The newest state of a branch."""
        return self.fresh_line(branch).snapshot()

    def lineage(self, branch: str = MAIN) -> Lineage:
        """The commits that a branch can see."""
        line = self.fresh_line(branch)
        with line.lock:
            return Lineage(branch, dict(line.state.commits))

    def snapshot_of(self, commit_id: str) -> Snapshot:
        """The state that a commit published, whichever branch it was made on."""
        line, commit = self.find(commit_id)
        with line.lock:
            return line.state.at(line.branch, commit)

    def commit(self, commit_id: str) -> GraphCommit:
        """One commit, whichever branch it was made on."""
        return self.find(commit_id)[1]

    def find(self, commit_id: str) -> tuple[ManifestLine, GraphCommit]:
        """A commit, and a branch that can see it."""
        main = self.line(MAIN)
        known = main.state.commits.get(commit_id)
        if known is not None:
            # A commit never changes and main is never deleted: there is nothing to look for.
            return main, known
        for branch in self.branches():
            line = self.fresh_line(branch.name)
            commit = line.state.commits.get(commit_id)
            if commit is not None:
                return line, commit
        raise NotFound(f"the graph has no commit {commit_id!r}")

    def merge_bases(self, source: str, target: str) -> MergeBases:
        """The commits that two branches last had in common.

        They may have been made on a third branch that both have merged: then that branch's history is needed too.
        """
        ours, theirs = self.lineage(target), self.lineage(source)
        elsewhere: dict[str, GraphCommit] = {}
        if unknown_ancestors(theirs, ours):
            for branch in self.branches():
                if branch.name not in (source, target):
                    elsewhere.update(self.lineage(branch.name).commits)
        return merge_bases(theirs, ours, elsewhere)

    def merge_base(self, source: str, target: str) -> GraphCommit | None:
        """The newest commit that two branches have in common."""
        tips = self.merge_bases(source, target).tips
        return tips[0] if tips else None

    def has_in_history(self, branch: str, commit_id: str) -> bool:
        """Whether a branch contains a commit, its own or one that a merge has brought."""
        lineage = self.lineage(branch)
        if lineage.head is None:
            return False
        if commit_id in lineage.ancestors(lineage.head.id):
            return True
        commits = {**lineage.commits}
        for other in self.branches():
            commits.update(self.lineage(other.name).commits)
        return commit_id in Lineage(branch, commits).ancestors(lineage.head.id)

    def publish(self, request: PublishRequest, *, branch: str = MAIN) -> Published:
        """Make changes visible on a branch, all at once or not at all."""
        self._require_writable()
        try:
            return publish(self.line(branch), request, self.world, self.upkeep)
        except BranchReplaced:
            self.forget(branch)
            raise

    def branches(self) -> list[Branch]:
        """All branches, main first."""
        return list_branches(self.stores)

    def create_branch(self, name: str, *, source: str = MAIN, commit_id: str | None = None) -> None:
        """Make a branch from the newest state of another, or from a commit."""
        self._require_writable()
        if commit_id is None:
            line, commit = self.fresh_line(source), None
        else:
            line, commit = self.find(commit_id)
        # A branch of a branch that was never migrated would look for its history under its own name.
        with line.lock:
            bring_up_to_date(line)
        # Versions this recent stay for as long as making the branch takes; older ones may go while it is made.
        recent = self.upkeep.keep_versions // 2
        with_known_outcome(
            f"creating branch {name!r}",
            lambda: make_branch(self.stores, name, source=line, commit=commit, recent=recent, world=self.world),
            lambda: self._has_branch(name),
        )
        self.forget(name)

    def delete_branch(self, name: str, *, force: bool = False) -> None:
        """Remove a branch. Refused for main, and while anything stands on it.

        Without `force` also while a merge of two other branches would have to go back to its commits.
        """
        self._require_writable()
        with_known_outcome(
            f"deleting branch {name!r}",
            lambda: remove_branch(self.stores, name, world=self.world, force=force),
            lambda: not self._has_branch(name),
        )
        self.forget(name)

    def _has_branch(self, name: str) -> bool:
        return any(each.name == name for each in self.branches())

    def create_tag(self, name: str, commit_id: str, *, actor: str | None = None, message: str | None = None) -> Tag:
        """Give a commit a name that keeps it. Refused for one whose tables a cleanup has taken already."""
        self._require_writable()
        check_tag_name(name)
        return with_known_outcome(
            f"creating tag {name!r}",
            lambda: self._create_tag(name, commit_id, actor, message),
            lambda: find_tag(self.stores, name) is not None,
        )

    def _create_tag(self, name: str, commit_id: str, actor: str | None, message: str | None) -> Tag:
        with claim_branches(self.stores, f"creating tag {name!r}", self.world) as claim:
            if name in branch_references(self.fresh_line().table):
                raise InvalidInput(f"there is a branch {name!r}: a tag of that name could not be told from it.")
            line, commit = self.find(commit_id)
            with line.lock:
                state = line.state.at(line.branch, commit)
                old = superseded(line.state, state)
            require_kept(self.stores, old)
            for entry in state:
                self.stores.tables.open(entry.pin)
            tag = Tag(name, commit_id, commit.branch, self.world.now_us(), actor, message)
            settled(
                claim.claim.purpose,
                lambda: write_tag(self.stores, tag),
                lambda: find_tag(self.stores, name) == tag,
            )
            require_still_kept(
                self.stores,
                claim,
                old,
                now=lambda: list(state) if find_tag(self.stores, name) == tag else [],
                take_back=lambda: take_back_tag(self.stores, name),
            )
        return tag

    def delete_tag(self, name: str) -> None:
        """Remove a tag."""
        self._require_writable()
        with_known_outcome(
            f"deleting tag {name!r}", lambda: self._delete_tag(name), lambda: find_tag(self.stores, name) is None
        )

    def _delete_tag(self, name: str) -> None:
        with claim_branches(self.stores, f"deleting tag {name!r}", self.world) as claim:
            settled(
                claim.claim.purpose,
                lambda: remove_tag(self.stores, name),
                lambda: find_tag(self.stores, name) is None,
            )

    def _require_writable(self) -> None:
        if self.read_only:
            raise CommitRejected("the graph was opened read-only.")
