"""A world that can be replayed."""

from __future__ import annotations

import random  # noqa: TID251
import threading
from dataclasses import dataclass, field

from omnigraph.world import World


@dataclass(frozen=True)
class SeededWorld(World):
    """The clock ticks one millisecond per question, randomness comes from a seed, and nobody sleeps."""

    seed: int = 0
    start_us: int = 1_782_650_000_000_000
    _ticks: list[int] = field(default_factory=lambda: [0])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now_us(self) -> int:
        """One millisecond later than the last time it was asked."""
        with self._lock:
            self._ticks[0] += 1
            return self.start_us + self._ticks[0] * 1_000

    def random_bits(self, bits: int) -> int:
        """Bits that depend only on the seed and on how often they were asked for."""
        with self._lock:
            self._ticks[0] += 1
            return random.Random(self.seed * 1_000_003 + self._ticks[0]).getrandbits(bits)

    def sleep(self, seconds: float) -> None:
        """Return at once."""
