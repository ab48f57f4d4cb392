"""Literals: their types, and whether one fits a property that it is assigned to or compared with."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, cast

from omnigraph.catalog.catalog import FLOATS, INTEGERS, PropertyType
from omnigraph.errors.inputs import suggestion
from omnigraph.language.ir import types
from omnigraph.language.ir.expressions import Constant, ConstantValue
from omnigraph.language.ir.types import BOOL, DATE, DATETIME, F64, I64, STRING, NullType

if TYPE_CHECKING:
    from omnigraph.language.gq.check.environment import Env
    from omnigraph.language.gq.syntax import expressions as written

_TYPES = {"string": STRING, "integer": I64, "float": F64, "boolean": BOOL, "date": DATE, "datetime": DATETIME}


def literal(env: Env, node: written.LiteralValue) -> Constant | None:
    """A single literal."""
    if node.kind == "null":
        return Constant(None, NullType())
    try:
        return Constant(_value(node), _TYPES[node.kind])
    except ValueError as error:
        env.fail(node.span, "T3", str(error))
        return None


def _value(node: written.LiteralValue) -> ConstantValue:
    if node.kind == "date":
        return types.parse_date(cast("str", node.value))
    if node.kind == "datetime":
        return types.parse_datetime(cast("str", node.value))
    if node.kind == "integer" and cast("int", node.value) not in types.INTEGER_RANGES["I64"]:
        raise ValueError(f"{node.value} does not fit a 64-bit integer")
    return node.value


def list_literal(env: Env, node: written.ListValue) -> Constant | None:
    """A list of literals of one type; integers and floats together are floats; an empty one is [String]."""
    items = [env.check(each) for each in node.items]
    constants = [each for each in items if isinstance(each, Constant)]
    if any(each is None for each in items):
        return None
    if len(constants) < len(items):
        env.fail(node.span, "T0", "a list literal holds literals only: pass other values as a list parameter")
        return None
    return _joined(env, node, constants)


def _joined(env: Env, node: written.ListValue, items: list[Constant]) -> Constant | None:
    types = [each.type for each in items]
    if any(isinstance(each, NullType) for each in types):
        env.fail(node.span, "T0", "a list literal cannot hold null")
        return None
    declared = cast("list[PropertyType]", types)
    if any(each.is_list for each in declared):
        env.fail(node.span, "T0", "a list literal cannot hold another list")
        return None
    scalars = {each.scalar for each in declared} or {"String"}
    if scalars == {"I64", "F64"}:
        floats = tuple(float(cast("float", each.value)) for each in items)
        return Constant(floats, PropertyType("F64", is_list=True))
    if len(scalars) > 1:
        env.fail(node.span, "T0", f"a list literal holds one type, not {' and '.join(sorted(scalars))}")
        return None
    item = declared[0] if declared else STRING
    return Constant(tuple(each.value for each in items), PropertyType(item.scalar, is_list=True))


def convert(value: ConstantValue, to: PropertyType) -> ConstantValue:
    """A literal of a compatible type as a value of a declared type. ValueError says why it is none."""
    if to.scalar == "Vector" or to.is_list:
        return _convert_items(cast("tuple[ConstantValue, ...]", value), to)
    return _convert_one(value, to)


def _convert_items(values: tuple[ConstantValue, ...], to: PropertyType) -> ConstantValue:
    if to.scalar == "Vector" and len(values) != to.dimensions:
        raise ValueError(f"expects {to.dimensions} dimensions, got {len(values)}")
    item = PropertyType("F32" if to.scalar == "Vector" else to.scalar)
    return tuple(_convert_one(each, item) for each in values)


def _convert_one(value: ConstantValue, to: PropertyType) -> ConstantValue:
    if to.scalar in INTEGERS:
        return _integer(cast("float", value), to)
    if to.scalar in FLOATS:
        return _float(cast("float", value), to)
    if to.enum_values is not None and value not in to.enum_values:
        near = suggestion(value, to.enum_values)
        raise ValueError(f"invalid enum value '{value}': expected one of {', '.join(to.enum_values)}{near}")
    return value


def _integer(value: float, to: PropertyType) -> int:
    if value != int(value):
        raise ValueError(f"{value} is not an integer, and {to.scalar} holds no fractions")
    if int(value) not in types.INTEGER_RANGES[to.scalar]:
        raise ValueError(f"{value} is out of range for {to.scalar}")
    return int(value)


def _float(value: float, to: PropertyType) -> float:
    if to.scalar == "F32":
        try:
            struct.pack("<f", value)
        except OverflowError:
            raise ValueError(f"{value} is out of range for F32") from None
    return float(value)
