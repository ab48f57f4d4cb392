"""Exports a snapshot as graph NDJSON, the records that a load reads, in a fixed order: equal graphs give equal bytes.

Tables are sorted by key (edges before nodes), rows by id. An export loaded into an empty graph of the same schema gives
the same graph.

`json_values` converts columns to the values that released records use: ISO text for dates, arrays for vectors, base64
for blobs.

`export_tables` writes one Parquet or CSV file per type, in the folders `nodes` and `edges`, as a load reads them.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from itertools import accumulate, pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import edge_arrow_schema, node_arrow_schema
from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.errors import InvalidInput
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.tables.take_rows import descriptions, external, is_inline, open_blobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.storage.tables.table import Table, TableStore

# Within these bounds, a number of days is written with a four-digit year; outside, the number itself is written.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY_MS = 86_400_000
_INLINE = "base64:"


def json_values(column: pa.Array[Any], *, about: str) -> list[Any]:
    """The values of a column as JSON can represent them, None for null. `about` names the column in errors."""
    kind = column.type
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return _lists(column, about)
    if pa.types.is_floating(kind):
        return _floats(column, about)
    if pa.types.is_date32(kind):
        return _texts(column, column.cast(pa.int32()), _FIRST_DAY, _LAST_DAY)
    if pa.types.is_date64(kind):
        milliseconds = column.cast(pa.int64())
        return _texts(column, milliseconds, _FIRST_DAY * _DAY_MS, (_LAST_DAY + 1) * _DAY_MS - 1)
    values: list[Any] = column.to_pylist()
    return values


@dataclass(frozen=True)
class BlobColumn:
    """A blob property of some rows of a table, addressed by row position."""

    table: Table
    name: str
    positions: Sequence[int]

    def texts(self, column: pa.Array[Any]) -> list[str | None]:
        """`base64:…` for a managed blob, the URI for an external one, None for null."""
        described = descriptions(column)
        found: list[str | None] = [each["uri"] if each else None for each in map(external, described)]
        inline = [at for at, each in enumerate(described) if is_inline(each)]
        if inline:
            files = open_blobs(self.table, self.name, positions=[self.positions[at] for at in inline])
            for at, file in zip(inline, files, strict=True):
                found[at] = None if file is None else _INLINE + base64.b64encode(file.read()).decode()
        return found


def _floats(column: pa.Array[Any], about: str) -> list[Any]:
    """32-bit floats stay NumPy scalars, so that they are written with no more digits than they have."""
    finite = pc.is_finite(column)
    if not pc.all(finite, min_count=0).as_py():
        value = column.filter(pc.invert(finite))[0]
        raise InvalidInput(f"{about} holds {value}, which JSON cannot carry: export to Parquet.")
    if pa.types.is_float64(column.type):
        values: list[Any] = column.to_pylist()
        return values
    numbers: list[Any] = list(column.fill_null(0).to_numpy(zero_copy_only=False))
    if column.null_count:
        return [number if valid else None for number, valid in zip(numbers, column.is_valid().to_pylist(), strict=True)]
    return numbers


def _texts(column: pa.Array[Any], numbers: Any, first: int, last: int) -> list[Any]:
    values: list[Any] = numbers.to_pylist()
    readable = pc.and_(pc.greater_equal(numbers, pa.scalar(first)), pc.less_equal(numbers, pa.scalar(last)))
    within = pc.if_else(readable, numbers, None).cast(column.type)
    texts = (within.cast(pa.timestamp("ms")) if pa.types.is_date64(column.type) else within).cast(pa.string())
    if pa.types.is_date64(column.type):
        texts = pc.binary_join_element_wise(pc.replace_substring(texts, " ", "T"), "Z", "")
    return [value if text is None else text for text, value in zip(texts.to_pylist(), values, strict=True)]


def _lists(column: Any, about: str) -> list[Any]:
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_pylist()
    items: Any = _items(column.flatten(), about)
    slices = (items[start:end] for start, end in pairwise(accumulate(lengths, initial=0)))
    return [each if valid else None for each, valid in zip(slices, column.is_valid().to_pylist(), strict=True)]


def _items(flat: pa.Array[Any], about: str) -> Any:
    if pa.types.is_float32(flat.type) and not flat.null_count:
        numbers = flat.to_numpy(zero_copy_only=False)
        if np.isfinite(numbers).all():
            return numbers
    return json_values(flat, about=about)


ROWS = 8_192
# Up to this size a table is sorted in memory; above it, only the ids are, and rows are fetched in that order.
SORTED_IN_MEMORY = 256 << 20
_FETCHED_AT_ONCE = 32 << 20
_NARROW_VALUE = 32


def export_records(
    snapshot: Snapshot, tables: TableStore, catalog: Catalog, *, types: Sequence[str] | None = None
) -> Iterator[bytes]:
    """Yield NDJSON in chunks of whole lines. `types` limits it to some node and edge types, named as in a load."""
    for kind in exported_types(catalog, types):
        table = tables.open(snapshot[kind.table_key].pin)
        for batch in ordered_rows(table, kind):
            yield b"".join(record_lines(kind, batch))


def exported_types(catalog: Catalog, names: Sequence[str] | None) -> list[NodeType | EdgeType]:
    """The types to export, in table key order."""
    types: list[NodeType | EdgeType] = sorted(
        [*catalog.edges.values(), *catalog.nodes.values()], key=lambda each: each.table_key
    )
    if names is None:
        return types
    wanted = {catalog.resolve_type(name).table_key for name in names}
    return [each for each in types if each.table_key in wanted]


def ordered_rows(table: Table, kind: NodeType | EdgeType) -> Iterator[pa.RecordBatch]:
    """Stream rows in id order; blobs are texts, as in records."""
    blobs = [name for name, each in kind.properties.items() if each.type.scalar == "Blob"]
    rows = table.count_rows()
    if not rows:
        return
    width = sum(4 * (each.type.dimensions or _NARROW_VALUE // 4) for each in kind.properties.values()) + _NARROW_VALUE
    with lance_errors(f"exporting {table.path} at version {table.version}"):
        if blobs or rows * width > SORTED_IN_MEMORY:
            yield from _fetched(table, blobs, max(ROWS, _FETCHED_AT_ONCE // width) if not blobs else ROWS // 8)
        else:
            yield from table.scan(order_by="id", batch_size=ROWS)


def fragment_rows(table: Table, kind: NodeType | EdgeType, fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Stream the rows of some neighbouring fragments of a table, in storage order; blobs are texts, as in records."""
    blobs = [name for name, each in kind.properties.items() if each.type.scalar == "Blob"]
    if not blobs:
        yield from table.scan(None, fragments=fragments, batch_size=ROWS)
        return
    first, rows = _positions(table, fragments)
    with lance_errors(f"exporting {table.path} at version {table.version}"):
        for start in range(first, first + rows, ROWS // 8):
            positions = pa.array(range(start, min(start + ROWS // 8, first + rows)), pa.uint64())
            yield from _taken(table, blobs, positions)


def _positions(table: Table, fragments: Sequence[int]) -> tuple[int, int]:
    """The position in the table of the first row of some fragments, and the number of their rows."""
    counts = table.rows_by_fragment()
    before = takewhile(lambda fragment: fragment not in fragments, counts)
    return sum(counts[fragment] for fragment in before), sum(counts[fragment] for fragment in fragments)


def _fetched(table: Table, blobs: Sequence[str], step: int) -> Iterator[pa.RecordBatch]:
    ids: Any = table.read(["id"]).column("id")
    order = pc.sort_indices(ids)
    for start in range(0, len(order), step):
        yield from _taken(table, blobs, order.slice(start, step))


def _taken(table: Table, blobs: Sequence[str], positions: Any) -> Iterator[pa.RecordBatch]:
    """The rows at some positions, in the order given."""
    rows = table.take(positions).combine_chunks()
    for name in blobs:
        texts = BlobColumn(table, name, positions.to_pylist()).texts(rows.column(name).combine_chunks())
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(texts, pa.string()))
    yield from rows.to_batches(max_chunksize=ROWS)


def record_lines(kind: NodeType | EdgeType, batch: pa.RecordBatch) -> Iterator[bytes]:
    """Yield rows as lines of graph records, each with its line end; blobs must be texts already."""
    names = ["id", *kind.properties]
    columns = [json_values(batch.column(name), about=f"{kind.name}.{name}") for name in names]
    data = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
    option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    if isinstance(kind, NodeType):
        return (orjson.dumps({"type": kind.name, "data": each}, option=option) for each in data)
    endpoints = zip(batch.column("src").to_pylist(), batch.column("dst").to_pylist(), data, strict=True)
    return (
        orjson.dumps({"edge": kind.name, "from": src, "to": dst, "data": each}, option=option)
        for src, dst, each in endpoints
    )


TableFormat = Literal["parquet", "csv"]
_TIMESTAMP = pa.timestamp("ms", "UTC")


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
    convert = _parquet_column if form == "parquet" else _csv_column
    schema = _file_schema(kind, convert)
    rows = 0
    with _writer(stream, schema, form) as writer:
        for batch in batches:
            columns = [convert(batch.column(name), f"{kind.name}.{name}") for name in _stored_schema(kind).names]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            rows += batch.num_rows
    return rows


def _writer(stream: BinaryIO, schema: pa.Schema, form: TableFormat) -> Any:
    if form == "parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(stream, schema)
    from pyarrow import csv

    return csv.CSVWriter(stream, schema)


def _stored_schema(kind: NodeType | EdgeType) -> pa.Schema:
    return edge_arrow_schema(kind) if isinstance(kind, EdgeType) else node_arrow_schema(kind)


def _file_schema(kind: NodeType | EdgeType, convert: Convert) -> pa.Schema:
    """The columns of the file: the endpoints of an edge are named as in records, and blobs are texts."""
    names = {"src": "from", "dst": "to"} if isinstance(kind, EdgeType) else {}
    fields = []
    for each in _stored_schema(kind):
        empty = pa.nulls(0, pa.string() if pa.types.is_struct(each.type) else each.type)
        fields.append(pa.field(names.get(each.name, each.name), convert(empty, "").type, nullable=each.nullable))
    return pa.schema(fields)


def _parquet_column(column: pa.Array[Any], about: str) -> pa.Array[Any]:
    """Parquet would drop the time of day of Arrow's date64, so datetimes are timestamps there, in lists too."""
    del about
    kind = column.type
    if pa.types.is_date64(kind):
        return column.cast(pa.int64()).cast(_TIMESTAMP)
    if pa.types.is_list(kind) and pa.types.is_date64(kind.value_type):
        return column.cast(pa.list_(pa.field("item", pa.timestamp("ms")))).cast(pa.list_(pa.field("item", _TIMESTAMP)))
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
    Convert = Callable[[pa.Array[Any], str], pa.Array[Any]]
