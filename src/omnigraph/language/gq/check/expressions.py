"""Checks names, literals, arithmetic and function calls by name.

Comparisons, aggregates and search functions are delegated to the neighbouring modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.errors.inputs import suggestion
from omnigraph.language.gq.check import comparisons, constants, functions, names
from omnigraph.language.gq.syntax import expressions as written
from omnigraph.language.ir import expressions as made
from omnigraph.language.ir.expressions import Now
from omnigraph.language.ir.types import DATETIME, F64, I64, NullType, arithmetic_type, is_integer, is_number, or_null

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.language.gq.check.environment import Env
    from omnigraph.language.ir.expressions import Expression


def call(env: Env, node: written.Call) -> Expression | None:
    """Check a function call by the rules of its function."""
    if (check := _FUNCTIONS.get(node.function)) is None:
        hint = suggestion(node.function, _FUNCTIONS) or f": there are {', '.join(sorted(_FUNCTIONS))}"
        env.fail(node.span, "T0", f"there is no function {node.function}(){hint}")
        return None
    if node.distinct and node.function not in functions.FUNCTIONS:
        env.fail(node.span, "T9", f"distinct belongs in an aggregate, not into {node.function}()")
        return None
    return check(env, node)


def _now(env: Env, node: written.Call) -> Expression | None:
    if node.arguments:
        env.fail(node.span, "T7", "now() takes no arguments")
        return None
    env.session.uses_now = True
    return Now(DATETIME)


_FUNCTIONS: dict[str, Callable[[Env, written.Call], Expression | None]] = {
    "now": _now,
    "search": functions.text_match,
    "match_text": functions.text_match,
    "fuzzy": functions.text_match,
    "nearest": functions.nearest,
    "bm25": functions.bm25,
    "rrf": functions.rrf,
    **dict.fromkeys(functions.FUNCTIONS, functions.aggregate),
}


def check_expression(env: Env, node: written.Expression) -> Expression | None:
    """The typed expression, or None if an error in it was reported."""
    return _CHECKS[type(node)](env, node)


def _negative(env: Env, node: written.Negative) -> Expression | None:
    operand = _number(env, node.operand)
    if operand is None:
        return None
    return made.Negative(operand, or_null(I64 if is_integer(operand.type) else F64, operand.type))


def _arithmetic(env: Env, node: written.Arithmetic) -> Expression | None:
    left, right = _number(env, node.left), _number(env, node.right)
    if left is None or right is None:
        return None
    return made.Arithmetic(node.operator, left, right, arithmetic_type(node.operator, left.type, right.type))


def _number(env: Env, node: written.Expression) -> Expression | None:
    operand = env.check(node)
    if operand is None or is_number(operand.type):
        return operand
    hint = ": null has no arithmetic" if isinstance(operand.type, NullType) else ""
    env.fail(node.span, "T7", f"arithmetic needs numbers, not {operand.type}{hint}")
    return None


_CHECKS: dict[type[object], Callable[[Env, Any], Expression | None]] = {
    written.LiteralValue: constants.literal,
    written.ListValue: constants.list_literal,
    written.VariableUse: names.variable,
    written.PropertyUse: names.property_of,
    written.NameUse: names.bare_word,
    written.Call: call,
    written.Negative: _negative,
    written.Arithmetic: _arithmetic,
    written.Comparison: comparisons.comparison,
    written.NullTest: comparisons.null_test,
    written.Membership: comparisons.membership,
    written.AllOf: comparisons.all_of,
    written.AnyOf: comparisons.any_of,
    written.NotOf: comparisons.not_of,
}
