"""The state a write is computed from: one snapshot of one branch, and what was read of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.filters import one_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.store.filters import Filter
    from omnigraph.store.tables import Table, TableStore

    Values = pa.Array[Any] | pa.ChunkedArray[Any]

# Above this many values a scan of the whole column and a hash probe are quicker than a filter that lists them.
LISTED_VALUES = 2_000


@dataclass
class View:
    """One accepted state of a branch. Every table that is read is noted: a commit is refused if one of them moved."""

    snapshot: Snapshot
    tables: TableStore
    reads: dict[str, int] = field(default_factory=dict)

    def entry(self, table_key: str) -> TableEntry:
        """A table as the graph has it, noted as read."""
        entry = self.snapshot[table_key]
        self.reads[table_key] = entry.version
        return entry

    def table(self, table_key: str) -> Table:
        """A table opened at its pin, noted as read."""
        return self.tables.open(self.entry(table_key).pin)

    def scan(
        self, table_key: str, columns: Sequence[str] | None = None, where: Filter | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Committed rows, as a stream."""
        if self.entry(table_key).row_count:
            yield from self.table(table_key).scan(columns, where)

    def read(self, table_key: str, columns: Sequence[str] | None = None, where: Filter | None = None) -> pa.Table:
        """Committed rows, in memory."""
        table = self.table(table_key)
        if not self.entry(table_key).row_count:
            return table.schema_of(columns).empty_table()
        return table.read(columns, where)

    def rows_where(self, table_key: str, column: str, values: Values, columns: Sequence[str]) -> pa.Table:
        """Committed rows whose column has one of the values; nulls never match. Quick for few and for many values."""
        wanted = pc.unique(values.drop_null())
        if not len(wanted) or not self.entry(table_key).row_count:
            return self.table(table_key).schema_of(columns).empty_table()
        if len(wanted) <= LISTED_VALUES:
            return self.read(table_key, columns, one_of(column, wanted.to_pylist()))
        return self._probe(table_key, column, wanted, columns)

    def _probe(self, table_key: str, column: str, wanted: Values, columns: Sequence[str]) -> pa.Table:
        needed = [*columns, *([] if column in columns else [column])]
        batches = []
        for batch in self.scan(table_key, needed):
            matching = batch.filter(pc.is_in(batch.column(column), value_set=wanted))
            if matching.num_rows:
                batches.append(matching.select(list(columns)))
        return pa.Table.from_batches(batches, schema=self.table(table_key).schema_of(columns))
