"""Writers take turns: a sidecar is also a ticket in the queue for the tables it names.

Every writer, in whatever process, first writes its sidecar and then lists all of them. Two writers are rivals when one
moves a table that the other moves or was computed from. Of two rivals the later sees the earlier one, so they cannot
both believe to be alone:

- a living sidecar with a smaller id goes first. The other marks itself `waiting`;
- a living sidecar with a larger id that is `running` was there before, and is waited for; one that is `waiting` is not;
- whoever was `waiting` marks itself `running` and lists once more before it goes on;
- a sidecar whose owner is gone is recovered by whoever meets it (`write/recovery`).

Without rivals this costs one write and one listing. tests/write/test_tickets.py walks through every order of events.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.errors import Contention, ObjectChanged, ObjectNotFound, OmniGraphError, RecoveryRequired
from omnigraph.store.lease import Owner
from omnigraph.write.recovery import sidecar as sidecars
from omnigraph.write.recovery.heartbeat import Heartbeat
from omnigraph.write.recovery.sidecar import PREFIX, Sidecar, decode
from omnigraph.write.ticket_ids import new_ticket_id, note_ticket_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.store.objects import ControlStore, Tag
    from omnigraph.world import World

__all__ = ["Found", "Ticket", "Turn", "compete", "list_sidecars", "new_ticket_id", "recover_if_over", "turn"]

log = logging.getLogger(__name__)

WAIT_SECONDS = 120.0
# For each writer that is before this one; a commit takes about as long.
_POLL_SECONDS = 0.01
_LONGEST_POLL_SECONDS = 0.1

T = TypeVar("T")

_heartbeat = Heartbeat()
# Operations that this process has let go of and could not say so on the store.
_let_go: set[str] = set()


@dataclass(frozen=True)
class Found:
    """A sidecar as it stands on the store."""

    sidecar: Sidecar
    tag: Tag

    def is_over(self, world: World) -> bool:
        """Whether its owner is gone, and anybody may deal with it."""
        return self.sidecar.operation_id in _let_go or self.sidecar.is_over(world)


def list_sidecars(objects: ControlStore, *, besides: str | None = None) -> list[Found]:
    """Every sidecar, in the order of their ids; one that vanishes while being read is none."""
    found = []
    for path in objects.list_names(PREFIX):
        if not path.endswith(".json") or path == besides:
            continue
        try:
            data, tag = objects.read_versioned(path)
        except ObjectNotFound:
            continue
        found.append(Found(decode(data, path=path), tag))
        note_ticket_id(found[-1].sidecar.operation_id)
    return found


def recover_if_over(objects: ControlStore, found: Found, world: World, recover: Callable[[Ticket], T]) -> T | None:
    """Take over a sidecar whose owner is gone and deal with it; None when it lives, or somebody else was quicker.

    If that fails, the sidecar is left for the next one who comes, and the error is the caller's.
    """
    ticket = _take_over(objects, found, world)
    if ticket is None:
        return None
    try:
        return recover(ticket)
    except BaseException:
        ticket.let_go()
        raise


def _take_over(objects: ControlStore, found: Found, world: World) -> Ticket | None:
    if not found.is_over(world):
        return None
    mine = found.sidecar.leased(Owner.of(world), world)
    try:
        return Ticket(objects, mine, objects.replace(mine.path, mine.encode(), found.tag), world)
    except (ObjectChanged, ObjectNotFound):
        return None


class Turn(Enum):
    """What a ticket does next."""

    GO = auto()  # nobody is before it
    ANNOUNCE = auto()  # nobody is before it, but others take it for waiting
    STEP_BACK = auto()  # somebody with a smaller id waits for it to say that it waits
    WAIT = auto()


def turn(mine: Sidecar, rivals: Sequence[Sidecar]) -> Turn:
    """The rule of the queue, for what one listing has shown of living rivals."""
    smaller = any(other.operation_id < mine.operation_id for other in rivals)
    if not smaller and all(other.phase == "waiting" for other in rivals):
        return Turn.GO if mine.phase == "running" else Turn.ANNOUNCE
    return Turn.STEP_BACK if smaller and mine.phase == "running" else Turn.WAIT


def compete(mine: Sidecar, other: Sidecar) -> bool:
    """Whether two operations must not have effects at the same time."""
    if mine.changes_schema or other.changes_schema:
        return True
    moves = mine.lines & (other.lines | other.read_lines) or mine.read_lines & other.lines
    return bool(moves) or _same_key(mine, other)


def _same_key(mine: Sidecar, other: Sidecar) -> bool:
    if mine.commit is None or other.commit is None or mine.commit.idempotency_key is None:
        return False
    return mine.branch == other.branch and mine.commit.idempotency_key == other.commit.idempotency_key


class Ticket:
    """A sidecar that this process holds. Its lease is renewed in the background until it is deleted or let go."""

    def __init__(self, objects: ControlStore, sidecar: Sidecar, tag: Tag, world: World) -> None:
        self._objects = objects
        self._tag = tag
        self._world = world
        self._lock = threading.RLock()
        self.sidecar = sidecar
        # Whether a table may have moved: until then, deleting the sidecar undoes the operation.
        self.has_effects = False
        # Whether this process has made it visible: what is left to do then needs no hurry, and cannot fail the caller.
        self.is_published = False
        self._is_held = True
        _heartbeat.begin(self)

    @classmethod
    def draw(cls, objects: ControlStore, sidecar: Sidecar, world: World) -> Ticket:
        """Write the sidecar: from here on, rivals wait and a crash is recovered."""
        mine = replace(sidecar, phase="running").leased(Owner.of(world), world)
        try:
            tag = objects.create(mine.path, mine.encode())
        except (OmniGraphError, OSError):
            _withdraw(objects, mine)
            raise
        return cls(objects, mine, tag, world)

    def update(self, **changes: Any) -> None:
        """Rewrite the sidecar, and renew its lease. Raises when somebody has taken it over."""
        with self._lock:
            owner = self.sidecar.owner
            assert owner is not None
            changed = replace(self.sidecar, **changes).leased(owner, self._world)
            try:
                self._tag = self._objects.replace(changed.path, changed.encode(), self._tag)
            except (ObjectChanged, ObjectNotFound) as error:
                raise RecoveryRequired(
                    f"operation {changed.operation_id} was silent for so long that another process has recovered it: "
                    "look whether its changes are there before doing it again.",
                    operation_id=changed.operation_id,
                    branch=changed.branch,
                ) from error
            self.sidecar = changed

    def keep_alive(self) -> None:
        """Renew the lease when half of it has gone by. Ask before a step that cannot be undone."""
        with self._lock:
            left = (self.sidecar.expires_at or 0) - self._world.now_us()
            if self._is_held and left < sidecars.LEASE_US // 2:
                self.update()

    def delete(self) -> None:
        """The operation is done with."""
        self.rest()
        self._objects.delete(self.sidecar.path)

    def rest(self) -> None:
        """Renew the lease no more: whatever becomes of the operation, others need not wait for long."""
        _heartbeat.end(self)
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
                self._tag = self._objects.replace(over.path, over.encode(), self._tag)
            except (ObjectChanged, ObjectNotFound):
                return  # it is another's already
            except (OmniGraphError, OSError) as error:
                log.warning("the sidecar %s could not be given free, and its lease runs out: %s", over.path, error)
                _let_go.add(over.operation_id)

    def wait_for_turn(self, recover: Callable[[Ticket], object]) -> None:
        """Return when no rival is before this ticket. Operations in its way whose owners are gone are recovered."""
        deadline = self._world.monotonic() + WAIT_SECONDS
        while True:
            rivals = self._rivals()
            over = [each for each in rivals if each.is_over(self._world)]
            for each in over:
                recover_if_over(self._objects, each, self._world, recover)
            if over:
                continue
            living = [each.sidecar for each in rivals]
            match turn(self.sidecar, living):
                case Turn.GO:
                    return
                case Turn.ANNOUNCE:
                    self.update(phase="running")
                case Turn.STEP_BACK:
                    self.update(phase="waiting")
                case Turn.WAIT:
                    self._wait(living, deadline)

    def _rivals(self) -> list[Found]:
        others = list_sidecars(self._objects, besides=self.sidecar.path)
        return [each for each in others if compete(self.sidecar, each.sidecar)]

    def _wait(self, rivals: list[Sidecar], deadline: float) -> None:
        if self._world.monotonic() >= deadline:
            raise Contention(f"operation {rivals[0].operation_id} holds {_named(rivals[0])}", attempts=1)
        self.keep_alive()
        before = sum(1 for other in rivals if other.operation_id < self.sidecar.operation_id)
        self._world.sleep(min(_LONGEST_POLL_SECONDS, _POLL_SECONDS * max(1, before)))


def _withdraw(objects: ControlStore, sidecar: Sidecar) -> None:
    """A write that failed may have landed: nobody would ever delete it while this process lives."""
    try:
        objects.delete(sidecar.path)
    except (OmniGraphError, OSError):
        _let_go.add(sidecar.operation_id)


def _named(sidecar: Sidecar) -> str:
    return ", ".join(pin.table_key for pin in sidecar.tables) or "the schema"
