"""Expressions that do not depend on a row, as Python values; and Python values as Arrow columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import ConstraintViolation
from omnigraph.language.query.expressions import (
    Arithmetic,
    Constant,
    Expression,
    Negative,
    Now,
    ParameterValue,
    RowValue,
    walk,
)
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.schema.catalog import INTEGERS
from omnigraph.write.load.values import WrongValue, stored_value

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    from omnigraph.language.schema.catalog import PropertyType

# Stored values are numbers where Arrow has a type of its own for them.
_CARRIERS: dict[Any, Any] = {
    pa.date32(): pa.int32(),
    pa.date64(): pa.int64(),
    pa.list_(pa.field("item", pa.date32())): pa.list_(pa.int32()),
    pa.list_(pa.field("item", pa.date64())): pa.list_(pa.int64()),
}


@dataclass(frozen=True)
class Request:
    """The values of one request: its parameters, and the one instant that `now()` means in it."""

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


def depends_on_row(expression: Expression) -> bool:
    """Whether an expression needs the row that is worked on."""
    return any(isinstance(each, RowValue) for each in walk(expression))


def column(values: Sequence[object], declared: PropertyType, *, of: str) -> pa.Array[Any]:
    """Values of a declared type as a column; `of` names the type and property for the message when one does not fit."""
    kind: Any = arrow_type(declared)
    try:
        stored = [None if each is None else stored_value(declared, each) for each in values]
    except WrongValue as error:
        type_name, _, property_name = of.partition(".")
        raise ConstraintViolation(f"{of}: {error}", type_name=type_name, property_name=property_name) from error
    made: pa.Array[Any] = pa.array(stored, _CARRIERS.get(kind, kind)).cast(kind)
    return made


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
            result = None if right == 0 else math.fmod(left, right)
    return int(result) if result is not None and expression.type.scalar in INTEGERS else result
