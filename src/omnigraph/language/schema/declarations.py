"""Puts annotations, constraints and cardinalities where they belong, and refuses those that belong nowhere.

The grammar reads a body as one flat list; the rules of place are here, where they can be explained.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph.language.core.diagnostics import Span
from omnigraph.language.schema.syntax import (
    AnnotationSyntax,
    EdgeSyntax,
    InterfaceSyntax,
    Name,
    NodeSyntax,
    PropertySyntax,
    SchemaDocument,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.language.schema.findings import Findings

CONSTRAINTS = frozenset({"key", "unique", "index", "range", "check"})
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def arrange(trees: list[Any], findings: Findings) -> SchemaDocument:
    """The document of a list of declaration trees."""
    makers = {"interface": _interface, "node": _node, "edge": _edge}
    made = [makers[str(tree.data)](tree.children, findings) for tree in trees]
    return SchemaDocument(
        findings.text,
        findings.source_name,
        interfaces=tuple(each for each in made if isinstance(each, InterfaceSyntax)),
        nodes=tuple(each for each in made if isinstance(each, NodeSyntax)),
        edges=tuple(each for each in made if isinstance(each, EdgeSyntax)),
    )


def is_constraint(annotation: AnnotationSyntax) -> bool:
    """`@key(…)` and its like constrain the whole type; `@key` alone belongs to a property."""
    return annotation.name in CONSTRAINTS and annotation.arguments is not None


def _interface(children: list[Any], findings: Findings) -> InterfaceSyntax:
    properties, constraints = _members(children[-1], findings)
    for each in constraints:
        findings.add("S008", each.span, f"an interface has no @{each.name}(…): put it on the node types")
    return InterfaceSyntax(_name(children[0]), properties)


def _node(children: list[Any], findings: Findings) -> NodeSyntax:
    annotations = _header(children, findings)
    properties, constraints = _members(children[-1], findings)
    implements = next((each for each in children if isinstance(each, tuple)), ())
    return NodeSyntax(_name(children[0]), annotations, implements, properties, constraints)


def _edge(children: list[Any], findings: Findings) -> EdgeSyntax:
    name, source, target = (_name(each) for each in children[:3])
    written = [each for each in children[3:] if isinstance(each, AnnotationSyntax)]
    cardinality = written[0] if written and written[0].name == "card" else None
    annotations = _header(written[1:] if cardinality else written, findings)
    body = children[-1] if isinstance(children[-1], list) else []
    properties, constraints = _members(body, findings)
    return EdgeSyntax(name, source, target, cardinality, annotations, properties, constraints)


def _header(children: list[Any], findings: Findings) -> tuple[AnnotationSyntax, ...]:
    """The annotations of a type, without those that only a body or a property can have."""
    annotations = [each for each in children if isinstance(each, AnnotationSyntax)]
    _check_escapes(annotations, findings)
    return tuple(each for each in annotations if _belongs_to_a_header(each, findings))


def _belongs_to_a_header(annotation: AnnotationSyntax, findings: Findings) -> bool:
    if is_constraint(annotation):
        findings.add("S008", annotation.span, f"@{annotation.name}(…) belongs inside the braces of the type")
        return False
    if annotation.name == "card":
        findings.add("S414", annotation.span, "@card(…) stands directly after the target type of an edge")
        return False
    return True


def _members(items: list[Any], findings: Findings) -> tuple[tuple[PropertySyntax, ...], tuple[AnnotationSyntax, ...]]:
    """Properties with their annotations, and body constraints."""
    annotations = [each for each in items if isinstance(each, AnnotationSyntax)]
    _check_escapes(annotations, findings)
    _check_commas(items, findings)
    constraints = tuple(each for each in annotations if is_constraint(each))
    properties: list[PropertySyntax] = []
    followers: list[AnnotationSyntax] = []
    open_property = False
    for item in items:
        if isinstance(item, PropertySyntax):
            _attach(properties, followers)
            properties.append(item)
            open_property = True
        elif not isinstance(item, AnnotationSyntax) or is_constraint(item):
            open_property = False
        elif _follows_a_property(item, findings, open_property=open_property):
            followers.append(item)
    _attach(properties, followers)
    return tuple(properties), constraints


def _check_commas(items: list[Any], findings: Findings) -> None:
    after_comma = True
    for item in items:
        is_comma = not isinstance(item, PropertySyntax | AnnotationSyntax)
        if is_comma and after_comma:
            findings.add("S008", Span(item.start_pos, item.end_pos), "a comma stands between two properties")
        after_comma = is_comma


def _attach(properties: list[PropertySyntax], annotations: list[AnnotationSyntax]) -> None:
    if annotations:
        properties[-1] = replace(properties[-1], annotations=tuple(annotations))
        annotations.clear()


def _follows_a_property(annotation: AnnotationSyntax, findings: Findings, *, open_property: bool) -> bool:
    if annotation.name == "card":
        findings.add("S414", annotation.span, "@card(…) stands directly after the target type of an edge")
        return False
    if not open_property:
        findings.add("S008", annotation.span, f"@{annotation.name} follows no property: write it right after the type")
    return open_property


def _name(token: Any) -> Name:
    return Name(str(token), Span(token.start_pos, token.end_pos))


def _check_escapes(annotations: Iterable[AnnotationSyntax], findings: Findings) -> None:
    for value in _strings(annotations):
        source = findings.text[value.span.start : value.span.end]
        if "\\" not in source:
            continue
        for match in _ESCAPE.finditer(source):
            if match[1] not in '"\\nrt':
                place = Span(value.span.start + match.start(), value.span.start + match.end())
                findings.add("S004", place, r"unsupported escape sequence: strings know \" \\ \n \r \t")


def _strings(annotations: Iterable[AnnotationSyntax]) -> Iterator[Value]:
    for annotation in annotations:
        for argument in annotation.arguments or ():
            if isinstance(argument.value, Value) and argument.value.kind == "string":
                yield argument.value
