"""Renders aggregates as SQL, plain or weighted, and adapts SQL trees to Spark.

Counting paths without listing them leaves rows with a weight: the number of matches that each row stands for. An
aggregate over such rows gives what it would give over the matches themselves.

Spark gets the same tree as DuckDB; an expression that Spark would evaluate differently is rewritten first.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlglot import exp

from omnigraph.language.ir.types import is_integer

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.language.ir.expressions import Aggregate

    Rendering = Callable[[Aggregate, exp.Expr], exp.Expr]

_FUNCTIONS: dict[str, type[exp.AggFunc]] = {
    "count": exp.Count,
    "sum": exp.Sum,
    "avg": exp.Avg,
    "min": exp.Min,
    "max": exp.Max,
}


def cast(value: exp.Expr, kind: str) -> exp.Expr:
    """Cast `value` to a SQL type in DuckDB's spelling."""
    return exp.cast(value, _type(kind).copy(), copy=False)


@lru_cache(maxsize=64)
def _type(kind: str) -> exp.DataType:
    return exp.DataType.build(kind, dialect="duckdb")


def plain(aggregate: Aggregate, argument: exp.Expr) -> exp.Expr:
    """Aggregate over rows that each stand for one match."""
    if aggregate.distinct:
        argument = exp.Distinct(expressions=[argument])
    whole: exp.Expr = _FUNCTIONS[aggregate.function](this=argument)
    return cast(whole, "DOUBLE") if aggregate.function in ("sum", "avg") else whole


def weighted(weight: exp.Expr) -> Rendering:
    """Aggregate over rows that each stand for as many matches as their weight says."""

    def render(aggregate: Aggregate, argument: exp.Expr) -> exp.Expr:
        if aggregate.distinct or aggregate.function in ("min", "max"):
            return plain(aggregate, argument)
        if aggregate.function == "count":
            return _counted(argument, weight)
        total = cast(exp.Sum(this=_multiplied(aggregate, argument, weight)), "DOUBLE")
        if aggregate.function == "sum":
            return total
        return exp.Div(this=total, expression=exp.func("nullif", cast(_counted(argument, weight), "DOUBLE"), _ZERO))

    return render


def each_alone(weight: exp.Expr) -> Rendering:
    """Aggregate where every row is a group by itself, of as many equal matches as its weight says."""

    def render(aggregate: Aggregate, argument: exp.Expr) -> exp.Expr:
        if aggregate.function in ("min", "max"):
            return argument
        if aggregate.function == "avg":
            return cast(argument, "DOUBLE")
        times = exp.Literal.number(1) if aggregate.distinct else weight
        if aggregate.function == "sum":
            return cast(_multiplied(aggregate, argument, times), "DOUBLE")
        if isinstance(argument, exp.Literal):
            return cast(times.copy(), "BIGINT")
        return cast(exp.Case().when(_is_not_null(argument), times.copy()).else_(_ZERO.copy()), "BIGINT")

    return render


_ZERO = exp.Literal.number(0)


def _is_not_null(value: exp.Expr) -> exp.Expr:
    return exp.not_(exp.Is(this=value.copy(), expression=exp.Null()))


def _counted(argument: exp.Expr, weight: exp.Expr) -> exp.Expr:
    always = isinstance(argument, exp.Literal)
    counted = weight.copy() if always else exp.Case().when(_is_not_null(argument), weight.copy()).else_(_ZERO.copy())
    return cast(exp.func("coalesce", exp.Sum(this=counted), _ZERO.copy()), "BIGINT")


def _multiplied(aggregate: Aggregate, argument: exp.Expr, times: exp.Expr) -> exp.Expr:
    """Multiply integers as integers, so that their sum is exact until it becomes a float."""
    kind = "HUGEINT" if is_integer(aggregate.argument.type) else "DOUBLE"
    return exp.Mul(this=cast(argument.copy(), kind), expression=cast(times.copy(), kind))


_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - texts of the tree have no zone; they are all UTC
# Spark has no unsigned integers: it stores them in the types that `spark/types.py` chooses.
_CARRIERS = {exp.DataType.Type.UINT: "BIGINT", exp.DataType.Type.UBIGINT: "DECIMAL(20,0)"}


def rendered(tree: exp.Expr) -> str:
    """The Spark SQL text of an expression or a query."""
    return tree.transform(_for_spark).sql(dialect="spark")


def aggregated(aggregate: Aggregate, argument: exp.Expr) -> exp.Expr:
    """Aggregate in Spark: sums of integers are exact, whatever their size, until they become a float."""
    if aggregate.function not in ("sum", "avg") or not is_integer(aggregate.argument.type):
        return plain(aggregate, argument)
    wide = cast(argument.copy(), "DECIMAL(38,0)")
    total = exp.Sum(this=exp.Distinct(expressions=[wide]) if aggregate.distinct else wide)
    if aggregate.function == "sum":
        return cast(total, "DOUBLE")
    counted: exp.Expr = exp.Distinct(expressions=[argument]) if aggregate.distinct else argument
    number = exp.func("nullif", cast(exp.Count(this=counted), "DOUBLE"), exp.Literal.number(0))
    return exp.Div(this=cast(total, "DOUBLE"), expression=number)


def _for_spark(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.DataType) and node.this in _CARRIERS:
        return exp.DataType.build(_CARRIERS[node.this], dialect="spark")
    if isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.TIMESTAMP:
        return _timestamp_micros(node)
    if isinstance(node, exp.ArrayContains):
        return _contains(node)
    return node


def _timestamp_micros(node: exp.Cast) -> exp.Expr:
    """A timestamp literal as a number: Spark would read a text in the session's time zone."""
    if not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return node
    instant = dt.datetime.fromisoformat(node.this.this)
    return exp.Anonymous(this="timestamp_micros", expressions=[exp.Literal.number((instant - _EPOCH) // _MICROSECOND)])


_MICROSECOND = dt.timedelta(microseconds=1)


def _contains(node: exp.ArrayContains) -> exp.Expr:
    """Spark's `array_contains` is null in a list that has a null; here a missing item is false."""
    listed, item = node.this, node.expression
    found = exp.Anonymous(this="array_contains", expressions=[listed.copy(), item.copy()])
    unknown = exp.or_(*(exp.Is(this=each.copy(), expression=exp.Null()) for each in (listed, item)))
    sure = exp.func("coalesce", found, exp.Boolean(this=False))
    return exp.Case().when(unknown, cast(exp.Null(), "BOOLEAN")).else_(sure)
