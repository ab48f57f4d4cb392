"""Exports a snapshot as one Parquet or CSV file per type, in the folders `nodes` and `edges`, as a load reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import orjson
import pyarrow as pa
from pyarrow import csv, parquet

from omnigraph.catalog.arrow import edge_arrow_schema, node_arrow_schema
from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.export.records import exported_types, json_values, ordered_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.storage.tables.table import TableStore

TableFormat = Literal["parquet", "csv"]
_MOMENT = pa.timestamp("ms", "UTC")


def export_tables(
    snapshot: Snapshot,
    tables: TableStore,
    catalog: Catalog,
    directory: str | Path,
    *,
    form: TableFormat,
    types: Sequence[str] | None = None,
) -> dict[str, Path]:
    """Write one file per type below a directory; return the paths by table key. Types without rows get a file too."""
    written = {}
    for kind in exported_types(catalog, types):
        path = Path(directory) / ("edges" if isinstance(kind, EdgeType) else "nodes") / f"{kind.name}.{form}"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            export_table(snapshot, tables, kind, stream, form=form)
        written[kind.table_key] = path
    return written


def export_table(
    snapshot: Snapshot, tables: TableStore, kind: NodeType | EdgeType, stream: BinaryIO, *, form: TableFormat
) -> int:
    """Write the rows of one type in id order; return their number."""
    table = tables.open(snapshot[kind.table_key].pin)
    return write_rows(ordered_rows(table, kind), kind, stream, form=form)


def write_rows(
    batches: Iterator[pa.RecordBatch], kind: NodeType | EdgeType, stream: BinaryIO, *, form: TableFormat
) -> int:
    """Write rows of one type, whose blobs are texts already, in the order given; return their number."""
    shape = _parquet_column if form == "parquet" else _csv_column
    schema = _shaped_schema(kind, shape)
    rows = 0
    with _writer(stream, schema, form) as writer:
        for batch in batches:
            columns = [shape(batch.column(name), f"{kind.name}.{name}") for name in _stored_schema(kind).names]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            rows += batch.num_rows
    return rows


def _writer(stream: BinaryIO, schema: pa.Schema, form: TableFormat) -> Any:
    if form == "parquet":
        return parquet.ParquetWriter(stream, schema)
    return csv.CSVWriter(stream, schema)


def _stored_schema(kind: NodeType | EdgeType) -> pa.Schema:
    return edge_arrow_schema(kind) if isinstance(kind, EdgeType) else node_arrow_schema(kind)


def _shaped_schema(kind: NodeType | EdgeType, shape: Shape) -> pa.Schema:
    """The columns of the file: the endpoints of an edge are named as in records, and blobs are texts."""
    names = {"src": "from", "dst": "to"} if isinstance(kind, EdgeType) else {}
    fields = []
    for each in _stored_schema(kind):
        empty = pa.nulls(0, pa.string() if pa.types.is_struct(each.type) else each.type)
        fields.append(pa.field(names.get(each.name, each.name), shape(empty, "").type, nullable=each.nullable))
    return pa.schema(fields)


def _parquet_column(column: pa.Array[Any], about: str) -> pa.Array[Any]:
    """Parquet would drop the time of day of Arrow's date64, so datetimes are timestamps there, in lists too."""
    del about
    kind = column.type
    if pa.types.is_date64(kind):
        return column.cast(pa.int64()).cast(_MOMENT)
    if pa.types.is_list(kind) and pa.types.is_date64(kind.value_type):
        return column.cast(pa.list_(pa.field("item", pa.timestamp("ms")))).cast(pa.list_(pa.field("item", _MOMENT)))
    return column


def _csv_column(column: pa.Array[Any], about: str) -> pa.Array[Any]:
    """Numbers, booleans and texts unchanged; dates as ISO text; lists and vectors as JSON."""
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        values = json_values(column, about=about)
        option = orjson.OPT_SERIALIZE_NUMPY
        texts = [None if value is None else orjson.dumps(value, option=option).decode() for value in values]
        return pa.array(texts, pa.string())
    if pa.types.is_date(kind):
        return pa.array(
            [None if value is None else str(value) for value in json_values(column, about=about)], pa.string()
        )
    return column


if TYPE_CHECKING:
    Shape = Callable[[pa.Array[Any], str], pa.Array[Any]]
