"""The stored form of a schema (`_schema.ir.json`, ir_version 1): catalog to JSON and back, and its hash.

Extensions keep the released shape: `@default` is an annotation like any other, the key of an edge is one more
`{"Key": […]}`, and `@range(p, ..max)` has a null `min` where the released program wrote the number into `min`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from omnigraph.catalog.canonical import Json, compact, hash32
from omnigraph.language.stored.ir_shape import IR_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.catalog.catalog import (
        Annotation,
        Catalog,
        EdgeType,
        InterfaceType,
        NodeType,
        Property,
        PropertyType,
        Range,
        TypeRules,
    )


def catalog_to_ir(catalog: Catalog) -> dict[str, Json]:
    """The stored form of a catalog, keys and lists in their stored order."""
    return {
        "ir_version": IR_VERSION,
        "interfaces": [_interface(each) for each in catalog.interfaces.values()],
        "nodes": [_node(each) for each in catalog.nodes.values()],
        "edges": [_edge(each) for each in catalog.edges.values()],
    }


def ir_hash(ir: Mapping[str, Json]) -> str:
    """The hash that the state file holds: over the compact form, whatever the file looks like."""
    return f"sha256:{hashlib.sha256(compact(dict(ir)).encode()).hexdigest()}"


def constraint_list(rules: TypeRules) -> list[Json]:
    """The constraints of a type as they are stored. Their sorted names are in alphabetical order here."""
    return [
        *(check_json(each.property, each.pattern) for each in rules.checks),
        *({"Index": list(each)} for each in rules.indexes),
        *([{"Key": list(rules.key)}] if rules.key else []),
        *(range_json(each) for each in rules.ranges),
        *({"Unique": list(each)} for each in rules.unique),
    ]


def range_json(each: Range) -> Json:
    """One range."""
    return {"Range": {"property": each.property, "min": _bound(each.minimum), "max": _bound(each.maximum)}}


def check_json(name: str, pattern: str) -> Json:
    """One check."""
    return {"Check": {"property": name, "pattern": pattern}}


def annotation_json(each: Annotation) -> Json:
    """One annotation; `kwargs` only when there are some."""
    plain: dict[str, Json] = {"name": each.name, "value": each.value}
    return {**plain, "kwargs": dict(each.arguments)} if each.arguments else plain


def _interface(each: InterfaceType) -> Json:
    owner = f"interface:{each.name}"
    return {"name": each.name, "type_id": hash32(owner), "properties": _properties(owner, each.properties)}


def _node(each: NodeType) -> Json:
    owner = f"node:{each.name}"
    return {
        "name": each.name,
        "type_id": hash32(owner),
        "annotations": _annotations(each.annotations),
        "implements": list(each.implements),
        "properties": _properties(owner, each.properties),
        "constraints": constraint_list(each.rules),
    }


def _edge(each: EdgeType) -> Json:
    owner = f"edge:{each.name}"
    return {
        "name": each.name,
        "type_id": hash32(owner),
        "from_type": each.source,
        "to_type": each.target,
        "cardinality": {"min": each.cardinality.minimum, "max": each.cardinality.maximum},
        "annotations": _annotations(each.annotations),
        "properties": _properties(owner, each.properties),
        "constraints": constraint_list(each.rules),
    }


def _properties(owner: str, properties: Mapping[str, Property]) -> list[Json]:
    return [
        {
            "name": each.name,
            "prop_id": hash32(f"{owner}:{each.name}"),
            "prop_type": type_json(each.type),
            "annotations": _annotations(each.annotations),
        }
        for each in properties.values()
    ]


def type_json(declared: PropertyType) -> Json:
    """A declared type."""
    scalar: Json = {"Vector": declared.dimensions} if declared.scalar == "Vector" else declared.scalar
    values = None if declared.enum_values is None else list(declared.enum_values)
    return {"scalar": scalar, "nullable": declared.nullable, "list": declared.is_list, "enum_values": values}


def _annotations(annotations: tuple[Annotation, ...]) -> list[Json]:
    return [annotation_json(each) for each in annotations]


def _bound(bound: float | None) -> Json:
    if bound is None:
        return None
    return {"Float": bound} if isinstance(bound, float) else {"Integer": bound}
