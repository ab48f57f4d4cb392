"""A catalog as lines of text, for the `// sees:` comments of the fixtures."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.catalog.catalog import Annotation, Catalog, EdgeType, NodeType, Property


def outline(catalog: Catalog) -> list[str]:
    lines = [
        f"interface {one.name}.{_property(p)}" for one in catalog.interfaces.values() for p in one.properties.values()
    ]
    for node in catalog.nodes.values():
        lines.append(f"node {node.name}")
        lines += [f"node {node.name} implements {', '.join(node.implements)}"] if node.implements else []
        lines += _table("node", node)
    for edge in catalog.edges.values():
        most = "*" if edge.cardinality.maximum is None else edge.cardinality.maximum
        lines.append(f"edge {edge.name}: {edge.source} -> {edge.target} {edge.cardinality.minimum}..{most}")
        lines += _table("edge", edge)
    return lines


def _table(kind: str, table: NodeType | EdgeType) -> Iterator[str]:
    name, rules = f"{kind} {table.name}", table.rules
    yield from (f"{name} {_annotation(each)}" for each in table.annotations)
    yield from (f"{name}.{_property(each)}" for each in table.properties.values())
    if rules.key:
        yield f"{name} key({', '.join(rules.key)})"
    yield from (f"{name} unique({', '.join(each)})" for each in rules.unique)
    yield from (f"{name} index({', '.join(each)})" for each in rules.indexes)
    yield from (f"{name} range({each.property}, {_end(each.minimum)}..{_end(each.maximum)})" for each in rules.ranges)
    yield from (f"{name} check({each.property}, {each.pattern!r})" for each in rules.checks)


def _property(each: Property) -> str:
    text = " ".join([f"{each.name}: {each.type}", *map(_annotation, each.annotations)])
    text += f" defaults to {each.default!r}" if each.default is not None else ""
    return text + (f" embeds {each.embed_source} with {each.embed_model}" if each.embed_source else "")


def _annotation(each: Annotation) -> str:
    if each.value is None:
        return f"@{each.name}"
    return f"@{each.name}({', '.join([repr(each.value), *(f'{name}={value!r}' for name, value in each.arguments)])})"


def _end(bound: float | None) -> str:
    return "" if bound is None else str(bound)
