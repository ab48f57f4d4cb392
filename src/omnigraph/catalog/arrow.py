"""Arrow schemas of node and edge tables exactly as stored on disk, and conversion of rows to them.

Columns are `id`, on edges `src` and `dst`, then the properties by name. There is no schema metadata, and field metadata
only on blobs. Importing this module imports pyarrow; importing `omnigraph.language.schema` alone does not.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidInput, ValueViolation
from omnigraph.kernels.arrays import ID, MILLISECONDS, one_array, replace_types
from omnigraph.world import EPOCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType, Property, PropertyType

_EXTENSION = b"ARROW:extension:name"

_SCALARS: dict[str, pa.DataType] = {
    "String": pa.string(),
    "Bool": pa.bool_(),
    "I32": pa.int32(),
    "I64": pa.int64(),
    "U32": pa.uint32(),
    "U64": pa.uint64(),
    "F32": pa.float32(),
    "F64": pa.float64(),
    "Date": pa.date32(),
    # Milliseconds since the epoch, including the time of day, despite the name of the type.
    "DateTime": pa.date64(),
}
BLOB = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
BLOB_METADATA = {b"ARROW:extension:name": b"lance.blob.v2"}


def node_arrow_schema(node: NodeType) -> pa.Schema:
    """The columns of a node table."""
    return pa.schema([_identifier("id"), *map(property_field, node.properties.values())])


def edge_arrow_schema(edge: EdgeType) -> pa.Schema:
    """The columns of an edge table."""
    identifiers = [_identifier(name) for name in ("id", "src", "dst")]
    return pa.schema([*identifiers, *map(property_field, edge.properties.values())])


def table_arrow_schemas(catalog: Catalog) -> dict[str, pa.Schema]:
    """The columns of every table, by table key."""
    nodes = {each.table_key: node_arrow_schema(each) for each in catalog.nodes.values()}
    return nodes | {each.table_key: edge_arrow_schema(each) for each in catalog.edges.values()}


def property_field(each: Property) -> pa.Field[Any]:
    """One property as a column."""
    metadata = BLOB_METADATA if each.type.scalar == "Blob" else None
    return pa.field(each.name, arrow_type(each.type), nullable=each.type.nullable, metadata=metadata)


def arrow_type(declared: PropertyType) -> pa.DataType:
    """The Arrow type of a declared type."""
    if declared.scalar == "Blob":
        return BLOB
    if declared.dimensions is not None:
        return pa.list_(pa.field("item", pa.float32()), declared.dimensions)
    scalar = _SCALARS[declared.scalar]
    return pa.list_(pa.field("item", scalar)) if declared.is_list else scalar


def default_array(each: Property, length: int) -> pa.Array[Any]:
    """The property's default `length` times, or nulls when it has none."""
    kind: Any = arrow_type(each.type)
    value: Any = pa.scalar(_storable(each.default), replace_types(kind, MILLISECONDS))
    repeated: pa.Array[Any] = pa.nulls(length, kind) if each.default is None else pa.repeat(value, length).cast(kind)
    return repeated


def _storable(value: object) -> object:
    """pyarrow drops the time of day from a datetime in date64, but not from an integer."""
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(milliseconds=1)
    return value


def _identifier(name: str) -> pa.Field[Any]:
    return pa.field(name, pa.string(), nullable=False)


def put_schema(stored: pa.Schema) -> pa.Schema:
    """The schema of rows to write. A stored blob is a descriptor; a blob to write is its bytes or a URI."""
    return pa.schema([_put_field(each) for each in stored])


def readable_columns(stored: pa.Schema) -> list[str]:
    """The columns that a scan returns: all except blobs, which are read individually."""
    return [each.name for each in stored if not is_blob(each)]


def to_stored(rows: pa.Table, schema: pa.Schema, type_name: str) -> pa.Table:
    """Cast rows to exactly the columns of the schema. Nulls in required columns are reported later, by validation."""
    _require_columns(rows, schema.names, type_name)
    if rows.schema == schema:
        return rows
    ids = rows.column(ID)
    columns = [_cast(rows.column(field.name), field, type_name, ids) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _put_field(field: pa.Field[Any]) -> pa.Field[Any]:
    if not is_blob(field):
        return field
    return pa.field(field.name, BLOB, nullable=field.nullable, metadata=BLOB_METADATA)


def _require_columns(rows: pa.Table, names: Sequence[str], type_name: str) -> None:
    missing = [name for name in names if name not in rows.column_names]
    unknown = [name for name in rows.column_names if name not in names]
    if missing or unknown:
        what = f"lack {', '.join(missing)}" if missing else f"have unknown columns {', '.join(unknown)}"
        raise InvalidInput(f"rows of {type_name} {what}; whole rows have {', '.join(names)}")


def _cast(
    column: pa.ChunkedArray[Any], field: pa.Field[Any], type_name: str, ids: pa.ChunkedArray[Any]
) -> pa.ChunkedArray[Any]:
    kind: Any = field.type
    if column.type == kind:
        return column
    if pa.types.is_fixed_size_list(kind):
        _require_dimensions(column, field.name, kind.list_size, type_name, ids)
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"{type_name}.{field.name} does not take these values: {error}") from error


def _require_dimensions(
    column: pa.ChunkedArray[Any], name: str, dimensions: int, type_name: str, ids: pa.ChunkedArray[Any]
) -> None:
    """Check the lengths of vectors given as lists; after the cast the fixed-size type guarantees them."""
    if not (pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)):
        raise InvalidInput(f"{type_name}.{name} takes vectors, not {column.type}")
    lengths = one_array(pc.list_value_length(column)).fill_null(dimensions).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != dimensions)
    if len(wrong):
        row, row_id = int(wrong[0]), ids[int(wrong[0])].as_py()
        raise ValueViolation(
            f"{type_name}.{name} expects {dimensions} dimensions, got {lengths[row]} (row {row_id!r})",
            rule="vector",
            type_name=type_name,
            property_name=name,
            row_id=row_id,
            value=column[row].as_py(),
        )


def is_blob(field: pa.Field[Any]) -> bool:
    """Whether a column holds blobs, as the catalog declares them or as Lance returns them."""
    if isinstance(field.type, pa.BaseExtensionType):
        return field.type.extension_name.encode() == BLOB_METADATA[_EXTENSION]
    return (field.metadata or {}).get(_EXTENSION) == BLOB_METADATA[_EXTENSION]


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """A table's schema as the catalog writes it: blobs as plain structs, and no metadata but theirs."""
    return pa.schema([_stored(field) for field in schema])


def _stored(field: pa.Field[Any]) -> pa.Field[Any]:
    if is_blob(field):
        return pa.field(field.name, BLOB, field.nullable, metadata=BLOB_METADATA)
    return pa.field(field.name, field.type, field.nullable)
