"""Leases: exclusive work that other processes respect while its owner lives, and take over when it does not.

A lease is a control object with an owner and a duration. On the owner's own machine a dead process is detected at once;
elsewhere, and for a process that was stopped, the object must have been unchanged for longer than the duration, by the
clock of the store (`store_clock.py`). The owner measures from before its last renewal by its own steady clock, so it
considers the lease expired before anybody else does; two clocks are never compared. `acquire.py` takes leases.
"""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.counters import guarded, unguarded
from omnigraph.errors import (
    LeaseLost,
    ObjectChanged,
    ObjectNotFound,
    StoreError,
    StoreUnavailable,
)
from omnigraph.storage.objects.heartbeat import HEARTBEAT

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from omnigraph.storage.objects.model import ObjectVersion
    from omnigraph.storage.objects.store import ObjectStore
    from omnigraph.storage.objects.store_clock import StoreClock
    from omnigraph.world import World

log = logging.getLogger(__name__)

# The setting for how long an owner may be silent before others take its work over, in seconds.
LEASE = "OMNIGRAPH_LEASE_SECONDS"
DEFAULT_SECONDS = 60.0
# Store timestamps have a resolution of one second, and several servers of one store may differ by some.
_MARGIN_SECONDS = 15.0


def lease_seconds(world: World) -> float:
    """The duration of this process's leases, without renewal."""
    return float(world.environ.get(LEASE, DEFAULT_SECONDS))


def patience(seconds: float) -> float:
    """The age at which an object under a lease of this duration can be taken over."""
    return seconds + min(_MARGIN_SECONDS, seconds / 4)


class Tenure:
    """The time for which a lease surely belongs to its owner, by the owner's steady clock."""

    def __init__(self, seconds: float, begun: float, world: World) -> None:
        self.seconds = seconds
        self._begun = begun
        self._world = world

    def begins(self, at: float) -> None:
        """Restart the term: the lease was renewed by a write that began at `at`."""
        self._begun = at

    def left(self) -> float:
        """The seconds left of the term."""
        return self._begun + self.seconds - self._world.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether half of the term has passed."""
        return self.left() < self.seconds / 2

    @property
    def is_sure(self) -> bool:
        """Whether a step that begins now ends before anybody can take the lease over."""
        return self.left() > self.seconds / 4


@dataclass(frozen=True)
class Owner:
    """The owner of a lease. `process` distinguishes processes that had the same pid."""

    id: str
    host: str
    process: str

    @classmethod
    def of(cls, world: World) -> Owner:
        """A new owner in this process."""
        return cls(world.ulid(), world.host(), world.process())

    def is_dead(self, world: World) -> bool:
        """Whether the owner is surely dead; only its own machine can tell."""
        return self.host == world.host() and not world.is_running(self.process)

    def to_json(self) -> dict[str, str]:
        """The form in a lease record or a sidecar."""
        return {"id": self.id, "host": self.host, "process": self.process}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Owner:
        """Parse the form of `to_json`."""
        return cls(str(fields["id"]), str(fields["host"]), str(fields["process"]))


@dataclass(frozen=True)
class LeaseRecord:
    """The content of a lease's object."""

    owner: Owner
    # By the owner's wall clock, for people and for earlier releases; 0 when the owner has abandoned the lease.
    expires_at: int
    purpose: str
    # What is half-made while the lease is held; whoever takes the lease over has to remove it.
    unfinished: str | None = None
    seconds: float = DEFAULT_SECONDS

    def renewed(self, world: World) -> LeaseRecord:
        """The record for another term."""
        return replace(self, expires_at=world.now_us() + int(self.seconds * 1_000_000))

    def is_free(self, world: World) -> bool:
        """Whether anybody may take it over at once: its owner is dead, or has abandoned it."""
        return self.expires_at == 0 or self.owner.is_dead(world)

    def encode(self) -> bytes:
        """Serialize the record."""
        fields = {
            "version": 1,
            "attempt_id": self.owner.id,
            "owner": self.owner.to_json(),
            "expires_at": self.expires_at,
            "seconds": self.seconds,
            "purpose": self.purpose,
            "unfinished": self.unfinished,
        }
        return json.dumps(fields, indent=2).encode()

    @classmethod
    def decode(cls, data: bytes) -> LeaseRecord:
        """Parse the record. An unreadable one counts as expired: nobody can renew it."""
        try:
            fields = json.loads(data)
            owner = Owner.from_json(fields["owner"])
            seconds = float(fields.get("seconds", DEFAULT_SECONDS))
            unfinished = fields.get("unfinished")
            if not isinstance(unfinished, str | None):
                raise TypeError("the type of unfinished")
            return cls(owner, int(fields["expires_at"]), str(fields["purpose"]), unfinished, seconds)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return cls(Owner("unreadable", "", ""), 0, "unreadable")


def read_lease_record(objects: ObjectStore, path: str) -> tuple[LeaseRecord, ObjectVersion] | None:
    """The lease record at a path and its object version, if any."""
    try:
        data, tag = objects.read_versioned(path)
    except ObjectNotFound:
        return None
    return LeaseRecord.decode(data), tag


