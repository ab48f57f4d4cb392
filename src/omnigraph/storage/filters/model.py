"""Row filters as values, built from columns and typed literals, and rendered as SQL for Lance in this module alone.

No caller writes SQL, so a user's value can never become part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from omnigraph.errors import InvalidInput
from omnigraph.kernels.row_address import ROW_NUMBER, SYSTEM_COLUMNS
from omnigraph.storage.filters.literals import (
    Fitted,
    Operator,
    Value,
    comparison,
    fit,
    is_text,
    literal,
    never,
    quoted,
    typed_literal,
)

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable

# Lance's parser fails beyond some forty nested parentheses, and each level costs its optimizer time.
DEEPEST = 24

# System columns, which every table has in addition to its schema.
_OF_EVERY_TABLE = SYSTEM_COLUMNS - {ROW_NUMBER}
_OPPOSITE: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True)
class Compare:
    """`column operator value`; never true where the column is null.

    Numbers compare by value, against a float column in the width of the column. NaN equals itself and is greater than
    everything, and the two zeros are equal. A number that an integer column cannot hold still compares as a number.
    """

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
class TextPredicate:
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
class And:
    """Every operand is true; true when there is none."""

    operands: tuple[Filter, ...]


@dataclass(frozen=True)
class Or:
    """At least one operand is true; false when there is none."""

    operands: tuple[Filter, ...]


Filter = Compare | OneOf | IsNull | TextPredicate | HasItem | Not | And | Or


def equal(column: str, value: Value) -> Filter:
    """`column = value`."""
    return Compare(column, "=", value)


def one_of(column: str, values: Iterable[Value]) -> Filter:
    """`column in (values)`."""
    return OneOf(column, tuple(values))


def render(row_filter: Filter, schema: pa.Schema | None = None) -> str:
    """The filter as SQL for Lance's scanner.

    Values take the types of the schema's columns. Without a schema only strings can be compared.
    """
    try:
        return _render(_push_negations(row_filter), _Columns(schema), depth=0)
    except RecursionError:
        raise _too_deep() from None


@dataclass(frozen=True)
class _Columns:
    schema: pa.Schema | None

    def kind(self, column: str) -> pa.DataType:
        """The type of a column; raises if there is no such column."""
        if self.schema is None:
            return pa.string()
        if column in _OF_EVERY_TABLE:
            return pa.uint64()
        if column not in self.schema.names:
            raise InvalidInput(f"there is no column {column!r}; the columns are {', '.join(self.schema.names)}")
        kind: pa.DataType = self.schema.field(column).type
        return kind

    def text(self, column: str) -> str:
        """The quoted name of a string column; raises for another type."""
        kind = self.kind(column)
        if not is_text(kind):
            raise InvalidInput(f"column {column!r} is of type {kind}, and only text can be searched")
        return _name(column)

    def item_kind(self, column: str) -> pa.DataType:
        """The item type of a list column."""
        kind = self.kind(column)
        if self.schema is None:
            return kind
        if not pa.types.is_list(kind):
            raise InvalidInput(f"column {column!r} is of type {kind}, and only lists have items")
        item: pa.DataType = kind.value_type
        return item


def _render(row_filter: Filter, columns: _Columns, *, depth: int) -> str:
    if depth > DEEPEST:
        raise _too_deep()
    match row_filter:
        case Compare(column, operator, value):
            return _compare(column, operator, value, columns.kind(column))
        case OneOf(column, values):
            return _one_of(column, values, columns.kind(column))
        case IsNull(column):
            columns.kind(column)
            return f"{_name(column)} is null"
        case TextPredicate(column, how, needle):
            return f"{how}({columns.text(column)}, {quoted(needle)})"
        case HasItem(column, value):
            return _has_item(column, value, columns.item_kind(column))
        case Not(operand):
            return _negated(operand, _render(operand, columns, depth=depth + 1))
        case And(operands):
            return _joined([_render(each, columns, depth=depth + 1) for each in operands], "and", "true")
        case Or(operands):
            return _joined([_render(each, columns, depth=depth + 1) for each in operands], "or", "false")


def _push_negations(row_filter: Filter, *, negated: bool = False) -> Filter:
    """Push `Not` down to the leaves and flatten nested `And` and `Or`.

    Lance needs exponential time for nested negations. The rewrite preserves three-valued logic.
    """
    match row_filter:
        case Not(operand):
            return _push_negations(operand, negated=not negated)
        case And(operands) | Or(operands):
            kind = And if isinstance(row_filter, And) is not negated else Or
            return kind(_flattened(kind, [_push_negations(each, negated=negated) for each in operands]))
        case Compare(column, operator, value) if negated:
            return Compare(column, _OPPOSITE[operator], value)
        case _:
            return Not(row_filter) if negated else row_filter


def _flattened(kind: type[And | Or], operands: list[Filter]) -> tuple[Filter, ...]:
    flat: list[Filter] = []
    for each in operands:
        flat.extend(each.operands if isinstance(each, kind) else (each,))
    return tuple(flat)


def _compare(column: str, operator: Operator, value: Value, kind: pa.DataType) -> str:
    if operator not in _OPPOSITE:
        raise InvalidInput(f"{operator!r} is not a comparison")
    if value is None:
        return f"{_name(column)} {operator} null"
    compared = comparison(_name(column), operator, _fit(column, value, kind), kind)
    return _unless_null(column, compared) if operator == "!=" else compared


def _negated(operand: Filter, rendered: str) -> str:
    if isinstance(operand, OneOf) and operand.values:
        return _unless_null(operand.column, f"not {rendered}")
    return f"(not {rendered})"


def _unless_null(column: str, excluded: str) -> str:
    """Exclude nulls explicitly: Lance joins several exclusions under `or` into one list, which is then true for null.

    No negation is above this expression, so false may replace unknown.
    """
    return f"({_name(column)} is not null and {excluded})"


def _one_of(column: str, values: tuple[Value, ...], kind: pa.DataType) -> str:
    """Render `in`; a value that the column cannot hold matches no row and is left out."""
    if not values:
        return "false"
    fitted = [_fit(column, each, kind) for each in values if each is not None]
    literals = [literal(each.value, kind) for each in fitted if each.gap == 0]
    if None in values:
        literals.append("null")
    return f"{_name(column)} in ({', '.join(literals)})" if literals else never(_name(column))


def _has_item(column: str, value: Value, kind: pa.DataType) -> str:
    if value is None:
        return f"array_has({_name(column)}, null)"
    fitted = _fit(column, value, kind)
    if fitted.gap:
        return never(_name(column))
    # In list items, unlike in columns, Lance distinguishes the two zeros.
    zeros = (0.0, -0.0) if fitted.value == 0 and pa.types.is_floating(kind) else (fitted.value,)
    found = [f"array_has({_name(column)}, {typed_literal(each, kind)})" for each in zeros]
    return _joined(found, "or", "false")


def _fit(column: str, value: bool | float | str | bytes | dt.date, kind: pa.DataType) -> Fitted:
    fitted = fit(value, kind)
    if fitted is None:
        raise InvalidInput(f"column {column!r} is of type {kind} and cannot be compared with {value!r}")
    return fitted


def _too_deep() -> InvalidInput:
    return InvalidInput(f"the filter is nested more than {DEEPEST} levels deep")


def _joined(operands: list[str], word: str, empty: str) -> str:
    return f"({f' {word} '.join(operands)})" if operands else empty


def _name(column: str) -> str:
    if "`" in column or not column:
        raise InvalidInput(f"{column!r} cannot be a column name")
    return f"`{column}`"
