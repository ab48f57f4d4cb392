"""The commit protocol turns the table changes of one operation into one commit of the graph. There is no other way.

    prepare   compute the changes from one read view and stage them; nothing is visible
    A         write the sidecar, which is also the queue entry; wait for its turn; check that the read view is current
    B         commit each staged table, in sorted order; each must become exactly the next version, which one version
              that only compacts or indexes the table may follow
    C         publish everything in one write to the manifest
    D         delete the sidecar

An operation that is killed at any point is rolled forward or back by the next writer or open (`transaction/recovery`).
An operation that fails at any point is rolled back here, so that it never blocks the next one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.errors import (
    CommitNotDone,
    CommitRejected,
    Contention,
    DecidedOtherwise,
    ExpectedVersionMismatch,
    HeadMismatch,
    OmniGraphError,
    OperationTakenOver,
    ReadSetChanged,
    SchemaChanged,
    StoreError,
    StorePermissionDenied,
    StoreUnsafe,
    TableAhead,
)
from omnigraph.failpoints import reach
from omnigraph.manifest.publisher import AnyHead, PublishRequest
from omnigraph.storage.tables.immediate import cleans_itself, stage_auto_cleanup_off
from omnigraph.transaction.commit.table_commits import TableCommits
from omnigraph.transaction.intents.queue_rules import hold_locks
from omnigraph.transaction.read_view import ReadView
from omnigraph.transaction.recovery.outcome import fate, held_entry
from omnigraph.transaction.recovery.recover import recover
from omnigraph.transaction.write_set import (
    ANY_SCHEMA,
    AnySchema,
    NewTable,
    Operation,
    Receipt,
    SchemaWrite,
    TableWrite,
    WriteSet,
)

if TYPE_CHECKING:
    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.transaction.intents.queue import QueueEntry

__all__ = [
    "ANY_SCHEMA",
    "AnySchema",
    "NewTable",
    "Operation",
    "Receipt",
    "SchemaWrite",
    "TableWrite",
    "WriteSet",
    "commit",
]

log = logging.getLogger(__name__)

PREPARE_ATTEMPTS = 32
# Each attempt is a publish, which has its own budget of retries.
PUBLISH_ATTEMPTS = 12


def commit(manifest: GraphManifest, operation: Operation) -> Receipt | None:
    """Run an operation through all phases; None when it changes nothing.

    The operation is committed when this returns, and is not when it raises, except for `CommitOutcomeUnknown`.
    """
    if manifest.read_only:
        raise CommitRejected("the graph was opened read-only: open it for writing to change it.")
    try:
        return _commit(manifest, operation)
    except (StorePermissionDenied, StoreUnsafe):
        raise
    except StoreError as error:
        raise CommitNotDone(str(error)) from error


def _commit(manifest: GraphManifest, operation: Operation) -> Receipt | None:
    for _ in range(PREPARE_ATTEMPTS):
        begun_at = manifest.world.now_us()
        branch_manifest = _branch_manifest(manifest, operation)
        done = _already_done(branch_manifest, operation)
        if done is not None:
            return done
        _check_head(branch_manifest, operation)
        operation = _under_one_schema(branch_manifest, operation)
        view = ReadView(branch_manifest.snapshot(), manifest.stores.tables)
        try:
            write_set = operation.prepare(view)
        except OmniGraphError:
            if _is_current(manifest, operation, view):
                raise
            continue
        if write_set is not None:
            outcome = _run_attempt(
                TableCommits(manifest, operation, write_set, view, branch_manifest, begun_at=begun_at)
            )
            if not isinstance(outcome, PrepareAgain):
                return outcome
            operation = outcome.operation
        elif _is_current(manifest, operation, view):
            return None
    raise ReadSetChanged(operation.branch, sorted(view.reads))


def _branch_manifest(manifest: GraphManifest, operation: Operation) -> BranchManifest:
    """The branch manifest: the cached one, or a fresh one if the operation has conditions on the state it finds."""
    if operation.idempotency_key is None and isinstance(operation.expected_head, AnyHead):
        return manifest.branch(operation.branch)
    return manifest.fresh_branch(operation.branch)


def _already_done(branch_manifest: BranchManifest, operation: Operation) -> Receipt | None:
    if operation.idempotency_key is None:
        return None
    found = branch_manifest.commit_by_key(operation.idempotency_key)
    return None if found is None else Receipt(found, branch_manifest.snapshot_of(found), repeated=True)


def _check_head(branch_manifest: BranchManifest, operation: Operation) -> None:
    if isinstance(operation.expected_head, AnyHead):
        return
    actual = branch_manifest.head_id
    if actual != operation.expected_head:
        raise HeadMismatch(operation.branch, expected=operation.expected_head, actual=actual)


def _under_one_schema(branch_manifest: BranchManifest, operation: Operation) -> Operation:
    """Bind an operation without a schema of its own to the first schema that it finds on the branch."""
    if isinstance(operation.schema, AnySchema):
        return replace(operation, schema=branch_manifest.schema)
    _check_schema(branch_manifest, operation)
    return operation


def _check_schema(branch_manifest: BranchManifest, operation: Operation) -> None:
    if branch_manifest.schema != operation.schema:
        raise SchemaChanged(operation.branch)


def _is_current(manifest: GraphManifest, operation: Operation, view: ReadView) -> bool:
    """Whether a read view that led to an error, or to no change, is still the branch's newest snapshot on the store."""
    return manifest.fresh_branch(operation.branch).snapshot() == view.snapshot


