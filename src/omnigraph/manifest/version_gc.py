"""Garbage collection of old `__manifest` versions, with a handful of listings and bulk deletions.

Nobody reads an old version for its rows: the newest version contains every earlier state. Old versions are retained for
readers and writers that lag behind, and for branches, which share the files of the version they were created from. What
is deleted, and why it is safe (tests/manifest/test_version_gc.py):

- A version is deleted when it is not among the newest, no branch or tag refers to it, and it is older than the newest
  by `commit_grace_seconds`. The last condition protects a commit in flight: Lance determines the newest version and
  then creates the next one if it does not exist. If that next version were created by others and collected in between,
  the commit would become a version below the newest, acknowledged and lost. A publish that took half of that time
  therefore verifies that it is visible (`publisher.py`).
- At least `FEWEST` versions stay, whatever the policy, so that one of them is a publish: a publish that was suspended
  conflicts with the newest publish on its `LOCK` (`active_fragment.py`), which a compaction, run after a publish, does
  not have.
- A file is deleted when no remaining version references it, which is looked up and not guessed, and when either a
  deleted version referenced it, or it is older than the newest version by `orphan_seconds`. The latter are leftovers of
  publishes that lost or died. A publish in flight that can still succeed was staged after the newest version: all
  publishes and compactions replace the one active fragment, so any that was staged earlier has lost. `orphan_seconds`
  is for programs that do not touch the active fragment.
- A branch that is being created might depend on a version before its reference is written. While somebody holds the
  branch lease nothing is collected; a later holder starts from the newest version, and stays among the recent ones.
- A branch whose version file is missing might need any file: then only versions are deleted.
- Versions are deleted before files: a crash in between leaves unreferenced files, for the next collection to find.
- Timestamps are compared with timestamps of the same store, never with this machine's clock. File names that Lance does
  not produce are ignored, and so are other directories: branches have their own.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import ObjectNotFound
from omnigraph.manifest.layout import BRANCH_LEASE, MANIFEST, physical_branch
from omnigraph.manifest.version_refs import names_in
from omnigraph.storage.lance.paths import (
    DATA,
    DELETIONS,
    TRANSACTIONS,
    is_content,
    table_dir,
    version_of,
    version_read_by,
    versions_dir,
)
from omnigraph.storage.objects.lease import patience, read_lease_record
from omnigraph.storage.tables.table import Pin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.version_refs import Names
    from omnigraph.storage.objects.lease import LeaseRecord
    from omnigraph.storage.objects.store import ObjectInfo
    from omnigraph.world import World

READERS = 8
FEWEST = 3


@dataclass(frozen=True)
class VersionRetention:
    """What is always retained: the newest `versions`, and what is within these times of the newest version."""

    versions: int
    commit_grace_seconds: float
    orphan_seconds: float


@dataclass(frozen=True)
class VersionListing:
    """The version files of a branch of the manifest, by version."""

    files: Mapping[int, ObjectInfo]

    @property
    def newest(self) -> int:
        """The newest version."""
        return max(self.files)

    def older(self, seconds: float) -> int:
        """The store's time in microseconds, that many seconds before the newest version was written."""
        return self.files[self.newest].modified_us - int(seconds * 1_000_000)


def list_versions(manifest: BranchManifest) -> VersionListing:
    """The versions that exist; one listing."""
    return VersionListing(
        version_files(manifest.stores.objects.list(versions_dir(MANIFEST, physical_branch(manifest.branch))))
    )


def version_files(listed: Iterable[ObjectInfo]) -> dict[int, ObjectInfo]:
    """The version files in a listing of a `_versions` directory; detached versions are left out."""
    return {version: each for each in listed if (version := version_of(each.path)) is not None}


