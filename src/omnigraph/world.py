"""Clock, randomness, process identity and environment: the only module that asks the outside world for them.

Everything else takes a `World`, so that a test can replay a run exactly.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


@dataclass(frozen=True)
class World:
    """The real clock, randomness and environment of this process."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything."""
        return time.monotonic()

    def random_bits(self, bits: int) -> int:
        """An unpredictable integer of at most `bits` bits."""
        return random.SystemRandom().getrandbits(bits)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def ulid(self) -> str:
        """A new ULID: 48 bits of milliseconds, then 80 random bits, in Crockford base 32."""
        return encode_ulid(self.now_us() // 1_000, self.random_bits(80))

    def process(self) -> str:
        """This process, told apart from a later one of the same number."""
        return f"{os.getpid()}:{_started(os.getpid())}"

    def is_running(self, process: str) -> bool:
        """Whether a process of this machine, as `process` named it, still runs."""
        number, _, started = process.partition(":")
        return number.isdigit() and _is_alive(int(number)) and _started(int(number)) == started

    def host(self) -> str:
        """The place where process numbers mean something: a machine since its boot, or a container on it.

        A name alone does not tell: containers that share their machine's network share its name too.
        """
        boot = _text_of("/proc/sys/kernel/random/boot_id").partition("-")[0]
        return ":".join(filter(None, (socket.gethostname(), boot, _process_space())))


@dataclass(frozen=True)
class SeededWorld(World):
    """A world that a test can replay: the clock ticks one millisecond per question, randomness comes from a seed."""

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
            return random.Random(self.seed * 1_000_003 + self._ticks[0]).getrandbits(bits)  # noqa: S311

    def sleep(self, seconds: float) -> None:
        """Return at once."""


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # One that was killed and not yet waited for by its parent still has a number.
    return _status(pid)[:1] not in (["Z"], ["X"])


def _started(pid: int) -> str:
    """When a process started, in ticks since the machine did; empty where the system does not tell."""
    status = _status(pid)
    return status[19] if status else ""


def _status(pid: int) -> list[str]:
    """What Linux tells of a process after its name; empty elsewhere."""
    return _text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _process_space() -> str:
    try:
        return Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    except OSError:
        return ""


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except OSError:
        return ""


def encode_ulid(milliseconds: int, randomness: int) -> str:
    """The 26 characters of a ULID."""
    value = (milliseconds << 80) | randomness
    return "".join(_CROCKFORD[(value >> shift) & 31] for shift in range(125, -1, -5))


REAL = World()
