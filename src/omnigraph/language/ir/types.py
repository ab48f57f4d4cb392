"""The types of values in a query, and which of them are compatible.

A value has a declared type (`PropertyType`), or is a whole node, edge or path (`EntityType`), or is the null literal.
The module also converts the texts of literals and parameter values to Python values: strings, numbers, dates, instants.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, TypeAlias

from omnigraph.catalog.catalog import INTEGERS, NUMERIC, PropertyType
from omnigraph.catalog.defaults import INTEGER_LIMITS
from omnigraph.lazy import record

INTEGER_RANGES = {name: range(smallest, largest + 1) for name, (smallest, largest) in INTEGER_LIMITS.items()}
# Tables store U64, but every text form of a value passes through a signed 64-bit integer.
INTEGER_RANGES["U64"] = range(2**63)
# Units of NumPy datetimes without a time of day.
_DAYS = frozenset(f"datetime64[{unit}]" for unit in "YMWD")
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\([\s\S])")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DATETIME = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})(?:[Tt ](?P<time>\d{2}:\d{2}(?::\d{2})?)(?P<fraction>\.\d{1,9})?)?"
    r"(?P<zone>[Zz]|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)


def decode_string(quoted: str) -> str:
    """Decode a quoted string. Raises `ValueError` for an unknown escape."""
    return _ESCAPE.sub(_decode_escape, quoted[1:-1])


def _decode_escape(found: re.Match[str]) -> str:
    if (plain := _ESCAPES.get(found[1])) is None:
        raise ValueError(rf"unsupported escape sequence \{found[1]}: only \" \\ \n \r \t are known")
    return plain


def parse_float(text: str) -> float:
    """Parse a finite float."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large for a 64-bit float")
    return value


def parse_date(text: str) -> date:
    """Parse a date `YYYY-MM-DD`."""
    if not _DATE.fullmatch(text):
        raise ValueError(f"'{text}' is not a date: write YYYY-MM-DD")
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"'{text}' is not a date: {error}") from error


def parse_datetime(text: str) -> datetime:
    """Parse an RFC 3339 instant to UTC, cut to milliseconds. The zone defaults to UTC, the time to midnight."""
    if not (parts := _DATETIME.fullmatch(text)):
        raise ValueError(f"'{text}' is not an instant: write YYYY-MM-DDTHH:MM:SSZ")
    zone = (parts["zone"] or "Z").upper()
    try:
        whole = datetime.fromisoformat(f"{parts['date']}T{parts['time'] or '00:00'}{'+00:00' if zone == 'Z' else zone}")
        return whole.astimezone(UTC) + _fraction(parts["fraction"])
    except (ValueError, OverflowError) as error:
        raise ValueError(f"'{text}' is not an instant: {error}") from error


def python_value(value: object) -> object:
    """Arrays and scalars of numerical libraries as Python values.

    NumPy would return datetimes of nanoseconds as integers, so those with a time of day become milliseconds first.
    """
    array: Any = value
    if not hasattr(value, "tolist"):
        return value
    if getattr(getattr(value, "dtype", None), "kind", None) == "M" and str(array.dtype) not in _DAYS:
        array = array.astype("datetime64[ms]")
    plain: object = array.tolist()
    return plain


def in_utc(value: datetime) -> datetime:
    """Convert a Python datetime to UTC, cut to milliseconds towards the past; a naive one is taken as UTC."""
    aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return aware.replace(microsecond=aware.microsecond // 1_000 * 1_000)


def _fraction(text: str | None) -> timedelta:
    return timedelta(milliseconds=int(text[1:4].ljust(3, "0"))) if text else timedelta()


@record
class EntityType:
    """A node, an edge or a path as a value. `name` is its declared type: a node type, an interface or an edge type."""

    kind: Literal["node", "edge", "path"]
    name: str
    nullable: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}{'?' if self.nullable else ''}"


@record
class NullType:
    """The type of the literal `null`."""

    nullable: bool = True

    def __str__(self) -> str:
        return "null"


ValueType: TypeAlias = PropertyType | EntityType | NullType

STRING = PropertyType("String")
BOOL = PropertyType("Bool")
I64 = PropertyType("I64")
F64 = PropertyType("F64")
DATE = PropertyType("Date")
DATETIME = PropertyType("DateTime")


def nullable(value: PropertyType) -> PropertyType:
    """The nullable form of a type."""
    return replace(value, nullable=True)


def or_null(value: PropertyType, *sources: ValueType) -> PropertyType:
    """The type, nullable if any of the operand types is."""
    return nullable(value) if any(each.nullable for each in sources) else value


def is_scalar(value: ValueType) -> bool:
    """Whether values are single and ordered: no list, vector, blob, entity or null literal."""
    return isinstance(value, PropertyType) and not value.is_list and value.scalar not in {"Vector", "Blob"}


def is_number(value: ValueType) -> bool:
    """Whether the type is a single integer or float."""
    return isinstance(value, PropertyType) and not value.is_list and value.scalar in NUMERIC


def is_integer(value: ValueType) -> bool:
    """Whether the type is a single integer."""
    return isinstance(value, PropertyType) and not value.is_list and value.scalar in INTEGERS


def is_text(value: ValueType) -> bool:
    """Whether the type is a single String; enums are Strings."""
    return isinstance(value, PropertyType) and not value.is_list and value.scalar == "String"


def is_truth(value: ValueType) -> bool:
    """Whether the type is a single Bool."""
    return isinstance(value, PropertyType) and not value.is_list and value.scalar == "Bool"


def is_blob(value: ValueType) -> bool:
    """Whether the type is Blob, which is never read as a value."""
    return isinstance(value, PropertyType) and value.scalar == "Blob"


def same_scalar(left: PropertyType, right: PropertyType) -> bool:
    """Whether the scalars are equal, or both numeric of any width."""
    return left.scalar == right.scalar or (left.scalar in NUMERIC and right.scalar in NUMERIC)


def comparable(left: ValueType, right: ValueType) -> bool:
    """Whether `=` and `<` are defined between the two types."""
    if not isinstance(left, PropertyType) or not isinstance(right, PropertyType):
        return False
    return is_scalar(left) and is_scalar(right) and same_scalar(left, right)


def arithmetic_type(operator: str, left: ValueType, right: ValueType) -> PropertyType:
    """The type of a sum or a product of two numbers. `/` and `%` by zero are null, so theirs is nullable."""
    integers = is_integer(left) and is_integer(right) and operator != "/"
    result = I64 if integers else F64
    return nullable(result) if operator in {"/", "%"} else or_null(result, left, right)