def collect_versions(
    manifest: BranchManifest, listed: VersionListing, retention: VersionRetention, world: World
) -> int:
    """Delete unneeded versions, then the files that nothing needs any more; return the number of versions deleted.

    The caller holds the branch manifest's lock. `NotFound` when another process collects concurrently.
    """
    lease = read_lease_record(manifest.stores.objects, BRANCH_LEASE)
    if lease is not None and not _is_over(manifest, lease[0], listed, world):
        return 0
    referred = manifest.referred.read(manifest.stores.objects)
    deletable = _deletable(listed, retention, referred)
    if not deletable:
        return 0
    remaining_versions = listed.files.keys() - set(deletable)
    needed = frozenset[str]().union(*_names_of(manifest, remaining_versions).values())
    files = {} if referred - listed.files.keys() else _files(manifest)
    manifest.stores.objects.delete_all([listed.files[each].path for each in deletable])
    deleted_names = manifest.names.drop_all_but(remaining_versions)
    orphaned = listed.older(retention.orphan_seconds)
    unneeded = [
        each.path
        for name, each in files.items()
        if is_content(name) and name not in needed and (name in deleted_names or each.modified_us < orphaned)
    ]
    manifest.stores.objects.delete_all(unneeded + _old_transactions(files, listed, remaining_versions, retention))
    return len(deletable)


def _is_over(manifest: BranchManifest, lease: LeaseRecord, listed: VersionListing, world: World) -> bool:
    """Whether a lease has lapsed. The newest version was written just now, and serves as the store's clock."""
    if lease.is_free(world):
        return True
    try:
        written = manifest.stores.objects.info(BRANCH_LEASE).written_us
    except ObjectNotFound:
        return False  # it was just released, and another process may hold it
    return listed.files[listed.newest].written_us - written > patience(lease.seconds) * 1_000_000


def _deletable(listed: VersionListing, retention: VersionRetention, referred: frozenset[int]) -> list[int]:
    grace_limit = listed.older(retention.commit_grace_seconds)
    beyond = sorted(listed.files, reverse=True)[max(FEWEST, retention.versions) :]
    return [each for each in beyond if each not in referred and listed.files[each].modified_us <= grace_limit]


def _names_of(manifest: BranchManifest, versions: Iterable[int]) -> dict[int, Names]:
    """The files that each version references; versions that this process has neither made nor read are read now."""
    unknown = [each for each in versions if manifest.names.of(each) is None]
    for version, names in zip(unknown, _read(manifest, unknown), strict=True):
        manifest.names.add(version, names)
    return {each: manifest.names.of(each) or frozenset() for each in versions}


def _read(manifest: BranchManifest, versions: list[int]) -> list[Names]:
    if not versions:
        return []
    with ThreadPoolExecutor(READERS) as readers:
        tasks = [readers.submit(copy_context().run, _read_one, manifest, each) for each in versions]
        return [each.result() for each in tasks]


def _read_one(manifest: BranchManifest, version: int) -> Names:
    return names_in(manifest.stores.tables.open_once(Pin(MANIFEST, version, physical_branch(manifest.branch))))


def _files(manifest: BranchManifest) -> dict[str, ObjectInfo]:
    """The files of a branch of the manifest except its version files, by path below its directory."""
    home = _home(manifest)
    listings = [manifest.stores.objects.list(f"{home}/{directory}") for directory in (DATA, DELETIONS, TRANSACTIONS)]
    return {each.path.removeprefix(f"{home}/"): each for directory in listings for each in directory}


def _old_transactions(
    files: Mapping[str, ObjectInfo],
    listed: VersionListing,
    remaining_versions: Iterable[int],
    retention: VersionRetention,
) -> list[str]:
    """The transaction files of deleted versions. The number in a file name is that of the version read."""
    remaining = set(remaining_versions)
    oldest = min(each for each in remaining if each > listed.newest - retention.versions)
    grace_limit = listed.files[oldest].modified_us - int(retention.commit_grace_seconds * 1_000_000)
    found = []
    for name, each in files.items():
        read = version_read_by(name)
        version = read + 1 if read is not None else oldest
        if version < oldest and version not in remaining and each.modified_us <= grace_limit:
            found.append(each.path)
    return found


def _home(manifest: BranchManifest) -> str:
    return table_dir(MANIFEST, physical_branch(manifest.branch))
