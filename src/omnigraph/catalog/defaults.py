"""Parses the text of `@default(…)` as a value of its property's type.

Date values are `datetime.date`, DateTime values `datetime.datetime` in UTC with milliseconds, all others plain Python.
"""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from omnigraph.catalog.catalog import FLOATS, INTEGERS

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Annotation, PropertyType

DefaultValue = str | bool | int | float | date | datetime

INTEGER_LIMITS = {
    "I32": (-(2**31), 2**31 - 1),
    "I64": (-(2**63), 2**63 - 1),
    "U32": (0, 2**32 - 1),
    "U64": (0, 2**64 - 1),
}
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9:]+)?")


def can_have_default(declared: PropertyType) -> bool:
    """Whether the type can have a default: scalars and enums can; lists, vectors and blobs cannot."""
    return not declared.is_list and declared.scalar not in ("Vector", "Blob")


def default_value(declared: PropertyType, text: str) -> DefaultValue:
    """The value that an insert without the property stores. Raises `ValueError` with the reason."""
    if declared.enum_values is not None:
        return _one_of(declared.enum_values, text)
    if declared.scalar == "String":
        return text
    if declared.scalar in INTEGERS:
        return _integer(declared.scalar, text)
    if declared.scalar in FLOATS:
        return _float(declared.scalar, text)
    if declared.scalar == "Bool":
        return _bool(text)
    return _date(text) if declared.scalar == "Date" else _date_time(text)


def declared_default(declared: PropertyType, annotations: tuple[Annotation, ...]) -> DefaultValue | None:
    """The default among a property's annotations. An invalid one is ignored: an old graph may contain any text."""
    text = next((each.value for each in annotations if each.name == "default"), None)
    if text is None or not can_have_default(declared):
        return None
    try:
        return default_value(declared, text)
    except ValueError:
        return None


def _one_of(values: tuple[str, ...], text: str) -> str:
    if text not in values:
        raise ValueError(f"{text!r} is not one of {', '.join(values)}")
    return text


def _bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text == "true"


def _integer(scalar: str, text: str) -> int:
    smallest, largest = INTEGER_LIMITS[scalar]
    if not _INTEGER.fullmatch(text) or not smallest <= int(text) <= largest:
        raise ValueError(f"{_short(text)} is not an integer from {smallest} to {largest}")
    return int(text)


def _float(scalar: str, text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{_short(text)} is not a number")
    value = float(text)
    if not math.isfinite(value) or (scalar == "F32" and not _fits_f32(value)):
        raise ValueError(f"{_short(text)} is too large for {scalar}")
    return value


def _fits_f32(value: float) -> bool:
    try:
        struct.pack("<f", value)
    except OverflowError:
        return False
    return True


def _date(text: str) -> date:
    if not _DATE.fullmatch(text):
        raise ValueError(f"{_short(text)} is not a date like 2026-01-31")
    return date.fromisoformat(text)


def _date_time(text: str) -> datetime:
    if not _DATE_TIME.fullmatch(text):
        raise ValueError(f"{_short(text)} is not a timestamp like 2026-01-31T12:00:00Z")
    timestamp = datetime.fromisoformat(text)
    try:
        timestamp = timestamp.replace(tzinfo=UTC) if timestamp.tzinfo is None else timestamp.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{_short(text)} is outside the years 1 to 9999") from error
    return timestamp.replace(microsecond=timestamp.microsecond // 1_000 * 1_000)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
