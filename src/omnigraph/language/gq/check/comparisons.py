"""Conditions: comparisons, membership, null tests, and what joins them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.catalog.catalog import PropertyType
from omnigraph.language.gq.check.constants import convert
from omnigraph.language.gq.syntax import expressions as written
from omnigraph.language.ir import expressions as made
from omnigraph.language.ir.types import (
    STRING,
    EntityType,
    NullType,
    ValueType,
    comparable,
    is_blob,
    is_scalar,
    is_text,
    is_truth,
    nullable,
    same_scalar,
)

if TYPE_CHECKING:
    from omnigraph.language.gq.check.environment import Env
    from omnigraph.language.ir.expressions import Expression


def condition(env: Env, node: written.Expression) -> Expression | None:
    """An expression that must be true or false."""
    checked = env.check(node)
    if checked is None or is_truth(checked.type):
        return checked
    _fail_operand(env, node, checked.type, "T7", f"a condition is true or false, and this is {checked.type}")
    return None


def all_of(env: Env, node: written.AllOf) -> Expression | None:
    """`a and b`."""
    operands = _conditions(env, node.operands)
    return made.AllOf(operands) if operands else None


def any_of(env: Env, node: written.AnyOf) -> Expression | None:
    """`a or b`."""
    operands = _conditions(env, node.operands)
    return made.AnyOf(operands) if operands else None


def not_of(env: Env, node: written.NotOf) -> Expression | None:
    """`not a`."""
    operand = condition(env, node.operand)
    return made.NotOf(operand) if operand is not None else None


def _conditions(env: Env, nodes: tuple[written.Expression, ...]) -> tuple[Expression, ...] | None:
    checked = [condition(env, each) for each in nodes]
    passed = tuple(each for each in checked if each is not None)
    return passed if len(passed) == len(checked) else None


def null_test(env: Env, node: written.NullTest) -> Expression | None:
    """`a is null`, also of an entity that an optional match may not have found."""
    operand = env.check(node.operand)
    if operand is None:
        return None
    if is_blob(operand.type) or isinstance(operand.type, NullType):
        _fail_operand(env, node.operand, operand.type, "T7", f"{operand.type} cannot be tested for null")
        return None
    test = made.NullTest(operand)
    return made.NotOf(test) if node.negated else test


# -- membership --------------------------------------------------------------------------------------------------------


def membership(env: Env, node: written.Membership) -> Expression | None:
    """`a in list`."""
    found = _membership(env, node)
    return made.NotOf(found) if found is not None and node.negated else found


def _membership(env: Env, node: written.Membership) -> Expression | None:
    if isinstance(node.items, written.ListValue) and not _all_literals(node.items):
        return _one_of(env, node, node.items)
    item, items = env.check(node.item), env.check(node.items)
    if item is None or items is None:
        return None
    return is_member(env, node, item, items)


def _all_literals(node: written.ListValue) -> bool:
    return all(isinstance(each, written.LiteralValue | written.ListValue) for each in node.items)


def _one_of(env: Env, node: written.Membership, items: written.ListValue) -> Expression | None:
    """`a in [$x, b + 1]` is `a = $x or a = b + 1`."""
    equals = tuple(written.Comparison("=", node.item, each, each.span) for each in items.items)
    return any_of(env, written.AnyOf(equals, node.span))


def is_member(env: Env, node: written.Expression, item: Expression, items: Expression) -> Expression | None:
    """Whether an item is in a list, when the types allow the question."""
    if not isinstance(items.type, PropertyType) or not items.type.is_list:
        env.fail(node.span, "T7", f"this needs a list, not {items.type}")
        return None
    empty = isinstance(items, made.Constant) and items.value == ()
    if not isinstance(item.type, PropertyType) or not is_scalar(item.type):
        _fail_operand(env, node, item.type, "T7", f"{item.type} cannot be an item of {items.type}")
        return None
    if not empty and not same_scalar(item.type, items.type):
        env.fail(node.span, "T7", f"{item.type} cannot be an item of {items.type}")
        return None
    if not _are_enum_values(env, node, item, items):
        return None
    return made.Membership(item, items)


# -- comparisons -------------------------------------------------------------------------------------------------------


def comparison(env: Env, node: written.Comparison) -> Expression | None:
    """`a < b`, `a contains b`, `a starts_with b`, and `$a = $b` between nodes."""
    left, right = env.check(node.left), env.check(node.right)
    if left is None or right is None:
        return None
    return compared(env, node, left, right)


def compared(env: Env, node: written.Comparison, left: Expression, right: Expression) -> Expression | None:
    """A comparison of two checked operands."""
    if isinstance(left.type, NullType) or isinstance(right.type, NullType):
        env.fail(node.span, "T7", "a comparison with null matches nothing: write `is null` or `is not null`")
        return None
    if node.operator == "contains" and isinstance(left.type, PropertyType) and left.type.is_list:
        return is_member(env, node, right, left)
    if node.operator in {"contains", "starts_with"}:
        return _text_comparison(env, node, left, right)
    if isinstance(left.type, EntityType) or isinstance(right.type, EntityType):
        return _same_entity(env, node, left, right)
    if (
        isinstance(left, made.TextMatch)
        and isinstance(right, made.Constant)
        and node.operator == "="
        and right.value is True
    ):
        return left
    if comparable(left.type, right.type):
        if node.operator in {"=", "!="} and not (
            _are_enum_values(env, node.right, left, right) and _are_enum_values(env, node.left, right, left)
        ):
            return None
        return made.Comparison(node.operator, left, right)
    _fail_comparison(env, node, left.type, right.type)
    return None


def _are_enum_values(env: Env, node: written.Expression, operand: Expression, literal: Expression) -> bool:
    """Whether a literal, or each item of a list, is a value of the enum property that it is compared with."""
    if not isinstance(operand, made.PropertyValue | made.RowValue | made.ColumnValue) or not isinstance(
        literal, made.Constant
    ):
        return True
    if not isinstance(operand.type, PropertyType) or operand.type.enum_values is None or operand.type.is_list:
        return True
    for each in literal.value if isinstance(literal.value, tuple) else (literal.value,):
        try:
            convert(each, operand.type)
        except ValueError as error:
            env.fail(node.span, "T3", str(error))
            return False
    return True


def _text_comparison(env: Env, node: written.Comparison, left: Expression, right: Expression) -> Expression | None:
    if is_text(left.type) and is_text(right.type):
        return made.Comparison(node.operator, left, right)
    wanted = "two Strings, or a list and an item" if node.operator == "contains" else "two Strings"
    wrong = next((each.type for each in (left, right) if isinstance(each.type, EntityType)), left.type)
    _fail_operand(env, node, wrong, "T7", f"{node.operator} needs {wanted}, not {left.type} and {right.type}")
    return None


def _same_entity(env: Env, node: written.Comparison, left: Expression, right: Expression) -> Expression | None:
    """Two nodes are equal when their ids are; the two sides must be able to be of one type."""
    both = isinstance(left, made.EntityValue) and isinstance(right, made.EntityValue)
    if both and node.operator in {"=", "!="} and _may_be_one(env, left, right):  # type: ignore[arg-type]
        return made.Comparison(node.operator, _id_of(left), _id_of(right))  # type: ignore[arg-type]
    wrong = left.type if isinstance(left.type, EntityType) else right.type
    _fail_operand(env, node, wrong, "T7", f"a filter compares single values, not {left.type} and {right.type}")
    return None


def _may_be_one(env: Env, left: made.EntityValue, right: made.EntityValue) -> bool:
    assert env.scope is not None
    first, second = env.scope.find(left.variable), env.scope.find(right.variable)
    if first is None or second is None or first.variable.kind != second.variable.kind:
        return False
    return first.variable.kind == "node" and bool(set(first.variable.types) & set(second.variable.types))


def _id_of(entity: made.EntityValue) -> made.PropertyValue:
    return made.PropertyValue(entity.variable, "id", nullable(STRING) if entity.type.nullable else STRING)


def _fail_comparison(env: Env, node: written.Comparison, left: ValueType, right: ValueType) -> None:
    for operand in (left, right):
        if not is_scalar(operand):
            _fail_operand(env, node, operand, "T7", f"{operand} values cannot be compared with {node.operator}")
            return
    env.fail(node.span, "T7", f"cannot compare {left} with {right}{date_hint(left, right)}")


def date_hint(left: ValueType, right: ValueType) -> str:
    """How to write a date, when a text was given for one."""
    names = {str(left).rstrip("?"), str(right).rstrip("?")}
    for temporal, function in (("Date", "date"), ("DateTime", "datetime")):
        if names == {temporal, "String"}:
            return f': write {function}("…"), or declare the parameter as {temporal}'
    return ""


def _fail_operand(env: Env, node: written.Expression, operand: ValueType, code: str, message: str) -> None:
    """An edge or a Blob in the wrong place has a code of its own."""
    if isinstance(operand, EntityType) and operand.kind == "edge":
        env.fail(node.span, "T23", f"{message}: use a property of the edge, such as its id")
    elif is_blob(operand) and env.clause == "where":
        env.fail(node.span, "T11", f"{message}: a Blob cannot stand in where")
    else:
        env.fail(node.span, code, message)


def field_condition(env: Env, field_name: written.PropertyUse, value_node: written.Expression) -> Expression | None:
    """`{ name: value }` in a binding: equality, or membership when the property is a list."""
    target, value = env.check(field_name), env.check(value_node)
    if target is None or value is None or not isinstance(target.type, PropertyType):
        return None
    if (problem := _field_problem(target.type, value)) is not None:
        env.fail(value_node.span, *problem)
        return None
    node = written.Comparison("contains" if target.type.is_list else "=", field_name, value_node, value_node.span)
    return compared(env, node, target, value)


def _field_problem(target: PropertyType, value: Expression) -> tuple[str, str] | None:
    if is_blob(target):
        return "T3", "a Blob cannot be matched"
    if isinstance(value.type, NullType):
        return "T3", "null matches nothing: write a filter with `is null`"
    if target.is_list and isinstance(value.type, PropertyType) and value.type.is_list:
        return "T3", f"a binding matches one item of {target}, not a whole list"
    if isinstance(value, made.Constant):
        return _literal_problem(target, value)
    return None


def _literal_problem(target: PropertyType, value: made.Constant) -> tuple[str, str] | None:
    if not isinstance(value.type, PropertyType) or value.type.is_list or not same_scalar(target, value.type):
        return "T3", f"expected {target}, got {value.type}{date_hint(target, value.type)}"
    if target.enum_values is None or target.is_list:
        return None
    try:
        convert(value.value, target)
    except ValueError as error:
        return "T3", str(error)
    return None
