"""Measures the age of an object by the clock of its store, independently of the clocks of machines.

The store timestamps everything that is written to it. An object written just now shows the store's time; from there on
the steady clock of this process measures. The clocks of two machines are never compared.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.storage.objects.model import ObjectInfo
    from omnigraph.storage.objects.store import ObjectStore
    from omnigraph.world import World

# Beside the sidecars, under names that no program mistakes for one.
_PREFIX, _SUFFIX = "__recovery", ".clock"
_FORGOTTEN_SECONDS = 60.0


@dataclass(frozen=True)
class StoreClock:
    """The store's clock: it showed `written_us` no later than `at` on the steady clock of this process."""

    written_us: int
    at: float
    world: World = field(repr=False)

    def age(self, found: ObjectInfo) -> float:
        """A lower bound of the seconds since an object was written. Buckets have timestamps of whole seconds."""
        whole = self.written_us % 1_000_000 == found.written_us % 1_000_000 == 0
        between = (self.written_us - found.written_us) / 1_000_000 - whole
        return between + self.world.monotonic() - self.at


def read_store_clock(objects: ObjectStore, world: World) -> StoreClock:
    """Write a probe, read its timestamp, and delete it: three requests, for a process without an object of its own."""
    path = f"{_PREFIX}/{world.ulid()}{_SUFFIX}"
    objects.write(path, json.dumps({"host": world.host(), "process": world.process()}).encode())
    at = world.monotonic()
    try:
        return StoreClock(objects.info(path).written_us, at, world)
    finally:
        objects.delete(path)


def remove_left_probes(objects: ObjectStore, listed: Sequence[ObjectInfo], world: World) -> None:
    """Delete the probes in a listing whose processes were killed while they read the clock."""
    left = [each for each in listed if each.path.endswith(_SUFFIX)]
    if not left:
        return
    clock = read_store_clock(objects, world)
    for each in left:
        if clock.age(each) > _FORGOTTEN_SECONDS or _is_dead(objects, each.path, world):
            objects.delete(each.path)


def _is_dead(objects: ObjectStore, path: str, world: World) -> bool:
    try:
        owner = json.loads(objects.read(path))
        return bool(owner["host"] == world.host() and not world.is_running(owner["process"]))
    except (ObjectNotFound, ValueError, KeyError, TypeError):
        return False
