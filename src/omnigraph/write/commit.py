"""The commit protocol: the one way in which changes to tables become a commit of the graph.

    prepare   compute and stage the changes from one view; nothing is visible
    A         write the sidecar, which is also the ticket; wait for its turn; look whether the view still holds
    B         commit each staged table, in sorted order; each must become exactly the next version
    C         publish everything in one write to the manifest
    D         delete the sidecar

Killed anywhere, the operation is finished or undone by the next writer or open (`write/recovery`). Failing anywhere, it
is undone here and now, so that it never blocks the next one.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import (
    CommitOutcomeUnknown,
    CommitRejected,
    Contention,
    HeadMismatch,
    OmniGraphError,
    ReadSetChanged,
)
from omnigraph.failpoints import reach
from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.layout import MAIN, physical_branch
from omnigraph.manifest.publisher import ANY_HEAD, AnyHead, NewVersion, PublishRequest
from omnigraph.store.staging import Committed, commit_staged, stage_restore
from omnigraph.write import queues
from omnigraph.write.recovery.recover import recover
from omnigraph.write.recovery.sidecar import AddedTable, DroppedTable, PlannedCommit, Sidecar, TablePin, WriterKind
from omnigraph.write.tickets import Ticket
from omnigraph.write.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.publisher import Published
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.store.staging import Staged
    from omnigraph.store.tables import Table

log = logging.getLogger(__name__)

PREPARE_ATTEMPTS = 32
# Each of these is a publish with its own budget of retries.
PUBLISH_ATTEMPTS = 12


@dataclass(frozen=True)
class TableWrite:
    """A change to one table: from which state, and how to stage it on a handle of that state."""

    entry: TableEntry
    stage: Callable[[Table], Staged]


@dataclass(frozen=True)
class WriteSet:
    """Everything one operation changes. Empty, it is a commit that only says that something was done."""

    writes: Sequence[TableWrite] = ()
    added: Sequence[AddedTable] = ()
    dropped: Sequence[DroppedTable] = ()


@dataclass(frozen=True)
class Operation:
    """What is to be written, and under which conditions.

    `prepare` computes the changes from a view; None means that there is nothing to change. It may be called again with
    a newer view when `repeatable` (inserts and upserts are; updates and deletes are not, and fail with a conflict).
    """

    kind: WriterKind
    prepare: Callable[[View], WriteSet | None]
    branch: str = MAIN
    actor: str | None = None
    repeatable: bool = True
    expected_head: str | AnyHead | None = ANY_HEAD
    idempotency_key: str | None = None
    merged_parent: str | None = None


@dataclass(frozen=True)
class Receipt:
    """A commit that is visible, and the state it made. `repeated` when an idempotency key had made it before."""

    commit: GraphCommit
    snapshot: Snapshot
    repeated: bool = False


def commit(manifest: GraphManifest, operation: Operation) -> Receipt | None:
    """Carry an operation through all phases; None when it changes nothing."""
    if not operation.repeatable:
        manifest.fresh_line(operation.branch)
    for _ in range(PREPARE_ATTEMPTS):
        done = _already_done(manifest, operation)
        if done is not None:
            return done
        _check_head(manifest, operation)
        view = View(manifest.line(operation.branch).snapshot(), manifest.stores.tables)
        try:
            write_set = operation.prepare(view)
        except OmniGraphError:
            if _is_current(manifest, operation, view):
                raise
            continue
        if write_set is not None:
            outcome = _attempt(manifest, operation, write_set, view)
            if not isinstance(outcome, PrepareAgain):
                return outcome
        elif _is_current(manifest, operation, view):
            return None
    raise ReadSetChanged(operation.branch, sorted(view.reads))


def _already_done(manifest: GraphManifest, operation: Operation) -> Receipt | None:
    if operation.idempotency_key is None:
        return None
    line = manifest.fresh_line(operation.branch)
    found = line.state.by_key.get(operation.idempotency_key)
    return None if found is None else Receipt(found, line.state.at(line.branch, found), repeated=True)


def _check_head(manifest: GraphManifest, operation: Operation) -> None:
    if isinstance(operation.expected_head, AnyHead):
        return
    head = manifest.fresh_line(operation.branch).state.head
    actual = head.id if head else None
    if actual != operation.expected_head:
        raise HeadMismatch(operation.branch, expected=operation.expected_head, actual=actual)


def _is_current(manifest: GraphManifest, operation: Operation, view: View) -> bool:
    """Whether a view that led to an error, or to nothing, is still what the store says."""
    return manifest.fresh_line(operation.branch).snapshot() == view.snapshot


class PrepareAgain:
    """The view did not hold, and the newer one leads to other tables than the ticket is for."""


def _attempt(
    manifest: GraphManifest, operation: Operation, write_set: WriteSet, view: View
) -> Receipt | PrepareAgain | None:
    """One turn. A view that no longer holds is replaced while the ticket is held, so that every writer gets through."""
    effects = Effects(manifest, operation, write_set)
    if effects.is_empty():
        return _note(manifest, operation)
    effects.stage_ahead()
    with queues.hold(manifest.stores.uri, effects.lines()), _ticket(manifest, effects.sidecar()) as ticket:
        ticket.wait_for_turn(lambda dead: _recover(manifest, dead))
        reach("commit.armed")
        moved = _moved(manifest, operation, view)
        if moved:
            again = _prepare_again(manifest, operation, moved)
            if again is None:
                return None
            if not set(again.lines()) <= set(effects.lines()):
                return PrepareAgain()
            effects = again
            ticket.update(tables=effects.pins())
        effects.land(ticket)
        reach("commit.before_publish")
        published = _publish(manifest, operation, effects, ticket)
        effects.keep_handles()
        reach("commit.published")
        return Receipt(published.commit, published.snapshot)


def _publish(manifest: GraphManifest, operation: Operation, effects: Effects, ticket: Ticket) -> Published:
    """Publish, and go on after losing to writers of other tables: giving up now would mean undoing what has landed."""
    request = effects.request(ticket.sidecar)
    for _ in range(PUBLISH_ATTEMPTS - 1):
        try:
            return manifest.publish(request, branch=operation.branch)
        except Contention:
            ticket.keep_alive()
    return manifest.publish(request, branch=operation.branch)


def _prepare_again(manifest: GraphManifest, operation: Operation, moved: list[str]) -> Effects | None:
    """Compute the operation from the state that is there now; None when that leaves nothing to do."""
    if not operation.repeatable:
        raise ReadSetChanged(operation.branch, moved)
    view = View(manifest.line(operation.branch).snapshot(), manifest.stores.tables)
    write_set = operation.prepare(view)
    if write_set is None:
        return None
    effects = Effects(manifest, operation, write_set)
    effects.stage_ahead()
    return effects


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
    published = manifest.publish(request, branch=operation.branch)
    return Receipt(published.commit, published.snapshot)


def _recover(manifest: GraphManifest, dead: Ticket) -> None:
    recover(manifest, dead)


def _moved(manifest: GraphManifest, operation: Operation, view: View) -> list[str]:
    """The tables that the view was read from and that have moved since."""
    _check_head(manifest, operation)
    state = manifest.fresh_line(operation.branch).state
    return sorted(key for key, version in view.reads.items() if state.current_version(key) != version)


@contextmanager
def _ticket(manifest: GraphManifest, sidecar: Sidecar) -> Iterator[Ticket]:
    """Hold a ticket; at the end nothing is left of it, whether the operation succeeded, failed or was interrupted."""
    ticket = Ticket.draw(manifest.stores.objects, sidecar, manifest.world)
    try:
        yield ticket
    except BaseException as error:
        _undo(manifest, ticket, error)
        raise
    try:
        ticket.delete()
    except OmniGraphError as error:
        log.warning("the commit is done; its sidecar %s stays for the next writer: %s", ticket.sidecar.path, error)


def _undo(manifest: GraphManifest, ticket: Ticket, error: BaseException) -> None:
    """Take the operation back, or, when that is not possible now, leave it for whoever comes next."""
    try:
        if not ticket.has_effects:
            ticket.delete()
        elif isinstance(error, CommitOutcomeUnknown):
            ticket.give_up()
        else:
            recover(manifest, ticket, may_finish=False)
    except OmniGraphError as second:
        log.warning("operation %s will be recovered later: %s", ticket.sidecar.operation_id, second)


class Effects:
    """The tables of one operation on their way: staged, landed, published."""

    def __init__(self, manifest: GraphManifest, operation: Operation, write_set: WriteSet) -> None:
        self._manifest = manifest
        self._operation = operation
        self._write_set = write_set
        self._writes = sorted(write_set.writes, key=lambda each: each.entry.table_key)
        self._branch = physical_branch(operation.branch)
        self._staged: dict[str, Staged] = {}
        self._landed: dict[str, Committed] = {}

    def is_empty(self) -> bool:
        """Whether no table is changed, added or dropped."""
        return not (self._writes or self._write_set.added or self._write_set.dropped)

    def lines(self) -> list[queues.Line]:
        """The tables it moves, on their branches."""
        return [(each.entry.table_key, self._branch) for each in self._writes]

    def stage_ahead(self) -> None:
        """Stage what can be staged before the sidecar: all but tables that this branch has no line of its own of."""
        for write in self._writes:
            if write.entry.branch == self._branch:
                table = self._manifest.stores.tables.open(write.entry.pin)
                self._staged[write.entry.table_key] = write.stage(table)

    def sidecar(self) -> Sidecar:
        """The note to leave before the first effect."""
        world, operation = self._manifest.world, self._operation
        now = world.now_us()
        return Sidecar(
            operation_id=world.ulid(),
            started_at=now,
            writer_kind=operation.kind,
            branch=self._branch,
            actor=operation.actor,
            tables=self.pins(),
            merge_source_commit_id=operation.merged_parent if operation.kind == "BranchMerge" else None,
            added=tuple(self._write_set.added),
            dropped=tuple(self._write_set.dropped),
            commit=PlannedCommit(world.ulid(), now, operation.merged_parent, operation.idempotency_key),
        )

    def pins(self) -> tuple[TablePin, ...]:
        """What the sidecar says of the tables, as far as it is known."""
        return tuple(self._pin(each) for each in self._writes)

    def land(self, ticket: Ticket) -> None:
        """Commit every table, in sorted order."""
        for write in self._writes:
            key = write.entry.table_key
            ticket.keep_alive()
            ticket.has_effects = True
            if key not in self._staged:
                self._fork_and_stage(write, ticket)
            self._landed[key] = self._land(self._staged[key], ticket)
            reach("commit.table_landed")

    def keep_handles(self) -> None:
        """The handles of the new versions serve the next reader."""
        for landed in self._landed.values():
            self._manifest.stores.tables.keep(landed.table)

    def request(self, sidecar: Sidecar) -> PublishRequest:
        """What to publish once every table has landed."""
        planned = sidecar.commit
        assert planned is not None
        return PublishRequest(
            commit_id=planned.commit_id,
            created_at=planned.created_at,
            versions=[
                *(self._new_version(each) for each in self._writes),
                *(NewVersion(each.table_key, 1, 0, each.table_branch, each.table_path) for each in sidecar.added),
            ],
            drops=[each.table_key for each in sidecar.dropped],
            expected_versions={each.entry.table_key: each.entry.version for each in self._writes},
            expected_head=self._operation.expected_head,
            actor=self._operation.actor,
            merged_parent=self._operation.merged_parent,
            idempotency_key=self._operation.idempotency_key,
        )

    def _land(self, staged: Staged, ticket: Ticket) -> Committed:
        landed = commit_staged(staged, operation_id=ticket.sidecar.operation_id)
        if landed.contiguous:
            return landed
        # Somebody without a sidecar has committed to this table. Their rows stay, ours go; `repair` decides on theirs.
        commit_staged(stage_restore(landed.table, landed.version - 1))
        raise CommitRejected(
            f"{staged.table.path} has commits that the graph does not know of: nothing was changed. "
            "Run repair to look at them."
        )

    def _fork_and_stage(self, write: TableWrite, ticket: Ticket) -> None:
        """A branch's first write to a table: its own line of the table is made now that the sidecar stands."""
        assert self._branch is not None
        stores = self._manifest.stores
        parent = stores.tables.open(write.entry.pin)
        fork = fork_table(stores, write.entry.path, self._branch, parent=parent)
        reach("commit.forked")
        self._staged[write.entry.table_key] = write.stage(fork)
        ticket.update(tables=self.pins())

    def _pin(self, write: TableWrite) -> TablePin:
        staged = self._staged.get(write.entry.table_key)
        return TablePin(
            table_key=write.entry.table_key,
            table_path=self._manifest.stores.tables.location.child(write.entry.path),
            expected_version=write.entry.version,
            post_commit_pin=write.entry.version + 1,
            table_branch=self._branch,
            transaction=staged.uuid if staged is not None else None,
        )

    def _new_version(self, write: TableWrite) -> NewVersion:
        landed = self._landed[write.entry.table_key]
        return NewVersion(write.entry.table_key, landed.version, landed.table.count_rows(), self._branch)
