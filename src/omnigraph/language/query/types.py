"""The types of values in a query, and which of them go together.

A value has a declared type (`PropertyType`), or is a whole node, edge or path (`EntityType`), or is the null literal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

from omnigraph.language.record import record
from omnigraph.language.schema.catalog import INTEGERS, NUMERIC, PropertyType


@record
class EntityType:
    """A node, an edge or a path as a value. `name` is what it was declared as: a node type, an interface, an edge."""

    kind: Literal["node", "edge", "path"]
    name: str
    nullable: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}{'?' if self.nullable else ''}"


@record
class NullType:
    """The type of the literal `null`."""

    nullable: bool = True

    def __str__(self) -> str:
        return "null"


ValueType: TypeAlias = PropertyType | EntityType | NullType

STRING = PropertyType("String")
BOOL = PropertyType("Bool")
I64 = PropertyType("I64")
F64 = PropertyType("F64")
DATE = PropertyType("Date")
DATETIME = PropertyType("DateTime")


def nullable(value: PropertyType) -> PropertyType:
    """The same type, with null among its values."""
    return replace(value, nullable=True)


def or_null(value: PropertyType, *sources: ValueType) -> PropertyType:
    """A type that is nullable as soon as one of the values it is made from is."""
    return nullable(value) if any(each.nullable for each in sources) else value


def is_scalar(value: ValueType) -> bool:
    """One value that has an order: no list, vector, blob, entity or bare null."""
    return isinstance(value, PropertyType) and not value.is_list and value.scalar not in {"Vector", "Blob"}


def is_number(value: ValueType) -> bool:
    """A single integer or float."""
    return isinstance(value, PropertyType) and not value.is_list and value.scalar in NUMERIC


def is_integer(value: ValueType) -> bool:
    """A single integer."""
    return isinstance(value, PropertyType) and not value.is_list and value.scalar in INTEGERS


def is_text(value: ValueType) -> bool:
    """A single String; an enum is one."""
    return isinstance(value, PropertyType) and not value.is_list and value.scalar == "String"


def is_truth(value: ValueType) -> bool:
    """A single Bool."""
    return isinstance(value, PropertyType) and not value.is_list and value.scalar == "Bool"


def is_blob(value: ValueType) -> bool:
    """A Blob, which is never read as a value."""
    return isinstance(value, PropertyType) and value.scalar == "Blob"


def same_scalar(left: PropertyType, right: PropertyType) -> bool:
    """Equal scalars, or two numbers of any width."""
    return left.scalar == right.scalar or (left.scalar in NUMERIC and right.scalar in NUMERIC)


def comparable(left: ValueType, right: ValueType) -> bool:
    """Whether `=` and `<` mean something between the two."""
    if not isinstance(left, PropertyType) or not isinstance(right, PropertyType):
        return False
    return is_scalar(left) and is_scalar(right) and same_scalar(left, right)


def arithmetic_type(operator: str, left: ValueType, right: ValueType) -> PropertyType:
    """The type of a sum or a product of two numbers. `/` and `%` by zero are null, so theirs is nullable."""
    integers = is_integer(left) and is_integer(right) and operator != "/"
    result = I64 if integers else F64
    return nullable(result) if operator in {"/", "%"} else or_null(result, left, right)
