"""The compiled schema, from which every other package reads type definitions.

A catalog is immutable, compares by value, and orders properties by name, as the tables on disk do.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import InvalidInput
from omnigraph.errors.inputs import suggestion
from omnigraph.lazy import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ScalarName = Literal["String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime", "Blob", "Vector"]
INTEGERS: frozenset[str] = frozenset({"I32", "I64", "U32", "U64"})
FLOATS: frozenset[str] = frozenset({"F32", "F64"})
NUMERIC: frozenset[str] = INTEGERS | FLOATS


@record
class PropertyType:
    """A declared type. `dimensions` is set for vectors, `enum_values` (sorted) for enums, which are Strings."""

    scalar: ScalarName
    nullable: bool = False
    is_list: bool = False
    enum_values: tuple[str, ...] | None = None
    dimensions: int | None = None

    def __str__(self) -> str:
        if self.enum_values is not None:
            text = f"enum({', '.join(self.enum_values)})"
        elif self.scalar == "Vector":
            text = f"Vector({self.dimensions})"
        else:
            text = f"[{self.scalar}]" if self.is_list else self.scalar
        return f"{text}?" if self.nullable else text


@record
class Annotation:
    """`@name`, `@name(value)` or `@name(value, key=value)`; every value is stored as text."""

    name: str
    value: str | None = None
    arguments: tuple[tuple[str, str], ...] = ()


@record
class Property:
    """One property of a type. `embed_source` names the String property a vector is made from."""

    name: str
    type: PropertyType
    annotations: tuple[Annotation, ...] = ()
    default: object | None = None
    embed_source: str | None = None
    embed_model: str | None = None


@record
class Range:
    """An inclusive numeric range; None is an open end."""

    property: str
    minimum: int | float | None
    maximum: int | float | None


@record
class Check:
    """A regular expression that a String property must contain a match of."""

    property: str
    pattern: str


@record
class Cardinality:
    """How many edges of a type one source node may have."""

    minimum: int = 0
    maximum: int | None = None


@record
class TypeRules:
    """The constraints of a type, in canonical order; columns of a tuple are sorted by name."""

    key: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()


@record
class InterfaceType:
    """A set of properties that implementing node types must have."""

    name: str
    properties: Mapping[str, Property]


@record
class NodeType:
    """A node type; `properties` are in name order."""

    name: str
    properties: Mapping[str, Property]
    rules: TypeRules = TypeRules()
    implements: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()

    @property
    def table_key(self) -> str:
        """The name of its table in the manifest."""
        return f"node:{self.name}"


@record
class EdgeType:
    """An edge type from one node type to another. A non-empty `rules.key` makes equal edges one edge."""

    name: str
    source: str
    target: str
    properties: Mapping[str, Property]
    rules: TypeRules = TypeRules()
    cardinality: Cardinality = Cardinality()
    annotations: tuple[Annotation, ...] = ()

    @property
    def table_key(self) -> str:
        """The name of its table in the manifest."""
        return f"edge:{self.name}"


@record
class Catalog:
    """All types of one schema, by name, in name order."""

    interfaces: Mapping[str, InterfaceType] = field(default_factory=dict)
    nodes: Mapping[str, NodeType] = field(default_factory=dict)
    edges: Mapping[str, EdgeType] = field(default_factory=dict)

    def edge(self, name: str) -> EdgeType | None:
        """An edge type by its name, in any case: `worksAt` finds `WorksAt`."""
        return self.edges.get(name) or self._edges_by_lower_case.get(name.lower())

    def resolve_type(self, name: str) -> NodeType | EdgeType:
        """A type by its name, as `resolve_table_key` resolves it."""
        kind, _, own = resolve_table_key(name, self.table_keys()).partition(":")
        return self.nodes[own] if kind == "node" else self.edges[own]

    def implementers(self, interface: str) -> tuple[NodeType, ...]:
        """The node types that implement an interface."""
        return tuple(node for node in self.nodes.values() if interface in node.implements)

    def table_keys(self) -> tuple[str, ...]:
        """Every table, nodes before edges."""
        nodes = (node.table_key for node in self.nodes.values())
        return (*nodes, *(edge.table_key for edge in self.edges.values()))

    @cached_property
    def _edges_by_lower_case(self) -> dict[str, EdgeType]:
        return {name.lower(): edge for name, edge in self.edges.items()}


def resolve_table_key(name: str, table_keys: Iterable[str]) -> str:
    """The table key of a type: `Person`, `worksAt` (an edge type in any letter case), `node:Person` or `edge:WorksAt`.

    Raises `InvalidInput` for an unknown name, and for one that a node type and an edge type share.
    """
    keys = sorted(table_keys)
    prefix, colon, rest = name.partition(":")
    own, kinds = (rest, [prefix]) if colon and prefix in ("node", "edge") else (name, ["node", "edge"])
    found = [key for kind in kinds for key in _keys_of_kind(kind, own, keys)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInput(f"{name!r} names {len(found)} types: write {' or '.join(map(repr, found))}.")
    names = [key.partition(":")[2] for key in keys]
    near = suggestion(own, names, otherwise=f"; it has {', '.join(names)}.")
    raise InvalidInput(f"the graph has no type {name!r}{near}")


def _keys_of_kind(kind: str, name: str, keys: Sequence[str]) -> list[str]:
    exact = f"{kind}:{name}"
    if exact in keys or kind == "node":
        return [exact] if exact in keys else []
    return [key for key in keys if key.lower() == exact.lower()]
