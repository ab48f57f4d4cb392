"""From a stored schema back to a catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from omnigraph.catalog.canonical import in_check_order, in_column_order, in_range_order
from omnigraph.catalog.catalog import (
    Annotation,
    Cardinality,
    Catalog,
    Check,
    EdgeType,
    InterfaceType,
    NodeType,
    Property,
    PropertyType,
    Range,
    TypeRules,
)
from omnigraph.catalog.defaults import declared_default

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.catalog.canonical import Json

# What `ir_from_json` returned has been checked key by key: here it is only taken apart.
Stored = dict[str, Any]


def catalog_from_ir(ir: Mapping[str, Json]) -> Catalog:
    """The catalog of a stored schema, as `ir_from_json` returns it."""
    stored = cast("Stored", ir)
    return Catalog(
        interfaces={each["name"]: _interface(each) for each in _by_name(stored["interfaces"])},
        nodes={each["name"]: _node(each) for each in _by_name(stored["nodes"])},
        edges={each["name"]: _edge(each) for each in _by_name(stored["edges"])},
    )


def _by_name(stored: list[Stored]) -> list[Stored]:
    return sorted(stored, key=lambda each: str(each["name"]))


def _interface(stored: Stored) -> InterfaceType:
    return InterfaceType(stored["name"], _properties(stored))


def _node(stored: Stored) -> NodeType:
    return NodeType(
        stored["name"],
        _properties(stored),
        _rules(stored["constraints"]),
        implements=tuple(stored["implements"]),
        annotations=_annotations(stored),
    )


def _edge(stored: Stored) -> EdgeType:
    return EdgeType(
        stored["name"],
        stored["from_type"],
        stored["to_type"],
        _properties(stored),
        _rules(stored["constraints"]),
        cardinality=Cardinality(stored["cardinality"]["min"], stored["cardinality"]["max"]),
        annotations=_annotations(stored),
    )


def _properties(stored: Stored) -> dict[str, Property]:
    return {each["name"]: _property(each) for each in _by_name(stored["properties"])}


def _property(stored: Stored) -> Property:
    declared, annotations = _type(stored["prop_type"]), _annotations(stored)
    embed = next((each for each in annotations if each.name == "embed"), None)
    return Property(
        stored["name"],
        declared,
        annotations,
        default=declared_default(declared, annotations),
        embed_source=embed.value if embed else None,
        embed_model=dict(embed.arguments).get("model") if embed else None,
    )


def _type(stored: Stored) -> PropertyType:
    nullable = stored["nullable"]
    if isinstance(stored["scalar"], dict):
        return PropertyType("Vector", nullable, dimensions=stored["scalar"]["Vector"])
    values = stored["enum_values"]
    return PropertyType(stored["scalar"], nullable, stored["list"], None if values is None else tuple(values))


def _annotations(stored: Stored) -> tuple[Annotation, ...]:
    return tuple(
        Annotation(each["name"], each["value"], tuple(each.get("kwargs", {}).items())) for each in stored["annotations"]
    )


def _rules(constraints: list[Stored]) -> TypeRules:
    found: dict[str, list[Any]] = {"Key": [], "Unique": [], "Index": [], "Range": [], "Check": []}
    for constraint in constraints:
        for tag, held in constraint.items():
            found[tag].append(tuple(held) if isinstance(held, list) else held)
    return TypeRules(
        key=found["Key"][0] if found["Key"] else (),
        unique=in_column_order(found["Unique"]),
        indexes=in_column_order(found["Index"]),
        ranges=in_range_order(
            Range(each["property"], _bound(each["min"]), _bound(each["max"])) for each in found["Range"]
        ),
        checks=in_check_order(Check(each["property"], each["pattern"]) for each in found["Check"]),
    )


def _bound(stored: Stored | None) -> int | float | None:
    return None if stored is None else next(iter(stored.values()))
