"""Records in `__reclaimed.json` which table versions cleanups have deleted or are about to delete, before any deletion.

A deletion cannot be made conditional, and a process may be suspended between deciding and deleting for any length of
time. So a version counts as deleted from the time at which this record condemns it, not from the deletion on:

- A cleanup proposes its victims in the record, then reads afresh what is needed (sidecars, tags, heads), and confirms
  in the record those that nothing needs. Only confirmed versions are deleted.
- Whoever comes to need an old version first writes that down (a tag, a branch, a sidecar) and then reads the record. If
  the version is condemned, whether proposed or confirmed, the writer takes that back and raises `VersionReclaimed`.

Both sides write first and read afterwards, so at least one of them sees the other, whichever is suspended and for how
long. The newest state of a branch is always needed, so nobody has to announce it.

A proposal has no effect until it is confirmed. Whoever edits the record drops the proposals of others, whose owners
learn of it when the compare-and-swap of their confirmation fails. A confirmed version stays condemned for ever. When a
cleanup dies, the next one deletes what it had confirmed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from omnigraph.counters import unguarded
from omnigraph.errors import (
    BranchNotFound,
    Contention,
    LeaseLost,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    OmniGraphError,
    StoreError,
    VersionReclaimed,
)
from omnigraph.manifest.layout import MAIN, RECLAIMED, branch_incarnation
from omnigraph.manifest.version_refs import NONE, VersionRanges

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.layout import Storage
    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.storage.objects.lease import Lease
    from omnigraph.storage.objects.model import ObjectVersion
    from omnigraph.storage.objects.store import ObjectStore

FORMAT = 1
ATTEMPTS = 20


@dataclass(frozen=True)
class TableRef:
    """A table on one of its branches. `incarnation` distinguishes branches of the same name; None for main."""

    path: str
    branch: str | None = None
    incarnation: str | None = None


Victims = dict[TableRef, VersionRanges]


@dataclass(frozen=True)
class Run:
    """The versions that an unfinished cleanup is after. Nothing is deleted until the run is confirmed."""

    versions: Mapping[TableRef, VersionRanges]
    confirmed: bool = False


@dataclass(frozen=True)
class ReclaimedVersions:
    """The content of the record: deleted versions, and versions condemned by unfinished cleanups, alive or dead."""

    deleted: Mapping[TableRef, VersionRanges] = field(default_factory=dict)
    running: Mapping[str, Run] = field(default_factory=dict)

    def final(self, table_ref: TableRef) -> VersionRanges:
        """The versions of a table branch that are deleted, or irrevocably condemned."""
        confirmed = (each.versions for each in self.running.values() if each.confirmed)
        return _union((self.deleted, *confirmed), table_ref)

    def table_refs(self) -> set[TableRef]:
        """Every table branch that the record mentions."""
        return {table_ref for versions in self._all_sets() for table_ref in versions}

    def condemned(self, path: str, branch: str | None, version: int) -> list[TableRef]:
        """The table branches of this path and name, of any incarnation, on which the version counts as deleted."""
        same_name = [each for each in self.table_refs() if (each.path, each.branch) == (path, branch)]
        return [each for each in same_name if version in _union(self._all_sets(), each)]

    def _all_sets(self) -> list[Mapping[TableRef, VersionRanges]]:
        return [self.deleted, *(each.versions for each in self.running.values())]

    def encode(self) -> bytes:
        """Serialize the record."""
        runs = {key: {"confirmed": run.confirmed, "lines": _fields(run.versions)} for key, run in self.running.items()}
        return json.dumps({"version": FORMAT, "gone": _fields(self.deleted), "running": runs}, indent=2).encode()

    @classmethod
    def decode(cls, data: bytes) -> ReclaimedVersions:
        """Parse the record; `StoreError` when it is malformed or of another format version."""
        try:
            fields = json.loads(data)
            if fields["version"] != FORMAT:
                raise ValueError(f"it is of version {fields['version']}, and this release knows {FORMAT}")
            runs = fields["running"].items()
            running = {str(key): Run(_parse_refs(each["lines"]), bool(each["confirmed"])) for key, each in runs}
            return cls(_parse_refs(fields["gone"]), running)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise StoreError(
                f"{RECLAIMED} does not say which versions cleanups have taken ({error}). Nothing is cleaned up, and no "
                "branch or tag is made of an old commit. Restore it from a copy, or upgrade omnigraph.",
                location=RECLAIMED,
            ) from error


def read_reclaimed(objects: ObjectStore) -> tuple[ReclaimedVersions, ObjectVersion | None]:
    """Read the record and its tag; an empty record if no cleanup has written one yet."""
    try:
        data, tag = objects.read_versioned(RECLAIMED)
    except ObjectNotFound:
        return ReclaimedVersions(), None
    return ReclaimedVersions.decode(data), tag


def require_retained(stores: Storage, entries: Collection[TableEntry]) -> None:
    """Raise `VersionReclaimed` if one of these states is condemned. Callers announce the need first, then call this."""
    if not entries:
        return
    record, _ = read_reclaimed(stores.objects)
    for entry in entries:
        if _is_condemned(stores, record, entry):
            raise VersionReclaimed(entry.path, version=entry.version, branch=entry.branch)


def superseded(manifest: BranchManifest, snapshot: Snapshot) -> list[TableEntry]:
    """The tables of a snapshot that are no longer the newest of their branch: those that a cleanup may condemn."""
    return [each for each in snapshot if manifest.current_entry(each.table_key) != each]


def require_still_retained(
    stores: Storage,
    lease: Lease,
    old: Collection[TableEntry],
    *,
    now: Callable[[], Collection[TableEntry]],
    take_back: Callable[[], None],
) -> None:
    """Verify a tag or branch just created; take it back and raise if a cleanup has condemned its tables.

    While its creator holds the lease no cleanup runs: the newest tables are safe, and only the `old` ones are checked.
    If the lease was lost, another process may have created something of the same name: `now` returns the tables of what
    exists.
    """
    try:
        lease.require()
    except LeaseLost as lease_lost:
        try:
            require_retained(stores, now())
        except VersionReclaimed as error:
            with unguarded():
                take_back()
            raise lease_lost from error
        return
    try:
        require_retained(stores, old)
    except OmniGraphError:
        take_back()
        raise


def _is_condemned(stores: Storage, record: ReclaimedVersions, entry: TableEntry) -> bool:
    condemned = record.condemned(entry.path, entry.branch, entry.version)
    if not condemned:
        return False
    try:
        incarnation = branch_incarnation(stores, entry.branch or MAIN)
    except BranchNotFound:
        return True
    return incarnation in [each.incarnation for each in condemned]


@dataclass
class Condemning:
    """The record as edited by one cleanup, which is identified by `run`."""

    objects: ObjectStore
    run: str
    record: ReclaimedVersions = field(default_factory=ReclaimedVersions)
    _tag: ObjectVersion | None = None

    def read(self) -> ReclaimedVersions:
        """Read the record afresh."""
        self.record, self._tag = read_reclaimed(self.objects)
        return self.record

    def propose(self, victims: Victims) -> None:
        """Condemn these versions, unless something turns out to need them."""
        self._edit(lambda record: replace(record, running={**record.running, self.run: Run(victims)}))

    def confirm(self, victims: Victims) -> None:
        """Condemn these of the proposed versions for ever, and release the other proposed ones."""
        proposed, mine = self.record.running[self.run], Run(_nonempty(victims), confirmed=True)

        def confirmed(record: ReclaimedVersions) -> ReclaimedVersions:
            if record.running.get(self.run) not in (proposed, mine):
                raise LeaseLost("cleaning up: another cleanup has begun meanwhile. Nothing was deleted; try again.")
            return replace(record, running={**record.running, self.run: mine})

        self._edit(confirmed)

    def withdraw(self) -> None:
        """Release everything that was proposed; confirmed versions stay condemned."""

        def withdrawn(record: ReclaimedVersions) -> ReclaimedVersions:
            mine = record.running.get(self.run)
            if mine is None or mine.confirmed:
                return record
            return replace(record, running={key: each for key, each in record.running.items() if key != self.run})

        self._edit(withdrawn)

    def finish(self, done: Victims, obsolete: Collection[TableRef] = ()) -> None:
        """Record these and other confirmed versions of the same table branches as deleted; drop `obsolete` ones."""

        def finished(record: ReclaimedVersions) -> ReclaimedVersions:
            deleted = {
                **record.deleted,
                **{table_ref: record.final(table_ref) | each for table_ref, each in done.items()},
            }
            running = {
                key: replace(
                    run, versions={table_ref: each for table_ref, each in run.versions.items() if table_ref not in done}
                )
                for key, run in record.running.items()
            }
            return _without(replace(record, deleted=deleted, running=running), obsolete)

        self._edit(finished)

    def _edit(self, change: Callable[[ReclaimedVersions], ReclaimedVersions]) -> None:
        for _ in range(ATTEMPTS):
            changed = _normalized(change(self.record), self.run)
            if changed == self.record:
                return
            try:
                self._tag = self._write(changed.encode())
            except (ObjectExists, ObjectChanged, ObjectNotFound):
                self.read()
                continue
            self.record = changed
            return
        raise Contention(f"other cleanups write {RECLAIMED}", attempts=ATTEMPTS)

    def _write(self, data: bytes) -> ObjectVersion:
        if self._tag is None:
            return self.objects.create(RECLAIMED, data)
        return self.objects.replace(RECLAIMED, data, self._tag)


def _union(sets: Iterable[Mapping[TableRef, VersionRanges]], table_ref: TableRef) -> VersionRanges:
    found = NONE
    for versions in sets:
        found |= versions.get(table_ref, NONE)
    return found


def _normalized(record: ReclaimedVersions, run: str) -> ReclaimedVersions:
    """The record without proposals of other cleanups, and without empty entries."""
    running = {
        key: replace(each, versions=_nonempty(each.versions))
        for key, each in record.running.items()
        if each.confirmed or key == run
    }
    return ReclaimedVersions(_nonempty(record.deleted), {key: each for key, each in running.items() if each.versions})


def _nonempty(versions: Mapping[TableRef, VersionRanges]) -> Victims:
    return {table_ref: each for table_ref, each in versions.items() if each}


def _without(record: ReclaimedVersions, obsolete: Collection[TableRef]) -> ReclaimedVersions:
    def others(versions: Mapping[TableRef, VersionRanges]) -> Victims:
        return {table_ref: each for table_ref, each in versions.items() if table_ref not in obsolete}

    return ReclaimedVersions(
        others(record.deleted),
        {key: replace(run, versions=others(run.versions)) for key, run in record.running.items()},
    )


def _fields(versions: Mapping[TableRef, VersionRanges]) -> list[dict[str, Any]]:
    return [{**vars(table_ref), "versions": str(each)} for table_ref, each in versions.items()]


def _parse_refs(fields: Iterable[Mapping[str, Any]]) -> Victims:
    found: Victims = defaultdict(VersionRanges)
    for each in fields:
        table_ref = TableRef(str(each["path"]), each["branch"], each["incarnation"])
        found[table_ref] |= VersionRanges.parse(each["versions"])
    return dict(found)
