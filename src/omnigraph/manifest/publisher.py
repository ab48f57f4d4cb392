"""Publishes commits: the only code that makes anything visible, by a single write to `__manifest`.

A publish adds its rows and replaces the head row of its branch. Both are in the active fragment of the manifest, which
each publish replaces as a whole (`active_fragment.py`): any two publishes of one branch conflict, so Lance lets one of
them win. A publish that took long enough for its version to be collected (`Stopwatch`) verifies that it is visible.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from omnigraph.errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    CommitRejected,
    Contention,
    DecidedOtherwise,
    ExpectedVersionMismatch,
    HeadMismatch,
    ManifestCorrupt,
    NotFound,
    OmniGraphError,
    StoreError,
)
from omnigraph.failpoints import reach
from omnigraph.manifest.active_fragment import stage_extended_fragment
from omnigraph.manifest.branch_manifest import StagedPublish
from omnigraph.manifest.compaction import DEFAULT_MANIFEST_POLICY, ManifestPolicy, compact_and_collect
from omnigraph.manifest.rows import (
    KEY,
    GraphCommit,
    GraphHead,
    Registration,
    Row,
    SchemaChange,
    TableVersion,
    Tombstone,
    encode,
)
from omnigraph.manifest.upgrade import bring_up_to_date
from omnigraph.storage.lance.paths import version_file
from omnigraph.storage.tables.immediate import upsert_rows_by_key
from omnigraph.storage.tables.staging import commit_staged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.world import World


class Stopwatch:
    """Tells whether a commit took so long that the version it became may already have been collected.

    It reads both clocks: the steady one may stand still while the machine sleeps, the wall clock can be set back.
    """

    def __init__(self, world: World, limit_seconds: float) -> None:
        self._world = world
        self._limit = limit_seconds
        self.start()

    def start(self) -> None:
        """Restart the measurement."""
        self._started = self._world.monotonic(), self._world.now_us()

    def is_late(self) -> bool:
        """Whether the limit has passed since the start."""
        steady, wall = self._started
        taken = max(self._world.monotonic() - steady, (self._world.now_us() - wall) / 1_000_000)
        return taken >= self._limit


RETRY_BUDGET: Final = 5


class AnyHead:
    """The type of `ANY_HEAD`: the publish accepts any commit as the branch's head."""


ANY_HEAD: Final = AnyHead()


@dataclass(frozen=True)
class NewVersion:
    """A new version of a table. `path` is given for a table that the graph has not registered yet."""

    table_key: str
    version: int
    row_count: int
    branch: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class PublishRequest:
    """Everything that one publish makes visible at once.

    `expected_versions`: each table's newest version must equal this; tables that are not named are not checked.
    `expected_head`: the branch's newest commit must equal this (None: the branch has no commit). `commit_id` and
    `created_at` are generated once, by the caller, for all retries. `excluded_by`: the publish is refused when one of
    these commits is in the branch's history, such as the commit that undid the same operation.
    """

    commit_id: str
    created_at: int
    versions: Sequence[NewVersion] = ()
    drops: Sequence[str] = ()
    expected_versions: Mapping[str, int] = field(default_factory=dict)
    expected_head: str | AnyHead | None = ANY_HEAD
    actor: str | None = None
    merged_parent: str | None = None
    idempotency_key: str | None = None
    schema: SchemaChange | None = None
    excluded_by: Sequence[str] = ()


@dataclass(frozen=True)
class Published:
    """The commit that became visible, the snapshot it made, and the number of attempts."""

    commit: GraphCommit
    snapshot: Snapshot
    attempts: int


