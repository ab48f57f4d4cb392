"""What a variable can be: one table, or for an interface several, and how a key names a row of one of them.

A variable of one type has row numbers for keys. A variable of several types has the number of the type above them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.read.execute.rows import NOTHING
from omnigraph.store.arrow_columns import one_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.language.query.checked import Variable
    from omnigraph.read.execute.table_rows import Column, Numbers, TableRows

_TYPE_SHIFT = 40
_ROW = (1 << _TYPE_SHIFT) - 1
TYPE_NAME = "#type"


@dataclass(frozen=True)
class Bound:
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
