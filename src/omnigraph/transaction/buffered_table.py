"""A buffered table is a table as it would be after a change: committed rows of a read view, overlaid by id.

`FoundRows` has the locations of committed rows that the operation has read. `StateAfter` is the whole graph after the
changes: one read view, and the changes to its tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.kernels.arrays import ID, comparable, one_array
from omnigraph.kernels.equality import is_among, texts
from omnigraph.storage.filters.arrow_eval import matching
from omnigraph.storage.tables.row_rewrite import NO_LOCATIONS, RowLocations
from omnigraph.transaction.read_view import BATCH_ROWS, LocatedRows
from omnigraph.transaction.write_set import TableChanges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.kernels.arrays import Values
    from omnigraph.storage.filters.model import Filter
    from omnigraph.transaction.read_view import ReadView

_NO_IDS = pa.array([], pa.string())


@dataclass(frozen=True)
class BufferedTable:
    """One table after its change. Unchanged rows are committed ones that the change neither replaces nor deletes."""

    view: ReadView
    change: TableChanges

    @cached_property
    def put_ids(self) -> pa.Array[Any]:
        """The ids of the rows that are put."""
        return _NO_IDS if self.change.puts is None else one_array(self.change.puts.column(ID))

    @cached_property
    def deleted_ids(self) -> pa.Array[Any]:
        """The ids that are deleted individually, sorted."""
        return pa.array(sorted(self.change.deletes), pa.string())

    def with_puts(self, unchanged: pa.Table, where: Filter | None) -> pa.Table:
        """The unchanged rows, then the rows put for which the filter holds."""
        puts = self.change.puts
        return unchanged if puts is None else _joined(unchanged, matching(puts, where))

    def with_puts_matching(self, unchanged: pa.Table, column: str, values: Values) -> pa.Table:
        """The unchanged rows, then the rows put whose column has one of the values; nulls never match."""
        puts = self.change.puts
        if puts is None or not puts.num_rows:
            return unchanged
        return _joined(unchanged, puts.filter(is_among(comparable(puts.column(column)), comparable(values))))

    def has(self, ids: Values) -> pa.Array[Any]:
        """For each id, whether it has a row."""
        keys = one_array(ids)
        if not len(self.put_ids):
            return self._has_unchanged(keys)
        found = is_among(keys, self.put_ids).to_numpy(zero_copy_only=False).copy()
        found[~found] = self._has_unchanged(keys.filter(pa.array(~found))).to_numpy(zero_copy_only=False)
        present: pa.Array[Any] = pa.array(found)
        return present

    def unchanged_rows(self, columns: Sequence[str], where: Filter | None = None) -> LocatedRows:
        """The unchanged rows for which the filter holds."""
        if self.change.overwrite:
            return self._no_rows(columns)
        return self._unchanged(self.view.rows(self.change.table_key, _with_id(columns), where), columns)

    def unchanged_matching(self, wanted: Mapping[str, Values], columns: Sequence[str]) -> LocatedRows:
        """The unchanged rows in which each of these columns has one of the values given for it."""
        if self.change.overwrite:
            return self._no_rows(columns)
        return self._unchanged(self.view.rows_matching(self.change.table_key, wanted, _with_id(columns)), columns)

    def unchanged_batches(self, columns: Sequence[str], *, rows: int) -> Iterator[pa.Table]:
        """Stream every unchanged row, as tables made from at least `rows` committed rows."""
        if self.change.overwrite:
            return
        # Every batch is probed with the changed ids: batches at least as large as their number keep the work linear.
        size = max(rows, len(self.changed_ids), BATCH_ROWS)
        for batch in self.view.batches(self.change.table_key, _with_id(columns), rows=size):
            unchanged = self._is_unchanged(batch)
            yield (batch if unchanged is None else batch.filter(unchanged)).select(list(columns))

    @cached_property
    def changed_ids(self) -> pa.Array[Any]:
        """The ids of the rows that are put or deleted."""
        return pa.concat_arrays([self.put_ids, self.deleted_ids])

    def _has_unchanged(self, ids: pa.Array[Any]) -> pa.Array[Any]:
        is_small = self.view.entry(self.change.table_key).row_count < len(ids)
        found = self.unchanged_rows([ID]) if is_small else self.unchanged_matching({ID: ids}, [ID])
        return is_among(ids, found.rows.column(ID))

    def _unchanged(self, found: LocatedRows, columns: Sequence[str]) -> LocatedRows:
        unchanged = self._is_unchanged(found.rows)
        if unchanged is None:
            return LocatedRows(found.rows.select(list(columns)), found.locations)
        locations = RowLocations(found.locations.rows.filter(unchanged))
        return LocatedRows(found.rows.filter(unchanged).select(list(columns)), locations)

    def _is_unchanged(self, rows: pa.Table) -> pa.Array[Any] | None:
        """For each row, whether the change leaves it as it is; None when it leaves all of them."""
        if not rows.num_rows or not len(self.changed_ids):
            return None
        unchanged: pa.Array[Any] = pc.invert(is_among(rows.column(ID), self.changed_ids))
        return unchanged

    def _no_rows(self, columns: Sequence[str]) -> LocatedRows:
        return LocatedRows(self.view.table(self.change.table_key).schema_of(columns).empty_table(), NO_LOCATIONS)


def _joined(unchanged: pa.Table, puts: pa.Table) -> pa.Table:
    """Concatenate both. Nested fields of the stored schema may differ in name or metadata; the columns are the same."""
    chosen = puts.select(unchanged.column_names)
    if chosen.schema != unchanged.schema:
        chosen = pa.Table.from_arrays(
            [column.cast(field.type) for column, field in zip(chosen.columns, unchanged.schema, strict=True)],
            schema=unchanged.schema,
        )
    return pa.concat_tables([unchanged, chosen])


def _with_id(columns: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*columns, ID]))


class FoundRows:
    """Locations of committed rows of one table that an operation has read, and ids that it looked for in vain."""

    def __init__(self, view: ReadView, table_key: str) -> None:
        self._view = view
        self._table_key = table_key
        self._last_read = NO_LOCATIONS
        self._retained: list[RowLocations] = []
        self._absent: set[str] = set()

    @property
    def nbytes(self) -> int:
        """The memory that retained locations occupy."""
        return sum(each.rows.nbytes for each in self._retained)

    def add(self, locations: RowLocations) -> None:
        """Remember a read until the next one; `retain` keeps what is then changed."""
        self._last_read = locations

    def add_absent(self, ids: pa.Array[Any], changed: pa.Array[Any]) -> None:
        """Record those of the ids that the last read did not find, except changed ones, which it passes over."""
        excluded = pa.concat_arrays([self._last_read.ids, changed])
        self._absent.update(texts(ids.filter(pc.invert(pc.is_in(ids, value_set=excluded)))))

    def retain(self, ids: pa.Array[Any]) -> None:
        """Retain the locations of these ids from the last read, and drop the rest of it."""
        if len(self._last_read):
            self._retained.append(self._last_read.of(ids))
            self._last_read = NO_LOCATIONS

    def locate(self, ids: pa.Array[Any]) -> RowLocations:
        """The locations of those ids that are committed; only ids that no read has located are looked up."""
        self.retain(ids)
        located = RowLocations(pa.concat_tables([NO_LOCATIONS.rows, *(each.rows for each in self._retained)]))
        unknown = ids.filter(pc.invert(pc.is_in(ids, value_set=located.ids)))
        if self._absent and len(unknown):
            unknown = unknown.filter(pc.invert(pc.is_in(unknown, value_set=pa.array(list(self._absent)))))
        if len(unknown):
            found = self._view.locations(self._table_key, unknown)
            located = located.and_(found)
            self._absent.update(set(texts(unknown)).difference(texts(found.ids)))
        self._retained = [located]
        return located.of(ids)


@dataclass(frozen=True)
class StateAfter:
    """Every table after the changes; a table without changes is as committed."""

    view: ReadView
    changes: Mapping[str, TableChanges]
    _tables: dict[str, BufferedTable] = field(default_factory=dict)

    def table(self, table_key: str) -> BufferedTable:
        """One table after its change."""
        if table_key not in self._tables:
            change = self.changes.get(table_key) or TableChanges(table_key)
            self._tables[table_key] = BufferedTable(self.view, change)
        return self._tables[table_key]

    def puts(self) -> Iterator[tuple[str, pa.Table]]:
        """The rows that are put, by table, in name order."""
        for table_key in sorted(self.changes):
            rows = self.changes[table_key].puts
            if rows is not None and rows.num_rows:
                yield table_key, rows

    def loses_rows(self, table_key: str) -> bool:
        """Whether the change may delete committed rows of the table."""
        change = self.changes.get(table_key)
        return change is not None and (change.overwrite or bool(change.deletes))

    def is_deleted(self, table_key: str, ids: pa.Array[Any]) -> pa.Array[Any]:
        """For each id of a committed row, whether the change removes it."""
        table = self.table(table_key)
        if table.change.overwrite:
            return pc.invert(is_among(ids, table.put_ids))
        return is_among(ids, table.deleted_ids)
