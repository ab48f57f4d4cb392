"""Holds the working set of a read: for each match, the row that each variable is bound to.

A variable is a column of keys. The key of a variable of one type is a row number. The key of a variable of several
types (an interface) has the ordinal of the type in the bits above the row number. The key of a path is its index in
`FoundPaths`. Key -1 means that an optional match did not bind the variable. Property values are not here: they are
fetched when an expression needs them.
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

    Int64Array = NDArray[np.int64]

NOTHING = -1


@dataclass(frozen=True)
class Bindings:
    """A batch of matches. With a `weight`, each row stands for that many equal matches."""

    count: int
    keys: Mapping[str, Int64Array] = field(default_factory=dict)
    weight: Int64Array | None = None

    def take(self, rows: NDArray[Any]) -> Bindings:
        """Rows by number, in that order; a number may repeat."""
        keys = {name: key[rows] for name, key in self.keys.items()}
        return Bindings(len(rows), keys, None if self.weight is None else self.weight[rows])

    def where(self, mask: NDArray[np.bool_]) -> Bindings:
        """The rows whose mask bit is set."""
        return self if bool(mask.all()) else self.take(np.flatnonzero(mask))

    def slice(self, start: int, stop: int) -> Bindings:
        """The rows from `start` up to `stop`."""
        if start == 0 and stop >= self.count:
            return self
        keys = {name: key[start:stop] for name, key in self.keys.items()}
        weight = None if self.weight is None else self.weight[start:stop]
        return Bindings(min(stop, self.count) - start, keys, weight)

    def batches(self, limit: int) -> Iterator[Bindings]:
        """The rows, repeated by their weight, in batches of at most `limit`."""
        if self.weight is None:
            yield from (self.slice(first, first + limit) for first in range(0, self.count, limit))
            return
        plain, stops = replace(self, weight=None), np.cumsum(self.weight)
        for first in range(0, int(self.weight.sum()), limit):
            wanted = np.arange(first, min(first + limit, int(stops[-1])))
            yield plain.take(np.searchsorted(stops, wanted, side="right"))

    def bind(self, **keys: Int64Array) -> Bindings:
        """The same rows with more variables bound."""
        return replace(self, keys={**self.keys, **keys})

    def times(self, weight: Int64Array) -> Bindings:
        """Multiply the weights; rows whose weight becomes zero are dropped."""
        combined = weight if self.weight is None else self.weight * weight
        heavier = replace(self, weight=combined)
        return heavier.where(combined > 0)

    def repeated(self) -> Bindings:
        """Repeat every row by its weight."""
        if self.weight is None:
            return self
        return replace(self, weight=None).take(np.repeat(np.arange(self.count), self.weight))


# The empty pattern has exactly one match.
START = Bindings(1)


def joined(batches: list[Bindings]) -> Bindings:
    """Concatenate batches that bind the same variables."""
    if len(batches) == 1:
        return batches[0]
    keys = {name: np.concatenate([each.keys[name] for each in batches]) for name in batches[0].keys}
    weighted = any(each.weight is not None for each in batches)
    weights = [np.ones(each.count, np.int64) if each.weight is None else each.weight for each in batches]
    return Bindings(sum(each.count for each in batches), keys, np.concatenate(weights) if weighted else None)


@dataclass(frozen=True)
class Gathered:
    """Matches of which the first two batches were taken, to know whether there is more than one."""

    first: Bindings | None
    second: Bindings | None
    others: Iterator[Bindings]

    @property
    def goes_on(self) -> bool:
        """Whether there is more than one batch."""
        return self.second is not None

    def all(self) -> Iterator[Bindings]:
        """All batches, including the two that were taken."""
        yield from (each for each in (self.first, self.second) if each is not None)
        yield from self.others


_TYPE_SHIFT = 40
_ROW = (1 << _TYPE_SHIFT) - 1
TYPE_NAME = "#type"


@dataclass(frozen=True)
class VariableTables:
    """A node or edge variable, and the tables that it ranges over."""

    variable: Variable
    tables: tuple[TableRows, ...]

    @property
    def size(self) -> int:
        """The number of rows of all its tables."""
        return sum(each.size for each in self.tables)

    @property
    def is_plain(self) -> bool:
        """Whether it has one table, so that its keys are row numbers."""
        return len(self.tables) == 1

    def keys_of(self, type_name: str, rows: Int64Array) -> Int64Array:
        """The keys of rows of one type."""
        if self.is_plain:
            return rows
        return np.where(rows < 0, NOTHING, rows | (self._type_ordinal(type_name) << _TYPE_SHIFT))

    def rows_in(self, type_name: str, keys: Int64Array) -> Int64Array:
        """Row numbers in the table of one type; -1 for keys of other types."""
        if self.is_plain:
            return keys
        own = (keys >= 0) & (keys >> _TYPE_SHIFT == self._type_ordinal(type_name))
        return np.where(own, keys & _ROW, NOTHING)

    def values(self, names: Sequence[str], keys: Int64Array) -> dict[str, Column]:
        """Property values at some keys."""
        stored = [name for name in names if name != TYPE_NAME]
        found = self.tables[0].values(stored, keys) if self.is_plain else self._of_several(stored, keys)
        if TYPE_NAME in names:
            found[TYPE_NAME] = self._type_names(keys)
        return found

    def _of_several(self, names: Sequence[str], keys: Int64Array) -> dict[str, Column]:
        order = np.full(len(keys), NOTHING, dtype=np.int64)
        columns: dict[str, list[Column]] = {name: [] for name in names}
        taken = 0
        for table in self.tables:
            rows = self.rows_in(table.name, keys)
            own = np.flatnonzero(rows >= 0)
            order[own] = np.arange(taken, taken + len(own))
            taken += len(own)
            for name, values in table.values(names, rows[own]).items():
                columns[name].append(values)
        indices: Any = pa.array(order, mask=order < 0)
        return {name: one_array(pa.chunked_array(several).take(indices)) for name, several in columns.items()}

    def _type_names(self, keys: Int64Array) -> Column:
        ordinals = np.where(keys < 0, 0, keys >> _TYPE_SHIFT) if not self.is_plain else np.zeros(len(keys), np.int64)
        names: Any = pa.array([each.name for each in self.tables])
        return one_array(names.take(pa.array(ordinals, mask=keys < 0)))

    def _type_ordinal(self, type_name: str) -> int:
        return next((ordinal for ordinal, each in enumerate(self.tables) if each.name == type_name), len(self.tables))


@dataclass(frozen=True)
class FoundPath:
    """The ids along a path; there is one node more than edges."""

    nodes: tuple[str, ...]
    edges: tuple[str, ...]


@dataclass
class FoundPaths:
    """The paths that a path variable is bound to; a key is the index of a path."""

    paths: list[FoundPath] = field(default_factory=list)

    def add(self, path: FoundPath) -> int:
        """Add a path and return its key."""
        self.paths.append(path)
        return len(self.paths) - 1

    def values(self, names: Sequence[str], keys: Int64Array) -> dict[str, pa.Array[Any]]:
        """`length`, `nodes` and `edges` of the paths; a negative key gives null."""
        chosen = [None if key < 0 else self.paths[key] for key in keys.tolist()]
        texts = pa.list_(pa.field("item", pa.string()))
        made: dict[str, pa.Array[Any]] = {
            "length": pa.array([None if each is None else len(each.edges) for each in chosen], pa.int64()),
            "nodes": pa.array([None if each is None else list(each.nodes) for each in chosen], texts),
            "edges": pa.array([None if each is None else list(each.edges) for each in chosen], texts),
        }
        return {name: made[name] for name in names}
