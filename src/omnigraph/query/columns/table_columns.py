"""Reads one pinned table by row number: whole columns from the cache, or a few rows from the store.

A row number is the position of a row in a scan of the pinned version, which Lance calls `_rowoffset`. A column that is
cached for another version is carried over from it, and only new rows are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.kernels.arrays import distinct, is_ascending, one_array
from omnigraph.kernels.equality import id_positions
from omnigraph.kernels.row_address import ROW_NUMBER
from omnigraph.storage.filters.arrow_eval import columns_of, truth
from omnigraph.storage.filters.model import And, Compare, OneOf, one_of
from omnigraph.storage.tables.version_diff import row_remap, same_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from omnigraph.cache import ReadCache
    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.storage.filters.model import Filter
    from omnigraph.storage.tables.table import Pin, Table, TableStore
    from omnigraph.storage.tables.version_diff import RowRemap

    Column = pa.Array[Any]
    Int64Array = NDArray[np.int64]
    Mask = NDArray[np.bool_]

# Up to this size, reading a whole column costs no more than looking for rows in it.
SMALL_TABLE = 20_000
_BYTES_PER_VALUE = 24
# A whole column is read when at least one row of so many is wanted.
_SPARSE = 16


@dataclass(frozen=True)
class Window:
    """Some rows of a table, by ascending row number, and their values."""

    row_numbers: Int64Array
    columns: dict[str, Column]

    def values(self, names: Sequence[str], rows: Int64Array) -> dict[str, Column] | None:
        """The columns at some rows; None when the window lacks a column or a row."""
        if not set(names) <= self.columns.keys() or not len(self.row_numbers):
            return None
        positions = np.minimum(np.searchsorted(self.row_numbers, rows), len(self.row_numbers) - 1)
        if not bool((self.row_numbers[positions] == rows).all()):
            return None
        return {name: _take(self.columns[name], positions, len(self.row_numbers)) for name in names}


class State(NamedTuple):
    """A version of a table of which something is cached."""

    identity: tuple[Pin, int]
    table: Table


@dataclass(frozen=True)
class TableRows:
    """A table of the snapshot. `prefers` is the traversal mode, which columns follow; `note` records decisions."""

    entry: TableEntry
    store: TableStore
    cache: ReadCache
    prefers: str = "auto"
    note: Callable[[str], None] = lambda _: None
    # Columns that this read has used: found without asking the cache, and not evicted while the read runs.
    _held: dict[str, Column] = field(default_factory=dict, compare=False, repr=False)
    # The part of the table that a streamed scan has just read.
    _window: list[Window] = field(default_factory=list, compare=False, repr=False)

    @cached_property
    def table(self) -> Table:
        """The table, opened at its pin."""
        return self.store.open(self.entry.pin)

    @cached_property
    def size(self) -> int:
        """The number of rows, cached."""
        return self.cache.get("size", self.identity, lambda: self.table.num_rows, lambda _: 64)

    @property
    def name(self) -> str:
        """The name of the type, without `node:` or `edge:`."""
        return self.entry.table_key.partition(":")[2]

    # -- values --------------------------------------------------------------------------------------------------------

    def has_cached(self, names: Iterable[str]) -> bool:
        """Whether these columns are in memory."""
        return all(self._cached(name) is not None for name in names)

    def _cached(self, name: str) -> Column | None:
        if name not in self._held:
            found = cast("Column | None", self.cache.find(("column", (self.identity, name))))
            if found is None:
                return None
            self._held[name] = found
        return self._held[name]

    @cached_property
    def identity(self) -> tuple[Pin, int]:
        """The version of the table, as a part of cache keys."""
        return self.store.identity(self.entry.pin)

    def column(self, name: str) -> Column:
        """A whole column, in row order."""
        return self.columns([name])[name]

    def columns(self, names: Sequence[str]) -> dict[str, Column]:
        """Whole columns; those that are not cached are carried over, or read in one scan."""
        self._load(names)
        return {name: self._held[name] for name in names}

    def values(self, names: Sequence[str], rows: Int64Array) -> dict[str, Column]:
        """The columns at some rows; a negative row number gives null."""
        if not names:
            return {}
        if self._window and (seen := self._window[0].values(names, rows)) is not None:
            return seen
        if self.reads_whole(names, len(rows)):
            return {name: _take(column, rows, self.size) for name, column in self.columns(names).items()}
        valid = rows >= 0
        wanted, inverse = distinct(rows[valid]) if valid.any() else (rows[:0], rows[:0])
        found = self._take_rows(names, wanted)
        indices = np.full(len(rows), -1, dtype=np.int64)
        indices[valid] = inverse
        return {name: _take(found[name], indices, len(wanted)) for name in names}

    def reads_whole(self, names: Sequence[str], rows: int) -> bool:
        """Whether reading whole columns is better than taking this many rows."""
        if self.prefers != "auto":
            return self.prefers == "csr"
        if self.has_cached(names) or self.size <= SMALL_TABLE or rows * _SPARSE >= self.size:
            return True
        key, whole = ("columns", self.identity, tuple(names)), self.size * _BYTES_PER_VALUE * len(names)
        return self.cache.is_worth_keeping(key, rows=self.size, size=whole)

    def _load(self, names: Iterable[str]) -> None:
        missing = [name for name in dict.fromkeys(names) if self._cached(name) is None]
        if not missing:
            return
        found = self._carried(missing)
        for name, column in {**found, **self._read([each for each in missing if each not in found])}.items():
            key = "column", (self.identity, name)
            self.cache.put(key, column, _bytes(column))
            self.cache.add_version(("column", self.entry.path, name), key, self.state)
            self._held[name] = column

    def _read(self, names: Sequence[str], batches: Sequence[int] | None = None) -> dict[str, Column]:
        if not names:
            return {}
        read = self.table.read(list(names), fragments=batches)
        return {name: one_array(read.column(name)) for name in names}

    # -- carrying over between versions --------------------------------------------------------------------------------

    @cached_property
    def state(self) -> State:
        """The version of this table, with its handle."""
        return State(self.identity, self.table)

    def remap_from(self, earlier: State) -> RowRemap | None:
        """The row remap from another version to this one, cached; None when too much differs to carry anything over."""
        key = earlier.identity, self.identity
        return self.cache.get("row_remap", key, lambda: (self._remap_from(earlier.table),), _remap_nbytes)[0]

    def _remap_from(self, earlier: Table) -> RowRemap | None:
        remap = row_remap(self.store, earlier, self.table)
        return remap if remap is not None and remap.later_rows == self.size else None

    def column_of(self, earlier: State, name: str) -> Column | None:
        """The column in another version, if it is cached and has the same field id: a name can be given again."""
        found = cast("Column | None", self.cache.find(("column", (earlier.identity, name))))
        return found if found is not None and same_column(earlier.table, self.table, name) else None

    def _carried(self, names: Sequence[str]) -> dict[str, Column]:
        """Those of the columns that are cached for another version, carried over to this one."""
        by_state: dict[State, dict[str, Column]] = {}
        for name in names:
            earlier = cast("State | None", self.cache.latest(("column", self.entry.path, name)))
            if earlier is not None and (cached := self.column_of(earlier, name)) is not None:
                by_state.setdefault(earlier, {})[name] = cached
        found = {}
        for earlier, cached_columns in by_state.items():
            remap = self.remap_from(earlier)
            if remap is not None:
                new = self._read([*cached_columns], remap.fragments)
                found.update({name: remap.carry(cached, new[name]) for name, cached in cached_columns.items()})
        return found

    def _take_rows(self, names: Sequence[str], rows: Int64Array) -> dict[str, Column]:
        taken = self.table.take(rows.tolist(), names)
        return {name: one_array(taken.column(name)) for name in names}

    # -- rows ----------------------------------------------------------------------------------------------------------

    def all_rows(self) -> Int64Array:
        """Every row number."""
        return np.arange(self.size, dtype=np.int64)

    def matching(self, where: Filter) -> Int64Array:
        """The row numbers that a filter selects, ascending: from columns in memory, or by a scan with indexes."""
        names = sorted(columns_of(where))
        if self.reads_whole(names, self.guess(where)):
            self.note(f"{self.name}: columns in memory")
            return np.flatnonzero(self.truth(where, None)).astype(np.int64)
        self.note(f"{self.name}: filtered in the table")
        return self.search_store([], where)[ROW_NUMBER].to_numpy().astype(np.int64)

    def truth(self, where: Filter, rows: Int64Array | None) -> Mask:
        """Where the filter is true, in the whole table or at some rows; null counts as false."""
        names = sorted(columns_of(where))
        values = self.columns(names) if rows is None else self.values(names, rows)
        truths: Any = truth(where, pa.table(values) if names else _no_columns(self.size if rows is None else len(rows)))
        mask: Mask = truths.fill_null(False).to_numpy(zero_copy_only=False)
        return mask

    def search_store(self, names: Sequence[str], where: Filter | None, **search: object) -> pa.Table:
        """Scan the table itself; returns columns and row numbers. `search` may hold a text query or a vector query."""
        return self.table.search([*names, ROW_NUMBER], where, **search)

    def windows(self, names: Sequence[str], where: Filter | None, rows: int) -> Iterator[Int64Array]:
        """The row numbers that a filter selects, a window at a time. `values` reads the window while it is current."""
        try:
            for batch in self.table.scan([*names, ROW_NUMBER], where, batch_size=rows):
                row_numbers = batch.column(ROW_NUMBER).to_numpy().astype(np.int64)
                self._window[:] = [Window(row_numbers, {name: batch.column(name) for name in names})]
                yield row_numbers
        finally:
            self._window.clear()

    def rows_of_ids(self, ids: pa.Array[Any]) -> Int64Array:
        """The row number of each id, -1 where there is none."""
        if self.reads_whole(["id"], len(ids)):
            return id_positions(ids, self.column("id")).astype(np.int64)
        found = self.search_store(["id"], one_of("id", pc.unique(ids).to_pylist()))
        row_numbers = found[ROW_NUMBER].to_numpy().astype(np.int64)
        positions = id_positions(ids, one_array(found.column("id"))).astype(np.int64)
        return np.where(positions < 0, -1, row_numbers[positions]) if len(row_numbers) else positions

    def guess(self, where: Filter) -> int:
        """A guess of how many rows a filter selects, for choosing an access path; equality is taken to be selective."""
        return 1 if _is_selective(where) else self.size


def _is_selective(where: Filter) -> bool:
    match where:
        case And(operands):
            return any(_is_selective(each) for each in operands)
        case Compare(_, operator, _):
            return operator == "="
        case OneOf(_, values):
            return len(values) <= _SPARSE
        case _:
            return False


def _take(column: Column, rows: Int64Array, size: int) -> Column:
    if len(rows) == size and size and rows[0] == 0 and rows[-1] == size - 1 and is_ascending(rows):
        return column
    indices: Any = pa.array(rows, mask=rows < 0) if len(rows) and rows.min() < 0 else pa.array(rows)
    return one_array(column.take(indices))


def _no_columns(length: int) -> pa.Table:
    return pa.table({"": pa.nulls(length)})


def _bytes(column: Column) -> int:
    return int(column.nbytes)


def _remap_nbytes(remap: tuple[RowRemap | None]) -> int:
    return 64 + (0 if remap[0] is None else 128 * len(remap[0].runs))
