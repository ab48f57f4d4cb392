"""Rules of the grammar that make expressions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.language.core.diagnostics import SyntaxFault
from omnigraph.language.gq.syntax import expressions as made
from omnigraph.language.gq.syntax.build_parts import Children, nodes, number, span_between, span_of, token, unquoted
from omnigraph.language.ir.types import parse_float

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.language.gq.syntax.expressions import Expression

# One more than the largest: `-9223372036854775808` is a literal, and its digits are read before its sign.
_MAGNITUDE = 2**63 + 1


def _string(children: Children) -> Expression:
    return made.LiteralValue("string", unquoted(children[0]), span_between(children))


def _integer(children: Children) -> Expression:
    return made.LiteralValue(
        "integer", number(children[0], below=_MAGNITUDE, what="an integer"), span_between(children)
    )


def _float(children: Children) -> Expression:
    try:
        return made.LiteralValue("float", parse_float(children[0]), span_between(children))
    except ValueError as error:
        raise SyntaxFault(span_between(children), str(error)) from error


def _boolean(children: Children) -> Expression:
    return made.LiteralValue("boolean", str(children[0]) == "true", span_between(children))


def _null(children: Children) -> Expression:
    return made.LiteralValue("null", None, span_between(children))


def _temporal(children: Children) -> Expression:
    kind: made.LiteralKind = "date" if children[0].type == "DATE" else "datetime"
    return made.LiteralValue(kind, unquoted(token(children, "STRING")), span_between(children))


def _list(children: Children) -> Expression:
    return made.ListValue(nodes(children), span_between(children))


def _variable(children: Children) -> Expression:
    return made.VariableUse(children[0][1:], span_between(children))


def _property(children: Children) -> Expression:
    return made.PropertyUse(children[0][1:], str(children[2]), span_between(children))


def _name(children: Children) -> Expression:
    return made.NameUse(str(children[0]), span_between(children))


def _call(children: Children) -> Expression:
    distinct = token(children, "DISTINCT") is not None
    return made.Call(str(children[0]), nodes(children), distinct, span_between(children))


def _parenthesised(children: Children) -> Expression:
    inside: Expression = children[1]
    return replace(inside, span=span_between(children))


def _negative(children: Children) -> Expression:
    operand: Expression = children[1]
    if isinstance(operand, made.LiteralValue) and operand.kind in {"integer", "float"}:
        return made.LiteralValue(operand.kind, -operand.value, span_between(children))  # type: ignore[operator]
    return made.Negative(operand, span_between(children))


def _arithmetic(children: Children) -> Expression:
    return made.Arithmetic(str(children[1]), children[0], children[2], span_between(children))  # type: ignore[arg-type]


def _comparison(children: Children) -> Expression:
    return made.Comparison(str(children[1]), children[0], children[2], span_between(children))  # type: ignore[arg-type]


def _null_test(children: Children) -> Expression:
    return made.NullTest(children[0], token(children, "NOT") is not None, span_between(children))


def _membership(children: Children) -> Expression:
    return made.Membership(children[0], children[-1], token(children, "NOT_IN") is not None, span_between(children))


def _all_of(children: Children) -> Expression:
    return made.AllOf(nodes(children), span_between(children))


def _any_of(children: Children) -> Expression:
    return made.AnyOf(nodes(children), span_between(children))


def _not_of(children: Children) -> Expression:
    return made.NotOf(children[1], span_of(children[0]).to(span_of(children[1])))


RULES: dict[str, Callable[[Children], object]] = {
    "string": _string,
    "integer": _integer,
    "float": _float,
    "boolean": _boolean,
    "null": _null,
    "temporal": _temporal,
    "list": _list,
    "variable": _variable,
    "property": _property,
    "name": _name,
    "call": _call,
    "parenthesised": _parenthesised,
    "negative": _negative,
    "arithmetic": _arithmetic,
    "comparison": _comparison,
    "null_test": _null_test,
    "membership": _membership,
    "all_of": _all_of,
    "any_of": _any_of,
    "not_of": _not_of,
}
