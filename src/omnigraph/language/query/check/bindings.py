"""Bindings: `$p: Person`, `$n: Named`, and the variables that edges and paths introduce."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.language.query import expression_syntax as written
from omnigraph.language.query.check.comparisons import field_condition
from omnigraph.language.query.check.environment import ANONYMOUS
from omnigraph.language.query.check.names import visible
from omnigraph.language.query.checked import Variable
from omnigraph.language.suggestion import suggestion

if TYPE_CHECKING:
    from omnigraph.language.query import syntax
    from omnigraph.language.query.check.environment import Env, Known, Scope, Session
    from omnigraph.language.query.expressions import Expression


def declare_binding(session: Session, scope: Scope, binding: syntax.Binding) -> Known | None:
    """The variable of a binding, known from now on."""
    name = binding.variable.name
    variable = _typed(session, binding)
    if variable is None or refuse_parameter(session, binding.variable):
        session.give_up(name)
        return None
    if name == ANONYMOUS:
        return scope.declare(replace(variable, name=session.anonymous()))
    known = scope.find(name)
    if known is None:
        return scope.declare(variable)
    if known.variable.kind != "node":
        session.report(binding.span, "T23", f"${name} is {known.article()} and cannot be bound as a node")
        return None
    if known.variable.declared != variable.declared:
        message = f"${name} is a {known.variable.declared} already and cannot be a {variable.declared} as well"
        session.report(binding.span, "T0", message)
        return None
    return known


def _typed(session: Session, binding: syntax.Binding) -> Variable | None:
    catalog, name = session.catalog, binding.type_name
    if name in catalog.nodes:
        return Variable(binding.variable.name, "node", name, (name,))
    if name in catalog.interfaces:
        types = tuple(sorted(each.name for each in catalog.implementers(name)))
        return Variable(binding.variable.name, "node", name, types, is_interface=True)
    known = [*catalog.nodes, *catalog.interfaces]
    session.report(binding.type_span, "T1", f"there is no node type {name}{suggestion(name, known)}")
    return None


def refuse_parameter(session: Session, variable: written.VariableUse) -> bool:
    """One name cannot be a parameter and a variable: a reader could not tell which is meant."""
    if variable.name not in session.parameters:
        return False
    session.report(variable.span, "T0", f"${variable.name} is a parameter: choose another name for the variable")
    return True


def field_filters(env: Env, binding: syntax.Binding, known: Known) -> list[Expression]:
    """The conditions in the braces of a binding."""
    found = []
    values = visible(env.session.catalog, known)
    for each in binding.fields:
        if each.name not in values:
            hint = suggestion(each.name, values)
            env.fail(each.name_span, "T2", f"type {binding.type_name} has no property '{each.name}'{hint}")
            continue
        use = written.PropertyUse(known.variable.name, each.name, each.name_span)
        if (condition := field_condition(env, use, each.value)) is not None:
            found.append(condition)
    return found
