"""How long each operator took and how many rows it gave, when somebody wants to know."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.world import World


@dataclass
class Measured:
    """What one operator did."""

    rows: int = 0
    seconds: float = 0.0
    calls: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass
class Profile:
    """Measurements by operator. Time that an operator spends in others is theirs."""

    world: World
    measured: dict[int, Measured] = field(default_factory=dict)
    _running: list[int] = field(default_factory=list)

    def of(self, operator: object) -> Measured:
        """The measurements of one operator of a plan."""
        return self.measured.setdefault(id(operator), Measured())

    @contextmanager
    def timing(self, operator: object) -> Iterator[Measured]:
        """Count the time of a block as the operator's; notes made inside are the operator's too."""
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
        """Remember a decision that the running operator has made."""
        if self._running and text not in self.of_id(self._running[-1]).notes:
            self.of_id(self._running[-1]).notes.append(text)

    def of_id(self, key: int) -> Measured:
        """The measurements by the identity of an operator."""
        return self.measured.setdefault(key, Measured())
