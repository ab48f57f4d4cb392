"""The queue of writers: a sidecar is also an entry in the queue for the tables that it names.

Every writer, in whatever process, first writes its sidecar and then lists all sidecars. Two writers are rivals when one
changes a table that the other changes or was computed from. Of two rivals, the later to write sees the earlier, so they
cannot both conclude that they are alone:

- a live sidecar with a smaller id goes first; the other writer marks itself `waiting`;
- a live sidecar with a larger id that is `running` was there before, and is waited for; one that is `waiting` is not;
- a writer that was `waiting` marks itself `running` and lists once more before it proceeds;
- a sidecar whose owner is gone is recovered by whichever writer meets it (`transaction/recovery`).

The age of a rival's last renewal is measured by the store's clock: the listing that shows the rival also shows this
writer's own sidecar, written a moment ago. Without rivals the queue costs one write and one listing.
`tests/transaction/test_queue_entries.py` walks through every order of events.

`queue_rules.py` has the rules without the store: who is a rival, who goes first, who may recover.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.counters import guarded, unguarded
from omnigraph.errors import (
    Contention,
    ObjectChanged,
    ObjectNotFound,
    OmniGraphError,
    OperationTakenOver,
    RecoveryRequired,
)
from omnigraph.storage.objects.heartbeat import HEARTBEAT
from omnigraph.storage.objects.lease import Owner, Tenure, lease_seconds, patience
from omnigraph.storage.objects.store_clock import StoreClock, read_store_clock
from omnigraph.transaction.intents.queue_rules import QueueDecision, compete, decide_next, may_recover, observe_id
from omnigraph.transaction.intents.sidecar import PREFIX, Sidecar
from omnigraph.transaction.intents.sidecar_json import decode, encode, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from omnigraph.storage.objects.model import ObjectInfo, ObjectVersion
    from omnigraph.storage.objects.store import ObjectStore
    from omnigraph.world import World

log = logging.getLogger(__name__)

WAIT_SECONDS = 120.0
# Per writer ahead in the queue; a commit takes about as long.
_POLL_SECONDS = 0.01
_LONGEST_POLL_SECONDS = 0.1

T = TypeVar("T")

# Operations that this process has released without being able to record that on the store.
_released: set[str] = set()


@dataclass(frozen=True)
class StoredSidecar:
    """A sidecar as read from the store, with its object version and its listing entry."""

    sidecar: Sidecar
    tag: ObjectVersion
    listed: ObjectInfo

    def is_given_up(self, world: World) -> bool:
        """Whether its owner certainly does nothing more for it."""
        return self.sidecar.operation_id in _released or self.sidecar.is_ownerless(world)

    def is_over(self, world: World, clock: StoreClock | None) -> bool:
        """Whether anybody may recover it: its owner is gone, or its lease has expired by the store's clock."""
        if self.is_given_up(world):
            return True
        if clock is None or self.listed.e_tag != self.tag.e_tag:
            return False
        # Other releases have no leases: their sidecars get the lease of a writer of this release.
        seconds = lease_seconds(world) if self.sidecar.owner is None else self.sidecar.lease_seconds
        return clock.age(self.listed) > patience(seconds)


def list_sidecars(
    objects: ObjectStore, *, unreadable: Callable[[RecoveryRequired], object] = refuse
) -> list[StoredSidecar]:
    """Read every sidecar, in id order; one that is deleted before it is read is skipped."""
    return read_sidecars(objects, objects.list(PREFIX), unreadable=unreadable)


def read_sidecars(
    objects: ObjectStore,
    listed: Sequence[ObjectInfo],
    *,
    besides: str | None = None,
    unreadable: Callable[[RecoveryRequired], object] = refuse,
) -> list[StoredSidecar]:
    """Read the sidecars of a listing, except the one at path `besides`; `unreadable` gets those that cannot be read."""
    found = []
    for each in listed:
        if not each.path.endswith(".json") or each.path == besides:
            continue
        try:
            data, tag = objects.read_versioned(each.path)
        except ObjectNotFound:
            continue
        try:
            found.append(StoredSidecar(decode(data, path=each.path), tag, each))
        except RecoveryRequired as error:
            unreadable(error)
            continue
        observe_id(found[-1].sidecar.operation_id)
    return found


