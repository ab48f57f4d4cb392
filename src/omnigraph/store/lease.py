"""A claim on a piece of work that other processes respect while its owner lives, and take over when it does not.

A lease is a control object with an owner and an expiry. On the owner's own machine a dead process is noticed at once;
elsewhere the lease must run out first. Clocks of machines that share a graph may differ by `CLOCK_SKEW_US`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.errors import Contention, ObjectChanged, ObjectExists, ObjectNotFound, StoreError

if TYPE_CHECKING:
    from omnigraph.store.objects import ControlStore, Tag
    from omnigraph.world import World

CLOCK_SKEW_US = 15_000_000
_POLL_SECONDS = 0.02


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
class Claim:
    """What a claim's object says."""

    owner: Owner
    expires_at: int
    purpose: str
    # What is half-made while the claim stands; whoever takes the claim over has to remove it.
    unfinished: str | None = None

    def is_over(self, world: World) -> bool:
        """Whether somebody else may take it over."""
        return self.owner.is_gone(world) or self.expires_at + CLOCK_SKEW_US < world.now_us()

    def encode(self) -> bytes:
        """The bytes of the object."""
        fields = {
            "version": 1,
            "attempt_id": self.owner.id,
            "owner": self.owner.to_json(),
            "expires_at": self.expires_at,
            "purpose": self.purpose,
            "unfinished": self.unfinished,
        }
        return json.dumps(fields, indent=2).encode()

    @classmethod
    def decode(cls, data: bytes) -> Claim:
        """From the bytes of the object. What cannot be read counts as over: nobody can renew it."""
        try:
            fields = json.loads(data)
            owner = Owner.from_json(fields["owner"])
            return cls(owner, int(fields["expires_at"]), str(fields["purpose"]), fields.get("unfinished"))
        except (ValueError, KeyError, TypeError):
            return cls(Owner("unreadable", "", ""), 0, "unreadable")


def read_claim(objects: ControlStore, path: str) -> tuple[Claim, Tag] | None:
    """The claim that stands at a path, if any."""
    try:
        data, tag = objects.read_versioned(path)
    except ObjectNotFound:
        return None
    return Claim.decode(data), tag


class Lease:
    """A held claim; use it as a context manager so that it is given back.

    One that marked something unfinished and then failed stays: the next one who asks takes it over and clears up.
    """

    def __init__(
        self, objects: ControlStore, path: str, claim: Claim, tag: Tag, inherited: Claim | None = None, *, world: World
    ) -> None:
        self._objects = objects
        self._world = world
        self._path = path
        self._tag = tag
        # The claim of an earlier owner that died with it: its work may be lying about.
        self.inherited = inherited
        self.claim = claim

    def is_mine(self) -> bool:
        """Whether nobody has taken the lease over: ask right before a step that cannot be undone."""
        found = read_claim(self._objects, self._path)
        return found is not None and found[0].owner == self.claim.owner

    def renew(self, seconds: float) -> None:
        """Hold it for so long from now on; `ObjectChanged` or `ObjectNotFound` when somebody else has it."""
        renewed = replace(self.claim, expires_at=self._world.now_us() + int(seconds * 1_000_000))
        self._tag = self._objects.replace(self._path, renewed.encode(), self._tag)
        self.claim = renewed

    def mark_unfinished(self, what: str | None) -> None:
        """Note, durably, what is half-made from now on; None when nothing is any more."""
        marked = replace(self.claim, unfinished=what)
        self._tag = self._objects.replace(self._path, marked.encode(), self._tag)
        self.claim = marked

    def release(self) -> None:
        """Give it back, unless somebody else has it by now."""
        if not self.is_mine():
            return
        if self._world.now_us() < self.claim.expires_at:
            self._objects.delete(self._path)
        else:
            # Another may be taking it over this very moment, and a deletion cannot be made conditional.
            self.abandon()

    def abandon(self) -> None:
        """Let anybody take it over at once, together with what is unfinished; for work that failed half-way."""
        self.claim = replace(self.claim, expires_at=0)
        try:
            self._tag = self._objects.replace(self._path, self.claim.encode(), self._tag)
        except StoreError:
            # The store that failed the work may refuse this too; the claim then runs out by itself.
            return

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None or self.claim.unfinished is None:
            self.release()
        else:
            self.abandon()


def try_acquire(objects: ControlStore, path: str, *, purpose: str, seconds: float, world: World) -> Lease | Claim:
    """Take the lease if it is free or over; otherwise tell who has it."""
    claim = Claim(Owner.of(world), world.now_us() + int(seconds * 1_000_000), purpose)
    try:
        return Lease(objects, path, claim, objects.create(path, claim.encode()), world=world)
    except ObjectExists:
        found = read_claim(objects, path)
    if found is None:
        return Claim(Owner("released", "", ""), 0, "released a moment ago")
    held, tag = found
    if not held.is_over(world):
        return held
    # What the dead owner left unfinished stays noted without a gap, should this one die as well.
    claim = replace(claim, unfinished=held.unfinished)
    try:
        return Lease(objects, path, claim, objects.replace(path, claim.encode(), tag), inherited=held, world=world)
    except (ObjectChanged, ObjectNotFound):
        return held


def acquire(objects: ControlStore, path: str, *, purpose: str, seconds: float, wait: float, world: World) -> Lease:
    """Take the lease, waiting up to `wait` seconds for whoever has it."""
    deadline = world.monotonic() + wait
    tries = 0
    while True:
        tries += 1
        outcome = try_acquire(objects, path, purpose=purpose, seconds=seconds, world=world)
        if isinstance(outcome, Lease):
            return outcome
        if world.monotonic() >= deadline:
            raise Contention(
                f"{purpose}: {outcome.owner.host} (process {outcome.owner.process}) holds {path}", attempts=tries
            )
        world.sleep(_POLL_SECONDS)
