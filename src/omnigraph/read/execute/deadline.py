"""When a read must stop: its time is over, or somebody said so."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from omnigraph.errors import QueryCancelled, QueryTimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.read.options import ReadOptions
    from omnigraph.world import World

_LOOKS_EVERY = 0.02


class Deadline:
    """Asked between steps of a read; `check` raises when it must stop."""

    def __init__(self, options: ReadOptions, world: World) -> None:
        self._options = options
        self._world = world
        self._ends = None if options.timeout is None else world.monotonic() + options.timeout

    @property
    def is_set(self) -> bool:
        """Whether there is anything to watch."""
        return self._ends is not None or self._options.cancelled is not None

    def check(self) -> None:
        """Raise when the read must stop."""
        if self._options.cancelled is not None and self._options.cancelled():
            raise QueryCancelled
        if self._ends is not None and self._options.timeout is not None and self._world.monotonic() >= self._ends:
            raise QueryTimedOut(self._options.timeout)

    def is_over(self) -> bool:
        """Whether the read must stop."""
        try:
            self.check()
        except (QueryCancelled, QueryTimedOut):
            return True
        return False

    @contextmanager
    def watching(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """While the block runs, interrupt it from outside as soon as the read must stop."""
        if not self.is_set:
            yield
            return
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(done, interrupt), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _watch(self, done: threading.Event, interrupt: Callable[[], None]) -> None:
        while not done.wait(_LOOKS_EVERY):
            if self.is_over():
                interrupt()
                return
