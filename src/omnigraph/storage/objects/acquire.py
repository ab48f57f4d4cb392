"""Takes leases: a free one by creating its object, and that of a dead owner by replacing the object that it left.

Of several applicants one succeeds, because both are conditional writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from omnigraph.errors import Contention, ObjectChanged, ObjectExists, ObjectNotFound
from omnigraph.storage.objects.lease import Lease, LeaseRecord, Owner, is_over, read_lease_record
from omnigraph.storage.objects.store_clock import read_store_clock

if TYPE_CHECKING:
    from omnigraph.storage.objects.model import ObjectVersion
    from omnigraph.storage.objects.store import ObjectStore
    from omnigraph.storage.objects.store_clock import StoreClock
    from omnigraph.world import World

_POLL_SECONDS = 0.02


@dataclass
class Applicant:
    """A process that wants a lease. It reads the store's clock at most once, and only if the lease is taken."""

    objects: ObjectStore
    path: str
    purpose: str
    seconds: float
    world: World
    _clock: StoreClock | None = field(default=None, init=False)

    def try_acquire(self) -> Lease | LeaseRecord:
        """Take the lease if it is free or expired; otherwise return the record of its owner."""
        record = LeaseRecord(Owner.of(self.world), 0, self.purpose, seconds=self.seconds).renewed(self.world)
        begun = self.world.monotonic()
        try:
            tag = self.objects.create(self.path, record.encode())
        except ObjectExists:
            return self._try_to_take_over(record)
        return Lease(self.objects, self.path, record, tag, begun=begun, world=self.world)

    def _try_to_take_over(self, record: LeaseRecord) -> Lease | LeaseRecord:
        found = read_lease_record(self.objects, self.path)
        if found is None:
            return LeaseRecord(Owner("released", "", ""), 0, "released a moment ago")
        held, tag = found
        if not self._is_over(held, tag):
            return held
        # What the dead owner left unfinished stays recorded without a gap, in case this process dies as well.
        record = replace(record, unfinished=held.unfinished)
        begun = self.world.monotonic()
        try:
            tag = self.objects.replace(self.path, record.encode(), tag)
        except (ObjectChanged, ObjectNotFound):
            return held
        return Lease(self.objects, self.path, record, tag, held, begun=begun, world=self.world)

    def _is_over(self, held: LeaseRecord, tag: ObjectVersion) -> bool:
        if held.is_free(self.world):
            return True
        if self._clock is None:
            self._clock = read_store_clock(self.objects, self.world)
        return is_over(self.objects, self.path, held, tag, clock=self._clock, world=self.world)


def try_acquire(objects: ObjectStore, path: str, *, purpose: str, seconds: float, world: World) -> Lease | LeaseRecord:
    """Take the lease if it is free or expired; otherwise return the record of its owner."""
    return Applicant(objects, path, purpose, seconds, world).try_acquire()


def acquire(objects: ObjectStore, path: str, *, purpose: str, seconds: float, wait: float, world: World) -> Lease:
    """Take the lease, waiting up to `wait` seconds for its owner; raises `Contention`."""
    applicant = Applicant(objects, path, purpose, seconds, world)
    deadline = world.monotonic() + wait
    tries = 0
    while True:
        tries += 1
        outcome = applicant.try_acquire()
        if isinstance(outcome, Lease):
            return outcome
        if world.monotonic() >= deadline:
            raise Contention(
                f"{purpose}: {outcome.owner.host} (process {outcome.owner.process}) holds {path}", attempts=tries
            )
        world.sleep(_POLL_SECONDS)
