"""Which conditions a table can answer itself, as typed filters that mean the same there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from omnigraph.language.query.expressions import (
    AllOf,
    AnyOf,
    Comparison,
    Constant,
    Expression,
    Membership,
    NotOf,
    Now,
    NullTest,
    ParameterValue,
    PropertyValue,
)
from omnigraph.store import filters

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from omnigraph.store.filters import Filter
    from omnigraph.store.literals import Value

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# Lance stops parsing at some depth; what is deeper is evaluated in memory.
_DEEPEST = 8


@dataclass(frozen=True)
class Pushdown:
    """Turns conditions on one variable's properties into filters, for the values of one request."""

    params: Mapping[str, object]
    now: dt.datetime

    def filter_of(self, condition: Expression, depth: int = 0) -> Filter | None:
        """The filter that selects exactly where the condition is true, or None when a table has no such filter."""
        if depth > _DEEPEST:
            return None
        match condition:
            case Comparison():
                return self._comparison(condition)
            case Membership():
                return self._membership(condition)
            case NullTest(PropertyValue(_, name, kind)) if kind.scalar not in {"Blob", "Vector"}:
                return filters.IsNull(name)
            case NotOf(operand):
                inner = self.filter_of(operand, depth + 1)
                return None if inner is None else filters.Not(inner)
            case AllOf(operands) | AnyOf(operands):
                parts = [self.filter_of(each, depth + 1) for each in operands]
                join = filters.All if isinstance(condition, AllOf) else filters.AnyOf
                return None if None in parts else join(cast("tuple[Filter, ...]", tuple(parts)))
            case PropertyValue(_, name, kind) if kind.scalar == "Bool" and not kind.is_list:
                return filters.Compare(name, "=", True)
            case _:
                return None

    def _comparison(self, condition: Comparison) -> Filter | None:
        left, operator, right = condition.left, condition.operator, condition.right
        if isinstance(left, PropertyValue) and self._is_known(right):
            return _compare(left.property, operator, self._value(right))
        if isinstance(right, PropertyValue) and self._is_known(left) and operator in _MIRRORED:
            return _compare(right.property, _MIRRORED[operator], self._value(left))
        return None

    def _membership(self, condition: Membership) -> Filter | None:
        item, items = condition.item, condition.items
        if isinstance(item, PropertyValue) and self._is_known(items):
            values = cast("Any", self._value(items))
            return None if values is None else filters.OneOf(item.property, tuple(values))
        if isinstance(items, PropertyValue) and self._is_known(item):
            value = self._value(item)
            return None if value is None else filters.HasItem(items.property, value)
        return None

    def _is_known(self, expression: Expression) -> bool:
        return isinstance(expression, Constant | ParameterValue | Now)

    def _value(self, expression: Expression) -> Value:
        if isinstance(expression, Constant):
            return cast("Value", expression.value)
        if isinstance(expression, ParameterValue):
            return cast("Value", self.params[expression.name])
        return self.now


def _compare(column: str, operator: str, value: Value) -> Filter | None:
    if operator in ("contains", "starts_with"):
        return None if value is None else filters.Text(column, cast("Any", operator), cast("str", value))
    return filters.Compare(column, cast("Any", operator), value)