def is_over(
    objects: ObjectStore, path: str, record: LeaseRecord, tag: ObjectVersion, *, clock: StoreClock, world: World
) -> bool:
    """Whether another process may take the lease over: it is free, or was not renewed for longer than allowed."""
    if record.is_free(world):
        return True
    try:
        found = objects.info(path)
    except ObjectNotFound:
        return False
    return found.e_tag == tag.e_tag and clock.age(found) > patience(record.seconds)


class Lease:
    """A held lease; as a context manager it is renewed meanwhile, and released at the end.

    Inside the block no durable step is taken once another process may own the lease. A lease that marked something
    unfinished and then failed is not released: the next applicant takes it over and cleans up.
    """

    def __init__(
        self,
        objects: ObjectStore,
        path: str,
        record: LeaseRecord,
        tag: ObjectVersion,
        inherited: LeaseRecord | None = None,
        *,
        begun: float,
        world: World,
    ) -> None:
        self._objects = objects
        self._world = world
        self._path = path
        self._tag = tag
        self._tenure = Tenure(record.seconds, begun, world)
        self._lock = threading.RLock()
        self._was_taken_over = False
        self._is_given_up = False
        self._guard: AbstractContextManager[None] | None = None
        # The record of an earlier owner that died: its half-made work may still be there.
        self.inherited = inherited
        self.record = record

    def is_mine(self) -> bool:
        """Whether nobody has taken the lease over, according to the store."""
        found = read_lease_record(self._objects, self._path)
        return found is not None and found[0].owner == self.record.owner

    @property
    def seconds(self) -> float:
        """The duration of the lease without renewal."""
        return self._tenure.seconds

    def require(self) -> None:
        """Raise `LeaseLost` unless the lease surely stays this owner's for a while; renews it if needed."""
        with self._lock:
            if self._was_taken_over or not self._tenure.is_sure:
                self.renew()

    @property
    def is_due(self) -> bool:
        """Whether it is time to renew the lease."""
        return not (self._was_taken_over or self._is_given_up) and self._tenure.is_due

    def keep_alive(self) -> None:
        """Renew the lease when half of it has passed; called by the heartbeat."""
        with self._lock:
            if self.is_due:
                self.renew()

    def renew(self) -> None:
        """Hold the lease for another term from now on; `LeaseLost` when another process has it."""
        with self._lock:
            self._replace(self.record.renewed(self._world))

    def mark_unfinished(self, what: str | None) -> None:
        """Record durably what is half-made from now on; None when nothing is."""
        with self._lock:
            self._replace(replace(self.record.renewed(self._world), unfinished=what))

    def _replace(self, record: LeaseRecord) -> None:
        if self._is_given_up:
            raise self._taken_over()
        begun = self._world.monotonic()
        try:
            with unguarded():
                self._tag = self._objects.replace(self._path, record.encode(), self._tag)
        except StoreUnavailable as error:
            self._tag = self._read_back(record, error)
        except (ObjectChanged, ObjectNotFound) as error:
            raise self._taken_over() from error
        self._tenure.begins(begun)
        self.record = record

    def _read_back(self, record: LeaseRecord, error: StoreUnavailable) -> ObjectVersion:
        """Resolve a lost acknowledgement: the version of the object if it has this record by now."""
        found = read_lease_record(self._objects, self._path)
        if found is None or found[0].owner != record.owner:
            raise self._taken_over() from error
        if found[0] != record:
            raise error
        return found[1]

    def _taken_over(self) -> LeaseLost:
        self._was_taken_over = True
        return LeaseLost(
            f"{self.record.purpose}: this process was silent for so long that another has taken its lease. Nothing "
            "more was changed; try again."
        )

    def release(self) -> None:
        """Release the lease, unless another process has it by now. The work is done: a store failure is only logged."""
        with self._lock:
            if not self._tenure.is_sure:
                # Another process may be taking it over right now, and a deletion cannot be made conditional.
                self.abandon()
                return
            self._is_given_up = True
            try:
                with unguarded():
                    self._objects.delete(self._path)
            except StoreError as error:
                log.warning("%s is done; its lease %s expires by itself: %s", self.record.purpose, self._path, error)

    def abandon(self) -> None:
        """Let anybody take the lease over at once, with what is unfinished; for work that failed half-way.

        The lock waits for a renewal that is under way, whose version of the object this one has to replace.
        """
        with self._lock:
            self._is_given_up = True
            self.record = replace(self.record, expires_at=0)
            try:
                with unguarded():
                    self._tag = self._objects.replace(self._path, self.record.encode(), self._tag)
            except StoreError:
                # Another process has it, or the store that failed the work refuses this too; the lease then expires by
                # itself.
                return

    def __enter__(self) -> Lease:
        self._guard = guarded(self.require)
        self._guard.__enter__()
        HEARTBEAT.begin(self)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        assert self._guard is not None
        self._guard.__exit__(None, None, None)
        HEARTBEAT.end(self)
        if kind is None or self.record.unfinished is None:
            self.release()
        else:
            self.abandon()
