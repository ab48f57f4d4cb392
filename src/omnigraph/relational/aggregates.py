"""Aggregates as SQL, over rows that each stand for one match, or for many.

Counting paths without listing them leaves rows with a weight: how many matches each stands for. An aggregate over such
rows gives what it would give over the matches themselves.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sqlglot import exp

from omnigraph.language.query.types import is_integer

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.language.query.expressions import Aggregate

    Rendering = Callable[[Aggregate, exp.Expr], exp.Expr]

_FUNCTIONS: dict[str, type[exp.AggFunc]] = {
    "count": exp.Count,
    "sum": exp.Sum,
    "avg": exp.Avg,
    "min": exp.Min,
    "max": exp.Max,
}


def cast(value: exp.Expr, kind: str) -> exp.Expr:
    """`value` as a SQL type, spelled as DuckDB does."""
    return exp.cast(value, _type(kind).copy(), copy=False)


@lru_cache(maxsize=64)
def _type(kind: str) -> exp.DataType:
    return exp.DataType.build(kind, dialect="duckdb")


def plain(aggregate: Aggregate, argument: exp.Expr) -> exp.Expr:
    """Every row is one match."""
    if aggregate.distinct:
        argument = exp.Distinct(expressions=[argument])
    whole: exp.Expr = _FUNCTIONS[aggregate.function](this=argument)
    return cast(whole, "DOUBLE") if aggregate.function in ("sum", "avg") else whole


def weighted(weight: exp.Expr) -> Rendering:
    """Every row is as many matches as its weight says."""

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
    """Every row is a group of its own, of as many equal matches as its weight says."""

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
        return cast(exp.Case().when(_is_known(argument), times.copy()).else_(_ZERO.copy()), "BIGINT")

    return render


_ZERO = exp.Literal.number(0)


def _is_known(value: exp.Expr) -> exp.Expr:
    return exp.not_(exp.Is(this=value.copy(), expression=exp.Null()))


def _counted(argument: exp.Expr, weight: exp.Expr) -> exp.Expr:
    always = isinstance(argument, exp.Literal)
    known = weight.copy() if always else exp.Case().when(_is_known(argument), weight.copy()).else_(_ZERO.copy())
    return cast(exp.func("coalesce", exp.Sum(this=known), _ZERO.copy()), "BIGINT")


def _multiplied(aggregate: Aggregate, argument: exp.Expr, times: exp.Expr) -> exp.Expr:
    """Integers are multiplied as integers: their sum is exact until it becomes a float."""
    kind = "HUGEINT" if is_integer(aggregate.argument.type) else "DOUBLE"
    return exp.Mul(this=cast(argument.copy(), kind), expression=cast(times.copy(), kind))