@dataclass(frozen=True)
class PrepareAgain:
    """The read view was outdated, and the newer one leads to tables that the queue entry does not cover."""

    operation: Operation


def _run_attempt(commits: TableCommits) -> Receipt | PrepareAgain | None:
    """Run one attempt to a known end: committed, or not committed and to be prepared again if others interfered.

    A table that was ahead of the manifest has been rolled back together with this attempt. An attempt whose lease
    another process took over, because this process was suspended, was finished or undone by that process.
    """
    try:
        return _attempt(commits)
    except (TableAhead, DecidedOtherwise) as error:
        log.warning("%s", error)
    except ExpectedVersionMismatch:
        # A recovery fenced a table after this operation read it and before its publish, or another program changed it.
        operation = commits.operation
        if not operation.repeatable and not commits.read_set.only_compacted(
            commits.manifest.fresh_branch(operation.branch)
        ):
            raise
    except OperationTakenOver as lost:
        log.warning("%s", lost)
        found = fate(commits.manifest, lost)
        if found is not None:
            return Receipt(*found)
    return PrepareAgain(commits.operation)


def _attempt(commits: TableCommits) -> Receipt | PrepareAgain | None:
    """Run one attempt: write one queue entry, wait for its turn once, and commit under it."""
    manifest = commits.manifest
    if commits.is_empty():
        return _publish_empty(manifest, commits.operation)
    if commits.with_auto_cleanup():
        return PrepareAgain(_without_auto_cleanup(commits))
    commits.stage_ahead()
    with (
        hold_locks(manifest.stores.uri, commits.table_refs()),
        held_entry(manifest, commits.sidecar()) as queue_entry,
    ):
        queue_entry.wait_for_turn(lambda dead: recover(manifest, dead))
        reach("commit.armed")
        return _commit_in_turn(commits, queue_entry)


def _without_auto_cleanup(commits: TableCommits) -> Operation:
    """Switch off Lance's automatic cleanup on tables that have it, in a commit of its own.

    An operation that expects a certain head passes that condition to this commit, and then expects this commit as its
    head.
    """
    operation, keys = commits.operation, commits.with_auto_cleanup()

    def prepare(view: ReadView) -> WriteSet | None:
        writes = [TableWrite(view.entry(key), stage_auto_cleanup_off) for key in keys if cleans_itself(view.table(key))]
        return WriteSet(writes) if writes else None

    switch_off = Operation(
        "Optimize", prepare, branch=operation.branch, actor=operation.actor, expected_head=operation.expected_head
    )
    done = commit(commits.manifest, switch_off)
    if done is None or isinstance(operation.expected_head, AnyHead):
        return operation
    return replace(operation, expected_head=done.commit.id)


