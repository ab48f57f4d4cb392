"""A block of clauses: bindings first, then traversals, paths, optional parts, filters, negations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.language.gq.check.comparisons import condition
from omnigraph.language.gq.check.environment import BoundVariable, CheckScope, Env, Session
from omnigraph.language.gq.check.traversals import declare_binding, field_filters, resolve_path, resolve_traversals
from omnigraph.language.gq.syntax import expressions as written
from omnigraph.language.gq.syntax import tree
from omnigraph.language.ir.expressions import conjuncts
from omnigraph.language.ir.query import Pattern

if TYPE_CHECKING:
    from omnigraph.language.ir.expressions import Expression


def check_pattern(session: Session, clauses: tuple[tree.Clause, ...], scope: CheckScope) -> Pattern:
    """The pattern of a block. What was wrong is reported and left out."""
    plain = [_reread(session, each) for each in clauses]
    bound = _bindings(session, scope, plain)
    traversals = resolve_traversals(session, scope, _of(plain, tree.Traversal))
    found = [resolve_path(session, scope, each) for each in _of(plain, tree.Path)]
    optionals = [_optional(session, scope, each) for each in _of(plain, tree.Optional)]
    filters = _filters(Env(session, "match", scope), plain, bound)
    negations = [_negation(session, scope, each) for each in _of(plain, tree.Negation)]
    return Pattern(
        variables=tuple(each.variable for each in scope.own.values() if not each.optional),
        traversals=tuple(traversals),
        paths=tuple(each for each in found if each is not None),
        optionals=tuple(optionals),
        filters=filters,
        negations=tuple(negations),
        outer=frozenset(scope.outer),
    )


def _of(clauses: list[tree.Clause], kind: type[Any]) -> list[Any]:
    return [each for each in clauses if isinstance(each, kind)]


def _reread(session: Session, clause: tree.Clause) -> tree.Clause:
    """`$list contains $x` reads as a traversal. Between parameters, or without such an edge, it is a comparison."""
    if not isinstance(clause, tree.Traversal):
        return clause
    between_values = {clause.source.name, clause.target.name} & set(session.parameters)
    if session.catalog.edge(clause.edge.name) and not between_values:
        return clause
    if clause.hops or clause.edge_variable or clause.edge.undirected:
        return clause
    if clause.edge.name == "in":
        return written.Membership(clause.source, clause.target, negated=False, span=clause.span)
    if clause.edge.name in {"contains", "starts_with"}:
        operator: Any = clause.edge.name
        return written.Comparison(operator, clause.source, clause.target, clause.span)
    return clause


def _bindings(
    session: Session, scope: CheckScope, clauses: list[tree.Clause]
) -> list[tuple[tree.Binding, BoundVariable]]:
    declared = [(each, declare_binding(session, scope, each)) for each in _of(clauses, tree.Binding)]
    return [(binding, declared_variable) for binding, declared_variable in declared if declared_variable is not None]


def _filters(
    env: Env, clauses: list[tree.Clause], bound: list[tuple[tree.Binding, BoundVariable]]
) -> tuple[Expression, ...]:
    found = [each for binding, declared_variable in bound for each in field_filters(env, binding, declared_variable)]
    structural = tree.Binding | tree.Traversal | tree.Path | tree.Negation | tree.Optional
    for clause in clauses:
        if isinstance(clause, structural):
            continue
        if (checked := condition(env, clause)) is not None:
            found.extend(conjuncts(checked))
    return tuple(found)


def _negation(session: Session, scope: CheckScope, clause: tree.Negation) -> Pattern:
    return _inner(session, CheckScope(scope), clause, "not { … }")


def _optional(session: Session, scope: CheckScope, clause: tree.Optional) -> Pattern:
    """What an optional part introduces can be missing from there on."""
    inside = CheckScope(scope)
    pattern = _inner(session, inside, clause, "optional { … }")
    for declared_variable in inside.own.values():
        scope.declare(declared_variable.variable, optional=True)
    return pattern


def _inner(session: Session, scope: CheckScope, clause: tree.Negation | tree.Optional, what: str) -> Pattern:
    before = len(session.findings)
    pattern = check_pattern(session, clause.clauses, scope)
    if not pattern.outer and len(session.findings) == before:
        session.report(clause.span, "T9", f"{what} must mention a variable that is bound outside of it")
    return pattern
