"""Predicate push-down: translates conditions into typed filters of a table that select the same rows.

Reads, mutations and Spark all use this module, so that a predicate selects the same rows in each of them.
`RequestValues` evaluates the expressions that depend on no row.

What is not pushed, and values computed from rows, DuckDB evaluates over Arrow rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sqlglot import exp

from omnigraph.catalog.catalog import INTEGERS
from omnigraph.catalog.defaults import INTEGER_LIMITS
from omnigraph.errors import ConstraintViolation
from omnigraph.expressions.sql import SqlBuilder
from omnigraph.kernels.duckdb_pool import NO_RESULT, connection, rows_to_duckdb
from omnigraph.language.ir.expressions import (
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
    PropertyValue,
    RowValue,
    conjuncts,
)
from omnigraph.storage.filters import model as filters
from omnigraph.storage.filters.literals import MIRRORED
from omnigraph.values.columns import stored_column
from omnigraph.values.scalars import WrongValue, stored_value

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from omnigraph.catalog.catalog import PropertyType
    from omnigraph.storage.filters.literals import Value
    from omnigraph.storage.filters.model import Filter


@dataclass(frozen=True)
class RequestValues:
    """The parameters of a request, and the instant that `now()` returns throughout it."""

    params: Mapping[str, object]
    now: dt.datetime

    def value(self, expression: Expression) -> Any:
        """The value of an expression that does not depend on a row."""
        match expression:
            case Constant(value):
                return value
            case ParameterValue(name):
                return self.params[name]
            case Now():
                return self.now
            case Negative(operand):
                number = self.value(operand)
                return None if number is None else -number
            case Arithmetic():
                return _calculate(expression, self.value(expression.left), self.value(expression.right))
        raise AssertionError(f"{type(expression).__name__} depends on a row")


def is_constant(expression: Expression) -> bool:
    """Whether an expression has one value for the whole request."""
    match expression:
        case Constant() | ParameterValue() | Now():
            return True
        case Negative(operand):
            return is_constant(operand)
        case Arithmetic(_, left, right):
            return is_constant(left) and is_constant(right)
        case _:
            return False


def _calculate(expression: Arithmetic, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    match expression.operator:
        case "+":
            result = left + right
        case "-":
            result = left - right
        case "*":
            result = left * right
        case "/":
            result = None if right == 0 else left / right
        case "%":
            result = None if right == 0 else _remainder(left, right)
    return int(result) if result is not None and expression.type.scalar in INTEGERS else result


def _remainder(left: Any, right: Any) -> Any:
    """The remainder with the sign of the dividend, as in SQL. Integers are not converted to floats, which round."""
    if isinstance(left, float) or isinstance(right, float):
        return math.fmod(left, right)
    size = abs(left) % abs(right)
    return -size if left < 0 else size


# Lance refuses to parse deeper expressions; those are evaluated in memory.
_DEEPEST = 8
_NOT_SCANNED = frozenset({"Blob", "Vector"})


@dataclass(frozen=True)
class Predicate:
    """A condition in two parts: the pushed-down filter, and the rest, to be evaluated over the rows it selects."""

    filter: Filter | None
    rest: tuple[Expression, ...]


def split(condition: Expression, values: RequestValues) -> Predicate:
    """Push down every conjunct for which the table has an equal filter; most conditions are pushed down whole."""
    pushed, rest = [], []
    for each in conjuncts(condition):
        found = filter_of(each, values)
        if found is None:
            rest.append(each)
        else:
            pushed.append(found)
    return Predicate(filters.And(tuple(pushed)) if pushed else None, tuple(rest))


def filter_of(condition: Expression, values: RequestValues, depth: int = 0) -> Filter | None:
    """The filter that is true exactly where the condition is true, or None when there is no such filter.

    The condition is about one variable, or about the row of a mutation; its properties are the columns of the filter.
    """
    if depth > _DEEPEST:
        return None
    match condition:
        case Comparison():
            return _comparison(condition, values)
        case Membership():
            return _membership(condition, values)
        case NullTest(PropertyValue() | RowValue() as column) if column.type.scalar not in _NOT_SCANNED:
            return filters.IsNull(column.property)
        case NotOf(operand):
            inner = filter_of(operand, values, depth + 1)
            return None if inner is None else filters.Not(inner)
        case AllOf(operands) | AnyOf(operands):
            pushed_operands = [filter_of(each, values, depth + 1) for each in operands]
            join = filters.And if isinstance(condition, AllOf) else filters.Or
            return None if None in pushed_operands else join(cast("tuple[Filter, ...]", tuple(pushed_operands)))
        case PropertyValue() | RowValue() if condition.type.scalar == "Bool" and not condition.type.is_list:
            return filters.Compare(condition.property, "=", True)
        case _:
            return None


def _comparison(condition: Comparison, values: RequestValues) -> Filter | None:
    left, operator, right = condition.left, condition.operator, condition.right
    if isinstance(left, PropertyValue | RowValue) and _is_pushable(right, values):
        return _compare(left, operator, values.value(right))
    if isinstance(right, PropertyValue | RowValue) and _is_pushable(left, values) and operator in MIRRORED:
        return _compare(right, MIRRORED[operator], values.value(left))
    return None


def _membership(condition: Membership, values: RequestValues) -> Filter | None:
    item, items = condition.item, condition.items
    if isinstance(item, PropertyValue | RowValue) and is_constant(items):
        listed = cast("Any", values.value(items))
        return None if listed is None else filters.OneOf(item.property, tuple(listed))
    if isinstance(items, PropertyValue | RowValue) and _is_pushable(item, values):
        value = values.value(item)
        return None if value is None else filters.HasItem(items.property, value)
    return None


def _is_pushable(expression: Expression, values: RequestValues) -> bool:
    """Whether the value is constant. One that overflows its type is left to the engine, which raises an error."""
    if not is_constant(expression):
        return False
    scalar = getattr(expression.type, "scalar", None)
    value = values.value(expression)
    if scalar not in INTEGERS or not isinstance(value, int):
        return True
    smallest, largest = INTEGER_LIMITS[scalar]
    return smallest <= value <= largest


def _compare(column: PropertyValue | RowValue, operator: str, value: Value) -> Filter | None:
    if column.type.is_list or column.type.scalar in _NOT_SCANNED:
        return None
    if operator in ("contains", "starts_with"):
        return (
            None if value is None else filters.TextPredicate(column.property, cast("Any", operator), cast("str", value))
        )
    return filters.Compare(column.property, cast("Any", operator), value)


def column(values: Sequence[object], declared: PropertyType, *, of: str) -> pa.Array[Any]:
    """Values of a declared type as a column; `of` is `Type.property`, for the error when a value does not fit."""
    try:
        stored = [None if each is None else stored_value(declared, each) for each in values]
    except WrongValue as error:
        type_name, _, property_name = of.partition(".")
        raise ConstraintViolation(f"{of}: {error}", type_name=type_name, property_name=property_name) from error
    return stored_column(declared, stored)


def matching(rows: pa.Table, conditions: tuple[Expression, ...], request: RequestValues) -> pa.Table:
    """The rows for which all conditions are true."""
    if not conditions or not rows.num_rows:
        return rows
    condition = _builder(request).build(AllOf(conditions))
    return rows.filter(_select(rows, {"matches": condition}).column("matches"))


def computed(rows: pa.Table, values: dict[str, tuple[Expression, PropertyType]], request: RequestValues) -> pa.Table:
    """New columns, computed from the values of each row."""
    builder = _builder(request)
    return _select(rows, {name: builder.build(value) for name, (value, _) in values.items()})


def _builder(request: RequestValues) -> SqlBuilder:
    return SqlBuilder(request.params, request.now, _column)


def _column(expression: Expression) -> exp.Expr:
    assert isinstance(expression, RowValue), type(expression).__name__
    return exp.column(expression.property, quoted=True)


def _select(rows: pa.Table, columns: dict[str, exp.Expr]) -> pa.Table:
    projected = [exp.alias_(value, name, quoted=True) for name, value in columns.items()]
    query = exp.select(*projected).from_("given")
    with connection() as duck:
        duck.register("given", rows_to_duckdb(rows))
        try:
            answer: pa.Table = duck.sql(query.sql("duckdb")).to_arrow_table()
        except NO_RESULT as error:
            raise ConstraintViolation(f"a value cannot be computed: {error}", type_name="") from error
    return answer
