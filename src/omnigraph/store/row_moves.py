"""Where the rows of one state of a table lie in another one, so that what is known of the one serves the other.

The number of a row is its place in a scan. Rows of a piece that both states have are the same rows (`shared_files.py`),
so a later state is made of stretches of the earlier one and of pieces that are new.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.errors import NotFound
from omnigraph.store.shared_files import described_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from omnigraph.store.shared_files import Piece
    from omnigraph.store.tables import Table, TableStore

    Numbers = NDArray[np.int64]

NEW = -1
GONE = -1
# Beyond these, reading the later state as a whole takes no longer.
MOST_STRETCHES = 2_000
MOST_NEW = 0.5


@dataclass(frozen=True)
class Stretch:
    """Rows that follow each other: where they begin in the earlier state, or `NEW`, and how many they are."""

    start: int
    rows: int


@dataclass(frozen=True)
class RowMoves:
    """The later state, stretch by stretch. `pieces` are those with its new rows, in order."""

    stretches: tuple[Stretch, ...]
    pieces: tuple[int, ...]
    earlier_rows: int

    @property
    def later_rows(self) -> int:
        """How many rows the later state has."""
        return sum(each.rows for each in self.stretches)

    @property
    def only_adds(self) -> bool:
        """Whether every row of the earlier state has kept its number."""
        kept = (Stretch(0, self.earlier_rows),) if self.earlier_rows else ()
        rest = self.stretches[len(kept) :]
        return self.stretches[: len(kept)] == kept and all(each.start == NEW for each in rest)

    @property
    def is_same(self) -> bool:
        """Whether both states have the same rows under the same numbers."""
        return self.only_adds and self.later_rows == self.earlier_rows

    def carry(self, known: pa.Array[Any], new: pa.Array[Any]) -> pa.Array[Any]:
        """A column of the later state: of the earlier one, and of the new rows."""
        if self.is_same:
            return known
        parts = [(new if each.start == NEW else known).slice(at, each.rows) for each, at in self._places()]
        return pa.concat_arrays(parts) if parts else known.slice(0, 0)

    def carry_numbers(self, known: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        """The same for an array of numbers."""
        parts = [(new if each.start == NEW else known)[at : at + each.rows] for each, at in self._places()]
        return np.concatenate(parts) if parts else known[:0]

    def later_numbers(self) -> Numbers:
        """For each row of the earlier state its number in the later one, or `GONE`."""
        found = np.full(self.earlier_rows, GONE, np.int64)
        at = 0
        for each in self.stretches:
            if each.start != NEW:
                found[each.start : each.start + each.rows] = np.arange(at, at + each.rows)
            at += each.rows
        return found

    def _places(self) -> Iterator[tuple[Stretch, int]]:
        """Each stretch, and where it begins among the rows that it is taken from."""
        new = 0
        for each in self.stretches:
            yield each, new if each.start == NEW else each.start
            new += each.rows if each.start == NEW else 0


def row_moves(tables: TableStore, earlier: Table, later: Table) -> RowMoves | None:
    """How the later state is made from the earlier one; None when it has rows back, or hardly anything is left."""
    try:
        found = _joined(_stretches(tables, earlier, later))
    except NotFound:
        # What the earlier state had removed is told by files that may have been cleaned up with it.
        return None
    if found is None or len(found) > MOST_STRETCHES:
        return None
    if sum(each.rows for each in found if each.start == NEW) > MOST_NEW * sum(each.rows for each in found):
        return None
    before, after = described_pieces(earlier), described_pieces(later)
    pieces = tuple(number for number, piece in after.items() if not _is_shared(before.get(number), piece))
    return RowMoves(tuple(found), pieces, sum(each.rows for each in before.values()))


def same_column(earlier: Table, later: Table, name: str) -> bool:
    """Whether a name stands for the same column in both states: names can be given again, numbers of fields are not."""
    number = _field(later, name)
    return number is not None and number == _field(earlier, name)


def _field(table: Table, name: str) -> int | None:
    field = table.dataset.lance_schema.field(name)
    return None if field is None else int(field.id())


def _stretches(tables: TableStore, earlier: Table, later: Table) -> Iterator[Stretch | None]:
    """The later state, piece by piece; None where it has rows that the earlier one had removed."""
    before = described_pieces(earlier)
    starts = dict(zip(before, np.cumsum([0, *(each.rows for each in before.values())]).tolist(), strict=False))
    for number, piece in described_pieces(later).items():
        known = before.get(number)
        if known is None or not _is_shared(known, piece):
            yield Stretch(NEW, piece.rows)
        elif known.removals == piece.removals:
            yield Stretch(starts[number], piece.rows)
        else:
            then, now = tables.removals.of([(earlier, known.metadata), (later, piece.metadata)])
            yield from _between(starts[number], known.rows, then.astype(np.int64), now.astype(np.int64))


def _is_shared(known: Piece | None, piece: Piece) -> bool:
    return known is not None and known.files == piece.files


def _between(start: int, rows: int, then: Numbers, now: Numbers) -> Iterator[Stretch | None]:
    """What is left of a piece that has lost more rows than it had."""
    if len(np.setdiff1d(then, now, assume_unique=True)):
        yield None
        return
    lost = np.setdiff1d(now, then, assume_unique=True)
    # Counted among the rows that were left.
    lost -= np.searchsorted(then, lost)
    begin = 0
    for each in [*lost.tolist(), rows]:
        if each > begin:
            yield Stretch(start + begin, each - begin)
        begin = each + 1


def _joined(stretches: Iterable[Stretch | None]) -> list[Stretch] | None:
    """Stretches that go on where the one before ended are one."""
    found: list[Stretch] = []
    for each in stretches:
        if each is None:
            return None
        last = found[-1] if found else None
        if last is not None and _follows(last, each):
            found[-1] = Stretch(last.start, last.rows + each.rows)
        elif each.rows:
            found.append(each)
    return found


def _follows(last: Stretch, each: Stretch) -> bool:
    if NEW in (last.start, each.start):
        return last.start == each.start
    return last.start + last.rows == each.start
