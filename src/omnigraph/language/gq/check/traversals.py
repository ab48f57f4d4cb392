"""Checks traversals and paths: which edge, in which direction, between which types.

Also checks bindings, `$p: Person` and `$n: Named`, and the variables that edges and paths introduce.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from omnigraph.errors.inputs import suggestion
from omnigraph.language.gq.check.comparisons import field_condition
from omnigraph.language.gq.check.environment import ANONYMOUS
from omnigraph.language.gq.check.names import visible
from omnigraph.language.gq.syntax import expressions as written
from omnigraph.language.ir import query
from omnigraph.language.ir.query import HOP_CAP, Hops, ShortestPath, Variable

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import EdgeType
    from omnigraph.language.gq.check.environment import BoundVariable, CheckScope, Env, Session
    from omnigraph.language.gq.syntax import tree
    from omnigraph.language.gq.syntax.expressions import VariableUse
    from omnigraph.language.ir.expressions import Expression


def declare_binding(session: Session, scope: CheckScope, binding: tree.Binding) -> BoundVariable | None:
    """Declare the variable of a binding."""
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


def _typed(session: Session, binding: tree.Binding) -> Variable | None:
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
    """Refuse a variable with the name of a parameter, because the name would be ambiguous."""
    if variable.name not in session.parameters:
        return False
    session.report(variable.span, "T0", f"${variable.name} is a parameter: choose another name for the variable")
    return True


def field_filters(env: Env, binding: tree.Binding, known: BoundVariable) -> list[Expression]:
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


Direction = Literal["out", "in", "both"]


def resolve_traversals(session: Session, scope: CheckScope, clauses: list[tree.Traversal]) -> list[query.Traversal]:
    """Resolve the direction of every traversal. Those with a declared variable are resolved before the rest."""
    resolved = []
    for clause in _by_readiness(scope, clauses):
        if (traversal := _resolve(session, scope, clause)) is None:
            session.give_up(clause.source.name, clause.target.name)
            session.give_up(*([clause.edge_variable.name] if clause.edge_variable else []))
        else:
            resolved.append(traversal)
    return resolved


def _by_readiness(scope: CheckScope, clauses: list[tree.Traversal]) -> list[tree.Traversal]:
    touching: dict[str, list[int]] = defaultdict(list)
    for index, clause in enumerate(clauses):
        for name in {clause.source.name, clause.target.name} - {ANONYMOUS}:
            touching[name].append(index)
    ready = [index for name, indexes in touching.items() if scope.find(name) for index in indexes]
    heapq.heapify(ready)
    order: dict[int, None] = {}
    for first in range(len(clauses)):
        _drain(ready, order, clauses, touching)
        if first not in order:
            heapq.heappush(ready, first)
    _drain(ready, order, clauses, touching)
    return [clauses[index] for index in order]


def _drain(
    ready: list[int], order: dict[int, None], clauses: list[tree.Traversal], touching: dict[str, list[int]]
) -> None:
    while ready:
        index = heapq.heappop(ready)
        if index in order:
            continue
        order[index] = None
        for name in (clauses[index].source.name, clauses[index].target.name):
            for each in touching.pop(name, ()):
                heapq.heappush(ready, each)


# -- one traversal -----------------------------------------------------------------------------------------------------


def _resolve(session: Session, scope: CheckScope, clause: tree.Traversal) -> query.Traversal | None:
    edge = _edge_type(session, clause.edge)
    hops = _hops(session, clause.hops, least=1) if clause.hops else Hops()
    if edge is None or hops is None or not _ends_are_nodes(session, scope, clause.source, clause.target):
        return None
    direction = _direction(session, scope, clause, edge)
    if direction is None:
        return None
    if (bound := clause.edge_variable) is not None and not _can_bind_edge(session, scope, clause, bound):
        return None
    source = _end(session, scope, clause.source, edge.target if direction == "in" else edge.source)
    target = _end(session, scope, clause.target, edge.source if direction == "in" else edge.target)
    name = _declare_edge(session, scope, bound, edge) if bound else None
    return query.Traversal(source, target, edge.name, direction, hops, name)


def _edge_type(session: Session, written: tree.Edge) -> EdgeType | None:
    edge = session.catalog.edge(written.name)
    if edge is None:
        known = [_as_written(each) for each in session.catalog.edges]
        session.report(written.span, "T4", f"there is no edge {written.name}{suggestion(written.name, known)}")
        return None
    if written.undirected and edge.source != edge.target:
        message = f"<{written.name}> goes both ways, which only an edge between equal types can"
        session.report(written.span, "T22", f"{message}: {edge.name} goes from {edge.source} to {edge.target}")
        return None
    return edge


def _as_written(edge: str) -> str:
    return edge[:1].lower() + edge[1:]


def _hops(session: Session, written: tree.Hops, *, least: int) -> Hops | None:
    if written.minimum < least:
        session.report(written.span, "T15", f"the smallest number of hops is at least {least}, not {written.minimum}")
        return None
    if written.maximum is None:
        return Hops(written.minimum, max(HOP_CAP, written.minimum), capped=True)
    if written.maximum < written.minimum:
        session.report(written.span, "T15", f"{{{written.minimum},{written.maximum}}} ends before it begins")
        return None
    return Hops(written.minimum, written.maximum)


def _ends_are_nodes(session: Session, scope: CheckScope, *ends: VariableUse) -> bool:
    for end in ends:
        if refuse_parameter(session, end):
            return False
        known = scope.find(end.name)
        if known is not None and known.variable.kind != "node":
            session.report(end.span, "T23", f"${end.name} is {known.article()}: a traversal ends at nodes")
            return False
    return True


def _direction(session: Session, scope: CheckScope, clause: tree.Traversal, edge: EdgeType) -> Direction | None:
    source, target = scope.find(clause.source.name), scope.find(clause.target.name)
    if _can_be(source, edge.source) and _can_be(target, edge.target):
        return "both" if clause.edge.undirected else "out"
    if _can_be(source, edge.target) and _can_be(target, edge.source):
        return "in"
    _report_ends(session, clause, edge, source, target)
    return None


def _can_be(known: BoundVariable | None, type_name: str) -> bool:
    return known is None or type_name in known.variable.types


def _report_ends(
    session: Session, clause: tree.Traversal, edge: EdgeType, source: BoundVariable | None, target: BoundVariable | None
) -> None:
    ends = f"{clause.edge.name} goes from {edge.source} to {edge.target}"
    for end, known in ((clause.source, source), (clause.target, target)):
        if known is not None and not {edge.source, edge.target} & set(known.variable.types):
            session.report(end.span, "T5", f"${end.name} is a {known.variable.declared}, but {ends}")
            return
    both = f"${clause.source.name} and ${clause.target.name}"
    session.report(clause.span, "T5", f"{both} are of types that do not fit: {ends}")


def _end(session: Session, scope: CheckScope, written: VariableUse, type_name: str) -> str:
    """The variable at one endpoint: declared here, or narrowed to the endpoint type of the edge."""
    if written.name == ANONYMOUS:
        name = session.anonymous()
        scope.declare(Variable(name, "node", type_name, (type_name,)))
        return name
    known = scope.find(written.name)
    if known is None:
        scope.declare(Variable(written.name, "node", type_name, (type_name,)))
    elif written.name in scope.own:
        known.restrict(frozenset({type_name}))
    return written.name


def _can_bind_edge(session: Session, scope: CheckScope, clause: tree.Traversal, bound: VariableUse) -> bool:
    if refuse_parameter(session, bound):
        return False
    if clause.hops is not None:
        session.report(clause.span, "T23", f"${bound.name} would be several edges: a bound edge takes no hop bounds")
        return False
    taken = scope.find(bound.name) is not None or bound.name in {clause.source.name, clause.target.name}
    if taken and bound.name != ANONYMOUS:
        session.report(bound.span, "T23", f"${bound.name} is in use already: an edge variable needs a name of its own")
        return False
    return True


def _declare_edge(session: Session, scope: CheckScope, bound: VariableUse, edge: EdgeType) -> str:
    name = session.anonymous() if bound.name == ANONYMOUS else bound.name
    scope.declare(Variable(name, "edge", edge.name, (edge.name,)))
    return name


# -- shortest paths ----------------------------------------------------------------------------------------------------


def resolve_path(session: Session, scope: CheckScope, clause: tree.Path) -> ShortestPath | None:
    """Resolve a shortest path between two variables that other clauses bind."""
    edge = _edge_type(session, clause.edge)
    hops = _hops(session, clause.hops, least=0) if clause.hops else Hops(1, HOP_CAP, capped=True)
    name = session.anonymous() if clause.variable.name == ANONYMOUS else clause.variable.name
    taken = refuse_parameter(session, clause.variable) or _is_taken(session, scope, clause.variable)
    if edge is None or hops is None or taken or not _are_bound(session, scope, clause, edge):
        session.give_up(clause.variable.name)
        return None
    scope.declare(Variable(name, "path", edge.name, (edge.name,)))
    direction: Literal["out", "both"] = "both" if clause.edge.undirected else "out"
    return ShortestPath(name, clause.source.name, clause.target.name, edge.name, direction, hops)


def _is_taken(session: Session, scope: CheckScope, variable: VariableUse) -> bool:
    if scope.find(variable.name) is None:
        return False
    session.report(variable.span, "T25", f"${variable.name} is in use already: a path needs a name of its own")
    return True


def _are_bound(session: Session, scope: CheckScope, clause: tree.Path, edge: EdgeType) -> bool:
    if edge.source != edge.target:
        message = f"shortest() follows edges between equal types: {edge.name} goes from {edge.source} to {edge.target}"
        session.report(clause.edge.span, "T25", message)
        return False
    for end in (clause.source, clause.target):
        known = scope.find(end.name)
        if known is None:
            session.report(end.span, "T25", f"${end.name} is unbound: shortest() connects what other clauses bind")
            return False
        if known.variable.kind != "node" or edge.source not in known.variable.types:
            what = f"${end.name} is a {known.variable.declared}"
            session.report(end.span, "T5", f"{what}, but {edge.name} connects {edge.source}")
            return False
    return True
