"""The working set of a read: for each match, which row of which table each variable is.

A variable is a column of row numbers; -1 is a variable that an optional part did not find. Values of properties are not
here: they are fetched when an expression asks for them.

What a variable can be: one table, or for an interface several, and how a key names a row of one of them.

A variable of one type has row numbers for keys. A variable of several types has the number of the type above them.

Paths that were found, and their values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.kernels.arrays import one_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from omnigraph.language.ir.query import Variable
    from omnigraph.query.columns.table_columns import Column, TableRows

    Numbers = NDArray[np.int64]

NOTHING = -1


@dataclass(frozen=True)
class Bindings:
    """Matches so far. With a `weight`, each row stands for as many equal ones as its weight says."""

    count: int
    keys: Mapping[str, Numbers] = field(default_factory=dict)
    weight: Numbers | None = None

    def take(self, rows: NDArray[Any]) -> Bindings:
        """Some rows, by number, in that order and as often as they are named."""
        keys = {name: key[rows] for name, key in self.keys.items()}
        return Bindings(len(rows), keys, None if self.weight is None else self.weight[rows])

    def where(self, keep: NDArray[np.bool_]) -> Bindings:
        """The rows that are marked."""
        return self if bool(keep.all()) else self.take(np.flatnonzero(keep))

    def slice(self, start: int, stop: int) -> Bindings:
        """The rows from one number to another."""
        if start == 0 and stop >= self.count:
            return self
        keys = {name: key[start:stop] for name, key in self.keys.items()}
        weight = None if self.weight is None else self.weight[start:stop]
        return Bindings(min(stop, self.count) - start, keys, weight)

    def batches(self, most: int) -> Iterator[Bindings]:
        """The rows, each as often as its weight says, at most so many at a time."""
        if self.weight is None:
            yield from (self.slice(first, first + most) for first in range(0, self.count, most))
            return
        plain, stops = replace(self, weight=None), np.cumsum(self.weight)
        for first in range(0, int(self.weight.sum()), most):
            wanted = np.arange(first, min(first + most, int(stops[-1])))
            yield plain.take(np.searchsorted(stops, wanted, side="right"))

    def bind(self, **keys: Numbers) -> Bindings:
        """The same rows with more variables."""
        return replace(self, keys={**self.keys, **keys})

    def times(self, weight: Numbers) -> Bindings:
        """The same rows, each standing for `weight` times as many matches; those with none are gone."""
        combined = weight if self.weight is None else self.weight * weight
        heavier = replace(self, weight=combined)
        return heavier.where(combined > 0)

    def repeated(self) -> Bindings:
        """Every row as often as its weight says."""
        if self.weight is None:
            return self
        return replace(self, weight=None).take(np.repeat(np.arange(self.count), self.weight))


# Before anything is matched there is one way to match nothing.
START = Bindings(1)


def joined(parts: list[Bindings]) -> Bindings:
    """Rows below each other; all have the same variables."""
    if len(parts) == 1:
        return parts[0]
    keys = {name: np.concatenate([each.keys[name] for each in parts]) for name in parts[0].keys}
    weighted = any(each.weight is not None for each in parts)
    weights = [np.ones(each.count, np.int64) if each.weight is None else each.weight for each in parts]
    return Bindings(sum(each.count for each in parts), keys, np.concatenate(weights) if weighted else None)


@dataclass(frozen=True)
class Gathered:
    """Matches of which the first two batches were taken, to see how many there are."""

    first: Bindings | None
    second: Bindings | None
    others: Iterator[Bindings]

    @property
    def goes_on(self) -> bool:
        """Whether they are more than are held at once."""
        return self.second is not None

    def all(self) -> Iterator[Bindings]:
        """All of them, from the first on."""
        yield from (each for each in (self.first, self.second) if each is not None)
        yield from self.others


_TYPE_SHIFT = 40
_ROW = (1 << _TYPE_SHIFT) - 1
TYPE_NAME = "#type"


@dataclass(frozen=True)
class VariableTables:
    """A node or edge variable and the tables that its rows are in."""

    variable: Variable
    tables: tuple[TableRows, ...]

    @property
    def size(self) -> int:
        """How many nodes or edges it could be."""
        return sum(each.size for each in self.tables)

    @property
    def is_plain(self) -> bool:
        """Whether its keys are row numbers as they are."""
        return len(self.tables) == 1

    def keys_of(self, type_name: str, rows: Numbers) -> Numbers:
        """Keys for rows of one type."""
        if self.is_plain:
            return rows
        return np.where(rows < 0, NOTHING, rows | (self._number(type_name) << _TYPE_SHIFT))

    def rows_in(self, type_name: str, keys: Numbers) -> Numbers:
        """Row numbers in the table of one type; -1 for keys of another."""
        if self.is_plain:
            return keys
        mine = (keys >= 0) & (keys >> _TYPE_SHIFT == self._number(type_name))
        return np.where(mine, keys & _ROW, NOTHING)

    def values(self, names: Sequence[str], keys: Numbers) -> dict[str, Column]:
        """The properties of these nodes or edges."""
        stored = [name for name in names if name != TYPE_NAME]
        found = self.tables[0].values(stored, keys) if self.is_plain else self._of_several(stored, keys)
        if TYPE_NAME in names:
            found[TYPE_NAME] = self._type_names(keys)
        return found

    def _of_several(self, names: Sequence[str], keys: Numbers) -> dict[str, Column]:
        order = np.full(len(keys), NOTHING, dtype=np.int64)
        parts: dict[str, list[Column]] = {name: [] for name in names}
        placed = 0
        for table in self.tables:
            rows = self.rows_in(table.name, keys)
            mine = np.flatnonzero(rows >= 0)
            order[mine] = np.arange(placed, placed + len(mine))
            placed += len(mine)
            for name, values in table.values(names, rows[mine]).items():
                parts[name].append(values)
        places: Any = pa.array(order, mask=order < 0)
        return {name: one_array(pa.chunked_array(several).take(places)) for name, several in parts.items()}

    def _type_names(self, keys: Numbers) -> Column:
        numbers = np.where(keys < 0, 0, keys >> _TYPE_SHIFT) if not self.is_plain else np.zeros(len(keys), np.int64)
        names: Any = pa.array([each.name for each in self.tables])
        return one_array(names.take(pa.array(numbers, mask=keys < 0)))

    def _number(self, type_name: str) -> int:
        return next((number for number, each in enumerate(self.tables) if each.name == type_name), len(self.tables))


@dataclass(frozen=True)
class FoundPath:
    """The ids along a path: one node more than edges."""

    nodes: tuple[str, ...]
    edges: tuple[str, ...]


@dataclass
class FoundPaths:
    """The paths that a variable stands for; its keys are their numbers."""

    paths: list[FoundPath] = field(default_factory=list)

    def add(self, path: FoundPath) -> int:
        """The number of a new path."""
        self.paths.append(path)
        return len(self.paths) - 1

    def values(self, names: Sequence[str], keys: Numbers) -> dict[str, pa.Array[Any]]:
        """`length`, `nodes` and `edges` of some paths; a key below zero gives null."""
        chosen = [None if key < 0 else self.paths[key] for key in keys.tolist()]
        texts = pa.list_(pa.field("item", pa.string()))
        made: dict[str, pa.Array[Any]] = {
            "length": pa.array([None if each is None else len(each.edges) for each in chosen], pa.int64()),
            "nodes": pa.array([None if each is None else list(each.nodes) for each in chosen], texts),
            "edges": pa.array([None if each is None else list(each.edges) for each in chosen], texts),
        }
        return {name: made[name] for name in names}
