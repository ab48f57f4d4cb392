"""Assignments: whether a value can become the value of a property."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.language.query import expressions as made
from omnigraph.language.query.check.comparisons import date_hint
from omnigraph.language.query.check.constants import convert
from omnigraph.language.query.checked import Assignment
from omnigraph.language.query.types import NullType, same_scalar
from omnigraph.language.schema.catalog import NUMERIC, PropertyType

if TYPE_CHECKING:
    from omnigraph.language.query import syntax
    from omnigraph.language.query.check.environment import Env
    from omnigraph.language.query.expressions import Expression


def assign(env: Env, field: syntax.Field, name: str, to: PropertyType) -> Assignment | None:
    """The checked assignment of one field; a literal gets the property's own type."""
    value = env.check(field.value)
    if value is None:
        return None
    code = "T3" if isinstance(value, made.Constant) else "T7"
    try:
        return Assignment(name, to, _fitted(value, to))
    except ValueError as error:
        env.fail(field.value.span, code, f"property '{name}': {error}")
        return None


def _fitted(value: Expression, to: PropertyType) -> Expression:
    if isinstance(value.type, NullType):
        if not to.nullable:
            raise ValueError(f"{to} cannot be null")
        return made.Constant(None, to)
    if isinstance(value, made.Constant) and isinstance(value.type, PropertyType):
        return _fitted_literal(value, value.type, to)
    if not isinstance(value.type, PropertyType) or not _goes_into(value.type, to):
        raise ValueError(_mismatch(value, to))
    return value


def _fitted_literal(value: made.Constant, given: PropertyType, to: PropertyType) -> Expression:
    if value.value == () and to.is_list:
        return made.Constant((), to)
    if to.scalar == "Vector" and given.is_list:
        if given.scalar not in NUMERIC:
            raise ValueError("vector elements must be numeric")
    elif not _goes_into(given, to):
        raise ValueError(_mismatch(value, to))
    return made.Constant(convert(value.value, to), to)


def _goes_into(given: PropertyType, to: PropertyType) -> bool:
    if to.scalar == "Blob":
        return not given.is_list and given.scalar in {"Blob", "String"}
    if to.scalar == "Vector":
        return given.scalar == "Vector" and given.dimensions == to.dimensions
    return given.is_list == to.is_list and given.scalar != "Vector" and same_scalar(given, to)


def _mismatch(value: Expression, to: PropertyType) -> str:
    return f"expected {to}, got {value.type}{date_hint(to, value.type)}"
