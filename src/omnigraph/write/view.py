"""The state a write is computed from: one snapshot of one branch, and what was read of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.comparable_values import comparable
from omnigraph.store.filters import All, one_of
from omnigraph.store.places import PLACE_COLUMNS, places_in
from omnigraph.store.tables import ID
from omnigraph.write.same_value import as_literals, distinct, is_among
from omnigraph.write.view_pieces import read_matching

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.store.filters import Filter
    from omnigraph.store.places import Places
    from omnigraph.store.tables import Table, TableStore

    Values = pa.Array[Any] | pa.ChunkedArray[Any]

# Above this many values a scan of the whole column and a hash probe are quicker than a filter that lists them.
LISTED_VALUES = 2_000
PIECE_ROWS = 65_536


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
        if columns is None or where is None:
            return table.read(columns, where)
        return read_matching(self.tables, table, columns, where)

    def places(self, table_key: str, ids: Values) -> Places:
        """Where the rows of these ids lie, as far as they are committed."""
        return places_in(self.rows_where(table_key, ID, ids, [ID, *PLACE_COLUMNS]))

    def rows_where(self, table_key: str, column: str, values: Values, columns: Sequence[str]) -> pa.Table:
        """Committed rows whose column has one of the values; nulls never match. Quick for few and for many values."""
        return self.rows_matching(table_key, {column: values}, columns)

    def rows_matching(self, table_key: str, wanted: Mapping[str, Values], columns: Sequence[str]) -> pa.Table:
        """Committed rows in which each of these columns has one of the values wanted of it."""
        row_count = self.entry(table_key).row_count
        if not row_count or any(values.null_count == len(values) for values in wanted.values()):
            return self.table(table_key).schema_of(columns).empty_table()
        if row_count < min(map(len, wanted.values())):
            return self._probe_back(table_key, wanted, columns)
        needed = {column: distinct(values) for column, values in wanted.items()}
        listed = _listed(needed, {column: values.type for column, values in wanted.items()})
        if listed is not None:
            return self.read(table_key, columns, listed)
        return self._probe(table_key, needed, columns)

    def pieces(self, table_key: str, columns: Sequence[str], *, rows: int = PIECE_ROWS) -> Iterator[pa.Table]:
        """Committed rows as a stream of tables of at least so many rows, for work that has a price per piece."""
        batches: list[pa.RecordBatch] = []
        for batch in self.scan(table_key, columns):
            batches.append(batch)
            if sum(each.num_rows for each in batches) >= rows:
                yield pa.Table.from_batches(batches)
                batches = []
        if batches:
            yield pa.Table.from_batches(batches)

    def _probe_back(self, table_key: str, wanted: Mapping[str, Values], columns: Sequence[str]) -> pa.Table:
        """The same when more is wanted than there is: what is there is hashed, not what is wanted."""
        rows = self.read(table_key, list(dict.fromkeys([*columns, *wanted])))
        for column, values in wanted.items():
            rows = rows.filter(is_among(comparable(rows.column(column)), comparable(values)))
        return rows.select(list(columns))

    def _probe(self, table_key: str, needed: Mapping[str, pa.Array[Any]], columns: Sequence[str]) -> pa.Table:
        # Each probe builds a hash table of the wanted values: pieces as large as that keep the work linear.
        size = max(PIECE_ROWS, *map(len, needed.values()))
        found = [self.table(table_key).schema_of(columns).empty_table()]
        for piece in self.pieces(table_key, list(dict.fromkeys([*columns, *needed])), rows=size):
            kept = piece
            for column, values in needed.items():
                kept = kept.filter(pc.is_in(comparable(kept.column(column)), value_set=values))
            found.append(kept.select(list(columns)))
        return pa.concat_tables(found)


def _listed(needed: Mapping[str, pa.Array[Any]], kinds: Mapping[str, pa.DataType]) -> Filter | None:
    """A filter that lists every value, or None when that would be too long or cannot be written."""
    if sum(map(len, needed.values())) > LISTED_VALUES:
        return None
    literals = {column: as_literals(values, kinds[column]) for column, values in needed.items()}
    tests = tuple(one_of(column, values) for column, values in literals.items() if values is not None)
    return All(tests) if len(tests) == len(needed) else None
