"""Clock, randomness, process identity and environment: the only module that obtains them from the operating system.

Everything else takes a `World`, so that a test can replay a run exactly.
"""

from __future__ import annotations

import os
import random
import socket
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Seconds that tests add to the wall clock of a process, to simulate a machine whose clock is wrong.
CLOCK_SKEW = "OMNIGRAPH_CLOCK_SKEW_SECONDS"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Linux has a steady clock that includes the time of a suspended machine; elsewhere the monotonic clock is used.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


@dataclass(frozen=True)
class World:
    """The real clock, randomness and environment of this process."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        skew = self.environ.get(CLOCK_SKEW)
        return time.time_ns() // 1_000 + (int(float(skew) * 1_000_000) if skew else 0)

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self.now_us() // 1_000

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back and, on Linux, counts suspension; only differences are meaningful."""
        return time.clock_gettime(_STEADY)

    def random_bits(self, bits: int) -> int:
        """An unpredictable integer of at most `bits` bits."""
        return random.SystemRandom().getrandbits(bits)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def ulid(self) -> str:
        """A new ULID: 48 bits of milliseconds, then 80 random bits, in Crockford base 32."""
        return encode_ulid(self.now_ms(), self.random_bits(80))

    def process(self) -> str:
        """An identifier of this process that a later process with the same pid does not share."""
        return f"{os.getpid()}:{_started(os.getpid())}"

    def process_number(self) -> int:
        """The pid of this process."""
        return os.getpid()

    def is_running(self, process: str) -> bool:
        """Whether a process of this machine, identified as by `process`, is still running."""
        number, _, started = process.partition(":")
        return number.isdigit() and self.is_alive(int(number)) and _started(int(number)) == started

    def is_alive(self, number: int) -> bool:
        """Whether a process of this machine has this pid: the intended one, or a later one."""
        return _is_alive(number)

    def host(self) -> str:
        """The scope in which pids are meaningful: a machine since its boot, or a container on it.

        A host name alone does not suffice: containers that share their machine's network share its name too.
        """
        boot = _text_of("/proc/sys/kernel/random/boot_id").partition("-")[0]
        return ":".join(filter(None, (socket.gethostname(), boot, _process_space())))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A zombie, killed but not yet waited for by its parent, still has a pid.
    return _status(pid)[:1] not in (["Z"], ["X"])


def _started(pid: int) -> str:
    """The start time of a process, in clock ticks since boot; empty where the system does not report it."""
    status = _status(pid)
    return status[19] if status else ""


def _status(pid: int) -> list[str]:
    """The fields of `/proc/<pid>/stat` after the process name; empty where there is no such file."""
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


def is_ulid(text: str) -> bool:
    """Whether a text is a ULID as `encode_ulid` writes it, such as the id of a commit."""
    return len(text) == 26 and set(text) <= set(CROCKFORD)


def encode_ulid(milliseconds: int, randomness: int) -> str:
    """The 26 characters of a ULID."""
    value = (milliseconds << 80) | randomness
    return "".join(CROCKFORD[(value >> shift) & 31] for shift in range(125, -1, -5))


REAL = World()
