"""Determines which table versions may still be read, and which a cleanup may delete.

A cleanup may delete a version that nothing needs and that nobody has read as the newest for a while. How long ago that
was is measured by the store's clock alone. A version was the newest until the next one was published: not before the
file of the next one was written, nor before the version of `__manifest` that shows it, where that still exists. The
clocks of writers do not matter.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import BranchNotFound
from omnigraph.manifest.commit_graph import Lineage, merge_bases, unknown_ancestors
from omnigraph.manifest.layout import MAIN, MANIFEST, physical_branch, table_path
from omnigraph.manifest.reclaimed import TableRef
from omnigraph.manifest.tags import tagged_commits
from omnigraph.manifest.version_gc import list_versions, version_files
from omnigraph.manifest.version_refs import NONE, VersionRanges, branch_references
from omnigraph.storage.lance.paths import is_detached, versions_dir
from omnigraph.transaction.intents.queue import list_sidecars

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.reclaimed import ReclaimedVersions
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.manifest.tags import TagCache
    from omnigraph.storage.objects.store import ObjectInfo, ObjectStore
    from omnigraph.storage.objects.store_clock import StoreClock
    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.intents.sidecar import Sidecar

# Versions by table path and Lance branch; None is the table's main branch.
Versions = dict[tuple[str, str | None], set[int]]


@dataclass(frozen=True)
class Pinned:
    """Versions that stay: those in use (`held`), and those of commits that the caller wants to keep."""

    held: Versions = field(default_factory=lambda: defaultdict(set))
    retained: Versions = field(default_factory=lambda: defaultdict(set))

    def of(self, path: str, branch: str | None) -> set[int]:
        """All versions that stay of a table on a branch."""
        return self.held[path, branch] | self.retained[path, branch]


@dataclass(frozen=True)
class CommitRetention:
    """Which commits of each branch stay readable: the newest `keep`, and all since a time, in microseconds."""

    keep: int | None = None
    since: int | None = None

    def retained(self, lineage: Lineage) -> list[GraphCommit]:
        """The commits to keep, always including the newest."""
        commits = lineage.newest_first()
        newest = commits[: max(1, self.keep or 0)]
        return newest if self.since is None else [*newest, *(each for each in commits if each.created_us >= self.since)]


@dataclass
class Pins:
    """The table versions that heads, tags, branch points, live operations and retained commits need."""

    manifest: GraphManifest
    retention: CommitRetention
    # The branches that the last `read` found, with their incarnations.
    branches: dict[str, str | None] = field(default_factory=dict)
    _tags: TagCache = field(default_factory=dict)

    def read(self) -> Pinned:
        """The pinned versions by table, as the store has them now.

        Sidecars are read first: one that is gone by then was published, and the heads, which are read last, show it.
        """
        pinned = Pinned()
        for found in list_sidecars(self.manifest.stores.objects):
            _pin_operation(found.sidecar, pinned.held)
        tagged = tagged_commits(self.manifest, self._tags)
        manifests = self._branch_manifests()
        self.branches = {name: each.incarnation for name, each in manifests.items()}
        lineages = {name: each.lineage() for name, each in manifests.items()}
        named = {*tagged, *_merge_points(lineages)}
        for name, manifest in manifests.items():
            commits = lineages[name].commits
            _pin(manifest.entries_of(commits[each] for each in named if each in commits), pinned.held)
            _pin(manifest.entries_of(self.retention.retained(lineages[name])), pinned.retained)
            _pin(manifest.snapshot(), pinned.held)
        return pinned

    def _branch_manifests(self) -> dict[str, BranchManifest]:
        found = {}
        for branch in self.manifest.branches():
            try:
                found[branch.name] = self.manifest.fresh_branch(branch.name)
            except BranchNotFound:
                continue  # the branch was deleted a moment ago
        return found


def _pin_operation(sidecar: Sidecar, pinned: Versions) -> None:
    """Pin what an unfinished operation was computed from, and the versions that it adopts."""
    for pin in sidecar.tables:
        pinned[table_path(pin.table_key), pin.table_branch].add(pin.expected_version)
    for fast_forwarded in sidecar.fast_forwarded:
        pinned[table_path(fast_forwarded.table_key), fast_forwarded.table_branch].add(fast_forwarded.version)
    for added in sidecar.added:
        # A fork that is added to a branch starts at the version before its own, on the table's main branch.
        pinned[added.table_path, None].add(added.version - 1)


def _pin(entries: Iterable[TableEntry], pinned: Versions) -> None:
    for entry in entries:
        pinned[entry.path, entry.branch].add(entry.version)


def _merge_points(lineages: Mapping[str, Lineage]) -> set[str]:
    """The commits at which each branch was created and last merged with main: a merge compares with these snapshots."""
    found: set[str] = set()
    main = lineages[MAIN]
    for branch, lineage in lineages.items():
        if branch == MAIN:
            continue
        elsewhere: dict[str, GraphCommit] = {}
        if unknown_ancestors(lineage, main):
            for other in lineages.values():
                elsewhere.update(other.commits)
        bases = merge_bases(lineage, main, elsewhere)
        found.update(each.id for each in (*bases.tips, *((bases.root,) if bases.root else ())))
        began = next((each for each in lineage.first_parents() if each.branch != branch), None)
        if began is not None:
            found.add(began.id)
    return found


# Far longer than any operation takes to build an index over a detached preview of its table.
PREVIEW_SECONDS = 24 * 3_600.0


@dataclass(frozen=True)
class TableRefPlan:
    """What to delete of a table on one of its branches.

    `chosen` are versions that nothing needed at planning time, `condemned` those that an earlier cleanup condemned and
    that still exist, or exist again. `previews` are files of detached versions that were left behind.
    """

    table_ref: TableRef
    table: Table
    chosen: VersionRanges
    condemned: VersionRanges = NONE
    previews: tuple[str, ...] = ()


@dataclass(frozen=True)
class TablePlan:
    """What to delete of a table. `forks` are its branches that no branch of the graph uses."""

    table_key: str
    path: str
    forks: tuple[str, ...] = ()
    ref_plans: tuple[TableRefPlan, ...] = ()


@dataclass
class Chooser:
    """Chooses what to delete. `branches` are those of the graph with their incarnations, main among them."""

    manifest: GraphManifest
    branches: Mapping[str, str | None]
    pinned: Pinned
    record: ReclaimedVersions
    grace: float
    clock: StoreClock
    _publishes: dict[str, Mapping[int, ObjectInfo]] = field(default_factory=dict)

    def plan(self, table_key: str, path: str) -> TablePlan:
        """Inspect a table and choose."""
        main = self.manifest.stores.tables.open_newest(path)
        references = branch_references(main)
        orphans = sorted(each for each in references.keys() - self.branches.keys() if not self.pinned.of(path, each))
        parent_versions: dict[str, set[int]] = defaultdict(set)
        for each in references.values():
            parent_versions[each["parent_branch"] or MAIN].add(int(each["parent_version"]))
        ref_plans = []
        for branch in (MAIN, *sorted(self.branches.keys() & references.keys())):
            table_ref = TableRef(path, physical_branch(branch), self.branches[branch])
            table = main if branch == MAIN else self.manifest.stores.tables.open_newest(path, table_ref.branch)
            ref_plans.append(self._plan_table_ref(table_key, table_ref, table, parent_versions[branch]))
        return TablePlan(table_key, path, tuple(orphans), tuple(ref_plans))

    def _plan_table_ref(
        self, table_key: str, table_ref: TableRef, table: Table, parent_versions: set[int]
    ) -> TableRefPlan:
        listed = _list(self.manifest.stores.objects, table_ref)
        files = version_files(listed)
        final = self.record.final(table_ref)
        published = self._published(table_key, table_ref, files)
        visible_versions = sorted(published)
        needed = self.pinned.of(table_ref.path, table_ref.branch)
        chosen, condemned = [], []
        for version in files.keys() - parent_versions - self.pinned.held[table_ref.path, table_ref.branch]:
            after = bisect_right(visible_versions, version)
            if after == len(visible_versions):
                continue
            if version in final:
                condemned.append(version)
            elif version not in needed and published[visible_versions[after]] >= self.grace:
                chosen.append(version)
        return TableRefPlan(
            table_ref, table, VersionRanges.of(chosen), VersionRanges.of(condemned), self._previews(listed)
        )

    def _previews(self, listed: list[ObjectInfo]) -> tuple[str, ...]:
        detached = [each for each in listed if is_detached(each.path)]
        return tuple(each.path for each in detached if self.clock.age(each) > PREVIEW_SECONDS)

    def _published(self, table_key: str, table_ref: TableRef, files: Mapping[int, ObjectInfo]) -> dict[int, float]:
        """The published versions that still exist, and at least how many seconds ago each became visible."""
        branch = table_ref.branch or MAIN
        manifest = self.manifest.branch(branch)
        if branch not in self._publishes:
            self._publishes[branch] = list_versions(manifest).files
        found = {}
        for version, since in manifest.first_visible(table_key).items():
            if version in files:
                manifest_file = self._publishes[branch].get(since)
                found[version] = max(0.0, min(self.clock.age(each) for each in (files[version], manifest_file) if each))
        return found


def manifest_plan(manifest: GraphManifest, branch: str) -> TableRefPlan:
    """What to delete of `__manifest` on a branch: all but the newest versions."""
    table_ref = TableRef(MANIFEST, physical_branch(branch))
    versions = sorted(version_files(_list(manifest.stores.objects, table_ref)))
    table = manifest.stores.tables.open_newest(MANIFEST, table_ref.branch)
    return TableRefPlan(table_ref, table, VersionRanges.of(versions[: -manifest.manifest_policy.keep_versions]))


def _list(objects: ObjectStore, table_ref: TableRef) -> list[ObjectInfo]:
    return objects.list(versions_dir(table_ref.path, table_ref.branch))