def recover_if_over(
    objects: ObjectStore,
    found: StoredSidecar,
    world: World,
    recover: Callable[[QueueEntry], T],
    clock: StoreClock | None = None,
) -> T | None:
    """Take over and recover a sidecar whose owner is gone; None if the owner is alive, or another process was quicker.

    If the recovery fails, the sidecar is left for the next process and the error is raised. Without a `clock`, the
    store's clock is read if the owner is neither certainly gone nor certainly alive.
    """
    if clock is None and not found.is_given_up(world):
        clock = read_store_clock(objects, world)
    entry = _take_over(objects, found, world, clock)
    if entry is None:
        return None
    try:
        with guarded(entry.require):
            return recover(entry)
    except OperationTakenOver as error:
        if error.operation_id != found.sidecar.operation_id:
            raise
        return None  # this process was suspended midway, and another one continues
    except BaseException:
        entry.let_go()
        raise


def _take_over(objects: ObjectStore, found: StoredSidecar, world: World, clock: StoreClock | None) -> QueueEntry | None:
    if not found.is_over(world, clock):
        return None
    mine = found.sidecar.taken_over(Owner.of(world), world)
    begun = world.monotonic()
    try:
        tag = objects.replace(mine.path, encode(mine), found.tag)
    except (ObjectChanged, ObjectNotFound):
        return None
    return QueueEntry(objects, mine, tag, world, begun=begun)


