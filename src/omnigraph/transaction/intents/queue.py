"""Writers take turns: a sidecar is also a ticket in the queue for the tables it names.

Every writer, in whatever process, first writes its sidecar and then lists all of them. Two writers are rivals when one
moves a table that the other moves or was computed from. Of two rivals the later sees the earlier one, so they cannot
both believe to be alone:

- a living sidecar with a smaller id goes first. The other marks itself `waiting`;
- a living sidecar with a larger id that is `running` was there before, and is waited for; one that is `waiting` is not;
- whoever was `waiting` marks itself `running` and lists once more before it goes on;
- a sidecar whose owner is gone is recovered by whoever meets it (`transaction/recovery`).

How long a rival has been silent is told by the store's clock: the listing that shows the rival shows this writer's own
sidecar too, written a moment ago. Without rivals this costs one write and one listing. tests/write/test_tickets.py
walks through every order of events.

Ids of operations: ULIDs that are later than every one that this process has seen.

The queue goes by ids. Were they by the clock alone, a machine whose clock is behind would always be first in it, and a
busy writer there would keep all others waiting.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.counters import guarded, unguarded
from omnigraph.errors import Contention, ObjectChanged, ObjectNotFound, OmniGraphError, OperationTakenOver
from omnigraph.storage.objects.heartbeat import HEARTBEAT
from omnigraph.storage.objects.lease import Owner, Tenure, lease_seconds, patience
from omnigraph.storage.objects.store_clock import StoreClock, read_store_clock
from omnigraph.transaction.intents.sidecar import PREFIX, Sidecar, decode
from omnigraph.world import encode_ulid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from omnigraph.storage.objects.model import ObjectInfo, ObjectVersion
    from omnigraph.storage.objects.store import ObjectStore
    from omnigraph.world import World

__all__ = [
    "QueueDecision",
    "QueueEntry",
    "StoredSidecar",
    "compete",
    "list_sidecars",
    "may_recover",
    "new_ticket_id",
    "read_sidecars",
    "recover_if_over",
    "turn",
]

_DIGITS = {digit: value for value, digit in enumerate("0123456789ABCDEFGHJKMNPQRSTVWXYZ")}
_LATEST = (1 << 48) - 1
_lock = threading.Lock()
_newest_seen = 0


def new_ticket_id(world: World) -> str:
    """An id after all that were noted."""
    milliseconds = max(world.now_us() // 1_000, min(_newest_seen + 1, _LATEST))
    made = encode_ulid(milliseconds, world.random_bits(80))
    note_ticket_id(made)
    return made


def note_ticket_id(operation_id: str) -> None:
    """Remember that there is an operation of this id. What is not a ULID has no time, and is passed over."""
    global _newest_seen
    digits = [_DIGITS.get(each) for each in operation_id[:10]]
    if len(operation_id) != 26 or None in digits:
        return
    milliseconds = 0
    for digit in digits:
        milliseconds = milliseconds << 5 | (digit or 0)
    with _lock:
        _newest_seen = max(_newest_seen, milliseconds)


log = logging.getLogger(__name__)

WAIT_SECONDS = 120.0
# For each writer that is before this one; a commit takes about as long.
_POLL_SECONDS = 0.01
_LONGEST_POLL_SECONDS = 0.1

T = TypeVar("T")

# Operations that this process has let go of and could not say so on the store.
_let_go: set[str] = set()


@dataclass(frozen=True)
class StoredSidecar:
    """A sidecar as it stands on the store."""

    sidecar: Sidecar
    tag: ObjectVersion
    listed: ObjectInfo

    def is_given_up(self, world: World) -> bool:
        """Whether its owner surely does nothing for it any more."""
        return self.sidecar.operation_id in _let_go or self.sidecar.is_ownerless(world)

    def is_over(self, world: World, clock: StoreClock | None) -> bool:
        """Whether anybody may deal with it: its owner is gone, or was silent for too long by the store's clock."""
        if self.is_given_up(world):
            return True
        if clock is None or self.listed.e_tag != self.tag.e_tag:
            return False
        # Other releases know no leases: they get as long as a writer of this one.
        seconds = lease_seconds(world) if self.sidecar.owner is None else self.sidecar.lease_seconds
        return clock.age(self.listed) > patience(seconds)


def list_sidecars(objects: ObjectStore) -> list[StoredSidecar]:
    """Every sidecar, in the order of their ids; one that vanishes while being read is none."""
    return read_sidecars(objects, objects.list(PREFIX))


def read_sidecars(
    objects: ObjectStore, listed: Sequence[ObjectInfo], *, besides: str | None = None
) -> list[StoredSidecar]:
    """The sidecars that a listing shows."""
    found = []
    for each in listed:
        if not each.path.endswith(".json") or each.path == besides:
            continue
        try:
            data, tag = objects.read_versioned(each.path)
        except ObjectNotFound:
            continue
        found.append(StoredSidecar(decode(data, path=each.path), tag, each))
        note_ticket_id(found[-1].sidecar.operation_id)
    return found


