"""Numbers written down in files that all tasks see, sorted: a task reads just the range of a part.

On one machine this takes the place of a shuffle (`packed`). What was noted while rows were written is not read, hashed
or sent through Java again.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from omnigraph.spark.bulk.drawing import Drawn

    Numbers = NDArray[np.uint64]

SETTING = "spark.omnigraph.sharedDirectory"
# How many numbers a task holds before it writes them down: 32 MB.
_HELD = 4_000_000


@dataclass(frozen=True)
class Noted:
    """A file of numbers that were drawn from rows, in order of the first of them."""

    drawn: Drawn
    file: str
    count: int

    def numbers(self) -> Numbers:
        """All of them, as far as they are looked at."""
        shape = (self.count,) if self.drawn.beside is None else (self.count, 2)
        found: Numbers = np.memmap(self.file, np.uint64, "r", shape=shape)
        return found

    def of_part(self, part: int, parts: int) -> Numbers:
        """Those whose first number lies in one of `parts` equal ranges, a power of two."""
        numbers = self.numbers()
        firsts = numbers if numbers.ndim == 1 else numbers[:, 0]
        width = (1 << 64) // parts
        start = np.searchsorted(firsts, np.uint64(part * width)) if part else 0
        end = np.searchsorted(firsts, np.uint64((part + 1) * width)) if part + 1 < parts else self.count
        return numbers[start:end]


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
            yield Noted(drawn, file, len(numbers))


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
