"""Combines Arrow batches into tables of a given number of rows or bytes: work on a table has a fixed cost per call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def rebatch(
    batches: Iterable[pa.RecordBatch | pa.Table], *, rows: int | None = None, nbytes: int | None = None
) -> Iterator[pa.Table]:
    """Yield the same rows in the same order, as tables of exactly `rows` rows, or of fewer that reach `nbytes`.

    The last table may be smaller; no table is empty. Nothing is copied.
    """
    buffer = RowBuffer(rows, nbytes)
    for batch in batches:
        yield from buffer.add(batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch]))
    yield from buffer.drain()


@dataclass
class RowBuffer:
    """Buffers tables until they have `rows` rows or `nbytes` bytes. `rebatch` for callers that push rows."""

    rows: int | None = None
    nbytes: int | None = None
    _tables: list[pa.Table] = field(default_factory=list)
    _row_count: int = 0
    _byte_count: int = 0

    def __bool__(self) -> bool:
        return bool(self._tables)

    def add(self, table: pa.Table) -> Iterator[pa.Table]:
        """Buffer rows; yield the tables that became full."""
        self._hold(table)
        while self.rows is not None and self._row_count >= self.rows:
            whole = self._take()
            self._hold(whole.slice(self.rows))
            yield whole.slice(0, self.rows)
        if self.nbytes is not None and self._byte_count >= self.nbytes:
            yield from self.drain()

    def drain(self) -> Iterator[pa.Table]:
        """Yield the buffered rows, if there are any."""
        if self._tables:
            yield self._take()

    def _hold(self, table: pa.Table) -> None:
        if table.num_rows:
            self._tables.append(table)
            self._row_count += table.num_rows
            self._byte_count += 0 if self.nbytes is None else table.nbytes

    def _take(self) -> pa.Table:
        tables, self._tables, self._row_count, self._byte_count = self._tables, [], 0, 0
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
