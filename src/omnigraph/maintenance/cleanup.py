"""Cleanup permanently deletes table versions and forks that no retained commit, branch or tag needs.

It works on a few tables at a time, under the lease that the creation of branches and tags takes too, so that those wait
instead of being refused. The lease alone does not make a deletion safe, since a suspended process can lose it: versions
are condemned in the record of `manifest/reclaimed.py` before they are deleted. Only versions older than a table's
published one are considered: whatever a live writer does is above it.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.counters import unguarded
from omnigraph.errors import (
    BranchNotFound,
    CommitRejected,
    InvalidInput,
    LeaseLost,
    NotFound,
    ObjectExists,
    ObjectNotFound,
    OmniGraphError,
)
from omnigraph.failpoints import reach
from omnigraph.kernels.report import Report
from omnigraph.maintenance.retention import Chooser, CommitRetention, Pins, TablePlan, TableRefPlan, manifest_plan
from omnigraph.manifest.branch_lease import ATTEMPTS, acquire_branch_lease, drop_fork, retry_when_lease_lost
from omnigraph.manifest.layout import BRANCH_LEASE, MAIN, MANIFEST
from omnigraph.manifest.reclaimed import Condemning, read_reclaimed
from omnigraph.manifest.version_refs import NONE, VersionRanges, branch_references
from omnigraph.storage.objects.store_clock import StoreClock, read_store_clock
from omnigraph.storage.tables.immediate import CollectedVersions, collect_versions, would_collect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.reclaimed import ReclaimedVersions, TableRef, Victims
    from omnigraph.storage.objects.lease import Lease

DEFAULT_GRACE = dt.timedelta(minutes=10)
# How long tables are planned before those planned so far are cleaned. Others wait up to half a minute for the lease.
CHOOSING_SECONDS = 5.0
VERSIONS_AT_ONCE = 200

_DURATION = re.compile(r"(\d{1,9})([smhdw]?)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}

log = logging.getLogger(__name__)


def duration(given: dt.timedelta | str) -> dt.timedelta:
    """A duration, or its text: a whole number and one of s, m, h, d, w; seconds without one."""
    if isinstance(given, dt.timedelta):
        return given
    found = _DURATION.fullmatch(given)
    if found is None:
        raise InvalidInput(f"{given!r} is not a duration: write a whole number and one of s, m, h, d, w, such as 7d.")
    return dt.timedelta(seconds=int(found[1]) * _SECONDS[found[2]])


@dataclass(frozen=True)
class CleanedTable:
    """What was deleted of one table, or would be. `error` says why it failed."""

    table_key: str
    versions_removed: int = 0
    bytes_removed: int = 0
    forks_removed: tuple[str, ...] = ()
    error: str | None = None


def _with_removed(table: CleanedTable, removed: CollectedVersions) -> CleanedTable:
    versions, size = table.versions_removed + removed.versions, table.bytes_removed + removed.bytes
    return replace(table, versions_removed=versions, bytes_removed=size)


@dataclass(frozen=True, repr=False)
class CleanupReport(Report):
    """What was deleted, by table; `dry_run`: what would be. `__manifest` is among the tables."""

    dry_run: bool
    keep: int | None
    older_than: dt.timedelta | None
    tables: tuple[CleanedTable, ...]

    @property
    def versions_removed(self) -> int:
        """All table versions that were deleted."""
        return sum(each.versions_removed for each in self.tables)

    @property
    def bytes_removed(self) -> int:
        """All bytes that are free again."""
        return sum(each.bytes_removed for each in self.tables)

    def _summary(self) -> str:
        would = " would be" if self.dry_run else ""
        return f"{self.versions_removed:,} versions and {self.bytes_removed:,} bytes{would} removed"


@dataclass
class Cleanup:
    """One cleanup of a graph. A version is deleted when it is beyond `keep` and `older_than`, where both are given.

    `grace`: versions that were current that recently stay, for readers that still hold them.
    """

    manifest: GraphManifest
    keep: int | None = 10
    older_than: dt.timedelta | None = None
    grace: dt.timedelta = DEFAULT_GRACE
    dry_run: bool = False
    _done: dict[str, CleanedTable] = field(default_factory=dict)

    def run(self) -> CleanupReport:
        """Clean every table; a failure is reported for its table and does not stop the others."""
        self._check()
        todo = sorted(self._locations().items())
        if self.dry_run:
            self._preview(todo)
        while todo and not self.dry_run:
            todo = todo[retry_when_lease_lost(partial(self._clean_some, todo)) :]
        self._clean_manifest()
        return CleanupReport(self.dry_run, self.keep, self.older_than, tuple(self._done.values()))

    def _check(self) -> None:
        if self.manifest.read_only and not self.dry_run:
            raise CommitRejected("the graph was opened read-only: open it for writing to clean it up.")
        if self.keep is None and self.older_than is None:
            raise InvalidInput("say what to keep: the newest commits (keep), those of some time (older_than), or both.")
        if self.keep is not None and self.keep < 1:
            raise InvalidInput(f"keep is {self.keep}: the newest commit of a branch always stays, so give at least 1.")
        if any(each is not None and each < dt.timedelta(0) for each in (self.older_than, self.grace)):
            raise InvalidInput("older_than and grace are lengths of time and cannot be negative.")

    def _retention(self) -> CommitRetention:
        if self.older_than is None:
            return CommitRetention(self.keep)
        return CommitRetention(
            self.keep, self.manifest.world.now_us() - self.older_than // dt.timedelta(microseconds=1)
        )

    def _locations(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for branch in self.manifest.branches():
            found.update(self.manifest.fresh_branch(branch.name).locations)
        return found

    def _preview(self, tables: Sequence[tuple[str, str]]) -> None:
        """Report what would be deleted.

        Nothing is written, not even to read the store's clock: this machine's clock is used instead.
        """
        world = self.manifest.world
        record, _ = read_reclaimed(self.manifest.stores.objects)
        pins = Pins(self.manifest, self._retention())
        chooser = self._chooser(pins, record, StoreClock(world.now_us(), world.monotonic(), world))
        for each in tables:
            plan = self._plan(chooser, *each)
            self._carry_out(plan, {each.table_ref: each.chosen for each in plan.ref_plans})

    def _clean_some(self, tables: Sequence[tuple[str, str]]) -> int:
        """Clean the first tables, as many as can be planned in a few seconds; return their number."""
        stores, world = self.manifest.stores, self.manifest.world
        with acquire_branch_lease(stores, "cleaning up", world) as lease:
            clock = self._store_clock()
            record = Condemning(stores.objects, world.ulid())
            before = record.read()
            pins = Pins(self.manifest, self._retention())
            plans = self._plans(tables, self._chooser(pins, before, clock))
            victims = self._condemn(plans, record, pins, lease)
            done: Victims = {}
            for plan in plans:
                done.update(self._carry_out(plan, victims))
            record.finish(done, [each for each in before.table_refs() if not _is_living(each, pins)])
        return len(plans)

    def _store_clock(self) -> StoreClock:
        """Read the store's clock from the lease object, which was written a moment ago."""
        objects, world = self.manifest.stores.objects, self.manifest.world
        try:
            written = objects.info(BRANCH_LEASE).written_us
        except ObjectNotFound:
            return read_store_clock(objects, world)
        return StoreClock(written, world.monotonic(), world)

    def _chooser(self, pins: Pins, record: ReclaimedVersions, clock: StoreClock) -> Chooser:
        pinned = pins.read()
        return Chooser(self.manifest, pins.branches, pinned, record, self.grace.total_seconds(), clock)

    def _plans(self, tables: Sequence[tuple[str, str]], chooser: Chooser) -> list[TablePlan]:
        until = self.manifest.world.monotonic() + CHOOSING_SECONDS
        plans: list[TablePlan] = []
        for each in tables:
            if plans and self.manifest.world.monotonic() > until:
                break
            plans.append(self._plan(chooser, *each))
        return plans

    def _plan(self, chooser: Chooser, table_key: str, path: str) -> TablePlan:
        # A table that is planned again, because the lease was lost, may have lost some versions already.
        self._done[table_key] = replace(self._done.get(table_key, CleanedTable(table_key)), error=None)
        try:
            return chooser.plan(table_key, path)
        except LeaseLost:
            raise
        except OmniGraphError as error:
            self._failed(table_key, error)
            return TablePlan(table_key, path)

    def _condemn(self, plans: Sequence[TablePlan], record: Condemning, pins: Pins, lease: Lease) -> Victims:
        """Record the versions to delete, check once more that nothing needs them by now, and confirm the record."""
        chosen = {each.table_ref: each.chosen for plan in plans for each in plan.ref_plans if each.chosen}
        if not chosen:
            return {}
        try:
            record.propose(chosen)
            pinned = pins.read()
            # A branch that is still being created is not among the pins; its creator holds the lease.
            if not lease.is_mine():
                raise LeaseLost(
                    "cleaning up: another process has taken the lease over. Nothing was deleted; try again."
                )
            deletable = {
                table_ref: each - VersionRanges.of(pinned.of(table_ref.path, table_ref.branch))
                for table_ref, each in chosen.items()
            }
            record.confirm(deletable)
        except BaseException:
            with suppress(OmniGraphError, OSError), unguarded():
                record.withdraw()
            raise
        return deletable

    def _carry_out(self, plan: TablePlan, victims: Victims) -> Victims:
        """Clean one table; return what was deleted on each of its branches, up to a failure."""
        done: Victims = {}
        try:
            self._drop_orphans(plan)
            for each in plan.ref_plans:
                deletable = victims.get(each.table_ref, NONE) | each.condemned
                self._collect(plan.table_key, each, list(deletable))
                done[each.table_ref] = deletable
        except LeaseLost:
            raise
        except OmniGraphError as error:
            self._failed(plan.table_key, error)
        return done

    def _collect(self, table_key: str, plan: TableRefPlan, versions: list[int]) -> None:
        """Delete the versions a batch at a time; without any, only files that no version needs."""
        reach("cleanup.decided")
        if self.dry_run:
            self._removed(table_key, would_collect(plan.table, versions))
            return
        for first in range(0, max(1, len(versions)), VERSIONS_AT_ONCE):
            self._removed(table_key, collect_versions(plan.table, versions[first : first + VERSIONS_AT_ONCE]))
        self.manifest.stores.objects.delete_all(plan.previews)
        if versions:
            self.manifest.stores.tables.forget(plan.table_ref.path, plan.table_ref.branch)

    def _drop_orphans(self, plan: TablePlan) -> None:
        """Remove forks of deleted branches."""
        if not plan.forks:
            return
        stores = self.manifest.stores
        living = branch_references(stores.tables.open_newest(MANIFEST))
        for each in plan.forks:
            if each in living:
                continue
            try:
                if not self.dry_run:
                    drop_fork(stores, plan.path, each)
            except (ObjectExists, NotFound):
                continue  # another fork is based on it, or another process was quicker
            cleaned = self._done[plan.table_key]
            self._done[plan.table_key] = replace(cleaned, forks_removed=(*cleaned.forks_removed, each))

    def _clean_manifest(self) -> None:
        """Delete old versions of `__manifest`.

        The newest stay, for readers and publishers that are slightly behind; the rows hold the whole history.
        """
        self._done[MANIFEST] = CleanedTable(MANIFEST)
        try:
            for branch in self.manifest.branches():
                self._clean_manifest_of(branch.name)
        except OmniGraphError as error:
            self._failed(MANIFEST, error)

    def _clean_manifest_of(self, branch: str) -> None:
        """Clean one branch of `__manifest`.

        A branch that is deleted meanwhile needs no cleaning; Lance fails while another branch is being deleted.
        """
        for attempt in reversed(range(ATTEMPTS)):
            try:
                plan = manifest_plan(self.manifest, branch)
                self._collect(MANIFEST, plan, list(plan.chosen))
            except (NotFound, BranchNotFound, ObjectNotFound) as error:
                if not any(each.name == branch for each in self.manifest.branches()):
                    return
                if not attempt and not self.manifest.stores.objects.exists(BRANCH_LEASE):
                    raise
                log.info("the manifest of branch %r stays as it is, for a while or until the next: %s", branch, error)
            else:
                return

    def _removed(self, table_key: str, removed: CollectedVersions) -> None:
        self._done[table_key] = _with_removed(self._done[table_key], removed)

    def _failed(self, table_key: str, error: OmniGraphError) -> None:
        self._done[table_key] = replace(self._done[table_key], error=str(error))


def _is_living(table_ref: TableRef, pins: Pins) -> bool:
    """Whether the branch of `table_ref` exists with the same incarnation, not another one of the same name."""
    return pins.branches.get(table_ref.branch or MAIN, "") == table_ref.incarnation
