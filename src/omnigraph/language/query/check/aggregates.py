"""count, sum, avg, min, max: what they take, and what else may stand beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from omnigraph.language.query import expressions as made
from omnigraph.language.query.types import F64, I64, NullType, ValueType, is_blob, is_number, is_scalar, nullable

if TYPE_CHECKING:
    from omnigraph.language.diagnostics import Span
    from omnigraph.language.query import expression_syntax as written
    from omnigraph.language.query.check.environment import Env
    from omnigraph.language.query.expressions import AggregateFunction, Expression
    from omnigraph.language.schema.catalog import PropertyType

FUNCTIONS = ("count", "sum", "avg", "min", "max")
_PLACES = {"return", "having", "order"}


def aggregate(env: Env, node: written.Call) -> Expression | None:
    """An aggregate over one argument."""
    if len(node.arguments) != 1:
        env.fail(node.span, "T8", f"{node.function}() takes one argument, not {len(node.arguments)}")
        return None
    if env.place not in _PLACES:
        env.fail(node.span, "T9", f"{node.function}() belongs in return, having or order")
        return None
    argument = env.check(node.arguments[0])
    if argument is None or not _accepts(env, node, argument):
        return None
    function = cast("AggregateFunction", node.function)
    return made.Aggregate(function, argument, node.distinct, _result(function, argument.type))


def _accepts(env: Env, node: written.Call, argument: Expression) -> bool:
    place = node.arguments[0].span
    if made.contains(argument, made.Aggregate) or _is_aggregated_column(env, argument):
        env.fail(place, "T8", f"{node.function}() cannot be taken of another aggregate")
    elif is_blob(argument.type):
        env.fail(place, "T24", f"a Blob cannot be read as a value, so {node.function}() cannot take one")
    elif isinstance(argument.type, NullType) or not _fits(node.function, argument.type):
        env.fail(place, "T8", f"{node.function}() cannot take {argument.type}: it takes {_TAKES[node.function]}")
    else:
        return True
    return False


def _is_aggregated_column(env: Env, argument: Expression) -> bool:
    """An alias of `return` has been computed per group already."""
    return env.place != "return" and made.contains(argument, made.ColumnValue)


_TAKES = {
    "count": "any value",
    "sum": "numbers",
    "avg": "numbers",
    "min": "numbers, Strings, Dates and DateTimes",
    "max": "numbers, Strings, Dates and DateTimes",
}


def _fits(function: str, argument: ValueType) -> bool:
    if function == "count":
        return True
    if function in {"sum", "avg"}:
        return is_number(argument)
    return is_scalar(argument) and cast("PropertyType", argument).scalar != "Bool"


def _result(function: AggregateFunction, argument: ValueType) -> PropertyType:
    if function == "count":
        return I64
    if function in {"sum", "avg"}:
        return nullable(F64)
    return replace(cast("PropertyType", argument), nullable=True, enum_values=None)


def refuse_ungrouped(env: Env, span: Span, value: Expression, keys: frozenset[Expression]) -> bool:
    """Report a value that differs within a group: neither aggregated nor one of the group's keys."""
    if (loose := _ungrouped(value, keys)) is None:
        return False
    env.fail(
        span,
        "T9",
        f"{loose} is neither aggregated nor a column of return: with aggregates, every other value must be one of the"
        " columns that make the groups",
    )
    return True


def _ungrouped(value: Expression, keys: frozenset[Expression]) -> str | None:
    if value in keys or isinstance(value, made.Aggregate | made.ColumnValue):
        return None
    if isinstance(value, made.PropertyValue):
        return f"${value.variable}.{value.property}"
    if isinstance(value, made.EntityValue):
        return f"${value.variable}"
    return next((loose for child in made.children(value) if (loose := _ungrouped(child, keys))), None)
