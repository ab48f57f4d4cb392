"""The commit protocol: the one way in which changes to tables become a commit of the graph.

    prepare   compute and stage the changes from one view; nothing is visible
    A         write the sidecar, which is also the ticket; wait for its turn; look whether the view still holds
    B         commit each staged table, in sorted order; each must become exactly the next version, which may be
              followed by one that only tidies the table
    C         publish everything in one write to the manifest
    D         delete the sidecar

An operation that is killed at any point is rolled forward or back by the next writer or open (`transaction/recovery`).
One that fails at any point is rolled back here, so that it never blocks the next one.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from omnigraph.errors import (
    CommitNotDone,
    CommitOutcomeUnknown,
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
from omnigraph.manifest.layout import MAIN
from omnigraph.manifest.publisher import ANY_HEAD, AnyHead, PublishRequest
from omnigraph.storage.tables.immediate import cleans_itself, stage_disarm
from omnigraph.transaction.commit.table_commits import TableCommits
from omnigraph.transaction.intents import process_locks
from omnigraph.transaction.intents.queue import QueueEntry
from omnigraph.transaction.read_view import ReadView
from omnigraph.transaction.recovery.outcome import fate
from omnigraph.transaction.recovery.recover import recover
from omnigraph.transaction.recovery.schema_files import finish_schema
from omnigraph.transaction.write_set import NewTable, SchemaWrite, TableWrite, WriteSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.transaction.intents.sidecar import Sidecar, WriterKind

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
# Each of these is a publish with its own budget of retries.
PUBLISH_ATTEMPTS = 12


class AnySchema:
    """The operation was computed without a schema, or from that of its own first view."""


ANY_SCHEMA: Final = AnySchema()


@dataclass(frozen=True)
class Operation:
    """What is to be written, and under which conditions.

    `prepare` computes the changes from a view; None means that there is nothing to change. It may be called again with
    a newer view when `repeatable` (inserts and upserts are). When not (updates and deletes), it fails with a conflict
    if a commit that began after it has moved its tables; one that began earlier is part of what it is computed from.
    `schema`: the hash of the schema that `prepare` works with; when the branch has another by then, the operation fails
    with `SchemaChanged`. `last_look` is called when everything has landed and nothing is visible; it may raise.
    """

    kind: WriterKind
    prepare: Callable[[ReadView], WriteSet | None]
    branch: str = MAIN
    actor: str | None = None
    repeatable: bool = True
    expected_head: str | AnyHead | None = ANY_HEAD
    idempotency_key: str | None = None
    merged_parent: str | None = None
    schema: str | AnySchema | None = ANY_SCHEMA
    last_look: Callable[[], None] | None = None


@dataclass(frozen=True)
class Receipt:
    """A commit that is visible, and the state it made. `repeated` when an idempotency key had made it before."""

    commit: GraphCommit
    snapshot: Snapshot
    repeated: bool = False


def commit(manifest: GraphManifest, operation: Operation) -> Receipt | None:
    """Carry an operation through all phases; None when it changes nothing.

    It is done when this returns, and not done when it raises, but for `CommitOutcomeUnknown`.
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
        line = _line(manifest, operation)
        done = _already_done(line, operation)
        if done is not None:
            return done
        _check_head(line, operation)
        operation = _under_one_schema(line, operation)
        view = ReadView(line.snapshot(), manifest.stores.tables)
        try:
            write_set = operation.prepare(view)
        except OmniGraphError:
            if _is_current(manifest, operation, view):
                raise
            continue
        if write_set is not None:
            outcome = _settled(TableCommits(manifest, operation, write_set, view, line, begun_at=begun_at))
            if not isinstance(outcome, PrepareAgain):
                return outcome
            operation = outcome.operation
        elif _is_current(manifest, operation, view):
            return None
    raise ReadSetChanged(operation.branch, sorted(view.reads))


def _line(manifest: GraphManifest, operation: Operation) -> BranchManifest:
    """The branch's manifest: as warm as it is, unless the operation has conditions on what it finds."""
    if operation.idempotency_key is None and isinstance(operation.expected_head, AnyHead):
        return manifest.line(operation.branch)
    return manifest.fresh_line(operation.branch)


def _already_done(line: BranchManifest, operation: Operation) -> Receipt | None:
    if operation.idempotency_key is None:
        return None
    with line.lock:
        found = line.state.by_key.get(operation.idempotency_key)
        return None if found is None else Receipt(found, line.state.at(line.branch, found), repeated=True)


def _check_head(line: BranchManifest, operation: Operation) -> None:
    if isinstance(operation.expected_head, AnyHead):
        return
    head = line.state.head
    actual = head.id if head else None
    if actual != operation.expected_head:
        raise HeadMismatch(operation.branch, expected=operation.expected_head, actual=actual)


