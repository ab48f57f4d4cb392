"""Checked expressions: every node knows its type, and every name is resolved.

Logic has three values: a comparison with null is unknown, `not` of unknown is unknown, and only what is true matches.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from omnigraph.language.ir.types import BOOL, F64, ValueType, nullable
from omnigraph.lazy import record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date, datetime

    from omnigraph.catalog.catalog import PropertyType

ConstantValue: TypeAlias = "str | int | float | bool | date | datetime | tuple[ConstantValue, ...] | None"
AggregateFunction = Literal["count", "sum", "avg", "min", "max"]
_TRUTH = nullable(BOOL)
_SCORE = nullable(F64)


@record
class Constant:
    """A literal as a Python value: `date`, aware `datetime`, a tuple for a list or a vector, None for null."""

    value: ConstantValue
    type: ValueType


@record
class ParameterValue:
    """The value that `bind_params` gives for a declared parameter."""

    name: str
    type: PropertyType


@record
class PropertyValue:
    """A property of a variable. `id` (nodes, edges), `src`, `dst` (edges), `length`, `nodes`, `edges` (paths) too."""

    variable: str
    property: str
    type: PropertyType


@record
class EntityValue:
    """A whole node, edge or path. Groups, orders and tests for null by its id.

    Returned, it is an object: `id` and every property but Blobs; `src` and `dst` of an edge; `type`, the concrete type,
    when the variable was bound to an interface; `length`, `nodes` and `edges` of a path.
    """

    variable: str
    type: ValueType


@record
class RowValue:
    """A value of the row that a mutation works on: a property, `id`, or `src` and `dst` of an edge."""

    property: str
    type: PropertyType


@record
class ColumnValue:
    """A column of the result, by its place in `return`."""

    index: int
    name: str
    type: ValueType


@record
class Now:
    """The instant of the request: one for the whole query."""

    type: PropertyType


@record
class Negative:
    """`-x`."""

    operand: Expression
    type: PropertyType


@record
class Arithmetic:
    """Numbers only. `/` is float division; division and remainder by zero are null."""

    operator: Literal["+", "-", "*", "/", "%"]
    left: Expression
    right: Expression
    type: PropertyType


@record
class Comparison:
    """`contains` and `starts_with` are between two Strings; a list that contains an item is a `Membership`."""

    operator: Literal["=", "!=", "<", "<=", ">", ">=", "contains", "starts_with"]
    left: Expression
    right: Expression
    type: PropertyType = _TRUTH


@record
class Membership:
    """Whether an item is in a list: `x in list`, and `list contains x`."""

    item: Expression
    items: Expression
    type: PropertyType = _TRUTH


@record
class NullTest:
    """`x is null`. The operand may be an entity that an optional match did not find."""

    operand: Expression
    type: PropertyType = BOOL


@record
class AllOf:
    """All are true."""

    operands: tuple[Expression, ...]
    type: PropertyType = _TRUTH


@record
class AnyOf:
    """At least one is true."""

    operands: tuple[Expression, ...]
    type: PropertyType = _TRUTH


@record
class NotOf:
    """The operand is false."""

    operand: Expression
    type: PropertyType = _TRUTH


@record
class TextMatch:
    """`search` (any word), `match_text` (the phrase) or `fuzzy` (words within `max_edits` typing errors)."""

    function: Literal["search", "match_text", "fuzzy"]
    field: PropertyValue
    query: Expression
    max_edits: Expression | None = None
    type: PropertyType = BOOL


@record
class Nearest:
    """The distance of a vector property to a vector, or to the embedding of a String; smaller is better."""

    field: PropertyValue
    query: Expression
    type: PropertyType = _SCORE


@record
class Bm25:
    """The text score of a String property; greater is better."""

    field: PropertyValue
    query: Expression
    type: PropertyType = _SCORE


@record
class Rrf:
    """Reciprocal rank fusion of two rankings; greater is better."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: int = 60
    type: PropertyType = _SCORE


@record
class Aggregate:
    """Over the rows of a group; null arguments do not count."""

    function: AggregateFunction
    argument: Expression
    distinct: bool
    type: PropertyType


Expression: TypeAlias = (
    Constant
    | ParameterValue
    | PropertyValue
    | EntityValue
    | RowValue
    | ColumnValue
    | Now
    | Negative
    | Arithmetic
    | Comparison
    | Membership
    | NullTest
    | AllOf
    | AnyOf
    | NotOf
    | TextMatch
    | Nearest
    | Bm25
    | Rrf
    | Aggregate
)
_EXPRESSIONS = get_args(Expression)


def children(expression: Expression) -> Iterator[Expression]:
    """The expressions directly inside one."""
    for each in fields(expression):
        value = getattr(expression, each.name)
        items = value if isinstance(value, tuple) else (value,)
        yield from (item for item in items if isinstance(item, _EXPRESSIONS))


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything inside it."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def variables_of(*expressions: Expression) -> frozenset[str]:
    """The pattern variables that the expressions mention."""
    mentioned = (each for expression in expressions for each in walk(expression))
    return frozenset(each.variable for each in mentioned if isinstance(each, PropertyValue | EntityValue))


def contains(expression: Expression, *kinds: type[object]) -> bool:
    """Whether an expression of one of these kinds is in it."""
    return any(isinstance(each, kinds) for each in walk(expression))


def is_given(search: TextMatch | Nearest | Bm25) -> bool:
    """Whether what is searched for is known before any row is, and the same for all of them."""
    arguments = [search.query]
    if isinstance(search, TextMatch) and search.max_edits is not None:
        arguments.append(search.max_edits)
    return not variables_of(*arguments)


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The conditions that must all hold, with every top-level `and` taken apart."""
    if not isinstance(expression, AllOf):
        return (expression,)
    return tuple(part for operand in expression.operands for part in conjuncts(operand))