def _commit_in_turn(commits: TableCommits, queue_entry: QueueEntry) -> Receipt | PrepareAgain | None:
    """Commit under a queue entry whose turn it is.

    An outdated read view is replaced while the entry is held, so that every writer gets through.
    """
    operation = commits.operation
    branch_manifest = commits.manifest.fresh_branch(operation.branch)
    done = _already_done(branch_manifest, operation)
    if done is not None:
        return done
    _check_head(branch_manifest, operation)
    _check_schema(branch_manifest, operation)
    outdated = commits.read_set.outdated(branch_manifest)
    if outdated:
        again = _prepare_again(commits, branch_manifest, outdated, queue_entry)
        if not isinstance(again, TableCommits):
            return again
        commits = again
    commits.commit_tables(queue_entry)
    reach("commit.before_publish")
    receipt = _publish(commits, queue_entry)
    queue_entry.is_published = True
    commits.cache_handles()
    reach("commit.published")
    return receipt


def _publish(commits: TableCommits, queue_entry: QueueEntry) -> Receipt:
    """Publish, and retry after losing to writers of other tables: giving up now would undo tables already committed."""
    request = commits.request(queue_entry.sidecar)
    for attempt in reversed(range(PUBLISH_ATTEMPTS)):
        try:
            published = commits.manifest.publish(request, branch=commits.operation.branch)
        except Contention:
            if not attempt:
                raise
            continue
        return Receipt(published.commit, published.snapshot)
    raise AssertionError("the last attempt returns or raises")


def _prepare_again(
    commits: TableCommits, branch_manifest: BranchManifest, outdated: list[str], queue_entry: QueueEntry
) -> TableCommits | PrepareAgain | None:
    """Prepare the operation again from the current snapshot; None when that leaves nothing to change."""
    operation = commits.operation
    read_set, now = commits.read_set, commits.manifest.world.now_us()
    if not operation.repeatable and read_set.overtaken(branch_manifest, commits.begun_at, now):
        raise ReadSetChanged(operation.branch, outdated)
    view = ReadView(branch_manifest.snapshot(), commits.manifest.stores.tables)
    write_set = operation.prepare(view)
    if write_set is None:
        return None
    again = TableCommits(commits.manifest, operation, write_set, view, branch_manifest, begun_at=commits.begun_at)
    again.stage_ahead()
    if not again.fits(queue_entry):
        return PrepareAgain(operation)
    queue_entry.update(
        tables=again.pins(),
        added=again.added(),
        dropped=again.dropped(),
        fast_forwarded=again.fast_forwarded(),
        reads=again.only_read(),
        incarnation=branch_manifest.incarnation,
    )
    return again


def _publish_empty(manifest: GraphManifest, operation: Operation) -> Receipt:
    """Publish a commit without changes. No table changes, so it needs no queue entry."""
    request = PublishRequest(
        manifest.world.ulid(),
        manifest.world.now_us(),
        expected_head=operation.expected_head,
        actor=operation.actor,
        merged_parent=operation.merged_parent,
        idempotency_key=operation.idempotency_key,
    )
    if operation.idempotency_key is not None and isinstance(operation.expected_head, AnyHead):
        return _publish_empty_once(manifest, operation, request)
    published = manifest.publish(request, branch=operation.branch)
    return Receipt(published.commit, published.snapshot)


def _publish_empty_once(manifest: GraphManifest, operation: Operation, request: PublishRequest) -> Receipt:
    """Publish only onto a head whose history was searched for the idempotency key without finding it."""
    for _ in range(PREPARE_ATTEMPTS):
        branch_manifest = manifest.fresh_branch(operation.branch)
        done = _already_done(branch_manifest, operation)
        if done is not None:
            return done
        try:
            published = manifest.publish(
                replace(request, expected_head=branch_manifest.head_id), branch=operation.branch
            )
        except HeadMismatch:
            continue
        return Receipt(published.commit, published.snapshot)
    raise Contention(f"publishing on branch {operation.branch!r}", attempts=PREPARE_ATTEMPTS)