def _under_one_schema(line: BranchManifest, operation: Operation) -> Operation:
    """An operation without a schema of its own stays with the one that it finds first."""
    if isinstance(operation.schema, AnySchema):
        return replace(operation, schema=line.state.schema)
    _check_schema(line, operation)
    return operation


def _check_schema(line: BranchManifest, operation: Operation) -> None:
    if line.state.schema != operation.schema:
        raise SchemaChanged(operation.branch)


def _is_current(manifest: GraphManifest, operation: Operation, view: ReadView) -> bool:
    """Whether a view that led to an error, or to nothing, is still what the store says."""
    return manifest.fresh_line(operation.branch).snapshot() == view.snapshot


@dataclass(frozen=True)
class PrepareAgain:
    """The view did not hold, and the newer one leads to other tables than the ticket is for."""

    operation: Operation


def _settled(effects: TableCommits) -> Receipt | PrepareAgain | None:
    """One attempt whose end is known: done, or not done, and then made again when others were in its way.

    A table that was ahead has been taken back together with this attempt. An attempt that others took over, because
    this process slept, was finished or undone by them.
    """
    try:
        return _attempt(effects)
    except (TableAhead, DecidedOtherwise) as error:
        log.warning("%s", error)
    except ExpectedVersionMismatch:
        # A recovery has fenced a table between this operation's look at it and its publish, or another program moved
        # it.
        if not effects.operation.repeatable and not _only_tidied(effects):
            raise
    except OperationTakenOver as lost:
        log.warning("%s", lost)
        found = fate(effects.manifest, lost)
        if found is not None:
            return Receipt(*found)
    return PrepareAgain(effects.operation)


def _only_tidied(effects: TableCommits) -> bool:
    line = effects.manifest.fresh_line(effects.operation.branch)
    return effects.only_tidied(line, effects.moved(line))


def _attempt(effects: TableCommits) -> Receipt | PrepareAgain | None:
    """One ticket, and one turn with it."""
    manifest = effects.manifest
    if effects.is_empty():
        return _note(manifest, effects.operation)
    if effects.armed():
        return PrepareAgain(_disarmed(effects))
    effects.stage_ahead()
    with process_locks.hold(manifest.stores.uri, effects.lines()), _ticket(manifest, effects.sidecar()) as ticket:
        ticket.wait_for_turn(lambda dead: recover(manifest, dead))
        reach("commit.armed")
        return _take_turn(effects, ticket)


def _disarmed(effects: TableCommits) -> Operation:
    """Tables that would delete their old versions at a commit lose that setting first, in a commit of its own.

    An operation that must follow a certain commit has that one as its condition, and then follows it.
    """
    operation, keys = effects.operation, effects.armed()

    def prepare(view: ReadView) -> WriteSet | None:
        writes = [TableWrite(view.entry(key), stage_disarm) for key in keys if cleans_itself(view.table(key))]
        return WriteSet(writes) if writes else None

    disarm = Operation(
        "Optimize", prepare, branch=operation.branch, actor=operation.actor, expected_head=operation.expected_head
    )
    done = commit(effects.manifest, disarm)
    if done is None or isinstance(operation.expected_head, AnyHead):
        return operation
    return replace(operation, expected_head=done.commit.id)


def _take_turn(effects: TableCommits, ticket: QueueEntry) -> Receipt | PrepareAgain | None:
    """A view that no longer holds is replaced while the ticket is held, so that every writer gets through."""
    operation = effects.operation
    line = effects.manifest.fresh_line(operation.branch)
    done = _already_done(line, operation)
    if done is not None:
        return done
    _check_head(line, operation)
    _check_schema(line, operation)
    moved = effects.moved(line)
    if moved:
        again = _prepare_again(effects, line, moved, ticket)
        if not isinstance(again, TableCommits):
            return again
        effects = again
    effects.land(ticket)
    reach("commit.before_publish")
    receipt = _publish(effects, ticket)
    ticket.is_published = True
    effects.keep_handles()
    reach("commit.published")
    return receipt


def _publish(effects: TableCommits, ticket: QueueEntry) -> Receipt:
    """Publish, and go on after losing to writers of other tables: giving up now would mean undoing what has landed."""
    request = effects.request(ticket.sidecar)
    for attempt in reversed(range(PUBLISH_ATTEMPTS)):
        try:
            published = effects.manifest.publish(request, branch=effects.operation.branch)
        except Contention:
            if not attempt:
                raise
            continue
        return Receipt(published.commit, published.snapshot)
    raise AssertionError("the last attempt returns or raises")


