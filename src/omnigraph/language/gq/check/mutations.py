"""Checks insert, upsert, update and delete: their tables, fields and conditions.

An assignment is accepted if its value can become a value of the property.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.catalog.catalog import NUMERIC, EdgeType, NodeType, PropertyType
from omnigraph.errors.inputs import suggestion
from omnigraph.language.gq.check.comparisons import condition, date_hint
from omnigraph.language.gq.check.constants import convert
from omnigraph.language.gq.check.environment import Env, Row
from omnigraph.language.gq.check.names import types_of
from omnigraph.language.gq.syntax import tree
from omnigraph.language.ir import expressions as made
from omnigraph.language.ir import query
from omnigraph.language.ir.query import Assignment, StatementTable
from omnigraph.language.ir.types import STRING, NullType, same_scalar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.language.gq.check.environment import Session
    from omnigraph.language.ir.expressions import Expression


def assign(env: Env, field: tree.Field, name: str, to: PropertyType) -> Assignment | None:
    """Check the assignment of one field. A literal gets the type of the property."""
    value = env.check(field.value)
    if value is None:
        return None
    code = "T3" if isinstance(value, made.Constant) else "T7"
    try:
        return Assignment(name, to, _fitted(value, to))
    except ValueError as error:
        env.fail(field.value.span, code, f"property '{name}': {error}")
        return None


def _fitted(value: Expression, to: PropertyType) -> Expression:
    if isinstance(value.type, NullType):
        if not to.nullable:
            raise ValueError(f"{to} cannot be null")
        return made.Constant(None, to)
    if isinstance(value, made.Constant) and isinstance(value.type, PropertyType):
        return _fitted_literal(value, value.type, to)
    if not isinstance(value.type, PropertyType) or not _goes_into(value.type, to):
        raise ValueError(_mismatch(value, to))
    return value


def _fitted_literal(value: made.Constant, given: PropertyType, to: PropertyType) -> Expression:
    if value.value == () and to.is_list:
        return made.Constant((), to)
    if to.scalar == "Vector" and given.is_list:
        if given.scalar not in NUMERIC:
            raise ValueError("vector elements must be numeric")
    elif not _goes_into(given, to):
        raise ValueError(_mismatch(value, to))
    return made.Constant(convert(value.value, to), to)


def _goes_into(given: PropertyType, to: PropertyType) -> bool:
    if to.scalar == "Blob":
        return not given.is_list and given.scalar in {"Blob", "String"}
    if to.scalar == "Vector":
        return given.scalar == "Vector" and given.dimensions == to.dimensions
    return given.is_list == to.is_list and given.scalar != "Vector" and same_scalar(given, to)


def _mismatch(value: Expression, to: PropertyType) -> str:
    return f"expected {to}, got {value.type}{date_hint(to, value.type)}"


_ENDS = {"from": "src", "to": "dst"}
_FIXED_OF_EDGES = {"id", "src", "dst", "from", "to"}


def check_statements(session: Session, body: tree.Mutation) -> tuple[query.Statement, ...]:
    """Check every statement. A query that both writes and deletes is refused."""
    _refuse_mixture(session, body)
    found = [_statement(session, each) for each in body.statements]
    return tuple(each for each in found if each is not None)


def _refuse_mixture(session: Session, body: tree.Mutation) -> None:
    deletes = [each for each in body.statements if isinstance(each, tree.Delete)]
    if not deletes or len(deletes) == len(body.statements):
        return
    name = session.query.name
    session.report(
        deletes[0].span,
        "D2",
        f"mutation '{name}' mixes inserts/updates and deletes: split it into two queries, one with the inserts, upserts"
        f" and updates and one with the deletes, and run them one after the other",
    )


def _statement(session: Session, statement: tree.Statement) -> query.Statement | None:
    table = _table(session, statement)
    if table is None:
        return None
    if isinstance(statement, tree.Delete):
        return _delete(session, statement, table)
    if not statement.fields:
        session.report(statement.span, "T10", f"this statement assigns nothing to {statement.type_name}")
        return None
    if isinstance(statement, tree.Update):
        return _update(session, statement, table)
    return _insert(session, statement, table)


def _table(session: Session, statement: tree.Statement) -> NodeType | EdgeType | None:
    """Resolve a type name. If a node and an edge type share it, it is the node unless `from` and `to` are given."""
    name, catalog = statement.type_name, session.catalog
    node, edge = catalog.nodes.get(name), catalog.edges.get(name)
    if node is not None and edge is not None:
        fields = set() if isinstance(statement, tree.Delete) else {each.name for each in statement.fields}
        return edge if set(_ENDS) <= fields else node
    if node is None and edge is None:
        hint = suggestion(name, [*catalog.nodes, *catalog.edges])
        session.report(statement.type_span, "T10", f"there is no node or edge type {name}{hint}")
    return node or edge


def _target(table: NodeType | EdgeType) -> StatementTable:
    return StatementTable("node" if isinstance(table, NodeType) else "edge", table.name)


# -- insert and upsert -------------------------------------------------------------------------------------------------


def _insert(
    session: Session, statement: tree.Insert | tree.Upsert, table: NodeType | EdgeType
) -> query.Statement | None:
    settable = types_of(table.properties) | (dict.fromkeys(_ENDS, STRING) if isinstance(table, EdgeType) else {})
    values = _assignments(Env(session, "insert"), statement, settable, refused={})
    given = {each.name for each in statement.fields}
    missing = _missing(table, given)
    upserts = isinstance(statement, tree.Upsert)
    if upserts and not table.rules.key:
        message = f"upsert finds the row by its key, and {table.name} has none: use insert, or update with a where"
        session.report(statement.type_span, "T16", message)
    on_conflict = "replace" if isinstance(statement, tree.Upsert) else statement.on_conflict
    if on_conflict != "replace" and not table.rules.key:
        message = f"on conflict {on_conflict} finds the row by its key, and {table.name} has none: every row is new"
        session.report(statement.type_span, "T16", message)
    for name, why in missing.items():
        if not upserts or name in _needed_to_find(table):
            session.report(statement.span, "T12", f"{'upsert' if upserts else 'insert'} into {table.name} {why}")
    properties = tuple(each for each in values if each.property not in _ENDS)
    endpoints = {each.property: each.value for each in values if each.property in _ENDS}
    source, target = endpoints.get("from"), endpoints.get("to")
    if upserts:
        return query.Upsert(_target(table), properties, tuple(missing), source, target)
    return query.Insert(_target(table), properties, source, target, on_conflict)


def _needed_to_find(table: NodeType | EdgeType) -> set[str]:
    return {*table.rules.key, *(_ENDS if isinstance(table, EdgeType) else ())}


def _missing(table: NodeType | EdgeType, given: set[str]) -> dict[str, str]:
    """The required fields that a new row lacks, with the reason."""
    missing = {}
    for name, each in table.properties.items():
        if name in given or each.type.nullable or each.default is not None:
            continue
        if each.embed_source is None:
            missing[name] = f"misses the property '{name}', which is never null"
        elif each.embed_source not in given:
            missing[name] = f"misses '{name}' and '{each.embed_source}', which it is made from"
    for end in _ENDS if isinstance(table, EdgeType) else ():
        if end not in given:
            missing[end] = f"misses '{end}', the id of the node at one end"
    return missing


# -- update and delete -------------------------------------------------------------------------------------------------


def _update(session: Session, statement: tree.Update, table: NodeType | EdgeType) -> query.Statement | None:
    row = _row(table)
    values = _assignments(Env(session, "set", row=row), statement, types_of(table.properties), _immutable(table))
    where = condition(Env(session, "where", row=row), statement.where)
    return query.Update(_target(table), tuple(values), where) if where is not None else None


def _delete(session: Session, statement: tree.Delete, table: NodeType | EdgeType) -> query.Statement | None:
    where = condition(Env(session, "where", row=_row(table)), statement.where)
    if where is None:
        return None
    if isinstance(table, EdgeType):
        return query.Delete(_target(table), where)
    edges = session.catalog.edges.values()
    return query.Delete(
        _target(table), where, tuple(each.name for each in edges if table.name in {each.source, each.target})
    )


def _row(table: NodeType | EdgeType) -> Row:
    values = {name: (name, each) for name, each in types_of(table.properties).items()}
    values["id"] = ("id", STRING)
    if isinstance(table, EdgeType):
        values |= {"src": ("src", STRING), "dst": ("dst", STRING)}
        values |= {written: (stored, STRING) for written, stored in _ENDS.items()}
    return Row(table.name, values)


def _immutable(table: NodeType | EdgeType) -> dict[str, str]:
    """The fields that an update cannot change, with the reason."""
    keys = dict.fromkeys(table.rules.key, f"it is part of the key of {table.name}")
    if isinstance(table, NodeType):
        return {**keys, "id": "it is the identity of the node"}
    return {**keys, **dict.fromkeys(_FIXED_OF_EDGES, "it says which edge this is and what it connects")}


# -- fields ------------------------------------------------------------------------------------------------------------


def _assignments(
    env: Env,
    statement: tree.Insert | tree.Upsert | tree.Update,
    settable: Mapping[str, PropertyType],
    refused: Mapping[str, str],
) -> list[Assignment]:
    found: list[Assignment] = []
    seen: set[str] = set()
    for each in statement.fields:
        if each.name in seen:
            env.fail(each.name_span, "T13", f"'{each.name}' is assigned twice")
        elif each.name in refused:
            why = refused[each.name]
            env.fail(each.name_span, "T16", f"'{each.name}' cannot be updated, as {why}: delete and re-insert")
        elif each.name not in settable:
            hint = suggestion(each.name, settable)
            env.fail(each.name_span, "T11", f"type {statement.type_name} has no property '{each.name}'{hint}")
        elif (assignment := assign(env, each, each.name, settable[each.name])) is not None:
            found.append(assignment)
        seen.add(each.name)
    return found
