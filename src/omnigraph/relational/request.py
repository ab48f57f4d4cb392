"""The values of one request, and expressions over them that need no row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.language.query.expressions import (
    Arithmetic,
    Constant,
    Expression,
    Negative,
    Now,
    ParameterValue,
)
from omnigraph.language.schema.catalog import INTEGERS

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping


@dataclass(frozen=True)
class RequestValues:
    """The parameters of a request, and the one instant that `now()` means in it."""

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
    """With the sign of the dividend, as in SQL; integers are not made floats, which cannot hold all of them."""
    if isinstance(left, float) or isinstance(right, float):
        return math.fmod(left, right)
    size = abs(left) % abs(right)
    return -size if left < 0 else size
