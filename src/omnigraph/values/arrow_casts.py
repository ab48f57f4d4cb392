"""Casts an Arrow column of any type to the declared type: without loss, or refused with the row.

Arrow's own casts are the fast path. Where they do not apply, `columns.column_of` checks each value and decides.

`text_column` does the same for a column of texts, as CSV has them. Lists and vectors are written as JSON there.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import BLOB, arrow_type
from omnigraph.catalog.catalog import FLOATS, INTEGERS, PropertyType
from omnigraph.kernels.arrays import floor_milliseconds, with_items
from omnigraph.values.columns import BadCell, accepted, column_of, first_true, text_as_date, text_as_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    Column = pa.Array[Any]

types = pa.types


def cast_column(declared: PropertyType, column: Column) -> Column:
    """Cast a column to the declared type. Raises `BadCell` for the first value that would be lost or changed.

    A float may lose digits when it becomes F32, and a datetime those below a millisecond (cut towards the past),
    because that is what the declaration asks for; nothing else may.
    """
    plain = _decoded(column)
    if plain.null_count == len(plain):
        kind: Any = arrow_type(declared)
        return accepted(declared, pa.nulls(len(plain), kind))
    try:
        cast = _cast(declared, plain)
    except pa.ArrowException:
        cast = None
    return column_of(declared, _python_values(declared, plain)) if cast is None else accepted(declared, cast)


def _decoded(column: Any) -> Column:
    """Decode dictionaries, run-end encodings, views and extension types."""
    plain = column.storage if isinstance(column, pa.ExtensionArray) else column
    if types.is_dictionary(plain.type):
        plain = plain.dictionary_decode()
    if types.is_run_end_encoded(plain.type):
        plain = pc.call_function("run_end_decode", [plain])
    text = types.is_large_string(plain.type) or types.is_string_view(plain.type)
    decoded: Column = plain.cast(pa.string()) if text else plain
    return decoded


def _cast(declared: PropertyType, column: Column) -> Column | None:
    """The column in the declared type, or None when each value must be checked."""
    if declared.scalar == "Blob":
        return _blob(column)
    if declared.dimensions is not None:
        return _vector(declared, column)
    if declared.is_list:
        return _list(declared, column)
    return _scalar(declared, column)


def _scalar(declared: PropertyType, column: Column) -> Column | None:
    if declared.scalar in INTEGERS:
        return _integer(declared, column)
    if declared.scalar in FLOATS:
        return _float(declared, column)
    return _CASTS[declared.scalar](column)


def _string(column: Column) -> Column | None:
    return column if types.is_string(column.type) else None


def _bool(column: Column) -> Column | None:
    return column if types.is_boolean(column.type) else None


def _integer(declared: PropertyType, column: Column) -> Column | None:
    if types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type):
        return column.cast(arrow_type(declared))
    return None


def _float(declared: PropertyType, column: Column) -> Column | None:
    wide = pa.float64() if types.is_integer(column.type) or types.is_decimal(column.type) else column.type
    if not types.is_floating(wide):
        return None
    floats = column.cast(wide).cast(arrow_type(declared), safe=False)
    return floats if pc.all(pc.is_finite(floats), min_count=0).as_py() else None


def _date(column: Column) -> Column | None:
    if types.is_integer(column.type):
        return column.cast(pa.int32()).cast(pa.date32())
    if types.is_string(column.type):
        return text_as_date(column)
    timestamps = column.cast(pa.timestamp("ms")) if types.is_date64(column.type) else column
    if types.is_timestamp(timestamps.type) and timestamps.type.tz is None:
        days = timestamps.cast(pa.date32())
        _refuse_times(timestamps, days)
        return days
    return column if types.is_date32(column.type) else None


def _timestamp(column: Column) -> Column | None:
    if types.is_integer(column.type):
        return column.cast(pa.int64()).cast(pa.date64())
    if types.is_string(column.type):
        return text_as_timestamp(column)
    if types.is_date(column.type):
        return column.cast(pa.date64())
    return floor_milliseconds(column).view(pa.date64()) if types.is_timestamp(column.type) else None


def _refuse_times(timestamps: Column, days: Column) -> None:
    differs: Any = pc.not_equal(timestamps, days.cast(timestamps.type))
    timed = differs.fill_null(False)
    if pc.any(timed, min_count=0).as_py():
        index = first_true(timed)
        raise BadCell(index, "range", f"{timestamps[index]} has a time of day, and a Date has none")


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _vector(declared: PropertyType, column: Column) -> Column | None:
    """Vectors without null or non-finite numbers; None otherwise."""
    if not _is_list(column.type):
        return None
    # Only floats may be rounded to 32 bits; integers must fit.
    cast: Any = column.cast(arrow_type(declared), safe=not types.is_floating(column.type.value_type))
    numbers = cast.flatten()
    return cast if not numbers.null_count and pc.all(pc.is_finite(numbers), min_count=0).as_py() else None


def _list(declared: PropertyType, column: Column) -> Column | None:
    if not _is_list(column.type):
        return None
    lists: Any = column.cast(pa.list_(column.type.value_type))
    items = _scalar(PropertyType(declared.scalar), _decoded(lists.flatten()))
    if items is None or items.null_count:
        return None
    return with_items(lists, items).cast(arrow_type(declared))


def _blob(column: Column) -> Column | None:
    if not (types.is_binary(column.type) or types.is_large_binary(column.type)):
        return None
    data = column.cast(pa.large_binary())
    fields: Any = list(BLOB)
    return pa.StructArray.from_arrays([data, pa.nulls(len(data), pa.string())], fields=fields, mask=data.is_null())


def _python_values(declared: PropertyType, column: Column) -> list[object]:
    """Python values to check one by one. Arrow converts nanoseconds to a pandas type, so they are cut before."""
    values: list[object] = (floor_milliseconds(column) if declared.scalar == "DateTime" else column).to_pylist()
    return [_whole(each) for each in values] if declared.scalar in INTEGERS else values


def _whole(value: object) -> object:
    """A float or decimal with an integral value as an int: that conversion loses nothing."""
    if not isinstance(value, float | Decimal) or not math.isfinite(value):
        return value
    return int(value) if value == int(value) else value


_CASTS: dict[str, Callable[[Column], Column | None]] = {
    "String": _string,
    "Bool": _bool,
    "Date": _date,
    "DateTime": _timestamp,
}


_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False}


def text_column(declared: PropertyType, column: pa.Array[Any]) -> pa.Array[Any]:
    """Parse texts as values of the declared type. Raises `BadCell` for the first that is not one."""
    read = _reader(declared)
    if read is None:
        return cast_column(declared, column)
    values = [None if text is None else read(text) for text in column.to_pylist()]
    return column_of(declared, values)


def _reader(declared: PropertyType) -> Callable[[str], object] | None:
    """The parser for a text, or None when the declared type takes texts as they are."""
    if declared.is_list or declared.dimensions is not None:
        return _json
    if declared.scalar in INTEGERS:
        return _integer_text
    if declared.scalar in FLOATS:
        return _number
    return _bool_text if declared.scalar == "Bool" else None


# A text that cannot be parsed stays a text: the declared type then refuses it and quotes it.


def _integer_text(text: str) -> object:
    return int(text) if _INTEGER.fullmatch(text) else text


def _number(text: str) -> object:
    return float(text) if _NUMBER.fullmatch(text) else text


def _bool_text(text: str) -> object:
    return _WORDS.get(text.lower(), text)


def _json(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
