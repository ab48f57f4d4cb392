"""Maps OmniGraph's Arrow types to Spark types. A type that Spark lacks uses the nearest one that holds every value.

    U32  ->  bigint            U64  ->  decimal(20,0)          DateTime  ->  timestamp (an instant)
    Vector(n)  ->  array<float>          Blob  ->  struct<data: binary, uri: string>

Conversions are exact in both directions: a value that the target type cannot hold raises an error that names the
column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as spark

from omnigraph.catalog.arrow import stored_schema
from omnigraph.errors import InvalidInput
from omnigraph.kernels.arrays import floor_milliseconds, replace_types

if TYPE_CHECKING:
    from collections.abc import Iterable

# Arrow and Lance name the list item `item`, Spark `element`; Spark checks the name.
_ELEMENT = "element"
_INSTANT = pa.timestamp("us", tz="UTC")
_STORED_INSTANTS: dict[pa.DataType, pa.DataType] = {pa.date64(): pa.timestamp("ms")}
_CARRIERS: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): _INSTANT,
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
_SPARK: dict[pa.DataType, spark.DataType] = {
    pa.null(): spark.NullType(),
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
    _INSTANT: spark.TimestampType(),
    pa.timestamp("us"): spark.TimestampNTZType(),
}


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """The Spark schema of a table."""
    return _struct(wire_schema(schema))


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """The Arrow schema in which Spark exchanges rows of a table with Python."""
    return pa.schema([pa.field(each.name, _carrier(each.type), each.nullable) for each in stored_schema(schema)])


def to_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch of a table to the types that Spark exchanges."""
    target = wire_schema(schema)
    columns = [_cast(batch.column(field.name), field.type, field.name) for field in target]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def from_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch from Spark, by column name, to the stored types of a table."""
    target = stored_schema(schema)
    missing = [name for name in target.names if name not in batch.schema.names]
    if missing:
        raise InvalidInput(f"there is no column {missing[0]!r}; there are {', '.join(batch.schema.names)}.")
    columns = [_restored(batch.column(field.name), field.type, field.name) for field in target]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _carrier(kind: pa.DataType) -> pa.DataType:
    """The Arrow type of the Spark type that holds every value of `kind`."""
    if pa.types.is_dictionary(kind):
        return _carrier(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field(_ELEMENT, _carrier(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _carrier(each.type), each.nullable) for each in kind])
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us") if kind.tz is None else _INSTANT
    return _CARRIERS.get(kind, kind)


def _struct(fields: Iterable[pa.Field[Any]]) -> spark.StructType:
    return spark.StructType([spark.StructField(each.name, _spark_type(each), each.nullable) for each in fields])


def _spark_type(field: pa.Field[Any]) -> spark.DataType:
    """The Spark type of a field of a `wire_schema`."""
    kind = field.type
    if pa.types.is_list(kind):
        return spark.ArrayType(_spark_type(kind.value_field), containsNull=True)
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_decimal128(kind):
        return spark.DecimalType(kind.precision, kind.scale)
    if kind not in _SPARK:
        raise InvalidInput(f"column {field.name!r} has the type {kind}, which Spark does not know.")
    return _SPARK[kind]


def _restored(array: pa.Array[Any], kind: pa.DataType, column: str) -> pa.Array[Any]:
    """Cast to a stored type. A pyarrow cast to date64 drops the time of day, so it casts to timestamp[ms] and views."""
    in_milliseconds = replace_types(kind, _STORED_INSTANTS)
    if in_milliseconds == kind:
        return _cast(array, kind, column)
    return _cast(floor_milliseconds(array), in_milliseconds, column).view(kind)


def _cast(array: pa.Array[Any], kind: pa.DataType, column: str) -> pa.Array[Any]:
    try:
        return array if array.type == kind else array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"column {column!r} cannot become {kind}: {error}") from error
