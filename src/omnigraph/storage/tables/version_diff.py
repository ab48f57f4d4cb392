"""Compares two versions of a table by their files: the fragments and rows that differ, and where rows have moved.

A data file never changes, and its name is used once. So rows of a fragment that both versions have, and that neither
has deleted, are the same rows, whatever happened in between: commits, restores, branches created and deleted. Only
fragments that one version has alone, and rows that one has deleted, have to be read: the cost follows the change, not
the table.

`RowRemap` maps row numbers, which are positions in a scan, between two versions, so that what is cached of the earlier
one can be reused: the later version consists of row runs of the earlier one and of new fragments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from omnigraph.errors import NotFound
from omnigraph.kernels.row_address import addresses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance import FragmentMetadata, LanceFragment
    from numpy.typing import NDArray

    from omnigraph.storage.tables.table import Table, TableStore

    Addresses = NDArray[np.uint64]
    Numbers = NDArray[np.int64]

_NOWHERE = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True)
class VersionOnly:
    """What only one of two versions has: whole fragments, and the addresses of single rows in shared fragments."""

    fragments: tuple[int, ...]
    rows: int
    addresses: Addresses


def differing_parts(tables: TableStore, old: Table, new: Table) -> tuple[VersionOnly, VersionOnly]:
    """What only the old version has, and what only the new one has. The last result for a handle is cached."""
    known = _last.get(new)
    if known is None or known[0] is not old:
        known = _last[new] = old, _differing(tables, old, new)
    return known[1]


# The caller that asks how much differs reads it next, and one version is compared with several others.
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
    """The addresses of the deleted rows of some fragments."""
    lists = tables.removals.of([(table, fragments[each].metadata) for each in numbers])
    found = [addresses(number, each) for number, each in zip(numbers, lists, strict=True)]
    return np.concatenate([_NOWHERE, *found])


@dataclass(frozen=True)
class FragmentInfo:
    """A fragment, its number of live rows, and its identity: data files with their columns, and deletion vector."""

    number: int
    rows: int
    metadata: FragmentMetadata
    files: tuple[tuple[str, tuple[int, ...]], ...]
    removals: tuple[int, int] | None


def described_fragments(table: Table) -> dict[int, FragmentInfo]:
    """The fragments of a version by fragment id, in scan order."""
    found = _known.get(table)
    if found is None:
        found = _known[table] = {each.fragment_id: _described(each) for each in table.handle.get_fragments()}
    return found


def _described(fragment: LanceFragment) -> FragmentInfo:
    metadata: FragmentMetadata = fragment.metadata
    # The public `path` creates a class at each access.
    files = tuple((each._path, tuple(each.fields)) for each in metadata.files)
    file = metadata.deletion_file
    removals = None if file is None else (int(file.read_version), int(file.id))
    return FragmentInfo(fragment.fragment_id, int(metadata.num_rows), metadata, files, removals)


def _part(fragments: dict[int, FragmentInfo], shared: set[int], addresses: Addresses) -> VersionOnly:
    alone = [each for each in fragments if each not in shared]
    return VersionOnly(tuple(alone), sum(fragments[each].rows for each in alone), addresses)


NEW = -1
GONE = -1
# Beyond these limits, reading the later version as a whole takes no longer.
MOST_STRETCHES = 2_000
MOST_NEW = 0.5


@dataclass(frozen=True)
class RowRun:
    """Consecutive rows: their first row number in the earlier version, or `NEW`, and their number."""

    start: int
    rows: int


@dataclass(frozen=True)
class RowRemap:
    """The later version as a sequence of row runs. `fragments` are those with its new rows, in order."""

    stretches: tuple[RowRun, ...]
    fragments: tuple[int, ...]
    earlier_rows: int

    @property
    def later_rows(self) -> int:
        """The number of rows of the later version."""
        return sum(each.rows for each in self.stretches)

    @property
    def only_adds(self) -> bool:
        """Whether every row of the earlier version kept its row number."""
        kept = (RowRun(0, self.earlier_rows),) if self.earlier_rows else ()
        rest = self.stretches[len(kept) :]
        return self.stretches[: len(kept)] == kept and all(each.start == NEW for each in rest)

    @property
    def is_same(self) -> bool:
        """Whether both versions have the same rows under the same row numbers."""
        return self.only_adds and self.later_rows == self.earlier_rows

    def carry(self, known: pa.Array[Any], new: pa.Array[Any]) -> pa.Array[Any]:
        """Build a column of the later version from that of the earlier one and the values of the new rows."""
        if self.is_same:
            return known
        parts = [(new if each.start == NEW else known).slice(at, each.rows) for each, at in self._places()]
        return pa.concat_arrays(parts) if parts else known.slice(0, 0)

    def carry_numbers(self, known: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        """The same for a NumPy array."""
        parts = [(new if each.start == NEW else known)[at : at + each.rows] for each, at in self._places()]
        return np.concatenate(parts) if parts else known[:0]

    def later_numbers(self) -> Numbers:
        """For each row of the earlier version its row number in the later one, or `GONE`."""
        found = np.full(self.earlier_rows, GONE, np.int64)
        at = 0
        for each in self.stretches:
            if each.start != NEW:
                found[each.start : each.start + each.rows] = np.arange(at, at + each.rows)
            at += each.rows
        return found

    def _places(self) -> Iterator[tuple[RowRun, int]]:
        """Each run, and its first position in the array that it is taken from."""
        new = 0
        for each in self.stretches:
            yield each, new if each.start == NEW else each.start
            new += each.rows if each.start == NEW else 0


def row_moves(tables: TableStore, earlier: Table, later: Table) -> RowRemap | None:
    """The remap from the earlier version to the later; None if deleted rows reappeared or too little is shared."""
    try:
        found = _joined(_stretches(tables, earlier, later))
    except NotFound:
        # The deletion vectors of the earlier version may have been deleted with it by a cleanup.
        return None
    if found is None or len(found) > MOST_STRETCHES:
        return None
    if sum(each.rows for each in found if each.start == NEW) > MOST_NEW * sum(each.rows for each in found):
        return None
    before, after = described_fragments(earlier), described_fragments(later)
    fragments = tuple(number for number, fragment in after.items() if not _is_shared(before.get(number), fragment))
    return RowRemap(tuple(found), fragments, sum(each.rows for each in before.values()))


def same_column(earlier: Table, later: Table, name: str) -> bool:
    """Whether a name stands for the same column in both versions: names can be reused, field ids are not."""
    number = _field(later, name)
    return number is not None and number == _field(earlier, name)


def _field(table: Table, name: str) -> int | None:
    field = table.handle.lance_schema.field(name)
    return None if field is None else int(field.id())


def _stretches(tables: TableStore, earlier: Table, later: Table) -> Iterator[RowRun | None]:
    """The runs of the later version, by fragment; None where rows reappear that the earlier one had deleted."""
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
    """The runs that are left of a fragment whose deletion vector has grown."""
    if len(np.setdiff1d(then, now, assume_unique=True)):
        yield None
        return
    lost = np.setdiff1d(now, then, assume_unique=True)
    # As positions among the rows that were alive in the earlier version.
    lost -= np.searchsorted(then, lost)
    begin = 0
    for each in [*lost.tolist(), rows]:
        if each > begin:
            yield RowRun(start + begin, each - begin)
        begin = each + 1


def _joined(stretches: Iterable[RowRun | None]) -> list[RowRun] | None:
    """Merge runs that continue where the one before ended."""
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