def _prepare_again(
    effects: TableCommits, line: BranchManifest, moved: list[str], ticket: QueueEntry
) -> TableCommits | PrepareAgain | None:
    """Compute the operation from the state that is there now; None when that leaves nothing to do."""
    operation = effects.operation
    if not operation.repeatable and effects.overtaken(line, moved) and not effects.only_tidied(line, moved):
        raise ReadSetChanged(operation.branch, moved)
    view = ReadView(line.snapshot(), effects.manifest.stores.tables)
    write_set = operation.prepare(view)
    if write_set is None:
        return None
    again = TableCommits(effects.manifest, operation, write_set, view, line, begun_at=effects.begun_at)
    again.stage_ahead()
    if not again.fits(ticket):
        return PrepareAgain(operation)
    ticket.update(
        tables=again.pins(),
        added=again.added(),
        dropped=again.dropped(),
        pointed=again.pointed(),
        reads=again.only_read(),
        incarnation=line.incarnation,
    )
    return again


def _note(manifest: GraphManifest, operation: Operation) -> Receipt:
    """A commit without changes moves no table, so it needs no ticket."""
    request = PublishRequest(
        manifest.world.ulid(),
        manifest.world.now_us(),
        expected_head=operation.expected_head,
        actor=operation.actor,
        merged_parent=operation.merged_parent,
        idempotency_key=operation.idempotency_key,
    )
    if operation.idempotency_key is not None and isinstance(operation.expected_head, AnyHead):
        return _note_once(manifest, operation, request)
    published = manifest.publish(request, branch=operation.branch)
    return Receipt(published.commit, published.snapshot)


def _note_once(manifest: GraphManifest, operation: Operation, request: PublishRequest) -> Receipt:
    """Publish only onto a history in which the key was looked for and not found."""
    for _ in range(PREPARE_ATTEMPTS):
        line = manifest.fresh_line(operation.branch)
        done = _already_done(line, operation)
        if done is not None:
            return done
        head = line.state.head
        try:
            published = manifest.publish(
                replace(request, expected_head=head.id if head else None), branch=operation.branch
            )
        except HeadMismatch:
            continue
        return Receipt(published.commit, published.snapshot)
    raise Contention(f"publishing on branch {operation.branch!r}", attempts=PREPARE_ATTEMPTS)


@contextmanager
def _ticket(manifest: GraphManifest, sidecar: Sidecar) -> Iterator[QueueEntry]:
    """Hold a ticket; at the end nothing is left of it, whether the operation succeeded, failed or was interrupted."""
    ticket = QueueEntry.draw(manifest.stores.objects, sidecar, manifest.world)
    try:
        with ticket.guard():
            yield ticket
    except BaseException as error:
        try:
            is_certain = _undo(manifest, ticket, error)
        finally:
            ticket.rest()
        if not isinstance(error, Exception):
            raise
        if ticket.is_lost:
            raise ticket.sidecar.taken_from_here() from error
        if not is_certain:
            raise _unknown(ticket.sidecar, error) from error
        raise
    try:
        if ticket.is_published:
            finish_schema(manifest, ticket)
        ticket.delete()
    except (OmniGraphError, OSError) as error:
        log.warning("the commit is done; its sidecar %s stays for the next writer: %s", ticket.sidecar.path, error)
        ticket.let_go()


def _undo(manifest: GraphManifest, ticket: QueueEntry, error: BaseException) -> bool:
    """Take the operation back, or leave it for whoever comes next; whether it is certain that it will not be done.

    That it is to be taken back is noted first: should this process sleep or fail now, others must not finish it.
    """
    if ticket.is_lost:
        return True  # it is another's, and `_settled` looks what has become of it
    if isinstance(error, CommitOutcomeUnknown):
        ticket.let_go()
        return False
    try:
        with ticket.guard():
            if ticket.has_effects:
                ticket.update(aborted=True)
                recover(manifest, ticket)
            else:
                ticket.require()
                ticket.delete()
    except OperationTakenOver:
        return True
    except (OmniGraphError, OSError) as second:
        log.warning("operation %s will be recovered later: %s", ticket.sidecar.operation_id, second)
        ticket.let_go()
        return ticket.sidecar.aborted or not ticket.has_effects
    return True


def _unknown(sidecar: Sidecar, error: BaseException) -> CommitOutcomeUnknown:
    """The store failed when the operation was to be published, or when that it is not to be done was to be noted."""
    commit_id = sidecar.commit.commit_id if sidecar.commit is not None else None
    return CommitOutcomeUnknown(
        f"operation {sidecar.operation_id} may or may not be done: {error}. The next writer finishes or undoes it; "
        f"look for the commit {commit_id} before doing it again.",
        transaction=commit_id,
        operation_id=sidecar.operation_id,
    )
