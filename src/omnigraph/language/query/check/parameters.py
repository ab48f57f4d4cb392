"""The declared parameters of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.language.query.check.environment import ANONYMOUS
from omnigraph.language.query.checked import Parameter

if TYPE_CHECKING:
    from omnigraph.language.query import syntax
    from omnigraph.language.query.check.environment import Session

# The released engine passes the instant of a request under this name.
_RESERVED = "__nanograph_now"
_TYPES = "String, Bool, I32, I64, U32, U64, F32, F64, Date, DateTime, Blob, a list [T] of them, or Vector(n)"


def declare_parameters(session: Session) -> tuple[Parameter, ...]:
    """Every parameter with its type; from now on expressions can use them."""
    declared = []
    for each in session.query.parameters:
        if (problem := _problem(session, each)) is not None:
            session.report(each.span, "T0", problem)
        elif each.type is not None:
            declared.append(Parameter(each.name, each.type))
            session.parameters[each.name] = each.type
    return tuple(declared)


def _problem(session: Session, parameter: syntax.Parameter) -> str | None:
    if parameter.name in {_RESERVED, ANONYMOUS}:
        return f"${parameter.name} is reserved and cannot be a parameter"
    if parameter.name in session.parameters:
        return f"${parameter.name} is declared twice"
    if parameter.type is None:
        return f"unknown parameter type {parameter.type_text}: use {_TYPES}"
    return None
