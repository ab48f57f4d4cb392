"""Converts rows to Python values and to JSON: timestamps, large integers, and floats that JSON does not have.

A DateTime is stored as `date64`, which Arrow converts to a date without the time of day; here it stays whole.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.kernels.arrays import python_values
from omnigraph.kernels.report import plain, timestamp_text
from omnigraph.world import EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """One dictionary for each row. Timestamps are aware datetimes in UTC; Arrow alone would return their dates."""
    columns = [_converted(table.column(name), _timestamp) for name in table.column_names]
    return [dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def json_rows(table: pa.Table, *, large_integers_as_text: bool) -> list[dict[str, Any]]:
    """One dictionary for each row, with values that JSON can represent."""
    columns = [_converted(table.column(name), _timestamp_text) for name in table.column_names]
    rows = zip(*columns, strict=True)
    return [
        {name: plain(value, large_integers_as_text) for name, value in zip(table.column_names, values, strict=True)}
        for values in rows
    ]


def json_text(rows: list[dict[str, Any]]) -> str:
    """Rows as a JSON array."""
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _converted(column: pa.ChunkedArray[Any], convert: Callable[[int], object]) -> list[Any]:
    kind = column.type
    if not _has_timestamps(kind):
        return column.to_pylist()
    return [_with_timestamps(value, kind, convert) for value in python_values(column)]


def _has_timestamps(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_timestamps(each.type) for each in kind)
    if pa.types.is_list(kind):
        return _has_timestamps(kind.value_type)
    return pa.types.is_date64(kind)


def _with_timestamps(value: Any, kind: Any, convert: Callable[[int], object]) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: _with_timestamps(value[each.name], each.type, convert) for each in kind}
    if pa.types.is_list(kind):
        return [_with_timestamps(each, kind.value_type, convert) for each in value]
    return convert(value) if pa.types.is_date64(kind) else value


def _timestamp(milliseconds: int) -> dt.datetime:
    return EPOCH + dt.timedelta(milliseconds=milliseconds)


def _timestamp_text(milliseconds: int) -> str:
    return timestamp_text(_timestamp(milliseconds))
