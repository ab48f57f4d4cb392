"""`GraphManifest` is the manifest of a whole graph: branches, tags, history, and the way to publish."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from omnigraph.errors import BranchReplaced, CommitRejected, GraphClosed, InvalidInput, NotAGraph, NotFound
from omnigraph.errors.inputs import require_text
from omnigraph.manifest.branch_lease import acquire_branch_lease, run_checked_step, with_known_outcome
from omnigraph.manifest.branch_manifest import BranchManifest
from omnigraph.manifest.branches import Branch, list_branches, make_branch, remove_branch
from omnigraph.manifest.commit_graph import Lineage, MergeBases, merge_bases, unknown_ancestors
from omnigraph.manifest.compaction import DEFAULT_MANIFEST_POLICY, ManifestPolicy
from omnigraph.manifest.create import NewGraph, initialize, require_whole_graph
from omnigraph.manifest.layout import MAIN, MANIFEST, Storage, physical_branch
from omnigraph.manifest.publisher import Published, PublishRequest, publish
from omnigraph.manifest.reclaimed import require_retained, require_still_retained, superseded
from omnigraph.manifest.tags import Tag, check_tag_name, find_tag, remove_tag, take_back_tag, write_tag
from omnigraph.manifest.upgrade import bring_up_to_date
from omnigraph.manifest.version_refs import branch_references
from omnigraph.storage.objects.store import open_control_store
from omnigraph.storage.tables.compaction import MINOR_COMPACTION, CompactionPolicy
from omnigraph.storage.tables.table import TableStore

if TYPE_CHECKING:
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.storage.objects.location import Location
    from omnigraph.world import World


def open_stores(location: Location, world: World) -> Storage:
    """The tables and control objects below one root. Makes no request."""
    return Storage(TableStore(location, world), open_control_store(location, world))


def create_manifest(
    location: Location,
    new_graph: NewGraph,
    world: World,
    *,
    minor_compaction: CompactionPolicy | None = MINOR_COMPACTION,
) -> GraphManifest:
    """Create a new graph and open it."""
    initialize(open_stores(location, world), new_graph, world)
    return GraphManifest(location, world=world, minor_compaction=minor_compaction)


class GraphManifest:
    """An open graph's manifest. Safe to use from several threads.

    A read-write open migrates main in place when an older release wrote the graph; a read-only one never writes.
    """

    def __init__(
        self,
        location: Location,
        *,
        world: World,
        read_only: bool = False,
        manifest_policy: ManifestPolicy = DEFAULT_MANIFEST_POLICY,
        minor_compaction: CompactionPolicy | None = MINOR_COMPACTION,
    ) -> None:
        self._stores: Storage | None = open_stores(location, world)
        self.uri = self._stores.uri
        self.read_only = read_only
        self.world = world
        self.manifest_policy = manifest_policy
        # When writers compact the small fragments of tables; None: never.
        self.minor_compaction = minor_compaction
        self._branches: dict[str, BranchManifest] = {}
        self._lock = threading.Lock()
        try:
            main = self.branch(MAIN)
        except NotAGraph:
            require_whole_graph(self.stores)
            raise
        if not read_only:
            bring_up_to_date(main)

    @property
    def stores(self) -> Storage:
        """The tables and control objects of the graph; `GraphClosed` after `close`."""
        if self._stores is None:
            raise GraphClosed(self.uri)
        return self._stores

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._stores is None

    def close(self) -> None:
        """Drop the manifests, the handles of tables and what is cached under them."""
        with self._lock:
            self._stores = None
            self._branches.clear()

    def branch(self, branch: str = MAIN) -> BranchManifest:
        """The cached manifest of a branch, opened at its first use."""
        with self._lock:
            if branch not in self._branches:
                self._branches[branch] = BranchManifest(self.stores, branch)
            return self._branches[branch]

    def fresh_branch(self, branch: str = MAIN) -> BranchManifest:
        """The manifest of a branch, refreshed from the store; reopened if the branch was deleted and created again."""
        branch_manifest = self.branch(branch)
        try:
            branch_manifest.refresh()
        except BranchReplaced:
            self.forget(branch)
            branch_manifest = self.branch(branch)
        return branch_manifest

    def forget(self, branch: str) -> None:
        """Evict a branch and the handles of its tables: a later branch of the same name has other files."""
        with self._lock:
            branch_manifest = self._branches.pop(branch, None)
        paths = [] if branch_manifest is None else list(branch_manifest.locations.values())
        for path in (MANIFEST, *paths):
            self.stores.tables.forget(path, physical_branch(branch))

    def snapshot(self, branch: str = MAIN) -> Snapshot:
        """The newest state of a branch."""
        return self.fresh_branch(branch).snapshot()

    def lineage(self, branch: str = MAIN) -> Lineage:
        """The commits that are visible from a branch."""
        return self.fresh_branch(branch).lineage()

    def snapshot_of(self, commit_id: str) -> Snapshot:
        """The state that a commit published, whichever branch it was made on."""
        branch_manifest, commit = self.find(commit_id)
        return branch_manifest.snapshot_of(commit)

    def commit(self, commit_id: str) -> GraphCommit:
        """One commit, whichever branch it was made on."""
        return self.find(commit_id)[1]

    def find(self, commit_id: str) -> tuple[BranchManifest, GraphCommit]:
        """A commit, and the manifest of a branch from which it is visible."""
        main = self.branch(MAIN)
        on_main = main.commit(commit_id)
        if on_main is not None:
            # A commit never changes and main is never deleted: no refresh is needed.
            return main, on_main
        for branch in self.branches():
            branch_manifest = self.fresh_branch(branch.name)
            commit = branch_manifest.commit(commit_id)
            if commit is not None:
                return branch_manifest, commit
        raise NotFound(f"the graph has no commit {commit_id!r}")

    def merge_bases(self, source: str, target: str) -> MergeBases:
        """The last common ancestors of two branches.

        They may have been made on a third branch that both have merged: then that branch's history is read as well.
        """
        ours, theirs = self.lineage(target), self.lineage(source)
        elsewhere: dict[str, GraphCommit] = {}
        if unknown_ancestors(theirs, ours):
            for branch in self.branches():
                if branch.name not in (source, target):
                    elsewhere.update(self.lineage(branch.name).commits)
        return merge_bases(theirs, ours, elsewhere)

    def has_in_history(self, branch: str, commit_id: str) -> bool:
        """Whether a branch contains a commit, its own or one that came with a merge."""
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
        """Make changes visible on a branch, all of them or none."""
        self._require_writable()
        try:
            return publish(self.branch(branch), request, self.world, self.manifest_policy)
        except BranchReplaced:
            self.forget(branch)
            raise

    def branches(self) -> list[Branch]:
        """All branches, main first."""
        return list_branches(self.stores)

    def create_branch(self, name: str, *, source: str = MAIN, commit_id: str | None = None) -> None:
        """Create a branch from the newest state of another, or from a commit."""
        self._require_writable()
        if commit_id is None:
            branch_manifest, commit = self.fresh_branch(source), None
        else:
            branch_manifest, commit = self.find(commit_id)
        # A branch of an unmigrated branch would look for its history in the legacy datasets under its own name.
        with branch_manifest.lock:
            bring_up_to_date(branch_manifest)
        # Versions this recent are kept for as long as creating the branch takes; older ones may be collected meanwhile.
        recent = self.manifest_policy.keep_versions // 2
        with_known_outcome(
            f"creating branch {name!r}",
            lambda: make_branch(
                self.stores, name, source=branch_manifest, commit=commit, recent=recent, world=self.world
            ),
            lambda: self._has_branch(name),
        )
        self.forget(name)

    def delete_branch(self, name: str, *, force: bool = False) -> None:
        """Delete a branch. Refused for main, and while another branch or a tag depends on it.

        Also refused, unless `force`, while its commits are the merge base of two other branches.
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
        """Tag a commit, which keeps it. Refused for a commit whose tables a cleanup has condemned already."""
        self._require_writable()
        check_tag_name(name)
        require_text("an actor", actor)
        require_text("the message of a tag", message)
        return with_known_outcome(
            f"creating tag {name!r}",
            lambda: self._create_tag(name, commit_id, actor, message),
            lambda: find_tag(self.stores, name) is not None,
        )

    def _create_tag(self, name: str, commit_id: str, actor: str | None, message: str | None) -> Tag:
        with acquire_branch_lease(self.stores, f"creating tag {name!r}", self.world) as lease:
            if name in branch_references(self.fresh_branch().table):
                raise InvalidInput(f"there is a branch {name!r}: a tag of that name could not be told from it.")
            branch_manifest, commit = self.find(commit_id)
            state = branch_manifest.snapshot_of(commit)
            old = superseded(branch_manifest, state)
            require_retained(self.stores, old)
            for entry in state:
                self.stores.tables.open(entry.pin)
            tag = Tag(name, commit_id, commit.branch, self.world.now_us(), actor, message)
            run_checked_step(
                lease.record.purpose,
                lambda: write_tag(self.stores, tag),
                lambda: find_tag(self.stores, name) == tag,
            )
            require_still_retained(
                self.stores,
                lease,
                old,
                now=lambda: list(state) if find_tag(self.stores, name) == tag else [],
                take_back=lambda: take_back_tag(self.stores, name),
            )
        return tag

    def delete_tag(self, name: str) -> None:
        """Delete a tag."""
        self._require_writable()
        with_known_outcome(
            f"deleting tag {name!r}", lambda: self._delete_tag(name), lambda: find_tag(self.stores, name) is None
        )

    def _delete_tag(self, name: str) -> None:
        with acquire_branch_lease(self.stores, f"deleting tag {name!r}", self.world) as lease:
            run_checked_step(
                lease.record.purpose,
                lambda: remove_tag(self.stores, name),
                lambda: find_tag(self.stores, name) is None,
            )

    def _require_writable(self) -> None:
        if self.read_only:
            raise CommitRejected("the graph was opened read-only.")
