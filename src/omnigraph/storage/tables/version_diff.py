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
    RowNumbers = NDArray[np.int64]

_NOWHERE = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True)
class VersionOnly:
    """What only one of two versions has: whole fragments, and the addresses of single rows in shared fragments."""

    fragments: tuple[int, ...]
    rows: int
    addresses: Addresses


def version_differences(tables: TableStore, old: Table, new: Table) -> tuple[VersionOnly, VersionOnly]:
    """What only the old version has, and what only the new one has. The last result for a handle is cached."""
    cached = _last.get(new)
    if cached is None or cached[0] is not old:
        cached = _last[new] = old, _differing(tables, old, new)
    return cached[1]


# The caller that asks how much differs reads it next, and one version is compared with several others.
_last: WeakKeyDictionary[Table, tuple[Table, tuple[VersionOnly, VersionOnly]]] = WeakKeyDictionary()
_described_by_table: WeakKeyDictionary[Table, dict[int, FragmentInfo]] = WeakKeyDictionary()


def _differing(tables: TableStore, old: Table, new: Table) -> tuple[VersionOnly, VersionOnly]:
    before, after = described_fragments(old), described_fragments(new)
    shared = {each for each in before if each in after and before[each].files == after[each].files}
    unlike = [each for each in sorted(shared) if before[each].deletion_vector != after[each].deletion_vector]
    then, now = _deleted(tables, old, before, unlike), _deleted(tables, new, after, unlike)
    only_old, only_new = np.setdiff1d(now, then, assume_unique=True), np.setdiff1d(then, now, assume_unique=True)
    return _version_only(before, shared, only_old), _version_only(after, shared, only_new)


def _deleted(tables: TableStore, table: Table, fragments: dict[int, FragmentInfo], ids: list[int]) -> Addresses:
    """The addresses of the deleted rows of some fragments, by fragment id."""
    lists = tables.deletion_vectors.of([(table, fragments[each].metadata) for each in ids])
    found = [addresses(fragment_id, each) for fragment_id, each in zip(ids, lists, strict=True)]
    return np.concatenate([_NOWHERE, *found])


@dataclass(frozen=True)
class FragmentInfo:
    """A fragment, its number of live rows, and its identity: data files with their columns, and deletion vector."""

    number: int
    rows: int
    metadata: FragmentMetadata
    files: tuple[tuple[str, tuple[int, ...]], ...]
    deletion_vector: tuple[int, int] | None


def described_fragments(table: Table) -> dict[int, FragmentInfo]:
    """The fragments of a version by fragment id, in scan order."""
    found = _described_by_table.get(table)
    if found is None:
        found = _described_by_table[table] = {
            each.fragment_id: _described(each) for each in table.handle.get_fragments()
        }
    return found


def _described(fragment: LanceFragment) -> FragmentInfo:
    metadata: FragmentMetadata = fragment.metadata
    # The public `path` creates a class at each access.
    files = tuple((each._path, tuple(each.fields)) for each in metadata.files)
    file = metadata.deletion_file
    deletion_vector = None if file is None else (int(file.read_version), int(file.id))
    return FragmentInfo(fragment.fragment_id, int(metadata.num_rows), metadata, files, deletion_vector)


def _version_only(fragments: dict[int, FragmentInfo], shared: set[int], addresses: Addresses) -> VersionOnly:
    alone = [each for each in fragments if each not in shared]
    return VersionOnly(tuple(alone), sum(fragments[each].rows for each in alone), addresses)


NEW = -1
DELETED = -1
# Beyond these limits, reading the later version as a whole takes no longer.
MOST_RUNS = 2_000
MOST_NEW = 0.5


@dataclass(frozen=True)
class RowRun:
    """Consecutive rows: their first row number in the earlier version, or `NEW`, and their number."""

    start: int
    rows: int


