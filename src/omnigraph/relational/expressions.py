"""A checked expression as a SQL tree.

Values never become text here: they are literals of the tree, and the renderer of each dialect escapes them.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from omnigraph.language.query.expressions import (
    Aggregate,
    AllOf,
    AnyOf,
    Arithmetic,
    Comparison,
    Constant,
    Expression,
    Membership,
    Negative,
    NotOf,
    Now,
    NullTest,
    ParameterValue,
)
from omnigraph.language.schema.catalog import PropertyType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph.language.query.types import ValueType

SQL_TYPES = {
    "String": "TEXT",
    "Bool": "BOOLEAN",
    "I32": "INT",
    "I64": "BIGINT",
    "U32": "UINT",
    "U64": "UBIGINT",
    "F32": "FLOAT",
    "F64": "DOUBLE",
    "Date": "DATE",
    "DateTime": "TIMESTAMP",
    "Vector": "FLOAT",
}

_COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_ARITHMETIC: dict[str, type[exp.Binary]] = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul}
_AGGREGATES: dict[str, type[exp.AggFunc]] = {
    "count": exp.Count,
    "sum": exp.Sum,
    "avg": exp.Avg,
    "min": exp.Min,
    "max": exp.Max,
}


@dataclass(frozen=True)
class SqlBuilder:
    """Builds SQL for expressions of one request. `leaf` gives the column for names that only its caller knows."""

    params: Mapping[str, object]
    now: dt.datetime
    leaf: Callable[[Expression], exp.Expr]

    def build(self, expression: Expression) -> exp.Expr:  # noqa: C901 - one case for each kind of expression
        """The SQL of an expression."""
        match expression:
            case Constant(value, kind):
                return literal(value, kind)
            case ParameterValue(name, kind):
                return literal(self.params[name], kind)
            case Now(kind):
                return literal(self.now, kind)
            case Negative(operand):
                return exp.Neg(this=exp.Paren(this=self.build(operand)))
            case Arithmetic():
                return self._arithmetic(expression)
            case Comparison():
                return self._comparison(expression)
            case Membership(item, items):
                return exp.ArrayContains(this=self.build(items), expression=self.build(item))
            case NullTest(operand):
                return exp.Is(this=self.build(operand), expression=exp.Null())
            case AllOf(operands):
                return exp.and_(*map(self.build, operands))
            case AnyOf(operands):
                return exp.or_(*map(self.build, operands))
            case NotOf(operand):
                return exp.not_(self.build(operand))
            case Aggregate():
                return self._aggregate(expression)
            case _:
                return self.leaf(expression)

    def _arithmetic(self, expression: Arithmetic) -> exp.Expr:
        left, right = self.build(expression.left), self.build(expression.right)
        if expression.operator in _ARITHMETIC:
            kind = sql_type(expression.type)
            operation = _ARITHMETIC[expression.operator]
            return exp.Paren(this=operation(this=_cast(left, kind), expression=_cast(right, kind)))
        if expression.operator == "/":
            whole: exp.Expr = exp.Div(this=_cast(left, "DOUBLE"), expression=_cast(right.copy(), "DOUBLE"))
        else:
            whole = exp.Mod(this=exp.Paren(this=left), expression=exp.Paren(this=right.copy()))
        by_zero = exp.EQ(this=right, expression=exp.Literal.number(0))
        return exp.Case().when(by_zero, exp.Null()).else_(whole)

    def _comparison(self, expression: Comparison) -> exp.Expr:
        left, right = self.build(expression.left), self.build(expression.right)
        if expression.operator == "contains":
            return exp.Contains(this=left, expression=right)
        if expression.operator == "starts_with":
            return exp.StartsWith(this=left, expression=right)
        return exp.Paren(this=_COMPARISONS[expression.operator](this=left, expression=right))

    def _aggregate(self, expression: Aggregate) -> exp.Expr:
        argument = self.build(expression.argument)
        if expression.distinct:
            argument = exp.Distinct(expressions=[argument])
        whole: exp.Expr = _AGGREGATES[expression.function](this=argument)
        return _cast(whole, "DOUBLE") if expression.function in ("sum", "avg") else whole


def sql_type(kind: ValueType) -> str:
    """The SQL type of a property type, as DuckDB spells it; renderers translate it."""
    if not isinstance(kind, PropertyType):
        return "TEXT"
    name = SQL_TYPES[kind.scalar]
    if kind.scalar == "Vector":
        return f"FLOAT[{kind.dimensions}]"
    return f"{name}[]" if kind.is_list else name


def _cast(value: exp.Expr, kind: str) -> exp.Expr:
    return exp.cast(value, exp.DataType.build(kind, dialect="duckdb"))


def literal(value: object, kind: ValueType) -> exp.Expr:
    """A typed literal."""
    if value is None:
        return _cast(exp.Null(), sql_type(kind))
    if isinstance(value, list | tuple):
        return _cast(exp.Array(expressions=[_scalar(each) for each in value]), sql_type(kind))
    return _cast(_scalar(value), sql_type(kind))


def _scalar(value: object) -> exp.Expr:
    match value:
        case bool():
            return exp.Boolean(this=value)
        case int():
            return exp.Literal.number(str(value)) if value >= 0 else exp.Neg(this=exp.Literal.number(str(-value)))
        case float() if math.isfinite(value):
            return _cast(exp.Literal.string(repr(value)), "DOUBLE")
        case float():
            return _cast(exp.Literal.string("NaN" if math.isnan(value) else f"{value}inity"), "DOUBLE")
        case dt.datetime():
            moment = value.astimezone(dt.UTC) if value.tzinfo else value
            return exp.Literal.string(moment.replace(tzinfo=None).isoformat(" ", "milliseconds"))
        case dt.date():
            return exp.Literal.string(value.isoformat())
        case _:
            return exp.Literal.string(str(value))
