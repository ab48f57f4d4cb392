"""A buffered table is a table as it would be after a change: committed rows of a read view, overlaid by id.

`StateAfter` is the same for the whole graph: one read view, and the changes to its tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.kernels.arrays import ID, comparable, one_array
from omnigraph.kernels.equality import is_among
from omnigraph.storage.filters.arrow_eval import matching
from omnigraph.transaction.read_view import BATCH_ROWS
from omnigraph.transaction.write_set import TableChanges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.kernels.arrays import Values
    from omnigraph.storage.filters.model import Filter
    from omnigraph.transaction.read_view import ReadView

_NO_IDS = pa.array([], pa.string())


@dataclass(frozen=True)
class BufferedTable:
    """One table after its change. `survivors` are committed rows that the change neither replaces nor removes."""

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

    def read(self, columns: Sequence[str], where: Filter | None = None) -> pa.Table:
        """Every row for which the filter holds: survivors, then rows that are put."""
        return self._with_puts(self.survivors(columns, where), where)

    def rows_where(self, column: str, values: Values, columns: Sequence[str]) -> pa.Table:
        """The rows whose column has one of the values; nulls never match."""
        committed = self.survivors_where({column: values}, columns)
        puts = self.change.puts
        if puts is None or not puts.num_rows:
            return committed
        return _joined(committed, puts.filter(is_among(comparable(puts.column(column)), comparable(values))))

    def has(self, ids: Values) -> pa.Array[Any]:
        """For each id, whether it has a row."""
        asked = one_array(ids)
        if not len(self.put_ids):
            return self._survives(asked)
        found = is_among(asked, self.put_ids).to_numpy(zero_copy_only=False).copy()
        found[~found] = self._survives(asked.filter(pa.array(~found))).to_numpy(zero_copy_only=False)
        present: pa.Array[Any] = pa.array(found)
        return present

    def survivors(self, columns: Sequence[str], where: Filter | None = None) -> pa.Table:
        """Committed rows for which the filter holds, without those that the change touches."""
        if self.change.overwrite:
            return self._nothing(columns)
        return self._untouched(self.view.read(self.change.table_key, _with_id(columns), where), columns)

    def survivors_where(self, wanted: Mapping[str, Values], columns: Sequence[str]) -> pa.Table:
        """Committed rows with the wanted values, without those that the change touches."""
        if self.change.overwrite:
            return self._nothing(columns)
        return self._untouched(self.view.rows_matching(self.change.table_key, wanted, _with_id(columns)), columns)

    def survivor_batches(self, columns: Sequence[str], *, rows: int) -> Iterator[pa.Table]:
        """Stream every survivor, as tables made from at least `rows` committed rows."""
        if not self.change.overwrite:
            # Every batch is probed with the touched ids: batches at least as large as their number keep the work
            # linear.
            size = max(rows, len(self._touched), BATCH_ROWS)
            for batch in self.view.batches(self.change.table_key, _with_id(columns), rows=size):
                yield self._untouched(batch, columns)

    def _survives(self, ids: pa.Array[Any]) -> pa.Array[Any]:
        few = self.view.entry(self.change.table_key).row_count < len(ids)
        rows = self.survivors([ID]) if few else self.survivors_where({ID: ids}, [ID])
        return is_among(ids, rows.column(ID))

    @cached_property
    def _touched(self) -> pa.Array[Any]:
        return pa.concat_arrays([self.put_ids, self.deleted_ids])

    def _untouched(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        if rows.num_rows and len(self._touched):
            rows = rows.filter(pc.invert(is_among(rows.column(ID), self._touched)))
        return rows.select(list(columns))

    def _nothing(self, columns: Sequence[str]) -> pa.Table:
        return self.view.table(self.change.table_key).schema_of(columns).empty_table()

    def _with_puts(self, committed: pa.Table, where: Filter | None) -> pa.Table:
        puts = self.change.puts
        return committed if puts is None else _joined(committed, matching(puts, where))


def _joined(committed: pa.Table, puts: pa.Table) -> pa.Table:
    """Concatenate both. Nested fields of the stored schema may differ in name or metadata; the columns are the same."""
    chosen = puts.select(committed.column_names)
    if chosen.schema != committed.schema:
        chosen = pa.Table.from_arrays(
            [column.cast(field.type) for column, field in zip(chosen.columns, committed.schema, strict=True)],
            schema=committed.schema,
        )
    return pa.concat_tables([committed, chosen])


def _with_id(columns: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*columns, ID]))


@dataclass(frozen=True)
class StateAfter:
    """Every table after the changes; a table without changes is as committed."""

    view: ReadView
    changes: Mapping[str, TableChanges]
    _overlays: dict[str, BufferedTable] = field(default_factory=dict)

    def table(self, table_key: str) -> BufferedTable:
        """One table after its change."""
        if table_key not in self._overlays:
            change = self.changes.get(table_key) or TableChanges(table_key)
            self._overlays[table_key] = BufferedTable(self.view, change)
        return self._overlays[table_key]

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

    def is_lost(self, table_key: str, ids: pa.Array[Any]) -> pa.Array[Any]:
        """For each id of a committed row, whether the change removes it."""
        table = self.table(table_key)
        if table.change.overwrite:
            return pc.invert(is_among(ids, table.put_ids))
        return is_among(ids, table.deleted_ids)
