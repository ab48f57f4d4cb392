"""How long a commit was under way, by two clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.world import World


class Stopwatch:
    """Tells whether a commit took so long that the version it became may have been collected under it.

    Both clocks are asked: one stands still while a machine sleeps, the other can be set back.
    """

    def __init__(self, world: World, limit_seconds: float) -> None:
        self._world = world
        self._limit = limit_seconds
        self.start()

    def start(self) -> None:
        """Begin anew."""
        self._started = self._world.monotonic(), self._world.now_us()

    def is_late(self) -> bool:
        """Whether the limit has gone by since the start."""
        steady, wall = self._started
        taken = max(self._world.monotonic() - steady, (self._world.now_us() - wall) / 1_000_000)
        return taken >= self._limit
