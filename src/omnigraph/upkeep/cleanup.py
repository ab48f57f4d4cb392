"""Cleanup: what no kept commit, branch or tag needs is deleted for good.

Table by table, under the claim that branches and tags are made under, so that none comes to need what is being deleted.
Only versions older than a table's published one are looked at: whatever a living writer does lies above.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from omnigraph.errors import CommitRejected, InvalidInput, NotFound, ObjectExists, OmniGraphError
from omnigraph.failpoints import reach
from omnigraph.manifest.branches import claim_branches, drop_fork
from omnigraph.manifest.layout import MAIN, MANIFEST, branch_tree, physical_branch
from omnigraph.manifest.references import branch_references
from omnigraph.store.residual import Removed, collect_versions, would_collect
from omnigraph.upkeep.pinned import Retention, protected_versions

if TYPE_CHECKING:
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.store.lease import Lease
    from omnigraph.store.tables import Table
    from omnigraph.upkeep.pinned import Pinned

DEFAULT_GRACE = dt.timedelta(minutes=10)
# A claim is good for a minute, and others wait half of one for it.
CLAIM_SECONDS = 15.0
VERSIONS_AT_ONCE = 200
# Far longer than any operation takes to build an index over a preview of its table.
PREVIEW_US = 24 * 3_600 * 1_000_000


@dataclass(frozen=True)
class CleanedTable:
    """What went of one table, or would. `error` says why it could not."""

    table_key: str
    versions_removed: int = 0
    bytes_removed: int = 0
    forks_removed: tuple[str, ...] = ()
    error: str | None = None

    def with_removed(self, removed: Removed) -> CleanedTable:
        """The same after more was removed."""
        versions, size = self.versions_removed + removed.versions, self.bytes_removed + removed.bytes
        return replace(self, versions_removed=versions, bytes_removed=size)


@dataclass(frozen=True)
class CleanupReport:
    """What was deleted, by table; `dry_run`: what would be. `__manifest` is among the tables."""

    dry_run: bool
    keep: int | None
    older_than: dt.timedelta | None
    tables: tuple[CleanedTable, ...]

    @property
    def versions_removed(self) -> int:
        """All table versions that are gone."""
        return sum(each.versions_removed for each in self.tables)

    @property
    def bytes_removed(self) -> int:
        """All bytes that are free again."""
        return sum(each.bytes_removed for each in self.tables)


@dataclass
class Cleanup:
    """One cleanup of a graph. A version goes when it is beyond `keep` and beyond `older_than`, where both are given.

    `grace`: what was readable as the newest state that recently stays, for readers that still hold it.
    """

    manifest: GraphManifest
    keep: int | None = 10
    older_than: dt.timedelta | None = None
    grace: dt.timedelta = DEFAULT_GRACE
    dry_run: bool = False
    _done: list[CleanedTable] = field(default_factory=list)

    def run(self) -> CleanupReport:
        """Clean every table; one that fails is told and does not keep the others from it."""
        self._check()
        todo = sorted(self._locations().items())
        while todo:
            with claim_branches(self.manifest.stores, "cleaning up", self.manifest.world) as claim:
                until = self.manifest.world.monotonic() + CLAIM_SECONDS
                pinned = protected_versions(self.manifest, self._retention())
                while todo and self.manifest.world.monotonic() < until:
                    self._done.append(self._clean(*todo.pop(0), pinned, claim))
        self._done.append(self._clean_manifest())
        return CleanupReport(self.dry_run, self.keep, self.older_than, tuple(self._done))

    def _check(self) -> None:
        if self.manifest.read_only and not self.dry_run:
            raise CommitRejected("the graph was opened read-only: open it for writing to clean it up.")
        if self.keep is None and self.older_than is None:
            raise InvalidInput("say what to keep: the newest commits (keep), those of some time (older_than), or both.")
        if self.keep is not None and self.keep < 1:
            raise InvalidInput(f"keep is {self.keep}: the newest commit of a branch always stays, so give at least 1.")
        if any(each is not None and each < dt.timedelta(0) for each in (self.older_than, self.grace)):
            raise InvalidInput("older_than and grace are lengths of time and cannot be negative.")

    def _retention(self) -> Retention:
        since = None if self.older_than is None else self._before_now(self.older_than)
        return Retention(self.keep, since)

    def _before_now(self, span: dt.timedelta) -> int:
        return self.manifest.world.now_us() - span // dt.timedelta(microseconds=1)

    def _locations(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for branch in self.manifest.branches():
            found.update(self.manifest.fresh_line(branch.name).state.locations)
        return found

    def _clean(self, table_key: str, path: str, pinned: Pinned, claim: Lease) -> CleanedTable:
        done = CleanedTable(table_key)
        try:
            main = self.manifest.stores.tables.open_newest(path)
            references = branch_references(main)
            done = self._drop_orphans(done, path, set(references), pinned)
            for branch in (MAIN, *(each.name for each in self.manifest.branches() if each.name in references)):
                chosen = self._chosen(table_key, path, branch, pinned)
                chosen -= {
                    each["parent_version"] for each in references.values() if (each["parent_branch"] or MAIN) == branch
                }
                done = self._collect(done, path, branch, sorted(chosen), claim)
        except OmniGraphError as error:
            return replace(done, error=str(error))
        return done

    def _chosen(self, table_key: str, path: str, branch: str, pinned: Pinned) -> set[int]:
        """The versions on a branch of a table that nothing needs, and nobody has read as the newest for a while."""
        line = self.manifest.line(branch)
        physical = physical_branch(branch)
        with line.lock:
            history = [
                (entry.version, commit.created_at)
                for commit, entry in line.state.table_history(table_key)
                if entry.branch == physical
            ]
        history.sort()
        published = [version for version, _ in history]
        newest = self.manifest.stores.tables.open_newest(path, physical)
        kept = pinned.get((path, physical), set())
        limit = self._before_now(self.grace)
        chosen = set()
        for each in newest.dataset.version_refs():
            after = bisect_right(published, each["version"])
            if after < len(history) and history[after][1] <= limit and each["version"] not in kept:
                chosen.add(int(each["version"]))
        return chosen

    def _collect(
        self, done: CleanedTable, path: str, branch: str, versions: list[int], claim: Lease | None
    ) -> CleanedTable:
        """Delete the versions some at a time; without any, only files that no version needs."""
        reach("cleanup.decided")
        physical = physical_branch(branch)
        table = self.manifest.stores.tables.open_newest(path, physical)
        if self.dry_run:
            return done.with_removed(would_collect(table, versions))
        for first in range(0, max(1, len(versions)), VERSIONS_AT_ONCE):
            if claim is not None and not claim.is_mine():
                raise CommitRejected("the claim of the cleanup ran out and another process has it. Run it again.")
            done = done.with_removed(collect_versions(table, versions[first : first + VERSIONS_AT_ONCE]))
        self._drop_previews(table)
        if versions:
            self.manifest.stores.tables.forget(path, physical)
        return done

    def _drop_previews(self, table: Table) -> None:
        """Versions in no history that an operation made to build an index, and died before it removed them."""
        objects = self.manifest.stores.objects
        prefix = f"{branch_tree(table.path, table.branch)}/_versions"
        for each in objects.list(prefix):
            old = each.modified_us < self.manifest.world.now_us() - PREVIEW_US
            if old and each.path.removeprefix(f"{prefix}/").startswith("d"):
                objects.delete(each.path)

    def _drop_orphans(self, done: CleanedTable, path: str, forks: set[str], pinned: Pinned) -> CleanedTable:
        """Remove forks of branches that are gone."""
        living = {*branch_references(self.manifest.stores.tables.open_newest(MANIFEST))}
        orphans = sorted(each for each in forks - living if (path, each) not in pinned)
        removed = []
        for each in orphans:
            if self.dry_run:
                removed.append(each)
                continue
            try:
                drop_fork(self.manifest.stores, path, each)
            except (ObjectExists, NotFound):
                continue  # another fork stands on it, or somebody else was quicker
            removed.append(each)
        return replace(done, forks_removed=tuple(removed))

    def _clean_manifest(self) -> CleanedTable:
        """The newest versions stay, for readers and publishers that are a little behind; rows tell all of history."""
        done = CleanedTable(MANIFEST)
        try:
            for branch in self.manifest.branches():
                newest = self.manifest.stores.tables.open_newest(MANIFEST, physical_branch(branch.name))
                versions = sorted(int(each["version"]) for each in newest.dataset.version_refs())
                old = versions[: -self.manifest.upkeep.keep_versions]
                done = self._collect(done, MANIFEST, branch.name, old, None)
        except OmniGraphError as error:
            return replace(done, error=str(error))
        return done
