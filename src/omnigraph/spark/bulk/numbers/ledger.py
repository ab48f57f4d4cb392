"""Numbers written down in files that all tasks see, sorted: a task reads just the range of a part.

On one machine this takes the place of a shuffle (`packed`). What was noted while rows were written is not read, hashed
or sent through Java again.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from omnigraph.spark.bulk.numbers.drawing import Drawn

    Numbers = NDArray[np.uint64]

SETTING = "spark.omnigraph.sharedDirectory"
# How many numbers a task holds before it writes them down: 32 MB.
_HELD = 4_000_000
# Of the 64-bit numbers, by their first byte.
_RANGES = 256


@dataclass(frozen=True)
class Noted:
    """A file of numbers that were drawn from rows, in order of the first of them.

    `bounds` are 64-bit places: where each range of first numbers begins, and where the last one ends.
    """

    drawn: Drawn
    file: str
    count: int
    bounds: bytes = field(repr=False)

    def numbers(self) -> Numbers:
        """All of them."""
        return self._read(0, self.count)

    def of_part(self, part: int, parts: int) -> Numbers:
        """Those whose first number lies in one of `parts` equal ranges, a power of two."""
        bounds = np.frombuffer(self.bounds, np.int64)
        first = part * _RANGES // parts
        last = max(first + 1, (part + 1) * _RANGES // parts)
        numbers = self._read(int(bounds[first]), int(bounds[last]))
        if parts <= _RANGES:
            return numbers
        chosen: Numbers = numbers[_firsts(numbers) >> np.uint64(65 - parts.bit_length()) == part]
        return chosen

    def _read(self, start: int, end: int) -> Numbers:
        """Read, not mapped: a mapped file counts as memory of the process as far as it was ever touched."""
        width = 1 if self.drawn.beside is None else 2
        numbers: Numbers = np.fromfile(self.file, np.uint64, (end - start) * width, offset=start * 8 * width)
        return numbers if width == 1 else numbers.reshape(-1, 2)


class Ledger:
    """What one task notes, in a directory that all tasks see. It holds little and writes the rest down."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._waiting: dict[Drawn, list[Numbers]] = {}
        self._held = 0

    def note(self, drawn: Drawn, numbers: Numbers) -> Iterator[Noted]:
        """Take numbers, and tell of the files that were written for it."""
        if len(numbers):
            self._waiting.setdefault(drawn, []).append(numbers)
            self._held += numbers.size
        if self._held >= _HELD:
            yield from self.finish()

    def finish(self) -> Iterator[Noted]:
        """Write down what still waits."""
        waiting, self._waiting, self._held = self._waiting, {}, 0
        for drawn, pieces in waiting.items():
            numbers = _ordered(np.concatenate(pieces))
            handle, file = tempfile.mkstemp(dir=self._directory, suffix=".numbers")
            with os.fdopen(handle, "wb") as stream:
                numbers.tofile(stream)
            yield Noted(drawn, file, len(numbers), _bounds(_firsts(numbers)))


def _bounds(firsts: Numbers) -> bytes:
    starts = np.searchsorted(firsts, np.arange(1, _RANGES, dtype=np.uint64) << np.uint64(56))
    return np.concatenate([[0], starts, [len(firsts)]]).astype(np.int64).tobytes()


def _firsts(numbers: Numbers) -> Numbers:
    return numbers if numbers.ndim == 1 else numbers[:, 0]


def _ordered(numbers: Numbers) -> Numbers:
    if numbers.ndim > 1:
        return numbers[np.argsort(numbers[:, 0])]
    numbers.sort()
    return numbers


@contextmanager
def shared_directory(session: SparkSession) -> Iterator[str | None]:
    """A new directory that all tasks see, gone afterwards; None where there is none, as on most clusters."""
    place = _place(session)
    if not place:
        yield None
        return
    # A task that nobody waits for any more may still write.
    with tempfile.TemporaryDirectory(prefix="omnigraph-load-", dir=place, ignore_cleanup_errors=True) as directory:
        yield directory


def _place(session: SparkSession) -> str | None:
    """The directory of the setting; without one the temporary directory, if all tasks run on this machine."""
    given = session.conf.get(SETTING, None)
    if given is not None:
        return given
    context = getattr(session, "_sc", None)
    if context is None or not context.master.startswith("local") or context.master.startswith("local-cluster"):
        return None
    places = str(context.getConf().get("spark.local.dir", "")).partition(",")[0]
    return places or tempfile.gettempdir()
