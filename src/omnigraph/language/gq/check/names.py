"""Resolves names: a variable, a parameter, a property of one, an alias, or a value of a mutation's row.

Also checks the declared parameters of a query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.catalog.catalog import PropertyType
from omnigraph.errors.inputs import suggestion
from omnigraph.language.gq.check.environment import ANONYMOUS
from omnigraph.language.ir import expressions as made
from omnigraph.language.ir.query import Parameter
from omnigraph.language.ir.types import I64, STRING, EntityType, nullable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.catalog.catalog import Catalog, Property
    from omnigraph.language.gq.check.environment import BoundVariable, Env, Session
    from omnigraph.language.gq.syntax import expressions as written
    from omnigraph.language.gq.syntax import tree
    from omnigraph.language.ir.expressions import Expression

_STRINGS = PropertyType("String", is_list=True)
_PATH_VALUES = {"length": I64, "nodes": _STRINGS, "edges": _STRINGS}
_NODE_VALUES = {"id": STRING}
_EDGE_VALUES = {"id": STRING, "src": STRING, "dst": STRING}


def variable(env: Env, node: written.VariableUse) -> Expression | None:
    """Resolve `$x`: a parameter, or a whole node, edge or path."""
    if bound := _bound(env, node.name):
        kind, declared = bound.variable.kind, bound.variable.declared
        return made.EntityValue(node.name, EntityType(kind, declared, nullable=bound.optional))
    if (declared_type := env.session.parameters.get(node.name)) is not None:
        return made.ParameterValue(node.name, declared_type)
    if node.name in env.session.broken:
        return None
    if env.scope is None:
        env.fail(node.span, "T14", f"${node.name} is not a declared parameter of this query{_near(env, node.name)}")
    else:
        env.fail(node.span, "T0", f"${node.name} is neither bound in match nor a parameter{_near(env, node.name)}")
    return None


def property_of(env: Env, node: written.PropertyUse) -> Expression | None:
    """Resolve `$x.name`."""
    bound = _bound(env, node.variable)
    if bound is None:
        if node.variable not in env.session.broken:
            env.fail(node.span, "T14" if env.scope is None else "T6", _why_unbound(env, node.variable))
        return None
    values = visible(env.session.catalog, bound)
    found = values.get(node.property)
    if found is None:
        what = f"{bound.variable.kind} {bound.variable.declared}"
        env.fail(node.span, "T6", f"{what} has no property '{node.property}'{suggestion(node.property, values)}")
        return None
    return made.PropertyValue(node.variable, node.property, nullable(found) if bound.optional else found)


def bare_word(env: Env, node: written.NameUse) -> Expression | None:
    """Resolve a bare word: a value of the row in a mutation, an alias after `return` in a read."""
    if env.row is not None:
        return _row_value(env, node)
    if column := env.columns.get(node.name):
        return column
    if env.clause in {"having", "order"}:
        env.fail(node.span, "T6", f"no column of return is called '{node.name}'{suggestion(node.name, env.columns)}")
    elif env.scope is None:
        env.fail(
            node.span, "T11", f"'{node.name}' is a value of a row, and there is none before an insert: use a parameter"
        )
    else:
        env.fail(node.span, "T6", f"'{node.name}' means nothing here: write $variable.{node.name} or \"{node.name}\"")
    return None


def _row_value(env: Env, node: written.NameUse) -> Expression | None:
    assert env.row is not None
    if found := env.row.values.get(node.name):
        return made.RowValue(*found)
    hint = suggestion(node.name, env.row.values)
    env.fail(node.span, "T11", f"type {env.row.type_name} has no property '{node.name}'{hint}")
    return None


def visible(catalog: Catalog, bound: BoundVariable) -> Mapping[str, PropertyType]:
    """All names that are valid after the dot."""
    name = bound.variable.declared
    if bound.variable.kind == "path":
        return _PATH_VALUES
    if bound.variable.kind == "edge":
        return {**types_of(catalog.edges[name].properties), **_EDGE_VALUES}
    declared = catalog.interfaces[name] if bound.variable.is_interface else catalog.nodes[name]
    return {**types_of(declared.properties), **_NODE_VALUES}


def types_of(properties: Mapping[str, Property]) -> dict[str, PropertyType]:
    """The types of all properties, by name."""
    return {name: each.type for name, each in properties.items()}


def _bound(env: Env, name: str) -> BoundVariable | None:
    return env.scope.find(name) if env.scope is not None else None


def _near(env: Env, name: str) -> str:
    in_sight = list(env.scope.own) if env.scope is not None else []
    return suggestion(name, [*env.session.parameters, *in_sight])


def _why_unbound(env: Env, name: str) -> str:
    if name in env.session.parameters:
        return f"${name} is a parameter and has no properties"
    if env.scope is None:
        return f"${name} is not a variable: write the property alone to use the row's own value"
    return f"${name} is not bound in match{_near(env, name)}"


# The released engine passes the time of a request under this name.
_RESERVED = "__nanograph_now"
_TYPES = "String, Bool, I32, I64, U32, U64, F32, F64, Date, DateTime, Blob, a list [T] of them, or Vector(n)"


def declare_parameters(session: Session) -> tuple[Parameter, ...]:
    """Declare every parameter with its type, so that expressions can use it."""
    declared = []
    for each in session.query.parameters:
        if (problem := _problem(session, each)) is not None:
            session.report(each.span, "T0", problem)
        elif each.type is not None:
            declared.append(Parameter(each.name, each.type))
            session.parameters[each.name] = each.type
    return tuple(declared)


def _problem(session: Session, parameter: tree.Parameter) -> str | None:
    if parameter.name in {_RESERVED, ANONYMOUS}:
        return f"${parameter.name} is reserved and cannot be a parameter"
    if parameter.name in session.parameters:
        return f"${parameter.name} is declared twice"
    if parameter.type is None:
        return f"unknown parameter type {parameter.type_text}: use {_TYPES}"
    return None
