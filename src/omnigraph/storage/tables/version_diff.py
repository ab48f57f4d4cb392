"""Where the rows of one state of a table lie in another one, so that what is known of the one serves the other.

The number of a row is its place in a scan. Rows of a fragment that both states have are the same rows
(`shared_files.py`), so a later state is made of stretches of the earlier one and of fragments that are new.

Which parts of two states of a table differ, told from their files.

A data file never changes, and its name is used once. So rows of a fragment that both states have, and that neither has
removed, are the same rows, whatever happened in between: commits, restores, branches made and deleted. Only fragments
that one state has alone, and rows that one has removed, need looking at: the cost follows the change, not the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from omnigraph.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance import FragmentMetadata, LanceFragment
    from numpy.typing import NDArray

    from omnigraph.storage.tables.table import Table, TableStore

    Addresses = NDArray[np.uint64]
    Numbers = NDArray[np.int64]

ROW_ADDRESS = "_rowaddr"
_NOWHERE = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True)
class VersionOnly:
    """What one of two states has alone: whole fragments, and the addresses of single rows in fragments of both."""

    fragments: tuple[int, ...]
    rows: int
    addresses: Addresses


def differing_parts(tables: TableStore, old: Table, new: Table) -> tuple[VersionOnly, VersionOnly]:
    """What only the old state has, and what only the new one has. The last answer for a handle is kept."""
    known = _last.get(new)
    if known is None or known[0] is not old:
        known = _last[new] = old, _differing(tables, old, new)
    return known[1]


# Whoever asks how much there is to read is the next to read it; and one state is compared with several others.
_last: WeakKeyDictionary[Table, tuple[Table, tuple[VersionOnly, VersionOnly]]] = WeakKeyDictionary()
_known: WeakKeyDictionary[Table, dict[int, FragmentInfo]] = WeakKeyDictionary()


def _differing(tables: TableStore, old: Table, new: Table) -> tuple[VersionOnly, VersionOnly]:
    before, after = described_fragments(old), described_fragments(new)
    shared = {each for each in before if each in after and before[each].files == after[each].files}
    unlike = [each for each in sorted(shared) if before[each].removals != after[each].removals]
    then, now = _removed(tables, old, before, unlike), _removed(tables, new, after, unlike)
    gone, come = np.setdiff1d(now, then, assume_unique=True), np.setdiff1d(then, now, assume_unique=True)
    return _part(before, shared, gone), _part(after, shared, come)


def _removed(tables: TableStore, table: Table, fragments: dict[int, FragmentInfo], numbers: list[int]) -> Addresses:
    """The addresses of the rows that some fragments have lost."""
    lists = tables.removals.of([(table, fragments[each].metadata) for each in numbers])
    found = [each + np.uint64(number << 32) for number, each in zip(numbers, lists, strict=True)]
    return np.concatenate([_NOWHERE, *found])


@dataclass(frozen=True)
class FragmentInfo:
    """A fragment, how many rows it has left, and what tells it from others: its files, its columns, its removals."""

    number: int
    rows: int
    metadata: FragmentMetadata
    files: tuple[tuple[str, tuple[int, ...]], ...]
    removals: tuple[int, int] | None


def described_fragments(table: Table) -> dict[int, FragmentInfo]:
    """The fragments of a state of a table by their numbers, in the order of a scan."""
    found = _known.get(table)
    if found is None:
        found = _known[table] = {each.fragment_id: _described(each) for each in table.dataset.get_fragments()}
    return found


def _described(fragment: LanceFragment) -> FragmentInfo:
    metadata: FragmentMetadata = fragment.metadata
    # The public `path` makes a class each time it is asked.
    files = tuple((each._path, tuple(each.fields)) for each in metadata.files)
    file = metadata.deletion_file
    removals = None if file is None else (int(file.read_version), int(file.id))
    return FragmentInfo(fragment.fragment_id, int(metadata.num_rows), metadata, files, removals)


def _part(fragments: dict[int, FragmentInfo], shared: set[int], addresses: Addresses) -> VersionOnly:
    alone = [each for each in fragments if each not in shared]
    return VersionOnly(tuple(alone), sum(fragments[each].rows for each in alone), addresses)


NEW = -1
GONE = -1
# Beyond these, reading the later state as a whole takes no longer.
MOST_STRETCHES = 2_000
MOST_NEW = 0.5


@dataclass(frozen=True)
class RowRun:
    """Rows that follow each other: where they begin in the earlier state, or `NEW`, and how many they are."""

    start: int
    rows: int


@dataclass(frozen=True)
class RowRemap:
    """The later state, stretch by stretch. `fragments` are those with its new rows, in order."""

    stretches: tuple[RowRun, ...]
    fragments: tuple[int, ...]
    earlier_rows: int

    @property
    def later_rows(self) -> int:
        """How many rows the later state has."""
        return sum(each.rows for each in self.stretches)

    @property
    def only_adds(self) -> bool:
        """Whether every row of the earlier state has kept its number."""
        kept = (RowRun(0, self.earlier_rows),) if self.earlier_rows else ()
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

    def _places(self) -> Iterator[tuple[RowRun, int]]:
        """Each stretch, and where it begins among the rows that it is taken from."""
        new = 0
        for each in self.stretches:
            yield each, new if each.start == NEW else each.start
            new += each.rows if each.start == NEW else 0


def row_moves(tables: TableStore, earlier: Table, later: Table) -> RowRemap | None:
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
    before, after = described_fragments(earlier), described_fragments(later)
    fragments = tuple(number for number, fragment in after.items() if not _is_shared(before.get(number), fragment))
    return RowRemap(tuple(found), fragments, sum(each.rows for each in before.values()))


def same_column(earlier: Table, later: Table, name: str) -> bool:
    """Whether a name stands for the same column in both states: names can be given again, numbers of fields are not."""
    number = _field(later, name)
    return number is not None and number == _field(earlier, name)


def _field(table: Table, name: str) -> int | None:
    field = table.dataset.lance_schema.field(name)
    return None if field is None else int(field.id())


def _stretches(tables: TableStore, earlier: Table, later: Table) -> Iterator[RowRun | None]:
    """The later state, fragment by fragment; None where it has rows that the earlier one had removed."""
    before = described_fragments(earlier)
    starts = dict(zip(before, np.cumsum([0, *(each.rows for each in before.values())]).tolist(), strict=False))
    for number, fragment in described_fragments(later).items():
        known = before.get(number)
        if known is None or not _is_shared(known, fragment):
            yield RowRun(NEW, fragment.rows)
        elif known.removals == fragment.removals:
            yield RowRun(starts[number], fragment.rows)
        else:
            then, now = tables.removals.of([(earlier, known.metadata), (later, fragment.metadata)])
            yield from _between(starts[number], known.rows, then.astype(np.int64), now.astype(np.int64))


def _is_shared(known: FragmentInfo | None, fragment: FragmentInfo) -> bool:
    return known is not None and known.files == fragment.files


def _between(start: int, rows: int, then: Numbers, now: Numbers) -> Iterator[RowRun | None]:
    """What is left of a fragment that has lost more rows than it had."""
    if len(np.setdiff1d(then, now, assume_unique=True)):
        yield None
        return
    lost = np.setdiff1d(now, then, assume_unique=True)
    # Counted among the rows that were left.
    lost -= np.searchsorted(then, lost)
    begin = 0
    for each in [*lost.tolist(), rows]:
        if each > begin:
            yield RowRun(start + begin, each - begin)
        begin = each + 1


def _joined(stretches: Iterable[RowRun | None]) -> list[RowRun] | None:
    """Stretches that go on where the one before ended are one."""
    found: list[RowRun] = []
    for each in stretches:
        if each is None:
            return None
        last = found[-1] if found else None
        if last is not None and _follows(last, each):
            found[-1] = RowRun(last.start, last.rows + each.rows)
        elif each.rows:
            found.append(each)
    return found


def _follows(last: RowRun, each: RowRun) -> bool:
    if NEW in (last.start, each.start):
        return last.start == each.start
    return last.start + last.rows == each.start
