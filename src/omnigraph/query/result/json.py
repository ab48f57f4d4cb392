"""Converts rows to Python values and to JSON: timestamps, large integers, and floats that JSON does not have.

A DateTime is stored as `date64`, which Arrow converts to a date without the time of day; here it stays whole.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

_EXACT = 2**53 - 1
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """One dictionary for each row. Timestamps are aware datetimes in UTC; Arrow alone would return their dates."""
    columns = [_converted(table.column(name), _moment) for name in table.column_names]
    return [dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def json_rows(table: pa.Table, *, large_integers_as_text: bool) -> list[dict[str, Any]]:
    """One dictionary for each row, with values that JSON can represent."""
    columns = [_converted(table.column(name), _moment_text) for name in table.column_names]
    rows = zip(*columns, strict=True)
    return [
        {name: _plain(value, large_integers_as_text) for name, value in zip(table.column_names, values, strict=True)}
        for values in rows
    ]


def json_value(value: Any) -> Any:
    """A value of `python_rows` as JSON can represent it; large integers become text."""
    if isinstance(value, dt.datetime):
        return _moment_text(round((value - _EPOCH) / dt.timedelta(milliseconds=1)))
    if isinstance(value, list):
        return [json_value(each) for each in value]
    if isinstance(value, dict) and value.keys() == {"data", "uri"}:
        # A blob, in the form that a load reads.
        return value["uri"] if value["data"] is None else f"base64:{b64encode(value['data']).decode()}"
    return _plain(value, large_integers_as_text=True)


def json_text(rows: list[dict[str, Any]]) -> str:
    """Rows as a JSON array."""
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _converted(column: pa.ChunkedArray[Any], moment: Callable[[int], object]) -> list[Any]:
    kind = column.type
    if not _has_moments(kind):
        return column.to_pylist()
    return [_with_moments(value, kind, moment) for value in _numbered(column).to_pylist()]


def _has_moments(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_moments(each.type) for each in kind)
    if pa.types.is_list(kind):
        return _has_moments(kind.value_type)
    return pa.types.is_date64(kind)


def _numbered(column: Any) -> Any:
    """The column with every timestamp as a number of milliseconds."""
    return column.cast(_with_numbers(column.type))


def _with_numbers(kind: Any) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_with_numbers(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("item", _with_numbers(kind.value_type)))
    found: pa.DataType = pa.int64() if pa.types.is_date64(kind) else kind
    return found


def _with_moments(value: Any, kind: Any, moment: Callable[[int], object]) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: _with_moments(value[each.name], each.type, moment) for each in kind}
    if pa.types.is_list(kind):
        return [_with_moments(each, kind.value_type, moment) for each in value]
    return moment(value) if pa.types.is_date64(kind) else value


def _moment(milliseconds: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(milliseconds=milliseconds)


def _moment_text(milliseconds: int) -> str:
    return _moment(milliseconds).strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1_000:03d}Z"


def _plain(value: Any, large_integers_as_text: bool) -> Any:
    match value:
        case dict():
            return {name: _plain(each, large_integers_as_text) for name, each in value.items()}
        case list():
            return [_plain(each, large_integers_as_text) for each in value]
        case bool():
            return value
        case int() if large_integers_as_text and abs(value) > _EXACT:
            return str(value)
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dt.date():
            return value.isoformat()
        case _:
            return value