@dataclass(frozen=True)
class RowRemap:
    """The later version as a sequence of row runs. `fragments` are those with its new rows, in order."""

    runs: tuple[RowRun, ...]
    fragments: tuple[int, ...]
    earlier_rows: int

    @property
    def later_rows(self) -> int:
        """The number of rows of the later version."""
        return sum(each.rows for each in self.runs)

    @property
    def only_adds(self) -> bool:
        """Whether every row of the earlier version kept its row number."""
        unchanged = (RowRun(0, self.earlier_rows),) if self.earlier_rows else ()
        rest = self.runs[len(unchanged) :]
        return self.runs[: len(unchanged)] == unchanged and all(each.start == NEW for each in rest)

    @property
    def is_same(self) -> bool:
        """Whether both versions have the same rows under the same row numbers."""
        return self.only_adds and self.later_rows == self.earlier_rows

    def carry(self, earlier: pa.Array[Any], new: pa.Array[Any]) -> pa.Array[Any]:
        """Build a column of the later version from that of the earlier one and the values of the new rows."""
        if self.is_same:
            return earlier
        slices = [(new if each.start == NEW else earlier).slice(at, each.rows) for each, at in self._positions()]
        return pa.concat_arrays(slices) if slices else earlier.slice(0, 0)

    def carry_array(self, earlier: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        """The same for a NumPy array."""
        slices = [(new if each.start == NEW else earlier)[at : at + each.rows] for each, at in self._positions()]
        return np.concatenate(slices) if slices else earlier[:0]

    def later_row_numbers(self) -> RowNumbers:
        """For each row of the earlier version its row number in the later one, or `DELETED`."""
        found = np.full(self.earlier_rows, DELETED, np.int64)
        at = 0
        for each in self.runs:
            if each.start != NEW:
                found[each.start : each.start + each.rows] = np.arange(at, at + each.rows)
            at += each.rows
        return found

    def _positions(self) -> Iterator[tuple[RowRun, int]]:
        """Each run, and its first position in the array that it is taken from."""
        new = 0
        for each in self.runs:
            yield each, new if each.start == NEW else each.start
            new += each.rows if each.start == NEW else 0


def row_remap(tables: TableStore, earlier: Table, later: Table) -> RowRemap | None:
    """The remap from the earlier version to the later; None if deleted rows reappeared or too little is shared."""
    try:
        found = _joined(_runs(tables, earlier, later))
    except NotFound:
        # The deletion vectors of the earlier version may have been deleted with it by a cleanup.
        return None
    if found is None or len(found) > MOST_RUNS:
        return None
    if sum(each.rows for each in found if each.start == NEW) > MOST_NEW * sum(each.rows for each in found):
        return None
    before, after = described_fragments(earlier), described_fragments(later)
    fragments = tuple(each for each, fragment in after.items() if not _is_shared(before.get(each), fragment))
    return RowRemap(tuple(found), fragments, sum(each.rows for each in before.values()))


def same_column(earlier: Table, later: Table, name: str) -> bool:
    """Whether a name denotes the same column in both versions: names can be reused, field ids are not."""
    field_id = _field_id(later, name)
    return field_id is not None and field_id == _field_id(earlier, name)


def _field_id(table: Table, name: str) -> int | None:
    field = table.handle.lance_schema.field(name)
    return None if field is None else int(field.id())


def _runs(tables: TableStore, earlier: Table, later: Table) -> Iterator[RowRun | None]:
    """The runs of the later version, by fragment; None where rows reappear that the earlier one had deleted."""
    before = described_fragments(earlier)
    starts = dict(zip(before, np.cumsum([0, *(each.rows for each in before.values())]).tolist(), strict=False))
    for fragment_id, fragment in described_fragments(later).items():
        old = before.get(fragment_id)
        if old is None or not _is_shared(old, fragment):
            yield RowRun(NEW, fragment.rows)
        elif old.deletion_vector == fragment.deletion_vector:
            yield RowRun(starts[fragment_id], fragment.rows)
        else:
            then, now = tables.deletion_vectors.of([(earlier, old.metadata), (later, fragment.metadata)])
            yield from _between(starts[fragment_id], old.rows, then.astype(np.int64), now.astype(np.int64))


def _is_shared(old: FragmentInfo | None, fragment: FragmentInfo) -> bool:
    return old is not None and old.files == fragment.files


def _between(start: int, rows: int, then: RowNumbers, now: RowNumbers) -> Iterator[RowRun | None]:
    """The runs that are left of a fragment whose deletion vector has grown."""
    if len(np.setdiff1d(then, now, assume_unique=True)):
        yield None
        return
    deleted = np.setdiff1d(now, then, assume_unique=True)
    # As positions among the rows that were alive in the earlier version.
    deleted -= np.searchsorted(then, deleted)
    begin = 0
    for each in [*deleted.tolist(), rows]:
        if each > begin:
            yield RowRun(start + begin, each - begin)
        begin = each + 1


def _joined(runs: Iterable[RowRun | None]) -> list[RowRun] | None:
    """Merge runs that continue where the one before ended."""
    found: list[RowRun] = []
    for each in runs:
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
