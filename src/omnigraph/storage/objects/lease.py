"""A claim on work that other processes respect while its owner lives, and take over when it does not.

A lease is a control object with an owner and a length. On the owner's own machine a dead process is noticed at once;
elsewhere, and for a process that was stopped, the object must have stood unchanged for longer than the length, by the
clock of the store (`store_clock.py`). The owner counts from before its last renewal by its own steady clock, so it
knows of the end before anybody else does; two clocks are never compared.
"""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from omnigraph.counters import guarded, unguarded
from omnigraph.errors import (
    Contention,
    LeaseLost,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    StoreUnavailable,
)
from omnigraph.storage.objects.heartbeat import HEARTBEAT
from omnigraph.storage.objects.store_clock import read_store_clock

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from omnigraph.storage.objects.model import ObjectVersion
    from omnigraph.storage.objects.store import ObjectStore
    from omnigraph.storage.objects.store_clock import StoreClock
    from omnigraph.world import World

log = logging.getLogger(__name__)

# How long an owner may be silent before others take its work over: a setting, in seconds.
LEASE = "OMNIGRAPH_LEASE_SECONDS"
DEFAULT_SECONDS = 60.0
# Stores stamp with whole seconds, and several servers of one store may differ by some.
_MARGIN_SECONDS = 15.0
_POLL_SECONDS = 0.02


def lease_seconds(world: World) -> float:
    """How long a lease of this process lasts without being renewed."""
    return float(world.environ.get(LEASE, DEFAULT_SECONDS))


def patience(seconds: float) -> float:
    """How old an object under a lease of that length must be before others take it over."""
    return seconds + min(_MARGIN_SECONDS, seconds / 4)


class Tenure:
    """How long a lease is surely its owner's, by the owner's steady clock."""

    def __init__(self, seconds: float, begun: float, world: World) -> None:
        self.seconds = seconds
        self._begun = begun
        self._world = world

    def begins(self, at: float) -> None:
        """It was renewed by a write that began then."""
        self._begun = at

    def left(self) -> float:
        """How many seconds are left of it."""
        return self._begun + self.seconds - self._world.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether half of it has gone by."""
        return self.left() < self.seconds / 2

    @property
    def is_sure(self) -> bool:
        """Whether a step that begins now ends before anybody can take the lease over."""
        return self.left() > self.seconds / 4


@dataclass(frozen=True)
class Owner:
    """Who holds a lease. `process` tells a process from a later one of the same number."""

    id: str
    host: str
    process: str

    @classmethod
    def of(cls, world: World) -> Owner:
        """A new owner in this process."""
        return cls(world.ulid(), world.host(), world.process())

    def is_gone(self, world: World) -> bool:
        """Whether the owner surely lives no more; only its own machine can tell."""
        return self.host == world.host() and not world.is_running(self.process)

    def to_json(self) -> dict[str, str]:
        """As it stands in a claim or a sidecar."""
        return {"id": self.id, "host": self.host, "process": self.process}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Owner:
        """From a claim or a sidecar."""
        return cls(str(fields["id"]), str(fields["host"]), str(fields["process"]))


@dataclass(frozen=True)
class LeaseRecord:
    """What a claim's object says."""

    owner: Owner
    # By the owner's wall clock, for people and for earlier releases; 0 when the owner has let go of it.
    expires_at: int
    purpose: str
    # What is half-made while the claim stands; whoever takes the claim over has to remove it.
    unfinished: str | None = None
    seconds: float = DEFAULT_SECONDS

    def renewed(self, world: World) -> LeaseRecord:
        """The same for another term."""
        return replace(self, expires_at=world.now_us() + int(self.seconds * 1_000_000))

    def is_free(self, world: World) -> bool:
        """Whether anybody may take it over at once: its owner is dead, or has let go of it."""
        return self.expires_at == 0 or self.owner.is_gone(world)

    def encode(self) -> bytes:
        """The bytes of the object."""
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
        """From the bytes of the object. What cannot be read counts as over: nobody can renew it."""
        try:
            fields = json.loads(data)
            owner = Owner.from_json(fields["owner"])
            seconds = float(fields.get("seconds", DEFAULT_SECONDS))
            return cls(owner, int(fields["expires_at"]), str(fields["purpose"]), fields.get("unfinished"), seconds)
        except (ValueError, KeyError, TypeError):
            return cls(Owner("unreadable", "", ""), 0, "unreadable")


def read_claim(objects: ObjectStore, path: str) -> tuple[LeaseRecord, ObjectVersion] | None:
    """The claim that stands at a path, if any."""
    try:
        data, tag = objects.read_versioned(path)
    except ObjectNotFound:
        return None
    return LeaseRecord.decode(data), tag


def is_over(
    objects: ObjectStore, path: str, claim: LeaseRecord, tag: ObjectVersion, *, clock: StoreClock, world: World
) -> bool:
    """Whether somebody else may take a claim over: it is free, or has stood for longer than its owner may be silent."""
    if claim.is_free(world):
        return True
    try:
        found = objects.info(path)
    except ObjectNotFound:
        return False
    return found.e_tag == tag.e_tag and clock.age(found) > patience(claim.seconds)


