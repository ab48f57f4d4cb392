"""Converts one JSON or Python value to its declared type exactly: nothing is guessed or rounded silently.

Dates are stored as days and datetimes as milliseconds since the epoch, as in Arrow, so both may be given as such
integers, as ISO text, or as Python values. A finer datetime is cut to its millisecond, towards the past. Loads and
mutations both convert values here, so they agree on what fits.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from datetime import UTC, date, datetime, timedelta
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeVar

from omnigraph.catalog.catalog import FLOATS, INTEGERS, PropertyType
from omnigraph.catalog.defaults import INTEGER_LIMITS
from omnigraph.errors.root import display_text
from omnigraph.language.ir.types import parse_date, parse_datetime, python_value
from omnigraph.world import EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable

Parsed = TypeVar("Parsed", bound=date)

# Inline payloads have a prefix, so that any other text can be the URI of an external blob.
INLINE_BLOB = "base64:"
LONGEST_URI = 65_536


class WrongValue(ValueError):
    """A value that does not fit its declared type. `rule` is one of required, type, range, text, length, null, enum."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


def stored_value(declared: PropertyType, value: object) -> object:
    """The value as a table stores it, None for a null that is allowed. Raises `WrongValue`.

    Date: days. DateTime: milliseconds. Vector and list: a list. Blob: a dict of `data` and `uri`, one of them None.
    """
    if value is None:
        if declared.nullable:
            return None
        raise WrongValue("required", "a value is required")
    plain = python_value(value)
    if declared.scalar == "Blob":
        return _blob(plain)
    if declared.dimensions is not None:
        return _vector(declared, plain)
    if declared.is_list:
        return _list(declared, plain)
    return _scalar(declared, plain)


def _wrong_type(declared: PropertyType, value: object) -> WrongValue:
    return WrongValue("type", f"expected {declared}, got {_json_kind(value)}{display_text(value)}")


def _json_kind(value: object) -> str:
    names: dict[type, str] = {str: "the text ", bool: "the boolean ", list: "the list ", dict: "the object "}
    return names.get(type(value), "")


def _scalar(declared: PropertyType, value: object) -> object:
    if declared.enum_values is not None:
        return _enum(declared, declared.enum_values, value)
    if declared.scalar in INTEGERS:
        return _integer(declared, value)
    if declared.scalar in FLOATS:
        return _float(declared, value)
    return _OTHERS[declared.scalar](declared, value)


def _string(declared: PropertyType, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong_type(declared, value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise WrongValue("text", f"{display_text(value)} is not valid Unicode: {error.reason}") from None
    return value


def _enum(declared: PropertyType, allowed: tuple[str, ...], value: object) -> str:
    text = _string(declared, value)
    if text not in allowed:
        raise WrongValue("enum", f"invalid enum value '{text}' (expected: {', '.join(allowed)})")
    return text


def _bool(declared: PropertyType, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong_type(declared, value)
    return value


def _integer(declared: PropertyType, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise _wrong_type(declared, value)
    return _in_range(declared.scalar, int(value))


def _in_range(scalar: str, number: int) -> int:
    smallest, largest = INTEGER_LIMITS[scalar]
    if not smallest <= number <= largest:
        raise WrongValue("range", f"{display_text(number)} is out of range for {scalar} ({smallest} to {largest})")
    return number


def _float(declared: PropertyType, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _wrong_type(declared, value)
    try:
        number = float(value)
        if declared.scalar == "F32":
            struct.pack("<f", number)
    except OverflowError:
        raise WrongValue("range", f"{display_text(value)} is out of range for {declared.scalar}") from None
    if not math.isfinite(number):
        raise WrongValue("range", f"{number} is not a finite number")
    return number


def _date(declared: PropertyType, value: object) -> int:
    if isinstance(value, date) and not isinstance(value, datetime):
        return (value - EPOCH.date()).days
    if not isinstance(value, bool) and isinstance(value, Integral):
        return _in_range("I32", int(value))
    return (_parsed(declared, value, parse_date) - EPOCH.date()).days


def _timestamp(declared: PropertyType, value: object) -> int:
    if isinstance(value, datetime):
        aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return (aware - EPOCH) // timedelta(milliseconds=1)
    if not isinstance(value, bool) and isinstance(value, Integral):
        return _in_range("I64", int(value))
    return (_parsed(declared, value, parse_datetime) - EPOCH) // timedelta(milliseconds=1)


def _parsed(declared: PropertyType, value: object, parse: Callable[[str], Parsed]) -> Parsed:
    if not isinstance(value, str):
        raise _wrong_type(declared, value)
    try:
        return parse(value)
    except ValueError as error:
        raise WrongValue("text", str(error)) from None


def _items(declared: PropertyType, value: object) -> list[object]:
    if not isinstance(value, list | tuple):
        raise _wrong_type(declared, value)
    return [python_value(each) for each in value]


def _vector(declared: PropertyType, value: object) -> list[float]:
    items = _items(declared, value)
    if len(items) != declared.dimensions:
        raise WrongValue("length", f"{declared} expects {declared.dimensions} dimensions, got {len(items)}")
    try:
        return [_float(PropertyType("F32"), each) for each in items]
    except WrongValue as wrong:
        raise WrongValue(wrong.rule, f"vector elements must be numeric: {wrong}") from None


def _list(declared: PropertyType, value: object) -> list[object]:
    item = PropertyType(declared.scalar)
    stored = []
    for position, each in enumerate(_items(declared, value)):
        if each is None:
            raise WrongValue("null", f"a list cannot hold null (item {position + 1})")
        try:
            stored.append(_scalar(item, each))
        except WrongValue as wrong:
            raise WrongValue(wrong.rule, f"item {position + 1}: {wrong}") from None
    return stored


def _blob(value: object) -> dict[str, object]:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"data": bytes(value), "uri": None}
    if isinstance(value, dict) and value.keys() == {"data", "uri"}:
        return _blob(value["data"] if value["data"] is not None else value["uri"])
    if not isinstance(value, str):
        raise _wrong_type(PropertyType("Blob"), value)
    if value.startswith(INLINE_BLOB):
        return {"data": _payload(value), "uri": None}
    return {"data": None, "uri": _uri(value)}


def _payload(text: str) -> bytes:
    try:
        return base64.b64decode(text.removeprefix(INLINE_BLOB), validate=True)
    except (binascii.Error, ValueError) as error:
        raise WrongValue("text", f"{display_text(text)} is not base64: {error}") from None


def _uri(text: str) -> str:
    if not text:
        raise WrongValue("text", "a Blob is base64:… or the URI of an object, not an empty text")
    if len(_string(PropertyType("Blob"), text).encode()) > LONGEST_URI:
        raise WrongValue("length", f"the URI of a Blob is longer than {LONGEST_URI} bytes")
    return text


_OTHERS: dict[str, Callable[[PropertyType, object], object]] = {
    "String": _string,
    "Bool": _bool,
    "Date": _date,
    "DateTime": _timestamp,
}
