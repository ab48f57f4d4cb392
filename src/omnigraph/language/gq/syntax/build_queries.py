"""Rules of the grammar that make whole queries: parameters, annotations, sections, statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, get_args

from omnigraph.catalog.catalog import ScalarName
from omnigraph.language.core.diagnostics import SyntaxFault
from omnigraph.language.gq.syntax import build_parts, tree
from omnigraph.language.gq.syntax.build_parts import (
    Children,
    node,
    nodes,
    number,
    span_between,
    span_of,
    token,
    unquoted,
)
from omnigraph.language.gq.syntax.expressions import VariableUse

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN = frozenset(get_args(ScalarName)) - {"Vector"}
_LONGEST_VECTOR = 2**31


def _start(children: Children) -> tuple[tree.Query, ...]:
    return nodes(children)


def _query(children: Children) -> tree.Query:
    notes = _annotations([each for each in children if isinstance(each, build_parts.Note)])
    return tree.Query(
        name=str(children[1]),
        parameters=node(children, build_parts.Parameters).items,  # type: ignore[union-attr]
        body=children[-2],
        description=notes.get("description"),
        instruction=notes.get("instruction"),
        span=span_between(children),
        name_span=span_of(children[1]),
    )


def _annotations(notes: list[build_parts.Note]) -> dict[str, str]:
    found: dict[str, str] = {}
    for note in notes:
        if note.name not in {"description", "instruction"}:
            raise SyntaxFault(
                note.span, f"unknown annotation @{note.name}: a query takes @description and @instruction"
            )
        if note.name in found:
            raise SyntaxFault(note.span, f"duplicate @{note.name} annotation")
        found[note.name] = note.value
    return found


def _annotation(children: Children) -> build_parts.Note:
    return build_parts.Note(str(children[1]), unquoted(children[3]), span_between(children))


# -- parameters --------------------------------------------------------------------------------------------------------


def _params(children: Children) -> build_parts.Parameters:
    return build_parts.Parameters(nodes(children))


def _param(children: Children) -> tree.Parameter:
    declared: build_parts.WrittenType = children[2]
    nullable = token(children, "QMARK") is not None
    text = declared.text + ("?" if nullable else "")
    return tree.Parameter(children[0][1:], declared.property_type(nullable=nullable), text, span_between(children))


def _plain_type(children: Children) -> build_parts.WrittenType:
    name: Any = str(children[0])
    return build_parts.WrittenType(name, name if name in _PLAIN else None, span=span_between(children))


def _list_type(children: Children) -> build_parts.WrittenType:
    name: Any = str(children[1])
    scalar = name if name in _PLAIN - {"Blob"} else None
    return build_parts.WrittenType(f"[{name}]", scalar, is_list=True, span=span_between(children))


def _sized_type(children: Children) -> build_parts.WrittenType:
    size = number(children[2], below=_LONGEST_VECTOR, what="the length of a vector")
    scalar: ScalarName | None = "Vector" if str(children[0]) == "Vector" and size > 0 else None
    return build_parts.WrittenType(f"{children[0]}({size})", scalar, dimensions=size, span=span_between(children))


# -- reads -------------------------------------------------------------------------------------------------------------


def _read(children: Children) -> tree.ReadQuery:
    sections = {each.name: each for each in children if isinstance(each, build_parts.Section)}
    bounds = _bounds([each for each in children if isinstance(each, tree.Bound)])
    return tree.ReadQuery(
        clauses=sections["match"].items,
        projections=sections["return"].items,
        distinct=sections["return"].distinct,
        having=sections["having"].items if "having" in sections else (),
        order=sections["order"].items if "order" in sections else (),
        limit=bounds.get("limit"),
        offset=bounds.get("offset"),
    )


def _bounds(written: list[tree.Bound]) -> dict[str, tree.Bound]:
    found: dict[str, tree.Bound] = {}
    for bound in written:
        if bound.kind in found:
            raise SyntaxFault(bound.span, f"{bound.kind} is given twice")
        found[bound.kind] = bound
    return found


def _section(children: Children) -> build_parts.Section:
    distinct = token(children, "DISTINCT") is not None
    return build_parts.Section(str(children[0]), nodes(children), distinct=distinct, span=span_between(children))


def _bound(children: Children) -> tree.Bound:
    kind, value = str(children[0]), children[1]
    counted: int | VariableUse = (
        VariableUse(value[1:], span_of(value))
        if value.type == "VARIABLE"
        else number(value, below=2**63, what=f"{kind}")
    )
    return tree.Bound(cast("Any", kind), counted, span_between(children))


def _projection(children: Children) -> tree.Projection:
    alias = token(children, "NAME")
    last = alias if alias is not None else children[0]
    span = span_of(children[0]).to(span_of(last))
    return tree.Projection(children[0], str(alias) if alias is not None else None, span)


def _ordering(children: Children) -> tree.Ordering:
    direction = str(children[1]) if len(children) > 1 else None
    return tree.Ordering(children[0], cast("Any", direction), span_between(children))


# -- mutations ---------------------------------------------------------------------------------------------------------


def _mutation(children: Children) -> tree.Mutation:
    return tree.Mutation(nodes(children))


def _insert(children: Children) -> tree.Insert | tree.Upsert:
    action = token(children, "CONFLICT_ACTION")
    if action is None:
        return tree.Insert(str(children[1]), children[2].items, "replace", span_between(children), span_of(children[1]))
    if str(action) == "update":
        return _upsert(children)
    if str(action) not in {"error", "ignore"}:
        raise SyntaxFault(span_of(action), f"there is no `on conflict {action}`: write error, ignore or update")
    on_conflict = cast("tree.OnConflict", str(action))
    return tree.Insert(str(children[1]), children[2].items, on_conflict, span_between(children), span_of(children[1]))


def _upsert(children: Children) -> tree.Upsert:
    return tree.Upsert(str(children[1]), children[2].items, span_between(children), span_of(children[1]))


def _update(children: Children) -> tree.Update:
    return tree.Update(str(children[1]), children[3].items, children[5], span_between(children), span_of(children[1]))


def _delete(children: Children) -> tree.Delete:
    return tree.Delete(str(children[1]), children[3], span_between(children), span_of(children[1]))


RULES: dict[str, Callable[[Children], object]] = {
    "start": _start,
    "query": _query,
    "annotation": _annotation,
    "params": _params,
    "param": _param,
    "plain_type": _plain_type,
    "list_type": _list_type,
    "sized_type": _sized_type,
    "read": _read,
    "match": _section,
    "return": _section,
    "having": _section,
    "order": _section,
    "bound": _bound,
    "projection": _projection,
    "ordering": _ordering,
    "mutation": _mutation,
    "insert": _insert,
    "upsert": _upsert,
    "update": _update,
    "delete": _delete,
}