def publish(
    manifest: BranchManifest, request: PublishRequest, world: World, policy: ManifestPolicy = DEFAULT_MANIFEST_POLICY
) -> Published:
    """Make the request visible on the branch, or raise and change nothing.

    Each attempt checks the request against the newest state and takes its head as the parent. After a lost race it
    reads again; a table or head that is no longer as expected is then reported to the caller as a conflict.
    """
    with manifest.lock:
        bring_up_to_date(manifest)
        for attempt in range(1, RETRY_BUDGET + 1):
            committed = manifest.state.commits.get(request.commit_id)
            if committed is not None:
                return Published(committed, manifest.snapshot(), attempt)
            _check(manifest, request)
            try:
                commit = _attempt(manifest, request, Stopwatch(world, policy.commit_grace_seconds / 2))
            except (CommitConflict, CommitOutcomeUnknown, NotFound, StoreError) as error:
                # NotFound: this handle's version has been collected, so the handle is far behind.
                world.sleep(_pause(attempt, world))
                _refresh_after(manifest, request, error)
                continue
            compact_and_collect(manifest, policy, world)
            return Published(commit, manifest.snapshot(), attempt)
        committed = manifest.state.commits.get(request.commit_id)
        if committed is not None:
            return Published(committed, manifest.snapshot(), RETRY_BUDGET)
        raise Contention(f"publishing on branch {manifest.branch!r}", attempts=RETRY_BUDGET)


def _refresh_after(manifest: BranchManifest, request: PublishRequest, error: OmniGraphError) -> None:
    """Refresh. This resolves a lost acknowledgement: if the publish took effect, its commit id is among the rows."""
    in_doubt = isinstance(error, CommitOutcomeUnknown | StoreError)
    try:
        manifest.refresh()
    except OmniGraphError as second:
        if not in_doubt:
            raise
        raise CommitOutcomeUnknown(
            f"publishing on branch {manifest.branch!r}: no answer, and the outcome could not be looked up ({second}). "
            f"Look for the commit {request.commit_id} before doing anything else.",
            transaction=request.commit_id,
        ) from error
    if isinstance(error, StoreError) and request.commit_id not in manifest.state.commits:
        raise error


def _check(manifest: BranchManifest, request: PublishRequest) -> None:
    """Check against the cached rows; refresh only when they disagree, since they may be stale."""
    mismatch = _mismatch(manifest, request)
    if mismatch is None:
        return
    manifest.refresh()
    mismatch = _mismatch(manifest, request)
    if mismatch is not None:
        raise mismatch


def _mismatch(manifest: BranchManifest, request: PublishRequest) -> OmniGraphError | None:
    head = manifest.state.head.id if manifest.state.head else None
    if not isinstance(request.expected_head, AnyHead) and request.expected_head != head:
        return HeadMismatch(manifest.branch, expected=request.expected_head, actual=head)
    if any(each in manifest.state.commits for each in request.excluded_by):
        return DecidedOtherwise(request.commit_id)
    for table_key, expected in request.expected_versions.items():
        actual = manifest.state.current_version(table_key)
        if actual != expected:
            return ExpectedVersionMismatch(table_key, expected=expected, actual=actual)
    return _version_conflict(manifest, request) or _invalid_drop(manifest, request)


def _invalid_drop(manifest: BranchManifest, request: PublishRequest) -> OmniGraphError | None:
    """A table that does not exist cannot be dropped, and a dropped table can return only with a later version."""
    for table_key in request.drops:
        if manifest.state.current_version(table_key) is None:
            return NotFound(f"branch {manifest.branch!r} has no table {table_key!r} to drop.")
    for new in request.versions:
        dropped_at = max(manifest.state.tombstones.get(new.table_key, {0: None}))
        if new.version <= dropped_at:
            return CommitRejected(
                f"{new.table_key} was dropped as of version {dropped_at}: it can come back with a later version, "
                f"not with {new.version}."
            )
    return None


def _version_conflict(manifest: BranchManifest, request: PublishRequest) -> ExpectedVersionMismatch | None:
    """A version that is already published can only change owner: the same rows, on another branch of the table."""
    for new in request.versions:
        published = manifest.state.versions.get(new.table_key, {}).get(new.version)
        if published is None:
            newest = manifest.state.current_version(new.table_key)
            if newest is not None and newest > new.version:
                return ExpectedVersionMismatch(new.table_key, expected=new.version - 1, actual=newest)
            continue
        if published.row_count != new.row_count or published.branch == new.branch:
            actual = manifest.state.current_version(new.table_key)
            return ExpectedVersionMismatch(new.table_key, expected=new.version - 1, actual=actual)
    return None


