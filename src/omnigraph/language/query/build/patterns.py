"""Rules of the grammar that make the clauses of a match, and the fields in braces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.language.query import syntax
from omnigraph.language.query.build import parts
from omnigraph.language.query.build.children import Children, node, nodes, number, place, span_of, token, tokens
from omnigraph.language.query.expression_syntax import VariableUse

if TYPE_CHECKING:
    from collections.abc import Callable

_HOP_BOUND = 2**32


def _variable(name: Any) -> VariableUse:
    return VariableUse(name[1:], span_of(name))


def _directed_edge(children: Children) -> syntax.Edge:
    return syntax.Edge(str(children[0]), undirected=False, span=place(children))


def _undirected_edge(children: Children) -> syntax.Edge:
    return syntax.Edge(str(children[1]), undirected=True, span=place(children))


def _hops(children: Children) -> syntax.Hops:
    bounds = [number(each, below=_HOP_BOUND, what="a hop bound") for each in tokens(children, "INTEGER")]
    return syntax.Hops(bounds[0], bounds[1] if len(bounds) > 1 else None, place(children))


def _field(children: Children) -> syntax.Field:
    return syntax.Field(str(children[0]), children[2], place(children), span_of(children[0]))


def _fields(children: Children) -> parts.Fields:
    return parts.Fields(nodes(children), place(children))


def _binding(children: Children) -> syntax.Binding:
    fields = node(children, parts.Fields)
    return syntax.Binding(
        _variable(children[0]),
        str(children[2]),
        fields.items if fields else (),
        place(children),
        span_of(children[2]),
    )


def _traversal(children: Children) -> syntax.Traversal:
    bound = token(children, "EDGE_VARIABLE")
    return syntax.Traversal(
        _variable(children[0]),
        node(children, syntax.Edge),  # type: ignore[arg-type]
        _variable(children[-1]),
        _variable(bound) if bound else None,
        node(children, syntax.Hops),
        place(children),
    )


def _path(children: Children) -> syntax.Path:
    path, source, target = (_variable(each) for each in tokens(children, "VARIABLE"))
    return syntax.Path(
        path,
        source,
        node(children, syntax.Edge),  # type: ignore[arg-type]
        target,
        node(children, syntax.Hops),
        place(children),
    )


def _negation(children: Children) -> syntax.Negation:
    return syntax.Negation(nodes(children), place(children))


def _optional(children: Children) -> syntax.Optional:
    return syntax.Optional(nodes(children), place(children))


RULES: dict[str, Callable[[Children], object]] = {
    "directed_edge": _directed_edge,
    "undirected_edge": _undirected_edge,
    "hops": _hops,
    "field": _field,
    "fields": _fields,
    "binding": _binding,
    "traversal": _traversal,
    "path": _path,
    "negation": _negation,
    "optional": _optional,
}
