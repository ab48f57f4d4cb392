"""Compacts `__manifest` and collects its old versions, so that the cost of a publish does not grow with history.

Each publish makes the active fragment longer (`active_fragment.py`). After some publishes their rows are moved to a
fragment that publishes do not rewrite, joined with the small fragments before it; after many publishes the versions
that nothing needs are collected. Both run after a publish has succeeded, never instead of one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import CommitConflict, CommitRejected, NotFound, OmniGraphError
from omnigraph.manifest.active_fragment import stage_lone_head
from omnigraph.manifest.row_versions import whole_publishes
from omnigraph.manifest.version_gc import VersionRetention, collect_versions, list_versions
from omnigraph.storage.tables.compaction import compacted, stage_rewrite
from omnigraph.storage.tables.immediate import collect_old_versions
from omnigraph.storage.tables.staging import commit_staged

if TYPE_CHECKING:
    from lance import FragmentMetadata

    from omnigraph.manifest.active_fragment import ActiveFragment, WrittenFragment
    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.version_gc import VersionListing
    from omnigraph.storage.tables.compaction import Rewrite
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.world import World

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ManifestPolicy:
    """When to compact (`small_fragments` uncompacted publishes and fragments) and to collect (`versions` files).

    An active fragment of `active_rows` rows is compacted earlier, since every publish rewrites it. The newest
    `keep_versions` are retained, for readers and writers that lag behind. `manifest/version_gc.py` explains the two
    durations.
    """

    small_fragments: int = 32
    rows_per_fragment: int = 2_000
    active_rows: int = 256
    # A mutation lists the version files twice: 20 ms for 1,000 files on S3, 4 ms for 100 (docs/benchmarks.md).
    versions: int = 80
    keep_versions: int = 32
    commit_grace_seconds: float = 10.0
    orphan_seconds: float = 600.0

    @property
    def retention(self) -> VersionRetention:
        """What garbage collection keeps."""
        return VersionRetention(self.keep_versions, self.commit_grace_seconds, self.orphan_seconds)


DEFAULT_MANIFEST_POLICY = ManifestPolicy()


def compact_and_collect(manifest: BranchManifest, policy: ManifestPolicy, world: World) -> None:
    """Compact and collect when due. Losing the race to another process is fine: that process then does the work."""
    try:
        if compact(manifest, policy):
            collect(manifest, policy, world)
    except (CommitConflict, CommitRejected):
        return
    except OmniGraphError as error:
        log.warning("the publish succeeded; compacting __manifest failed, and is tried again later: %s", error)


def compact(manifest: BranchManifest, policy: ManifestPolicy) -> bool:
    """Rewrite publishes and small fragments into larger ones if there are enough of them; return whether it did."""
    with manifest.lock:
        fragments = manifest.table.fragments()
        small = [each for each in fragments if each.num_rows < policy.rows_per_fragment]
        active = manifest.active_fragment() if small else None
        if active is None or not _is_due(active, small, policy):
            return False
        others = [each for each in small if each.id != active.fragment.id]
        staged = _stage(manifest, active, others, policy)
        if staged is None:
            return False
        committed = commit_staged(staged[0])
        if committed.contiguous:
            manifest.rewritten(committed.table, staged[1])
        else:
            manifest.advance_to(committed.table)
        return True


def _is_due(active: ActiveFragment, small: list[FragmentMetadata], policy: ManifestPolicy) -> bool:
    return active.publishes + len(small) > policy.small_fragments or active.rows.num_rows >= policy.active_rows


def collect(manifest: BranchManifest, policy: ManifestPolicy, world: World) -> int:
    """Delete manifest versions that are old enough and the files that only they need; return the number of versions."""
    with manifest.lock:
        version = manifest.table.version
        if version < manifest.collect_from or version <= policy.versions:
            return 0
        listed = list_versions(manifest)
        deleted_versions = _collect(manifest, listed, policy, world) if len(listed.files) > policy.versions else 0
        room = policy.versions - len(listed.files) + deleted_versions
        manifest.collect_from = version + max(
            room, (policy.versions - policy.keep_versions) // 2 if deleted_versions else 0
        )
        return deleted_versions


def _collect(manifest: BranchManifest, listed: VersionListing, policy: ManifestPolicy, world: World) -> int:
    if manifest.stores.tables.location.scheme == "s3+ddb":
        # The DynamoDB table records versions as well as the bucket; only Lance can delete them from both.
        return collect_old_versions(manifest.table, keep=policy.keep_versions)
    try:
        return collect_versions(manifest, listed, policy.retention, world)
    except NotFound:
        return 0  # another process is collecting concurrently


def _stage(
    manifest: BranchManifest, active: ActiveFragment, others: list[FragmentMetadata], policy: ManifestPolicy
) -> tuple[Staged, WrittenFragment] | None:
    """Stage a compaction: whole publishes lose their row versions; other rows keep theirs and are merged apart.

    Fragments published by this process are joined from memory; other fragments are read once there are enough of them.
    The active fragment is always replaced, so that a compaction conflicts with any publish: a publish that Lance
    rebased over a compaction would have a wrong version number in its commit row.
    """
    threshold = max(1, policy.small_fragments // 4)
    own = manifest.own.among(others)
    if len(others) - len(own) > threshold:
        own = _read_foreign(manifest, others, own)
    joined = manifest.own.join(manifest.table, own, active, large=policy.rows_per_fragment)
    rest = {each.id for each in others} - {each.id for each in own}
    groups = _rewrite(manifest.table, rest, policy) if len(rest) > threshold else []
    if joined is None and not groups:
        return None
    head = stage_lone_head(manifest.table, active)
    replaced = [active.fragment] if joined is None else [*own, active.fragment]
    written = [head.fragment] if joined is None else [joined, head.fragment]
    return stage_rewrite(manifest.table, [*groups, (replaced, written)]), head


def _read_foreign(
    manifest: BranchManifest, others: list[FragmentMetadata], own: list[FragmentMetadata]
) -> list[FragmentMetadata]:
    """The fragments whose rows are cached, after reading the whole publishes of other processes."""
    cached_ids = {each.id for each in own}
    foreign = {each.id: each for each in others if each.id not in cached_ids}
    for fragment_id, rows in whole_publishes(manifest.table, foreign.values()).items():
        manifest.own.add(foreign[fragment_id], rows)
    return manifest.own.among(others)


def _rewrite(table: Table, chosen: set[int], policy: ManifestPolicy) -> list[Rewrite]:
    """Compact rows of other origin, such as a migration or another program, with Lance's own compaction."""
    return compacted(table, rows_per_file=policy.rows_per_fragment, fragments=sorted(chosen))
