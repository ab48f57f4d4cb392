"""Limits and measures a read: its options, its deadline and cancellation, and a profile of its operators.

Nothing in `ReadOptions` changes the result of a read, except that a limit can make it fail and that a search through a
vector index is approximate.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.arguments import checked_fields
from omnigraph.errors import QueryCancelled, QueryTimedOut
from omnigraph.errors.inputs import require_choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.query.csr.access_path import TraversalMode
    from omnigraph.query.search.vectors import Embedder
    from omnigraph.world import World


# The values of `TraversalMode`.
TRAVERSALS = ("auto", "indexed", "csr")
_CHECK_INTERVAL = 0.02


class Deadline:
    """The deadline and cancellation of a read. Operators call `check`, which raises when the read must stop."""

    def __init__(self, options: ReadOptions, world: World) -> None:
        self._options = options
        self._world = world
        self._expires_at = None if options.timeout is None else world.monotonic() + options.timeout

    @property
    def is_set(self) -> bool:
        """Whether there is a timeout or a cancellation callback."""
        return self._expires_at is not None or self._options.cancelled is not None

    def check(self) -> None:
        """Raise when the read was cancelled or has timed out."""
        if self._options.cancelled is not None and self._options.cancelled():
            raise QueryCancelled
        if (
            self._expires_at is not None
            and self._options.timeout is not None
            and self._world.monotonic() >= self._expires_at
        ):
            raise QueryTimedOut(self._options.timeout)

    def is_over(self) -> bool:
        """Whether the read was cancelled or has timed out."""
        try:
            self.check()
        except (QueryCancelled, QueryTimedOut):
            return True
        return False

    @contextmanager
    def watching(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """While the block runs, a thread calls `interrupt` as soon as the read must stop."""
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
        while not done.wait(_CHECK_INTERVAL):
            if self.is_over():
                interrupt()
                return


@dataclass
class Measured:
    """Rows, time and decisions of one operator."""

    rows: int = 0
    seconds: float = 0.0
    calls: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass
class Profile:
    """Measurements by operator. Time that an operator spends inside another one counts for the inner one only."""

    world: World
    measured: dict[int, Measured] = field(default_factory=dict)
    _running: list[int] = field(default_factory=list)

    def of(self, operator: object) -> Measured:
        """The measurements of one operator of a plan."""
        return self.measured.setdefault(id(operator), Measured())

    @contextmanager
    def timing(self, operator: object) -> Iterator[Measured]:
        """Attribute the time of the block, and the notes made inside it, to the operator."""
        measured = self.of(operator)
        self._running.append(id(operator))
        begun = self.world.monotonic()
        try:
            yield measured
        finally:
            taken = self.world.monotonic() - begun
            measured.seconds += taken
            measured.calls += 1
            self._running.pop()
            if self._running:
                self.of_id(self._running[-1]).seconds -= taken

    def note(self, text: str) -> None:
        """Record a decision of the operator that is running."""
        if self._running and text not in self.of_id(self._running[-1]).notes:
            self.of_id(self._running[-1]).notes.append(text)

    def of_id(self, key: int) -> Measured:
        """The measurements by the `id()` of an operator."""
        return self.measured.setdefault(key, Measured())


@checked_fields
@dataclass(frozen=True)
class ReadOptions:
    """Limits and choices of one read.

    `traversal` forces lookups by index or adjacency in memory; `auto` decides by counts. `memory_limit` is in bytes;
    beyond it sorting and grouping go to `temp_directory`, and what cannot go there fails. `cancelled` is asked now and
    then whether to stop. `exact_search`: compare every vector, where an index of a large table would look at the
    likeliest ones. `embed` turns a String given to `nearest()` into a vector.
    """

    traversal: TraversalMode = "auto"
    indexed_frontier: int = 1_024
    indexed_hops: int = 6
    timeout: float | None = None
    cancelled: Callable[[], bool] | None = None
    memory_limit: int | None = None
    temp_directory: str | None = None
    threads: int | None = None
    # How many rows of a match are held at once before the next step takes them.
    batch_rows: int = 2_000_000
    exact_search: bool = False
    embed: Embedder | None = None

    def __post_init__(self) -> None:
        require_choice("traversal", self.traversal, TRAVERSALS)


DEFAULT_OPTIONS = ReadOptions()
