"""Converts the rows of a table to its new schema: columns are kept, renamed, widened, filled or dropped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog.arrow import (
    BLOB,
    default_array,
    edge_arrow_schema,
    node_arrow_schema,
    put_schema,
    readable_columns,
)
from omnigraph.catalog.catalog import NodeType
from omnigraph.kernels.arrays import ID
from omnigraph.storage.tables.take_rows import read_blobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from omnigraph.catalog.catalog import EdgeType
    from omnigraph.language.evolution import ColumnChange, TableChange
    from omnigraph.storage.tables.table import Table

ENDS = ("src", "dst")
# Blobs are read row by row, and those of a whole batch are in memory at once.
BLOB_ROWS = 256


@dataclass(frozen=True)
class NewShape:
    """The rows of one type after a schema change."""

    kind: NodeType | EdgeType
    change: TableChange

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the table after the change."""
        return node_arrow_schema(self.kind) if isinstance(self.kind, NodeType) else edge_arrow_schema(self.kind)

    @property
    def only_adds_columns(self) -> bool:
        """Whether every existing column stays as it is: then none of them needs to be rewritten."""
        old = [each for each in self.change.columns if each.from_column is not None]
        new = [each for each in self.change.columns if each.from_column is None]
        fillable = all(each.type.scalar != "Blob" for each in new)
        return bool(new) and fillable and not self.change.dropped_columns and all(each.is_unchanged for each in old)

    @property
    def fills(self) -> dict[str, Callable[[int], pa.Array[Any]]]:
        """The values of new columns that have a default."""
        new = [self.kind.properties[each.name] for each in self.change.columns if each.from_column is None]
        return {each.name: partial(default_array, each) for each in new if each.default is not None}

    def reader(self, table: Table) -> pa.RecordBatchReader:
        """Stream every row of a table of the old schema, converted to the new one."""
        schema = self.schema
        batches = (batch for rows in self.rows(table, schema.names) for batch in rows.to_batches())
        return pa.RecordBatchReader.from_batches(schema, batches)

    def rows(self, table: Table, names: Sequence[str]) -> Iterator[pa.Table]:
        """Stream some of the new columns, for every row."""
        schema = pa.schema([self.schema.field(name) for name in names])
        wanted = [_Source(self.kind, change, table) for change in self.change.columns if change.name in names]
        read = [ID, *(name for name in names if name in ENDS and name not in self.kind.properties)]
        read += [each.change.from_column for each in wanted if each.is_scanned and each.change.from_column is not None]
        size = BLOB_ROWS if any(each.is_blob for each in wanted) else None
        by_name = {each.change.name: each for each in wanted}
        for batch in table.scan(list(dict.fromkeys(read)), batch_size=size):
            columns = [
                _cast(by_name[field.name].values(batch) if field.name in by_name else batch.column(field.name), field)
                for field in schema
            ]
            yield pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class _Source:
    """The source of one column's values."""

    kind: NodeType | EdgeType
    change: ColumnChange
    table: Table

    @property
    def is_blob(self) -> bool:
        return self.change.type.scalar == "Blob"

    @property
    def is_scanned(self) -> bool:
        return self.change.from_column is not None and not self.is_blob

    def values(self, batch: pa.RecordBatch) -> pa.Array[Any]:
        """The column for the rows of a batch."""
        if self.change.from_column is None:
            return default_array(self.kind.properties[self.change.name], batch.num_rows)
        if not self.is_blob:
            return batch.column(self.change.from_column)
        return _blobs(self.table, self.change.from_column, batch)


def whole_rows(table: Table) -> Iterator[pa.Table]:
    """Stream every row of a table in the schema of puts, blobs included."""
    schema = put_schema(table.schema)
    scanned = readable_columns(table.schema)
    for batch in table.scan(scanned, batch_size=None if len(scanned) == len(schema) else BLOB_ROWS):
        columns = [
            batch.column(each.name) if each.name in scanned else _blobs(table, each.name, batch) for each in schema
        ]
        yield pa.Table.from_arrays(columns, schema=schema)


def _blobs(table: Table, column: str, batch: pa.RecordBatch) -> pa.Array[Any]:
    ids: list[Any] = batch.column(ID).to_pylist()
    found = read_blobs(table, column, ids)
    blobs: pa.Array[Any] = pa.array([found[each] for each in ids], BLOB)
    return blobs


def _cast(values: pa.Array[Any], field: pa.Field[Any]) -> pa.Array[Any]:
    kind: Any = field.type
    return values if values.type == kind else values.cast(kind)