class Lease:
    """A held claim; use it as a context manager so that it is renewed meanwhile, and given back.

    Inside the block no durable step is taken once the lease may be another's. One that marked something unfinished and
    then failed stays: the next one who asks takes it over and clears up.
    """

    def __init__(
        self,
        objects: ObjectStore,
        path: str,
        claim: LeaseRecord,
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
        self._tenure = Tenure(claim.seconds, begun, world)
        self._lock = threading.RLock()
        self._is_lost = False
        self._guard: AbstractContextManager[None] | None = None
        # The claim of an earlier owner that died with it: its work may be lying about.
        self.inherited = inherited
        self.claim = claim

    def is_mine(self) -> bool:
        """Whether nobody has taken the lease over, as the store says."""
        found = read_claim(self._objects, self._path)
        return found is not None and found[0].owner == self.claim.owner

    @property
    def seconds(self) -> float:
        """How long it lasts without being renewed."""
        return self._tenure.seconds

    def require(self) -> None:
        """Raise `LeaseLost` unless the lease is surely this owner's for a while; renews it when it is time."""
        with self._lock:
            if self._is_lost or not self._tenure.is_sure:
                self.renew()

    @property
    def is_due(self) -> bool:
        """Whether it is time to renew it."""
        return not self._is_lost and self._tenure.is_due

    def keep_alive(self) -> None:
        """Renew it when half of it has gone by; the heartbeat does it."""
        with self._lock:
            if self.is_due:
                self.renew()

    def renew(self) -> None:
        """Hold it for another term from now on; `LeaseLost` when somebody else has it."""
        with self._lock:
            self._replace(self.claim.renewed(self._world))

    def mark_unfinished(self, what: str | None) -> None:
        """Note, durably, what is half-made from now on; None when nothing is any more."""
        with self._lock:
            self._replace(replace(self.claim.renewed(self._world), unfinished=what))

    def _replace(self, claim: LeaseRecord) -> None:
        begun = self._world.monotonic()
        try:
            with unguarded():
                self._tag = self._objects.replace(self._path, claim.encode(), self._tag)
        except StoreUnavailable:
            # An answer may be lost: what is there tells.
            data, tag = self._objects.read_versioned(self._path)
            if data != claim.encode():
                raise
            self._tag = tag
        except (ObjectChanged, ObjectNotFound) as error:
            self._is_lost = True
            raise LeaseLost(
                f"{self.claim.purpose}: this process was silent for so long that another has taken its place. Nothing "
                "more was changed; try again."
            ) from error
        self._tenure.begins(begun)
        self.claim = claim

    def release(self) -> None:
        """Give it back, unless somebody else has it by now. The work is done: a store that fails is only told of."""
        if self._tenure.is_sure:
            try:
                with unguarded():
                    self._objects.delete(self._path)
            except StoreError as error:
                log.warning("%s is done; its claim %s runs out by itself: %s", self.claim.purpose, self._path, error)
        else:
            # Another may be taking it over this very moment, and a deletion cannot be made conditional.
            self.abandon()

    def abandon(self) -> None:
        """Let anybody take it over at once, together with what is unfinished; for work that failed half-way."""
        self.claim = replace(self.claim, expires_at=0)
        try:
            with unguarded():
                self._tag = self._objects.replace(self._path, self.claim.encode(), self._tag)
        except StoreError:
            # Somebody has it, or the store that failed the work refuses this too; the claim then runs out by itself.
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
        if kind is None or self.claim.unfinished is None:
            self.release()
        else:
            self.abandon()


@dataclass
class Applicant:
    """Somebody who wants a lease. The store's clock is read once, and only when somebody else's claim is in the way."""

    objects: ObjectStore
    path: str
    purpose: str
    seconds: float
    world: World
    _clock: StoreClock | None = field(default=None, init=False)

    def try_acquire(self) -> Lease | LeaseRecord:
        """Take the lease if it is free or over; otherwise tell who has it."""
        claim = LeaseRecord(Owner.of(self.world), 0, self.purpose, seconds=self.seconds).renewed(self.world)
        begun = self.world.monotonic()
        try:
            tag = self.objects.create(self.path, claim.encode())
        except ObjectExists:
            return self._try_to_take_over(claim)
        return Lease(self.objects, self.path, claim, tag, begun=begun, world=self.world)

    def _try_to_take_over(self, claim: LeaseRecord) -> Lease | LeaseRecord:
        found = read_claim(self.objects, self.path)
        if found is None:
            return LeaseRecord(Owner("released", "", ""), 0, "released a moment ago")
        held, tag = found
        if not self._is_over(held, tag):
            return held
        # What the dead owner left unfinished stays noted without a gap, should this one die as well.
        claim = replace(claim, unfinished=held.unfinished)
        begun = self.world.monotonic()
        try:
            tag = self.objects.replace(self.path, claim.encode(), tag)
        except (ObjectChanged, ObjectNotFound):
            return held
        return Lease(self.objects, self.path, claim, tag, held, begun=begun, world=self.world)

    def _is_over(self, held: LeaseRecord, tag: ObjectVersion) -> bool:
        if held.is_free(self.world):
            return True
        if self._clock is None:
            self._clock = read_store_clock(self.objects, self.world)
        return is_over(self.objects, self.path, held, tag, clock=self._clock, world=self.world)


def try_acquire(objects: ObjectStore, path: str, *, purpose: str, seconds: float, world: World) -> Lease | LeaseRecord:
    """Take the lease if it is free or over; otherwise tell who has it."""
    return Applicant(objects, path, purpose, seconds, world).try_acquire()


def acquire(objects: ObjectStore, path: str, *, purpose: str, seconds: float, wait: float, world: World) -> Lease:
    """Take the lease, waiting up to `wait` seconds for whoever has it."""
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
