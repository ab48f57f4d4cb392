"""Literals of a column's own type, so that comparisons are exact at the limits of every type.

Lance rejects or distorts a literal that a column cannot hold: an integer beyond the range of Float32 becomes infinity,
and a datetime outside 1677 to 2262 cannot be written as a timestamp. So a value is first fitted into the column's type,
and the sign of the difference is recorded.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from omnigraph.errors import InvalidInput
from omnigraph.world import EPOCH

Value = None | bool | int | float | str | bytes | dt.date | dt.datetime
Operator = Literal["=", "!=", "<", "<=", ">", ">="]

_FLOAT_MAX = {32: 3.4028234663852886e38, 64: 1.7976931348623157e308}
_LEAST_INT64 = -(2**63)

# The operator with both sides exchanged.
MIRRORED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WHEN_ABOVE: dict[Operator, Operator] = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}
_WHEN_BELOW: dict[Operator, Operator] = {"<": "<", "<=": "<", ">": ">=", ">=": ">="}


@dataclass(frozen=True)
class Fitted:
    """The nearest value that a column can hold. `gap` is the sign of the true value minus this one."""

    value: bool | int | float | str | bytes
    gap: Literal[-1, 0, 1] = 0


def fit(value: bool | float | str | bytes | dt.date, kind: pa.DataType) -> Fitted | None:
    """The value in the column's representation: dates as days, datetimes as milliseconds. None if the types differ."""
    match value:
        case bool():
            return Fitted(value) if pa.types.is_boolean(kind) else None
        case int() | float():
            return _fit_numeric(value, kind)
        case str():
            return Fitted(value) if is_text(kind) else None
        case bytes():
            return Fitted(value) if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else None
        case dt.datetime():
            return _fit_datetime(value) if pa.types.is_date64(kind) else None
        case dt.date():
            return Fitted(value.toordinal() - EPOCH.toordinal()) if pa.types.is_date32(kind) else None
    return None  # type: ignore[unreachable]  # a value of a type that nobody promised


def with_gap(operator: Operator, gap: float) -> Operator:
    """The inequality to use with a fitted value when the value is above it, or below, and short of its neighbour."""
    return (_WHEN_ABOVE if gap > 0 else _WHEN_BELOW)[operator]


def comparison(name: str, operator: Operator, fitted: Fitted, kind: pa.DataType) -> str:
    """`name operator value` as SQL, exact whatever the gap."""
    if fitted.gap == 0:
        return f"{name} {operator} {literal(fitted.value, kind)}"
    if operator == "=":
        return never(name)
    if operator == "!=":
        return f"({name} is not null or null)"
    nearest = with_gap(operator, fitted.gap)
    return f"{name} {nearest} {literal(fitted.value, kind)}"


def never(name: str) -> str:
    """SQL that is false, or unknown where the column is null."""
    return f"({name} is null and null)"


def literal(value: bool | float | str | bytes, kind: pa.DataType) -> str:
    """A fitted value as SQL for Lance's scanner, with an explicit type only where it is needed."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case bytes():
            return f"X'{value.hex()}'"
        case int() if pa.types.is_date(kind) or value == _LEAST_INT64:
            return typed_literal(value, kind)
        case int():
            return str(value)
        case float() if pa.types.is_float64(kind):
            return f"cast({_digits(value)} as double)"
        case _:
            return typed_literal(value, kind)


def typed_literal(value: bool | float | str | bytes, kind: pa.DataType) -> str:
    """A fitted value as SQL with its type, for functions that do not coerce their arguments."""
    if isinstance(value, bool | str | bytes):
        return literal(value, kind)
    if pa.types.is_date(kind):
        return f"arrow_cast({value}, '{'Date32' if pa.types.is_date32(kind) else 'Date64'}')"
    return f"arrow_cast({_digits(value)}, '{_ARROW_NAMES[kind]}')"


def quoted(text: str) -> str:
    """Text as an SQL literal: a backslash is an ordinary character, a quote is doubled."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{text!r} is not valid Unicode text") from None
    return "'" + text.replace("'", "''") + "'"


_ARROW_NAMES = {
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.uint8(): "UInt8",
    pa.uint16(): "UInt16",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
    pa.float32(): "Float32",
    pa.float64(): "Float64",
}


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds texts."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _digits(value: float) -> str:
    """A number as quoted text, the one form from which every float and every integer is parsed exactly."""
    if isinstance(value, int) or math.isfinite(value):
        return f"'{value!r}'"
    return "'NaN'" if math.isnan(value) else "'Infinity'" if value > 0 else "'-Infinity'"


def _fit_numeric(value: float, kind: pa.DataType) -> Fitted | None:
    if pa.types.is_integer(kind) and kind in _ARROW_NAMES:
        return _fit_integer(value, kind)
    if kind in (pa.float32(), pa.float64()):
        return _fit_float(value, kind.bit_width)
    return None


def _fit_integer(value: float, kind: pa.DataType) -> Fitted:
    """NaN is above all numbers, as in every comparison of Lance."""
    signed = pa.types.is_signed_integer(kind)
    least = -(2 ** (kind.bit_width - 1)) if signed else 0
    most = 2 ** (kind.bit_width - signed) - 1
    is_nan = isinstance(value, float) and math.isnan(value)
    if is_nan or value > most:
        return Fitted(most, gap=1)
    if value < least:
        return Fitted(least, gap=-1)
    whole = math.floor(value)
    return Fitted(whole, gap=1 if value > whole else 0)


def _fit_float(value: float, width: int) -> Fitted:
    """Round as storing the value would, except that a finite value never becomes infinite."""
    try:
        rounded = float(value) if width == 64 else _to_float32(float(value))
    except OverflowError:
        return Fitted(_FLOAT_MAX[width], gap=1) if value > 0 else Fitted(-_FLOAT_MAX[width], gap=-1)
    return Fitted(rounded + 0.0)


def _to_float32(value: float) -> float:
    """Round to Float32; raises `OverflowError` if a finite value is too large."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _fit_datetime(value: dt.datetime) -> Fitted:
    aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
    milliseconds, rest = divmod(aware - EPOCH, dt.timedelta(milliseconds=1))
    return Fitted(milliseconds, gap=1 if rest else 0)


def as_literals(values: pa.Array[Any], kind: pa.DataType) -> list[Value] | None:
    """The distinct values of a column as filter literals; None when a filter cannot express them."""
    if pa.types.is_nested(kind) or pa.types.is_binary(kind):
        return None
    try:
        literals: list[Value] = (values.cast(pa.timestamp("ms")) if pa.types.is_date64(kind) else values).to_pylist()
    except (OverflowError, ValueError):
        return None  # a date outside the range of Python's calendar
    return literals
