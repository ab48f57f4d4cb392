"""What became of the nodes of one state of a table in another one, by their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.read.execute.id_places import id_places
from omnigraph.store.row_moves import GONE, NEW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omnigraph.read.execute.table_rows import State, TableRows
    from omnigraph.store.row_moves import RowMoves

# Copying so many spans one by one takes longer than sorting.
_MANY_SPANS = 2_000


@dataclass(frozen=True)
class Renumbering:
    """For each node its number now, or `GONE`, and whether it left its place among the others."""

    numbers: NDArray[np.int32]
    is_moved: NDArray[np.bool_]
    moves: RowMoves
    size: int

    @property
    def is_in_shreds(self) -> bool:
        """Whether there are too many spans to go through one by one."""
        return len(self.moves.stretches) + int(self.is_moved.sum()) > _MANY_SPANS

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The nodes that are still there, in the order that they have now, as spans of their old numbers."""
        old = {int(self.numbers[each]): int(each) for each in np.flatnonzero(self.is_moved)}
        found: list[tuple[int, int]] = []
        at = 0
        for each in self.moves.stretches:
            if each.start == NEW:
                found += [(old[row], old[row] + 1) for row in range(at, at + each.rows) if row in old]
            else:
                found.append((each.start, each.start + each.rows))
            at += each.rows
        return found


def renumbering(rows: TableRows, earlier: State, moves: RowMoves) -> Renumbering | None:
    """From another state of these rows; None when the ids that they had there are no longer at hand."""
    numbers = moves.later_numbers()
    is_moved = numbers == GONE
    if is_moved.any():
        # A node that was changed is a new row, under the same id.
        ids = rows.column_of(earlier, "id")
        if ids is None:
            return None
        numbers[is_moved] = id_places(ids.take(np.flatnonzero(is_moved)), rows.column("id"))
    return Renumbering(numbers.astype(np.int32), is_moved, moves, rows.size)
