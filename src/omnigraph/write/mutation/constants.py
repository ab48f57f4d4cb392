"""Expressions that do not depend on a row, as Python values; and Python values as Arrow columns."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.language.schema.catalog import PropertyType

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_BLOB_TEXT = "base64:"


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
        if declared.scalar == "Blob":
            blobs: pa.Array[Any] = pa.array([_blob(each) for each in values], kind)
            return blobs
        if declared.scalar == "DateTime":
            carrier = pa.list_(pa.int64()) if declared.is_list else pa.int64()
            moments: pa.Array[Any] = pa.array([_milliseconds(each) for each in values], carrier).cast(kind)
            return moments
        plain: pa.Array[Any] = pa.array(values, kind)
        return plain
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError) as error:
        type_name, _, property_name = of.partition(".")
        raise ConstraintViolation(
            f"{of} is {declared}: {error}", type_name=type_name, property_name=property_name or None
        ) from error


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


def _milliseconds(value: object) -> Any:
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // dt.timedelta(milliseconds=1)
    return [_milliseconds(each) for each in value] if isinstance(value, list | tuple) else value


def _blob(value: object) -> dict[str, object] | None:
    if value is None:
        return None
    text = str(value)
    if not text.startswith(_BLOB_TEXT):
        return {"data": None, "uri": text}
    try:
        return {"data": base64.b64decode(text.removeprefix(_BLOB_TEXT), validate=True), "uri": None}
    except binascii.Error as error:
        raise ValueError(f"a blob that begins with {_BLOB_TEXT} must go on with base64 text: {error}") from error