def _attempt(manifest: BranchManifest, request: PublishRequest, watch: Stopwatch) -> GraphCommit:
    if manifest.branch in manifest.state.heads:
        active = manifest.active_fragment()
        if active is None or active.is_long:
            _move_head_to_own_fragment(manifest)
    commit = _next_commit(manifest, request)
    reach("publish.before_write")
    _write(manifest, _rows(manifest, request, commit), commit, watch)
    return commit


def _next_commit(manifest: BranchManifest, request: PublishRequest) -> GraphCommit:
    return GraphCommit(
        id=request.commit_id,
        branch=manifest.branch,
        manifest_version=manifest.table.version + 1,
        created_us=request.created_at,
        parent=manifest.state.head.id if manifest.state.head else None,
        merged_parent=request.merged_parent,
        actor=request.actor,
        idempotency_key=request.idempotency_key,
        schema=request.schema,
    )


def _rows(manifest: BranchManifest, request: PublishRequest, commit: GraphCommit) -> list[Row]:
    registrations: list[Row] = []
    versions: list[Row] = []
    for new in request.versions:
        path = manifest.state.locations.get(new.table_key)
        if path is None:
            path = _path_of_new_table(manifest, new)
            registrations.append(Registration(new.table_key, path))
        file = manifest.stores.tables.location.object_path(version_file(path, new.branch, new.version))
        versions.append(TableVersion(new.table_key, new.version, new.branch, new.row_count, file))
    tombstones = [Tombstone(key, manifest.state.next_tombstone(key)) for key in request.drops]
    return [*registrations, *versions, *tombstones, commit]


def _path_of_new_table(manifest: BranchManifest, new: NewVersion) -> str:
    if new.path is None:
        raise ManifestCorrupt(manifest.stores.uri, f"{new.table_key} is not registered and no path was given for it.")
    return new.path


def _move_head_to_own_fragment(manifest: BranchManifest) -> None:
    """Rewrite the head row into its own fragment: a migration or another program put it among rows that must stay."""
    manifest.require_same_incarnation()
    newest = manifest.state.head
    if newest is not None:
        manifest.advance_to(
            upsert_rows_by_key(manifest.table, encode([GraphHead(manifest.branch, newest.id, newest.parent)]), key=KEY)
        )


def _write(manifest: BranchManifest, rows: list[Row], commit: GraphCommit, watch: Stopwatch) -> None:
    """Write in one commit: a keyed upsert without a replaceable head row or when a row changes owner, else staged."""
    manifest.require_same_incarnation()
    watch.start()
    head = GraphHead(manifest.branch, commit.id, commit.parent)
    old = manifest.active_fragment()
    if old is None or _replaces_rows(manifest, rows):
        table = upsert_rows_by_key(manifest.table, encode([*rows, head]), key=KEY)
        move = partial(manifest.advance_to, table)
    else:
        added, changed = encode(rows), encode([head])
        staged, active = stage_extended_fragment(manifest.table, old, added, changed)
        committed = commit_staged(staged)
        advance = partial(manifest.advance, staged=StagedPublish(added, changed, active))
        move = partial(advance if committed.contiguous else manifest.advance_to, committed.table)
    if watch.is_late():
        _require_visible(manifest, commit)
    else:
        move()


def _require_visible(manifest: BranchManifest, commit: GraphCommit) -> None:
    """Raise when a commit that succeeded is not in the newest version: the version it became has been collected."""
    manifest.refresh()
    if commit.id not in manifest.state.commits:
        raise Contention(f"publishing on branch {manifest.branch!r}", attempts=1)


def _replaces_rows(manifest: BranchManifest, rows: list[Row]) -> bool:
    return any(
        isinstance(row, TableVersion) and row.version in manifest.state.versions.get(row.table_key, {}) for row in rows
    )


def _pause(attempt: int, world: World) -> float:
    """A random pause of a few milliseconds that doubles with each lost race, so that the winners get through."""
    return float(world.random_bits(16) / 65_536 * 0.004 * 2**attempt)
