"""The one door through which anything becomes visible: a single write to `__manifest`.

A publish adds its rows and replaces the head row of its branch. Both lie in the last fragment of the manifest, which
each publish replaces as a whole (`tail.py`): any two publishes of one branch conflict, so Lance lets one of them win.

How long a commit was under way, by two clocks.
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
from omnigraph.manifest.active_fragment import stage_longer_tail
from omnigraph.manifest.branch_manifest import StagedPublish
from omnigraph.manifest.compaction import DEFAULT_UPKEEP, ManifestPolicy, tidy
from omnigraph.manifest.layout import lance_manifest_file
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
from omnigraph.storage.tables.immediate import upsert_rows_by_key
from omnigraph.storage.tables.staging import commit_staged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.world import World


class Stopwatch:
    """Tells whether a commit took so long that the version it became may have been collected under it.

    Both clocks are asked: one stands still while a machine sleeps, the other can be set back.
    """

    def __init__(self, world: World, limit_seconds: float) -> None:
        self._world = world
        self._limit = limit_seconds
        self.start()

    def start(self) -> None:
        """Begin anew."""
        self._started = self._world.monotonic(), self._world.now_us()

    def is_late(self) -> bool:
        """Whether the limit has gone by since the start."""
        steady, wall = self._started
        taken = max(self._world.monotonic() - steady, (self._world.now_us() - wall) / 1_000_000)
        return taken >= self._limit


RETRY_BUDGET: Final = 5


class AnyHead:
    """The caller does not mind which commit is the head."""


ANY_HEAD: Final = AnyHead()


@dataclass(frozen=True)
class NewVersion:
    """A table's new state. `path` is given for a table that the graph does not know yet."""

    table_key: str
    version: int
    row_count: int
    branch: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class PublishRequest:
    """Everything that one publish makes visible at once.

    `expected_versions`: each table's newest version must be exactly this; what is not named is not checked.
    `expected_head`: the branch's newest commit must be exactly this (None: the branch has no commit).
    `commit_id` and `created_at` are minted once by the caller, and survive retries. `excluded_by`: commits in whose
    history this one must not come, such as the one that has undone its operation.
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
    """What became visible."""

    commit: GraphCommit
    snapshot: Snapshot
    attempts: int


def publish(
    line: BranchManifest, request: PublishRequest, world: World, policy: ManifestPolicy = DEFAULT_UPKEEP
) -> Published:
    """Make the request visible on the line's branch, or raise and change nothing.

    Each attempt checks the request against what is there and takes the head it finds as the parent. After a lost race
    it reads again; a table or head that is no longer as expected is then the caller's conflict.
    """
    with line.lock:
        bring_up_to_date(line)
        for attempt in range(1, RETRY_BUDGET + 1):
            landed = line.state.commits.get(request.commit_id)
            if landed is not None:
                return Published(landed, line.snapshot(), attempt)
            _check(line, request)
            try:
                commit = _attempt(line, request, Stopwatch(world, policy.settled_seconds / 2))
            except (CommitConflict, CommitOutcomeUnknown, NotFound, StoreError) as error:
                # NotFound: this handle's version was collected meanwhile, so it is far behind.
                world.sleep(_pause(attempt, world))
                _look_again(line, request, error)
                continue
            tidy(line, policy, world)
            return Published(commit, line.snapshot(), attempt)
        landed = line.state.commits.get(request.commit_id)
        if landed is not None:
            return Published(landed, line.snapshot(), RETRY_BUDGET)
        raise Contention(f"publishing on branch {line.branch!r}", attempts=RETRY_BUDGET)


def _look_again(line: BranchManifest, request: PublishRequest, error: OmniGraphError) -> None:
    """Read what is there now. An answer that was lost is settled so: the commit id is among the rows if it landed."""
    in_doubt = isinstance(error, CommitOutcomeUnknown | StoreError)
    try:
        line.refresh()
    except OmniGraphError as second:
        if not in_doubt:
            raise
        raise CommitOutcomeUnknown(
            f"publishing on branch {line.branch!r}: no answer, and the outcome could not be looked up ({second}). "
            f"Look for the commit {request.commit_id} before doing anything else.",
            transaction=request.commit_id,
        ) from error
    if isinstance(error, StoreError) and request.commit_id not in line.state.commits:
        raise error


def _check(line: BranchManifest, request: PublishRequest) -> None:
    """Compare with the warm rows first; only when they disagree look whether they are stale."""
    mismatch = _mismatch(line, request)
    if mismatch is None:
        return
    line.refresh()
    mismatch = _mismatch(line, request)
    if mismatch is not None:
        raise mismatch


def _mismatch(line: BranchManifest, request: PublishRequest) -> OmniGraphError | None:
    head = line.state.head.id if line.state.head else None
    if not isinstance(request.expected_head, AnyHead) and request.expected_head != head:
        return HeadMismatch(line.branch, expected=request.expected_head, actual=head)
    if any(each in line.state.commits for each in request.excluded_by):
        return DecidedOtherwise(request.commit_id)
    for table_key, expected in request.expected_versions.items():
        actual = line.state.current_version(table_key)
        if actual != expected:
            return ExpectedVersionMismatch(table_key, expected=expected, actual=actual)
    return _occupied(line, request) or _gone(line, request)


def _gone(line: BranchManifest, request: PublishRequest) -> OmniGraphError | None:
    """What is not there cannot be dropped, and what was dropped comes back only with a later version."""
    for table_key in request.drops:
        if line.state.current_version(table_key) is None:
            return NotFound(f"branch {line.branch!r} has no table {table_key!r} to drop.")
    for new in request.versions:
        dead = max(line.state.tombstones.get(new.table_key, {0: None}))
        if new.version <= dead:
            return CommitRejected(
                f"{new.table_key} was dropped as of version {dead}: it can come back with a later version, "
                f"not with {new.version}."
            )
    return None


def _occupied(line: BranchManifest, request: PublishRequest) -> ExpectedVersionMismatch | None:
    """A version that is published already can only change hands: same rows, another branch of the table."""
    for new in request.versions:
        known = line.state.versions.get(new.table_key, {}).get(new.version)
        if known is None:
            newest = line.state.current_version(new.table_key)
            if newest is not None and newest > new.version:
                return ExpectedVersionMismatch(new.table_key, expected=new.version - 1, actual=newest)
            continue
        if known.row_count != new.row_count or known.branch == new.branch:
            actual = line.state.current_version(new.table_key)
            return ExpectedVersionMismatch(new.table_key, expected=new.version - 1, actual=actual)
    return None


def _attempt(line: BranchManifest, request: PublishRequest, watch: Stopwatch) -> GraphCommit:
    if line.branch in line.state.heads:
        tail = line.tail()
        if tail is None or tail.is_long:
            _set_head_apart(line)
    commit = _next_commit(line, request)
    reach("publish.before_write")
    _write(line, _rows(line, request, commit), commit, watch)
    return commit


def _next_commit(line: BranchManifest, request: PublishRequest) -> GraphCommit:
    return GraphCommit(
        id=request.commit_id,
        branch=line.branch,
        manifest_version=line.table.version + 1,
        created_at=request.created_at,
        parent=line.state.head.id if line.state.head else None,
        merged_parent=request.merged_parent,
        actor=request.actor,
        idempotency_key=request.idempotency_key,
        schema=request.schema,
    )


def _rows(line: BranchManifest, request: PublishRequest, commit: GraphCommit) -> list[Row]:
    registrations: list[Row] = []
    versions: list[Row] = []
    for new in request.versions:
        path = line.state.locations.get(new.table_key)
        if path is None:
            path = _path_of_new_table(line, new)
            registrations.append(Registration(new.table_key, path))
        file = line.stores.tables.location.object_path(lance_manifest_file(path, new.branch, new.version))
        versions.append(TableVersion(new.table_key, new.version, new.branch, new.row_count, file))
    tombstones = [Tombstone(key, line.state.next_tombstone(key)) for key in request.drops]
    return [*registrations, *versions, *tombstones, commit]


def _path_of_new_table(line: BranchManifest, new: NewVersion) -> str:
    if new.path is None:
        raise ManifestCorrupt(line.stores.uri, f"{new.table_key} is not registered and no path was given for it.")
    return new.path


def _set_head_apart(line: BranchManifest) -> None:
    """Write the head row anew, alone: another program or a migration put it among rows that must not be replaced."""
    line.require_same_incarnation()
    newest = line.state.head
    if newest is not None:
        line.adopt(upsert_rows_by_key(line.table, encode([GraphHead(line.branch, newest.id, newest.parent)]), key=KEY))


def _write(line: BranchManifest, rows: list[Row], commit: GraphCommit, watch: Stopwatch) -> None:
    """One commit: under the key filter when there is no head row yet, or when a row changes hands; else staged."""
    line.require_same_incarnation()
    watch.start()
    head = GraphHead(line.branch, commit.id, commit.parent)
    old = line.tail()
    if old is None or _replaces_rows(line, rows):
        table = upsert_rows_by_key(line.table, encode([*rows, head]), key=KEY)
        move = partial(line.adopt, table)
    else:
        added, changed = encode(rows), encode([head])
        staged, tail = stage_longer_tail(line.table, old, added, changed)
        landed = commit_staged(staged)
        advance = partial(line.advance, staged=StagedPublish(added, changed, tail))
        move = partial(advance if landed.contiguous else line.adopt, landed.table)
    if watch.is_late():
        _require_visible(line, commit)
    else:
        move()


def _require_visible(line: BranchManifest, commit: GraphCommit) -> None:
    """Raise when a commit that landed is not in the newest version: others have collected the one it became."""
    line.refresh()
    if commit.id not in line.state.commits:
        raise Contention(f"publishing on branch {line.branch!r}", attempts=1)


def _replaces_rows(line: BranchManifest, rows: list[Row]) -> bool:
    return any(
        isinstance(row, TableVersion) and row.version in line.state.versions.get(row.table_key, {}) for row in rows
    )


def _pause(attempt: int, world: World) -> float:
    """Up to a few milliseconds, growing with each lost race, so that the winners get through."""
    return float(world.random_bits(16) / 65_536 * 0.004 * 2**attempt)
