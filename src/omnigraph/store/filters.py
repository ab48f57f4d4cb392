"""Row filters as values: built from columns and typed literals, rendered for Lance in one place.

No caller writes SQL, so no value of a user can ever become a part of one.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

Value = None | bool | int | float | str | bytes | dt.date | dt.datetime
Operator = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Compare:
    """`column operator value`; never true where the column is null."""

    column: str
    operator: Operator
    value: Value


@dataclass(frozen=True)
class OneOf:
    """The column's value is one of these."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class IsNull:
    """The column is null."""

    column: str


@dataclass(frozen=True)
class Text:
    """A String column that starts with, or contains, a needle; case matters."""

    column: str
    how: Literal["starts_with", "contains"]
    needle: str


@dataclass(frozen=True)
class HasItem:
    """A list column that has an item equal to the value."""

    column: str
    value: Value


@dataclass(frozen=True)
class Not:
    """The negation; unknown stays unknown."""

    operand: Filter


@dataclass(frozen=True)
class All:
    """Every operand is true; true when there is none."""

    operands: tuple[Filter, ...]


@dataclass(frozen=True)
class AnyOf:
    """At least one operand is true; false when there is none."""

    operands: tuple[Filter, ...]


Filter = Compare | OneOf | IsNull | Text | HasItem | Not | All | AnyOf


def equal(column: str, value: Value) -> Filter:
    """`column = value`."""
    return Compare(column, "=", value)


def one_of(column: str, values: Iterable[Value]) -> Filter:
    """`column in (values)`."""
    return OneOf(column, tuple(values))


def render(row_filter: Filter) -> str:
    """The filter in the dialect of Lance's scanner."""
    match row_filter:
        case Compare(column, operator, value):
            return f"{_name(column)} {operator} {_literal(value)}"
        case OneOf(_, ()):
            return "false"
        case OneOf(column, values):
            return f"{_name(column)} in ({', '.join(map(_literal, values))})"
        case IsNull(column):
            return f"{_name(column)} is null"
        case Text(column, how, needle):
            return f"{how}({_name(column)}, {_literal(needle)})"
        case HasItem(column, value):
            return f"array_has({_name(column)}, {_literal(value)})"
        case Not(operand):
            return f"(not {render(operand)})"
        case All(operands):
            return _joined(operands, "and", "true")
        case AnyOf(operands):
            return _joined(operands, "or", "false")


def _joined(operands: tuple[Filter, ...], word: str, empty: str) -> str:
    return f"({f' {word} '.join(map(render, operands))})" if operands else empty


def _name(column: str) -> str:
    if "`" in column or not column:
        raise InvalidInput(f"{column!r} cannot be a column name")
    return f"`{column}`"


def _literal(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float() if math.isfinite(value):
            return f"cast({value!r} as double)"
        case float():
            return f"cast('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}' as double)"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case dt.datetime():
            return f"to_timestamp_millis({_epoch_millis(value)})"
        case dt.date():
            return f"cast('{value.isoformat()}' as date)"


def _epoch_millis(moment: dt.datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
