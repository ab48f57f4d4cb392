"""Writers take turns: a sidecar is also a ticket in the queue for the tables it names.

Every writer, in whatever process, first writes its sidecar and then lists all of them. Of two that name a common table
the later writer sees the earlier one, so they cannot both believe to be alone:

- a living sidecar with a smaller id goes first. The other marks itself `waiting`;
- a living sidecar with a larger id that is `running` was there before, and is waited for; one that is `waiting` is not;
- a sidecar whose owner is gone is recovered by whoever meets it (`write/recovery`).

Without rivals this costs one write and one listing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.errors import Contention, ObjectChanged, ObjectNotFound, RecoveryRequired
from omnigraph.store.lease import Owner
from omnigraph.write.recovery.sidecar import LEASE_US, PREFIX, Sidecar, decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.store.objects import ControlStore, Tag
    from omnigraph.world import World

WAIT_SECONDS = 120.0
_POLL_SECONDS = 0.01


@dataclass(frozen=True)
class Found:
    """A sidecar as it stands on the store."""

    sidecar: Sidecar
    tag: Tag


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
    return found


def take_over(objects: ControlStore, found: Found, world: World) -> Ticket | None:
    """Become the owner of a sidecar whose owner is gone; None when somebody else was quicker."""
    if not found.sidecar.is_over(world):
        return None
    mine = found.sidecar.leased(Owner.of(world), world)
    try:
        return Ticket(objects, mine, objects.replace(mine.path, mine.encode(), found.tag), world)
    except (ObjectChanged, ObjectNotFound):
        return None


class Ticket:
    """A sidecar that this process holds."""

    def __init__(self, objects: ControlStore, sidecar: Sidecar, tag: Tag, world: World) -> None:
        self._objects = objects
        self._tag = tag
        self._world = world
        self.sidecar = sidecar
        # Whether a table may have moved: until then, deleting the sidecar undoes the operation.
        self.has_effects = False

    @classmethod
    def draw(cls, objects: ControlStore, sidecar: Sidecar, world: World) -> Ticket:
        """Write the sidecar: from here on, rivals wait and a crash is recovered."""
        mine = replace(sidecar, phase="running").leased(Owner.of(world), world)
        return cls(objects, mine, objects.create(mine.path, mine.encode()), world)

    def update(self, **changes: Any) -> None:
        """Rewrite the sidecar, and renew its lease. Raises when somebody has taken it over."""
        owner = self.sidecar.owner
        assert owner is not None
        changed = replace(self.sidecar, **changes).leased(owner, self._world)
        try:
            self._tag = self._objects.replace(changed.path, changed.encode(), self._tag)
        except (ObjectChanged, ObjectNotFound) as error:
            raise RecoveryRequired(
                f"operation {changed.operation_id} was silent for too long and has been recovered by another process.",
                operation_id=changed.operation_id,
                branch=changed.branch,
            ) from error
        self.sidecar = changed

    def keep_alive(self) -> None:
        """Renew the lease when half of it has gone by."""
        if (self.sidecar.expires_at or 0) - self._world.now_us() < LEASE_US // 2:
            self.update()

    def give_up(self) -> None:
        """Let others recover the operation at once, instead of waiting for the lease to run out."""
        owner = self.sidecar.owner
        assert owner is not None
        over = replace(self.sidecar, expires_at=0, owner=replace(owner, process="gone"))
        self._tag = self._objects.replace(over.path, over.encode(), self._tag)

    def delete(self) -> None:
        """The operation is done with."""
        self._objects.delete(self.sidecar.path)

    def wait_for_turn(self, recover: Callable[[Ticket], None]) -> bool:
        """Return when no rival is before this ticket; whether there was any to wait for or to recover."""
        deadline = self._world.monotonic() + WAIT_SECONDS
        waited = False
        while True:
            rivals = self._rivals()
            dead = [each for each in rivals if each.sidecar.is_over(self._world)]
            if dead:
                waited = True
                for each in dead:
                    taken = take_over(self._objects, each, self._world)
                    if taken is not None:
                        recover(taken)
                continue
            if not any(self._goes_before_me(each.sidecar) for each in rivals):
                if self.sidecar.phase == "running":
                    return waited
                self.update(phase="running")
                continue
            waited = True
            self._yield_to(rivals, deadline)

    def _rivals(self) -> list[Found]:
        """Other sidecars that name one of this ticket's tables, or that concern every table as a schema change does."""
        others = list_sidecars(self._objects, besides=self.sidecar.path)
        return [each for each in others if _compete(self.sidecar, each.sidecar)]

    def _goes_before_me(self, other: Sidecar) -> bool:
        return other.operation_id < self.sidecar.operation_id or other.phase != "waiting"

    def _yield_to(self, rivals: list[Found], deadline: float) -> None:
        if self._world.monotonic() >= deadline:
            first = rivals[0].sidecar
            raise Contention(f"operation {first.operation_id} holds {_named(first)}", attempts=1)
        smaller = any(each.sidecar.operation_id < self.sidecar.operation_id for each in rivals)
        if smaller and self.sidecar.phase == "running":
            self.update(phase="waiting")
        else:
            self.keep_alive()
        self._world.sleep(_POLL_SECONDS)


def _compete(mine: Sidecar, other: Sidecar) -> bool:
    if "SchemaApply" in (mine.writer_kind, other.writer_kind):
        return True
    return bool(mine.lines & other.lines)


def _named(sidecar: Sidecar) -> str:
    return ", ".join(pin.table_key for pin in sidecar.tables) or "the schema"
