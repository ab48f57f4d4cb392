"""A catalog as `.pg` text: what `schema show` prints. Reading it back gives the same catalog."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from omnigraph.catalog.canonical import plain_float_text
from omnigraph.catalog.catalog import Cardinality

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.catalog.catalog import Annotation, Catalog, EdgeType, InterfaceType, NodeType, Property, TypeRules

_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def print_schema(catalog: Catalog) -> str:
    """The text of a schema: interfaces, nodes, edges, each by name."""
    blocks = [
        *map(_interface, catalog.interfaces.values()),
        *(_node(each, catalog) for each in catalog.nodes.values()),
        *map(_edge, catalog.edges.values()),
    ]
    return "\n".join(blocks)


def _interface(each: InterfaceType) -> str:
    return _block(f"interface {each.name}", map(_property, each.properties.values()))


def _node(each: NodeType, catalog: Catalog) -> str:
    implements = f" implements {', '.join(each.implements)}" if each.implements else ""
    header = f"node {each.name}{_annotations(each.annotations)}{implements}"
    own = [held for held in each.properties.values() if not _is_brought(held, each, catalog)]
    return _block(header, [*map(_property, own), *_constraints(each.rules, each.properties)])


def _is_brought(held: Property, node: NodeType, catalog: Catalog) -> bool:
    """A property that an interface brings along exactly so need not be repeated."""
    promised = (catalog.interfaces[name].properties.get(held.name) for name in node.implements)
    found = [each for each in promised if each is not None]
    return bool(found) and all(each == held for each in found)


def _edge(each: EdgeType) -> str:
    cardinality = "" if each.cardinality == Cardinality() else f" @card({_count(each.cardinality)})"
    header = f"edge {each.name}: {each.source} -> {each.target}{cardinality}{_annotations(each.annotations)}"
    lines = [*map(_property, each.properties.values()), *_constraints(each.rules, each.properties)]
    return _block(header, lines) if lines else f"{header}\n"


def _count(each: Cardinality) -> str:
    return f"{each.minimum}..{'' if each.maximum is None else each.maximum}"


def _block(header: str, lines: Iterable[str]) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"{header} {{\n{body}}}\n"


def _property(each: Property) -> str:
    return f"{each.name}: {each.type}{_annotations(each.annotations)}"


def _annotations(annotations: tuple[Annotation, ...]) -> str:
    return "".join(f" {_annotation(each)}" for each in annotations)


def _annotation(each: Annotation) -> str:
    if each.value is None:
        return f"@{each.name}"
    arguments = [_quoted(each.value), *(f"{name}={_quoted(value)}" for name, value in each.arguments)]
    return f"@{each.name}({', '.join(arguments)})"


def _constraints(rules: TypeRules, properties: Mapping[str, Property]) -> list[str]:
    """Body constraints without those that the annotations of properties already say."""
    lines: list[str] = []
    for name, tuples in (
        ("key", (rules.key,) if rules.key else ()),
        ("unique", rules.unique),
        ("index", rules.indexes),
    ):
        said: Counter[tuple[str, ...]] = Counter(
            (held.name,) for held in properties.values() for each in held.annotations if each.name == name
        )
        lines += [f"@{name}({', '.join(columns)})" for columns in (Counter(tuples) - said).elements()]
    lines += [f"@range({each.property}, {_end(each.minimum)}..{_end(each.maximum)})" for each in rules.ranges]
    return lines + [f"@check({each.property}, {_quoted(each.pattern)})" for each in rules.checks]


def _end(bound: int | float | None) -> str:
    if bound is None:
        return ""
    if isinstance(bound, int):
        return str(bound)
    text = plain_float_text(bound)
    return text if "." in text else f"{text}.0"


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
