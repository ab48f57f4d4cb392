"""What a filter means, in plain Python: the model that Lance's answers are held against.

True, False, and None for unknown. NaN equals itself and is greater than all else; the two zeros are equal.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from typing import TYPE_CHECKING, Any

from omnigraph.storage.filters.model import And, Compare, Filter, HasItem, IsNull, Not, OneOf, Or, TextPredicate

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = dict[str, Any]
Kinds = dict[str, str]


def holds(row: Row, row_filter: Filter, kinds: Kinds) -> bool | None:
    """Whether a row matches."""
    match row_filter:
        case Compare(column, operator, value):
            return compare(row[column], operator, value, kinds[column])
        case OneOf(_, ()):
            return False
        case OneOf(column, values):
            return any_of(compare(row[column], "=", each, kinds[column]) for each in values)
        case IsNull(column):
            return row[column] is None
        case TextPredicate(column, how, needle):
            return _text(row[column], how, needle)
        case HasItem(column, value):
            return _has_item(row[column], value, kinds[column])
        case Not(operand):
            inner = holds(row, operand, kinds)
            return None if inner is None else not inner
        case And(operands):
            return all_of(holds(row, each, kinds) for each in operands)
        case Or(operands):
            return any_of(holds(row, each, kinds) for each in operands)


def compare(stored: Any, operator: str, value: Any, kind: str) -> bool | None:
    """One comparison."""
    if stored is None or value is None:
        return None
    left, right = _key(stored), _key(in_width(value, kind))
    return {
        "=": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


def in_width(value: Any, kind: str) -> Any:
    """A number as a float column would hold it, unless that would make it infinite."""
    if kind not in ("f32", "f64") or isinstance(value, bool):
        return value
    try:
        wide = float(value)
        return struct.unpack("<f", struct.pack("<f", wide))[0] if kind == "f32" else wide
    except OverflowError:
        return value


def all_of(answers: Iterable[bool | None]) -> bool | None:
    """SQL's `and`."""
    found = set(answers)
    return False if False in found else None if None in found else True


def any_of(answers: Iterable[bool | None]) -> bool | None:
    """SQL's `or`."""
    found = set(answers)
    return True if True in found else None if None in found else False


def _text(stored: str | None, how: str, needle: str) -> bool | None:
    if stored is None:
        return None
    return stored.startswith(needle) if how == "starts_with" else needle in stored


def _has_item(stored: list[Any] | None, value: Any, kind: str) -> bool | None:
    if stored is None or value is None:
        return None
    return any(compare(each, "=", value, kind) for each in stored if each is not None)


def _key(value: Any) -> tuple[int, Any]:
    """An order over all values of one kind; a moment without a zone is in UTC."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return (0, value.replace(tzinfo=dt.UTC))
    return (0, value)
