"""Catalog types as Arrow: the columns of node and edge tables exactly as they are on disk.

`id` first, on edges then `src` and `dst`, then the properties by name. No schema metadata, and field metadata only on
blobs. Importing this module imports pyarrow; `omnigraph.language.schema` alone does not.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from omnigraph.language.schema.catalog import Catalog, EdgeType, NodeType, Property, PropertyType

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
    # Milliseconds since the epoch with the time of day, in a type whose name says date.
    "DateTime": pa.date64(),
}
BLOB = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
BLOB_METADATA = {b"ARROW:extension:name": b"lance.blob.v2"}
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def node_arrow_schema(node: NodeType) -> pa.Schema:
    """The columns of a node table."""
    return pa.schema([_identifier("id"), *map(property_field, node.properties.values())])


def edge_arrow_schema(edge: EdgeType) -> pa.Schema:
    """The columns of an edge table."""
    ends = [_identifier(name) for name in ("id", "src", "dst")]
    return pa.schema([*ends, *map(property_field, edge.properties.values())])


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
    value: Any = pa.scalar(_storable(each.default), _carrier(kind))
    repeated: pa.Array[Any] = pa.nulls(length, kind) if each.default is None else pa.repeat(value, length).cast(kind)
    return repeated


def _carrier(kind: pa.DataType) -> pa.DataType:
    """pyarrow drops the time of day when it makes a date64 from a datetime, and keeps it from an integer."""
    return pa.int64() if kind == pa.date64() else kind


def _storable(value: object) -> object:
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(milliseconds=1)
    return value


def _identifier(name: str) -> pa.Field[Any]:
    return pa.field(name, pa.string(), nullable=False)