class QueueEntry:
    """A sidecar that this process holds. Its lease is renewed in the background until it is deleted or released."""

    def __init__(
        self, objects: ObjectStore, sidecar: Sidecar, tag: ObjectVersion, world: World, *, begun: float
    ) -> None:
        self._objects = objects
        self._tag = tag
        self._world = world
        self._lock = threading.RLock()
        self._tenure = Tenure(sidecar.lease_seconds, begun, world)
        # When the last write of the sidecar returned: the store's clock was at that write's timestamp then, or later.
        self._written = world.monotonic()
        # Whether another process has taken the operation over.
        self.is_taken_over = False
        self.sidecar = sidecar
        # Whether a table may have been committed: until then, deleting the sidecar undoes the operation.
        self.may_have_committed = False
        # Whether this process has published it: what remains to be done then is not urgent, and cannot fail the caller.
        self.is_published = False
        self._is_held = True
        HEARTBEAT.begin(self)

    @classmethod
    def draw(cls, objects: ObjectStore, sidecar: Sidecar, world: World) -> QueueEntry:
        """Write the sidecar: from here on, rivals wait for it and a crash is recovered."""
        mine = replace(sidecar, phase="running").leased(Owner.of(world), world)
        begun = world.monotonic()
        try:
            tag = objects.create(mine.path, encode(mine))
        except (OmniGraphError, OSError):
            _withdraw(objects, mine)
            raise
        return cls(objects, mine, tag, world, begun=begun)

    @property
    def seconds(self) -> float:
        """How long its lease lasts without a renewal."""
        return self._tenure.seconds

    def guard(self) -> AbstractContextManager[None]:
        """A context that raises `OperationTakenOver` instead of taking a durable step once the lease may be lost."""
        return guarded(self.require)

    def require(self) -> None:
        """Raise `OperationTakenOver` unless this process certainly holds the lease for a while; renew it if needed."""
        with self._lock:
            if self.is_taken_over:
                raise self.sidecar.taken_from_here()
            if self._is_held and not self._tenure.is_sure:
                self.update()

    def update(self, **changes: Any) -> None:
        """Rewrite the sidecar and renew its lease. Raises `OperationTakenOver` if another process has taken it over."""
        with self._lock:
            owner = self.sidecar.owner
            assert owner is not None
            if self.is_taken_over:
                raise self.sidecar.taken_from_here()
            changed = replace(self.sidecar, **changes).leased(owner, self._world)
            begun = self._world.monotonic()
            try:
                with unguarded():
                    self._tag = self._objects.replace(changed.path, encode(changed), self._tag)
            except (ObjectChanged, ObjectNotFound) as error:
                self.is_taken_over = True
                raise self.sidecar.taken_from_here() from error
            self._tenure.begins(begun)
            self._written = self._world.monotonic()
            self.sidecar = changed

    @property
    def is_due(self) -> bool:
        """Whether the lease is due for renewal."""
        return self._is_held and not self.is_taken_over and self._tenure.is_due

    def keep_alive(self) -> None:
        """Renew the lease when half of it has passed. Called by the heartbeat."""
        with self._lock:
            if self.is_due:
                self.update()

    def delete(self) -> None:
        """Delete the sidecar: the operation is finished or undone."""
        self.rest()
        with unguarded():
            self._objects.delete(self.sidecar.path)

    def rest(self) -> None:
        """Stop renewing the lease: whatever becomes of the operation, others need not wait long."""
        HEARTBEAT.end(self)
        with self._lock:
            self._is_held = False

    def let_go(self) -> None:
        """Release the operation at once to whichever process comes next: its lease need not expire first."""
        self.rest()
        with self._lock:
            owner = self.sidecar.owner
            assert owner is not None
            over = replace(self.sidecar, expires_at=0, owner=replace(owner, process="gone"))
            try:
                with unguarded():
                    self._tag = self._objects.replace(over.path, encode(over), self._tag)
            except (ObjectChanged, ObjectNotFound):
                return  # another process has it already
            except (OmniGraphError, OSError) as error:
                log.warning("the sidecar %s could not be given free, and its lease runs out: %s", over.path, error)
                _released.add(over.operation_id)

    def wait_for_turn(self, recover: Callable[[QueueEntry], object]) -> None:
        """Return when no rival is ahead of this entry. Rivals whose owners are gone are recovered."""
        deadline = self._world.monotonic() + WAIT_SECONDS
        while True:
            others, clock = self._list_others()
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
            match decide_next(self.sidecar, living):
                case QueueDecision.GO:
                    return
                case QueueDecision.ANNOUNCE:
                    self.update(phase="running")
                case QueueDecision.STEP_BACK:
                    self.update(phase="waiting")
                case QueueDecision.WAIT:
                    self._wait(living, deadline)

    def _list_others(self) -> tuple[list[StoredSidecar], StoreClock | None]:
        """Read all other sidecars, and the store's clock from this entry's own sidecar in the same listing."""
        with self._lock:
            tag, written = self._tag, self._written
        listed = self._objects.list(PREFIX)
        others = read_sidecars(self._objects, listed, besides=self.sidecar.path, unreadable=self._refuse_if_rival)
        mine = next((each for each in listed if each.path == self.sidecar.path), None)
        shows_it = mine is not None and mine.e_tag == tag.e_tag
        clock = StoreClock(mine.written_us, written, self._world) if mine is not None and shows_it else None
        return others, clock

    def _refuse_if_rival(self, error: RecoveryRequired) -> None:
        """Raise if a sidecar that cannot be read may name a table of this operation."""
        table_refs = self.sidecar.table_refs | self.sidecar.read_table_refs
        if self.sidecar.changes_schema or error.concerns(*(table_key for table_key, _ in table_refs)):
            raise error

    def _wait(self, rivals: list[Sidecar], deadline: float) -> None:
        if self._world.monotonic() >= deadline:
            raise Contention(f"operation {rivals[0].operation_id} holds {_named(rivals[0])}", attempts=1)
        self.require()
        before = sum(1 for other in rivals if other.operation_id < self.sidecar.operation_id)
        self._world.sleep(min(_LONGEST_POLL_SECONDS, _POLL_SECONDS * max(1, before)))


def _withdraw(objects: ObjectStore, sidecar: Sidecar) -> None:
    """Delete a sidecar whose write failed: it may exist, and nobody would delete it while this process lives."""
    try:
        objects.delete(sidecar.path)
    except (OmniGraphError, OSError):
        _released.add(sidecar.operation_id)


def _named(sidecar: Sidecar) -> str:
    return ", ".join(pin.table_key for pin in sidecar.tables) or "the schema"