def recover_if_over(
    objects: ObjectStore,
    found: StoredSidecar,
    world: World,
    recover: Callable[[QueueEntry], T],
    clock: StoreClock | None = None,
) -> T | None:
    """Take over a sidecar whose owner is gone and deal with it; None when it lives, or somebody else was quicker.

    If that fails, the sidecar is left for the next one who comes, and the error is the caller's. Without a `clock` the
    store's is read when the owner is neither surely gone nor surely alive.
    """
    if clock is None and not found.is_given_up(world):
        clock = read_store_clock(objects, world)
    ticket = _take_over(objects, found, world, clock)
    if ticket is None:
        return None
    try:
        with guarded(ticket.require):
            return recover(ticket)
    except OperationTakenOver as error:
        if error.operation_id != found.sidecar.operation_id:
            raise
        return None  # this process slept in the middle, and the next one goes on
    except BaseException:
        ticket.let_go()
        raise


def _take_over(objects: ObjectStore, found: StoredSidecar, world: World, clock: StoreClock | None) -> QueueEntry | None:
    if not found.is_over(world, clock):
        return None
    mine = found.sidecar.taken_over(Owner.of(world), world)
    begun = world.monotonic()
    try:
        tag = objects.replace(mine.path, mine.encode(), found.tag)
    except (ObjectChanged, ObjectNotFound):
        return None
    return QueueEntry(objects, mine, tag, world, begun=begun)


class QueueDecision(Enum):
    """What a ticket does next."""

    GO = auto()  # nobody is before it
    ANNOUNCE = auto()  # nobody is before it, but others take it for waiting
    STEP_BACK = auto()  # somebody with a smaller id waits for it to say that it waits
    WAIT = auto()


def turn(mine: Sidecar, rivals: Sequence[Sidecar]) -> QueueDecision:
    """The rule of the queue, for what one listing has shown of living rivals."""
    smaller = any(other.operation_id < mine.operation_id for other in rivals)
    if not smaller and all(other.phase == "waiting" for other in rivals):
        return QueueDecision.GO if mine.phase == "running" else QueueDecision.ANNOUNCE
    return QueueDecision.STEP_BACK if smaller and mine.phase == "running" else QueueDecision.WAIT


def compete(mine: Sidecar, other: Sidecar) -> bool:
    """Whether two operations must not have effects at the same time."""
    if mine.changes_schema or other.changes_schema:
        return True
    moves = mine.lines & (other.lines | other.read_lines) or mine.read_lines & other.lines
    return bool(moves) or _same_key(mine, other)


def may_recover(dead: Sidecar, living: Sequence[Sidecar], *, mine: str | None = None) -> bool:
    """Whether undoing a dead operation disturbs nobody who lives: a rival of it may be having its turn.

    One that waited has done nothing. Of several who would all wait for each other, the one with the smallest id does
    it. `mine` is who asks.
    """
    return dead.phase == "waiting" or not any(
        each.phase != "waiting" and compete(dead, each) and (mine is None or each.operation_id < mine)
        for each in living
    )


def _same_key(mine: Sidecar, other: Sidecar) -> bool:
    if mine.commit is None or other.commit is None or mine.commit.idempotency_key is None:
        return False
    return mine.branch == other.branch and mine.commit.idempotency_key == other.commit.idempotency_key


