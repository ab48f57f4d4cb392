"""Translates a checked expression into a SQL syntax tree, which DuckDB and Spark render.

Values are never formatted into SQL text here: they are literals of the tree, and the renderer of each dialect escapes
them.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from sqlglot import exp

from omnigraph.catalog.catalog import PropertyType
from omnigraph.expressions.dialects import cast as _cast
from omnigraph.expressions.dialects import plain
from omnigraph.language.ir.expressions import (
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
from omnigraph.language.ir.types import is_integer, is_number
from omnigraph.storage.filters.literals import MIRRORED, with_gap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from omnigraph.expressions.dialects import Rendering
    from omnigraph.language.ir.types import ValueType
    from omnigraph.storage.filters.literals import Operator

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


@dataclass(frozen=True)
class SqlBuilder:
    """Builds SQL for the expressions of one request. `leaf` maps names that only the caller knows to columns."""

    params: Mapping[str, object]
    now: dt.datetime
    leaf: Callable[[Expression], exp.Expr]
    aggregate: Rendering = plain

    def build(self, expression: Expression) -> exp.Expr:  # noqa: C901 - one case for each kind of expression
        """The SQL of an expression."""
        match expression:
            case Constant(value, kind):
                return literal(value, kind)
            case ParameterValue(name, kind):
                return literal(self.params[name], kind)
            case Now(kind):
                return literal(self.now, kind)
            case Negative(operand, kind):
                return exp.Neg(this=exp.Paren(this=_cast(self.build(operand), sql_type(kind))))
            case Arithmetic():
                return self._arithmetic(expression)
            case Comparison():
                return self._comparison(expression)
            case Membership():
                return self._membership(expression)
            case NullTest(operand):
                return exp.Paren(this=exp.Is(this=self.build(operand), expression=exp.Null()))
            case AllOf(operands):
                return exp.Paren(this=exp.and_(*map(self.build, operands)))
            case AnyOf(operands):
                return exp.Paren(this=exp.or_(*map(self.build, operands)))
            case NotOf(operand):
                return exp.Paren(this=exp.not_(exp.Paren(this=self.build(operand))))
            case Aggregate(_, argument):
                return self.aggregate(expression, self.build(argument))
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
            kind = sql_type(expression.type)
            whole = exp.Mod(this=_cast(left, kind), expression=_cast(right.copy(), kind))
        by_zero = exp.EQ(this=right, expression=exp.Literal.number(0))
        return exp.Case().when(by_zero, exp.Null()).else_(whole)

    def _comparison(self, expression: Comparison) -> exp.Expr:
        if (value := self._request_value(expression.right)) is not None:
            return self._against(expression.left, expression.operator, value, expression.right.type)
        if (value := self._request_value(expression.left)) is not None and expression.operator in MIRRORED:
            operator = MIRRORED[expression.operator]
            return self._against(expression.right, operator, value, expression.left.type)
        return _compared(self.build(expression.left), expression.operator, self.build(expression.right))

    def _against(self, side: Expression, operator: str, value: object, kind: ValueType) -> exp.Expr:
        """Compare with a value of the request: an F32 side in its own width, an integer side without rounding."""
        if not is_number(side.type):
            return _compared(self.build(side), operator, literal(value, kind))
        if is_integer(side.type) and isinstance(value, float):
            return _with_integer(self.build(side), operator, value)
        is_f32 = cast("PropertyType", side.type).scalar == "F32"
        return _compared(self.build(side), operator, literal(value, side.type) if is_f32 else literal(value, kind))

    def _membership(self, expression: Membership) -> exp.Expr:
        item, values = self.build(expression.item), self._request_value(expression.items)
        if values is None:
            return exp.ArrayContains(this=self.build(expression.items), expression=item)
        if not values:
            return exp.Boolean(this=False)
        kind = PropertyType(cast("PropertyType", expression.items.type).scalar)
        item_kind = expression.item.type
        if isinstance(item_kind, PropertyType) and item_kind.scalar == "F32":
            kind = item_kind
        listed = [literal(each, kind) for each in cast("Sequence[object]", values)]
        return exp.Paren(this=exp.In(this=item, expressions=listed))

    def _request_value(self, expression: Expression) -> object | None:
        """The value of a literal or a parameter; None when it is null or depends on rows."""
        if isinstance(expression, Constant):
            return expression.value
        return self.params[expression.name] if isinstance(expression, ParameterValue) else None


def _compared(left: exp.Expr, operator: str, right: exp.Expr) -> exp.Expr:
    if operator == "contains":
        return exp.Contains(this=left, expression=right)
    if operator == "starts_with":
        return exp.StartsWith(this=left, expression=right)
    return exp.Paren(this=_COMPARISONS[operator](this=left, expression=right))


def _with_integer(integer: exp.Expr, operator: str, value: float) -> exp.Expr:
    """Compare an integer with a float exactly: 64-bit integers do not fit a float, so the float becomes an integer."""
    if not math.isfinite(value) or abs(value) >= 2**100:
        return _compared(_cast(integer, "DOUBLE"), operator, literal(value, PropertyType("F64")))
    floor = math.floor(value)
    if floor != value and operator in ("=", "!="):
        is_null = exp.Is(this=integer, expression=exp.Null())
        return exp.Case().when(is_null, _cast(exp.Null(), "BOOLEAN")).else_(exp.Boolean(this=operator == "!="))
    nearest = operator if floor == value else with_gap(cast("Operator", operator), 1)
    kind = "BIGINT" if abs(floor) < 2**63 else "DECIMAL(38,0)"
    return _compared(integer, nearest, _cast(_scalar(floor), kind))


def sql_type(kind: ValueType) -> str:
    """The SQL type of a property type in DuckDB's spelling; other renderers translate it."""
    if not isinstance(kind, PropertyType):
        return "TEXT"
    name = SQL_TYPES[kind.scalar]
    if kind.scalar == "Vector":
        return f"FLOAT[{kind.dimensions}]"
    return f"{name}[]" if kind.is_list else name


def literal(value: object, kind: ValueType) -> exp.Expr:
    """A literal, cast to its type."""
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
            in_utc = value.astimezone(dt.UTC) if value.tzinfo else value
            return exp.Literal.string(in_utc.replace(tzinfo=None).isoformat(" ", "milliseconds"))
        case dt.date():
            return exp.Literal.string(value.isoformat())
        case _:
            return exp.Literal.string(str(value))
