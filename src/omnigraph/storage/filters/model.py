"""Row filters as values: built from columns and typed literals, rendered for Lance in one place.

No caller writes SQL, so no value of a user can ever become a part of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from omnigraph.errors import InvalidInput
from omnigraph.storage.filters.literals import (
    Fitted,
    Operator,
    Value,
    comparison,
    fit,
    literal,
    never,
    quoted,
    typed_literal,
)

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable

# Lance's parser gives up below some forty parentheses, and each level costs its optimizer time.
DEEPEST = 24

# Columns that every table has beside those of its schema.
_OF_EVERY_TABLE = frozenset({"_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"})
_OPPOSITE: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True)
class Compare:
    """`column operator value`; never true where the column is null.

    Numbers compare by their value, a number and a float column in the width of the column. NaN equals itself and is
    greater than everything, the two zeros are equal. A number an integer column cannot hold is still a number.
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
    """The filter in the dialect of Lance's scanner.

    Values take the types of the schema's columns. Without a schema nothing but text can be compared.
    """
    try:
        return _render(_without_negations(row_filter), _Columns(schema), depth=0)
    except RecursionError:
        raise _too_deep() from None


@dataclass(frozen=True)
class _Columns:
    schema: pa.Schema | None

    def kind(self, column: str) -> pa.DataType:
        """The type of a column that is there."""
        if self.schema is None:
            return pa.string()
        if column in _OF_EVERY_TABLE:
            return pa.uint64()
        if column not in self.schema.names:
            raise InvalidInput(f"there is no column {column!r}; the columns are {', '.join(self.schema.names)}")
        kind: pa.DataType = self.schema.field(column).type
        return kind

    def text(self, column: str) -> str:
        """The name of a text column."""
        kind = self.kind(column)
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise InvalidInput(f"column {column!r} is of type {kind}, and only text can be searched")
        return _name(column)

    def item_kind(self, column: str) -> pa.DataType:
        """The type of a list column's items."""
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


def _without_negations(row_filter: Filter, *, negated: bool = False) -> Filter:
    """The same filter with `Not` only right above a leaf, and no `And` in an `And`: Lance needs exponential time
    for nested negations. The rewriting is right for unknown values too.
    """
    match row_filter:
        case Not(operand):
            return _without_negations(operand, negated=not negated)
        case And(operands) | Or(operands):
            kind = And if isinstance(row_filter, And) is not negated else Or
            return kind(_flattened(kind, [_without_negations(each, negated=negated) for each in operands]))
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
    return _known(column, compared) if operator == "!=" else compared


def _negated(operand: Filter, rendered: str) -> str:
    if isinstance(operand, OneOf) and operand.values:
        return _known(operand.column, f"not {rendered}")
    return f"(not {rendered})"


def _known(column: str, excluded: str) -> str:
    """Of several exclusions joined by `or` Lance makes one list, and then answers true for null: so null goes first.

    No negation stands above this, so that false may take the place of unknown.
    """
    return f"({_name(column)} is not null and {excluded})"


def _one_of(column: str, values: tuple[Value, ...], kind: pa.DataType) -> str:
    """A value that the column cannot hold is none that it has."""
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
    # Inside lists, unlike in columns, Lance tells the two zeros apart.
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