class QueueEntry:
    """A sidecar that this process holds. Its lease is renewed in the background until it is deleted or let go."""

    def __init__(
        self, objects: ObjectStore, sidecar: Sidecar, tag: ObjectVersion, world: World, *, begun: float
    ) -> None:
        self._objects = objects
        self._tag = tag
        self._world = world
        self._lock = threading.RLock()
        self._tenure = Tenure(sidecar.lease_seconds, begun, world)
        # When the last write of the sidecar had ended: the store's clock shows its time then, or an earlier one.
        self._written = world.monotonic()
        # Whether another process has taken it over.
        self.is_lost = False
        self.sidecar = sidecar
        # Whether a table may have moved: until then, deleting the sidecar undoes the operation.
        self.has_effects = False
        # Whether this process has made it visible: what is left to do then needs no hurry, and cannot fail the caller.
        self.is_published = False
        self._is_held = True
        HEARTBEAT.begin(self)

    @classmethod
    def draw(cls, objects: ObjectStore, sidecar: Sidecar, world: World) -> QueueEntry:
        """Write the sidecar: from here on, rivals wait and a crash is recovered."""
        mine = replace(sidecar, phase="running").leased(Owner.of(world), world)
        begun = world.monotonic()
        try:
            tag = objects.create(mine.path, mine.encode())
        except (OmniGraphError, OSError):
            _withdraw(objects, mine)
            raise
        return cls(objects, mine, tag, world, begun=begun)

    @property
    def seconds(self) -> float:
        """How long its lease lasts without being renewed."""
        return self._tenure.seconds

    def guard(self) -> AbstractContextManager[None]:
        """Inside, no durable step is taken once the ticket may be another's: `OperationTakenOver` is raised instead."""
        return guarded(self.require)

    def require(self) -> None:
        """Raise `OperationTakenOver` unless the ticket is surely this process's for a while; renew it if need be."""
        with self._lock:
            if self.is_lost:
                raise self.sidecar.taken_from_here()
            if self._is_held and not self._tenure.is_sure:
                self.update()

    def update(self, **changes: Any) -> None:
        """Rewrite the sidecar, and renew its lease. Raises `OperationTakenOver` when somebody has taken it over."""
        with self._lock:
            owner = self.sidecar.owner
            assert owner is not None
            if self.is_lost:
                raise self.sidecar.taken_from_here()
            changed = replace(self.sidecar, **changes).leased(owner, self._world)
            begun = self._world.monotonic()
            try:
                with unguarded():
                    self._tag = self._objects.replace(changed.path, changed.encode(), self._tag)
            except (ObjectChanged, ObjectNotFound) as error:
                self.is_lost = True
                raise self.sidecar.taken_from_here() from error
            self._tenure.begins(begun)
            self._written = self._world.monotonic()
            self.sidecar = changed

    @property
    def is_due(self) -> bool:
        """Whether it is time to renew the lease."""
        return self._is_held and not self.is_lost and self._tenure.is_due

    def keep_alive(self) -> None:
        """Renew the lease when half of it has gone by; the heartbeat does it."""
        with self._lock:
            if self.is_due:
                self.update()

    def delete(self) -> None:
        """The operation is done with."""
        self.rest()
        with unguarded():
            self._objects.delete(self.sidecar.path)

    def rest(self) -> None:
        """Renew the lease no more: whatever becomes of the operation, others need not wait for long."""
        HEARTBEAT.end(self)
        with self._lock:
            self._is_held = False

    def let_go(self) -> None:
        """Leave the operation to whoever comes next, at once: its lease need not run out first."""
        self.rest()
        with self._lock:
            owner = self.sidecar.owner
            assert owner is not None
            over = replace(self.sidecar, expires_at=0, owner=replace(owner, process="gone"))
            try:
                with unguarded():
                    self._tag = self._objects.replace(over.path, over.encode(), self._tag)
            except (ObjectChanged, ObjectNotFound):
                return  # it is another's already
            except (OmniGraphError, OSError) as error:
                log.warning("the sidecar %s could not be given free, and its lease runs out: %s", over.path, error)
                _let_go.add(over.operation_id)

    def wait_for_turn(self, recover: Callable[[QueueEntry], object]) -> None:
        """Return when no rival is before this ticket. Operations in its way whose owners are gone are recovered."""
        deadline = self._world.monotonic() + WAIT_SECONDS
        while True:
            others, clock = self._look()
            over = [each for each in others if each.is_over(self._world, clock)]
            living = [each.sidecar for each in others if each not in over]
            over = [each for each in over if compete(self.sidecar, each.sidecar)]
            free = [each for each in over if may_recover(each.sidecar, living, mine=self.sidecar.operation_id)]
            for each in free:
                recover_if_over(self._objects, each, self._world, recover, clock)
            if free:
                continue
            if over:
                self._wait([each.sidecar for each in over], deadline)
                continue
            living = [each for each in living if compete(self.sidecar, each)]
            match turn(self.sidecar, living):
                case QueueDecision.GO:
                    return
                case QueueDecision.ANNOUNCE:
                    self.update(phase="running")
                case QueueDecision.STEP_BACK:
                    self.update(phase="waiting")
                case QueueDecision.WAIT:
                    self._wait(living, deadline)

    def _look(self) -> tuple[list[StoredSidecar], StoreClock | None]:
        """All other sidecars, and the store's clock as this ticket's own sidecar shows it in the same listing."""
        with self._lock:
            tag, written = self._tag, self._written
        listed = self._objects.list(PREFIX)
        others = read_sidecars(self._objects, listed, besides=self.sidecar.path)
        mine = next((each for each in listed if each.path == self.sidecar.path), None)
        shows_it = mine is not None and mine.e_tag == tag.e_tag
        clock = StoreClock(mine.written_us, written, self._world) if mine is not None and shows_it else None
        return others, clock

    def _wait(self, rivals: list[Sidecar], deadline: float) -> None:
        if self._world.monotonic() >= deadline:
            raise Contention(f"operation {rivals[0].operation_id} holds {_named(rivals[0])}", attempts=1)
        self.require()
        before = sum(1 for other in rivals if other.operation_id < self.sidecar.operation_id)
        self._world.sleep(min(_LONGEST_POLL_SECONDS, _POLL_SECONDS * max(1, before)))


def _withdraw(objects: ObjectStore, sidecar: Sidecar) -> None:
    """A write that failed may have landed: nobody would ever delete it while this process lives."""
    try:
        objects.delete(sidecar.path)
    except (OmniGraphError, OSError):
        _let_go.add(sidecar.operation_id)


def _named(sidecar: Sidecar) -> str:
    return ", ".join(pin.table_key for pin in sidecar.tables) or "the schema"
