"""Rules of the grammar that make the clauses of a match, and the fields in braces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.language.gq.syntax import build_parts, tree
from omnigraph.language.gq.syntax.build_parts import Children, node, nodes, number, span_between, span_of, token, tokens
from omnigraph.language.gq.syntax.expressions import VariableUse

if TYPE_CHECKING:
    from collections.abc import Callable

_HOP_BOUND = 2**32


def _variable(name: Any) -> VariableUse:
    return VariableUse(name[1:], span_of(name))


def _directed_edge(children: Children) -> tree.Edge:
    return tree.Edge(str(children[0]), undirected=False, span=span_between(children))


def _undirected_edge(children: Children) -> tree.Edge:
    return tree.Edge(str(children[1]), undirected=True, span=span_between(children))


def _hops(children: Children) -> tree.Hops:
    bounds = [number(each, below=_HOP_BOUND, what="a hop bound") for each in tokens(children, "INTEGER")]
    return tree.Hops(bounds[0], bounds[1] if len(bounds) > 1 else None, span_between(children))


def _field(children: Children) -> tree.Field:
    return tree.Field(str(children[0]), children[2], span_between(children), span_of(children[0]))


def _fields(children: Children) -> build_parts.Fields:
    return build_parts.Fields(nodes(children), span_between(children))


def _binding(children: Children) -> tree.Binding:
    fields = node(children, build_parts.Fields)
    return tree.Binding(
        _variable(children[0]),
        str(children[2]),
        fields.items if fields else (),
        span_between(children),
        span_of(children[2]),
    )


def _traversal(children: Children) -> tree.Traversal:
    bound = token(children, "EDGE_VARIABLE")
    return tree.Traversal(
        _variable(children[0]),
        node(children, tree.Edge),  # type: ignore[arg-type]
        _variable(children[-1]),
        _variable(bound) if bound else None,
        node(children, tree.Hops),
        span_between(children),
    )


def _path(children: Children) -> tree.Path:
    path, source, target = (_variable(each) for each in tokens(children, "VARIABLE"))
    return tree.Path(
        path,
        source,
        node(children, tree.Edge),  # type: ignore[arg-type]
        target,
        node(children, tree.Hops),
        span_between(children),
    )


def _negation(children: Children) -> tree.Negation:
    return tree.Negation(nodes(children), span_between(children))


def _optional(children: Children) -> tree.Optional:
    return tree.Optional(nodes(children), span_between(children))


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
