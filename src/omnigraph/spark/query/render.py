"""Expressions as Spark's SQL, from the same tree that DuckDB gets; where Spark would mean something else, it is said
otherwise.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from sqlglot import exp

from omnigraph.language.query.types import is_integer
from omnigraph.relational.aggregates import cast, plain

if TYPE_CHECKING:
    from omnigraph.language.query.expressions import Aggregate

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - texts of the tree have no zone; they are all UTC
# Spark has no unsigned integers: they are carried as in `spark/types.py`.
_CARRIERS = {exp.DataType.Type.UINT: "BIGINT", exp.DataType.Type.UBIGINT: "DECIMAL(20,0)"}


def rendered(tree: exp.Expr) -> str:
    """The text of an expression or a query."""
    return tree.transform(_said_otherwise).sql(dialect="spark")


def aggregated(aggregate: Aggregate, argument: exp.Expr) -> exp.Expr:
    """Sums of integers are exact until they become a float, whatever their size."""
    if aggregate.function not in ("sum", "avg") or not is_integer(aggregate.argument.type):
        return plain(aggregate, argument)
    wide = cast(argument.copy(), "DECIMAL(38,0)")
    total = exp.Sum(this=exp.Distinct(expressions=[wide]) if aggregate.distinct else wide)
    if aggregate.function == "sum":
        return cast(total, "DOUBLE")
    counted: exp.Expr = exp.Distinct(expressions=[argument]) if aggregate.distinct else argument
    number = exp.func("nullif", cast(exp.Count(this=counted), "DOUBLE"), exp.Literal.number(0))
    return exp.Div(this=cast(total, "DOUBLE"), expression=number)


def _said_otherwise(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.DataType) and node.this in _CARRIERS:
        return exp.DataType.build(_CARRIERS[node.this], dialect="spark")
    if isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.TIMESTAMP:
        return _moment(node)
    if isinstance(node, exp.ArrayContains):
        return _contains(node)
    return node


def _moment(node: exp.Cast) -> exp.Expr:
    """A text would be read in the session's time zone."""
    if not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return node
    moment = dt.datetime.fromisoformat(node.this.this)
    return exp.Anonymous(this="timestamp_micros", expressions=[exp.Literal.number((moment - _EPOCH) // _MICROSECOND)])


_MICROSECOND = dt.timedelta(microseconds=1)


def _contains(node: exp.ArrayContains) -> exp.Expr:
    """Not found is false, also in a list that has a null."""
    listed, item = node.this, node.expression
    found = exp.Anonymous(this="array_contains", expressions=[listed.copy(), item.copy()])
    unknown = exp.or_(*(exp.Is(this=each.copy(), expression=exp.Null()) for each in (listed, item)))
    sure = exp.func("coalesce", found, exp.Boolean(this=False))
    return exp.Case().when(unknown, cast(exp.Null(), "BOOLEAN")).else_(sure)
