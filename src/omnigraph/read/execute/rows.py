"""The working set of a read: for each match, which row of which table each variable is.

A variable is a column of row numbers; -1 is a variable that an optional part did not find. Values of properties are not
here: they are fetched when an expression asks for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

NOTHING = -1


@dataclass(frozen=True)
class Rows:
    """Matches so far. With a `weight`, each row stands for as many equal ones as its weight says."""

    count: int
    keys: Mapping[str, Numbers] = field(default_factory=dict)
    weight: Numbers | None = None

    def take(self, rows: NDArray[Any]) -> Rows:
        """Some rows, by number, in that order and as often as they are named."""
        keys = {name: key[rows] for name, key in self.keys.items()}
        return Rows(len(rows), keys, None if self.weight is None else self.weight[rows])

    def where(self, keep: NDArray[np.bool_]) -> Rows:
        """The rows that are marked."""
        return self if bool(keep.all()) else self.take(np.flatnonzero(keep))

    def slice(self, start: int, stop: int) -> Rows:
        """The rows from one number to another."""
        if start == 0 and stop >= self.count:
            return self
        keys = {name: key[start:stop] for name, key in self.keys.items()}
        weight = None if self.weight is None else self.weight[start:stop]
        return Rows(min(stop, self.count) - start, keys, weight)

    def pieces(self, most: int) -> Iterator[Rows]:
        """The rows, each as often as its weight says, at most so many at a time."""
        if self.weight is None:
            yield from (self.slice(first, first + most) for first in range(0, self.count, most))
            return
        plain, stops = replace(self, weight=None), np.cumsum(self.weight)
        for first in range(0, int(self.weight.sum()), most):
            wanted = np.arange(first, min(first + most, int(stops[-1])))
            yield plain.take(np.searchsorted(stops, wanted, side="right"))

    def bind(self, **keys: Numbers) -> Rows:
        """The same rows with more variables."""
        return replace(self, keys={**self.keys, **keys})

    def times(self, weight: Numbers) -> Rows:
        """The same rows, each standing for `weight` times as many matches; those with none are gone."""
        combined = weight if self.weight is None else self.weight * weight
        heavier = replace(self, weight=combined)
        return heavier.where(combined > 0)

    def repeated(self) -> Rows:
        """Every row as often as its weight says."""
        if self.weight is None:
            return self
        return replace(self, weight=None).take(np.repeat(np.arange(self.count), self.weight))


# Before anything is matched there is one way to match nothing.
START = Rows(1)


def joined(parts: list[Rows]) -> Rows:
    """Rows below each other; all have the same variables."""
    if len(parts) == 1:
        return parts[0]
    keys = {name: np.concatenate([each.keys[name] for each in parts]) for name in parts[0].keys}
    weighted = any(each.weight is not None for each in parts)
    weights = [np.ones(each.count, np.int64) if each.weight is None else each.weight for each in parts]
    return Rows(sum(each.count for each in parts), keys, np.concatenate(weights) if weighted else None)


@dataclass(frozen=True)
class Gathered:
    """Matches of which the first two batches were taken, to see how many there are."""

    first: Rows | None
    second: Rows | None
    others: Iterator[Rows]

    @property
    def goes_on(self) -> bool:
        """Whether they are more than are held at once."""
        return self.second is not None

    def all(self) -> Iterator[Rows]:
        """All of them, from the first on."""
        yield from (each for each in (self.first, self.second) if each is not None)
        yield from self.others
