"""The constraints of the schema as rules: the columns each one concerns, the lookup that checks it, and its error.

This module only defines rules. The in-memory evaluators in `transaction/constraints` and the partitioned ones on Spark
use the same definitions and report violations in the same words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import CardinalityViolation, OrphanEdge, UniqueViolation, ValueViolation

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType, Property

End = Literal["src", "dst"]
ENDS: tuple[End, End] = ("src", "dst")


@dataclass(frozen=True)
class Required:
    """The property is never null."""

    type_name: str
    property: str

    def violation(self, row_id: str | None, value: object) -> ValueViolation:
        """The error for one row."""
        text = f"required property {self.type_name}.{self.property} has no value"
        return _value_violation(self, "required", text, row_id, value)


@dataclass(frozen=True)
class Allowed:
    """The value is one of these; null is exempt."""

    type_name: str
    property: str
    values: tuple[str, ...]

    def violation(self, row_id: str | None, value: object) -> ValueViolation:
        """The error for one row."""
        expected = ", ".join(self.values)
        text = f"invalid enum value '{value}' for {self.type_name}.{self.property} (expected: {expected})"
        return _value_violation(self, "enum", text, row_id, value)


@dataclass(frozen=True)
class Within:
    """The value is within these bounds, inclusive. NaN violates, null is exempt, a bound of None is open."""

    type_name: str
    property: str
    minimum: float | None
    maximum: float | None

    def violation(self, row_id: str | None, value: object) -> ValueViolation:
        """The error for one row."""
        return _value_violation(
            self, "range", f"@range violation on {self.type_name}.{self.property}: {self._reason(value)}", row_id, value
        )

    def _reason(self, value: object) -> str:
        assert isinstance(value, int | float)
        if math.isnan(value):
            return "value NaN is not a number"
        if self.minimum is not None and value < self.minimum:
            return f"value {value} < min {self.minimum}"
        return f"value {value} > max {self.maximum}"


@dataclass(frozen=True)
class RegexRule:
    """The text contains a match of the regular expression (RE2); null is exempt."""

    type_name: str
    property: str
    pattern: str

    def violation(self, row_id: str | None, value: object) -> ValueViolation:
        """The error for one row."""
        text = f"@check violation on {self.type_name}.{self.property}: value {value!r} does not match {self.pattern!r}"
        return _value_violation(self, "check", text, row_id, value)


@dataclass(frozen=True)
class Dimensions:
    """The vector has exactly `dimensions` components, none of them null; a null vector is exempt."""

    type_name: str
    property: str
    dimensions: int

    def violation(self, row_id: str | None, value: object) -> ValueViolation:
        """The error for one row."""
        length = len(value) if isinstance(value, list) else 0
        wrong = f"expects {self.dimensions} dimensions, got {length}"
        reason = wrong if length != self.dimensions else "elements must be numeric"
        return _value_violation(self, "vector", f"{self.type_name}.{self.property} {reason}", row_id, value)


ValueRule = Required | Allowed | Within | RegexRule | Dimensions


@dataclass(frozen=True)
class Unique:
    """No two rows have the same values in these columns; a tuple with a null is exempt.

    Lookup: committed rows with one of the values in each column. The id of a keyed row is derived from its key, so a
    committed row with the same key has the same id, and only rows whose ids were not derived are looked up.
    """

    table_key: str
    type_name: str
    columns: tuple[str, ...]
    is_key: bool = False

    def violation(self, row_id: str, values: tuple[object, ...], holder: str) -> UniqueViolation:
        """The error for one row."""
        one = len(self.columns) == 1
        columns = self.columns[0] if one else f"({', '.join(self.columns)})"
        display_text = _display_text(values[0]) if one else f"({', '.join(map(_display_text, values))})"
        return UniqueViolation(
            f"@{'key' if self.is_key else 'unique'} violation on {self.type_name}.{columns}: "
            f"{display_text} of row {row_id!r} is held by row {holder!r}",
            type_name=self.type_name,
            properties=self.columns,
            values=values,
            row_id=row_id,
            holder=holder,
        )


@dataclass(frozen=True)
class Endpoint:
    """An endpoint refers to an existing node. Lookup: nodes by id; for deleted nodes, edges by this endpoint."""

    edge_key: str
    type_name: str
    end: End
    node_key: str
    node_type: str

    def violation(self, row_id: str, node_id: str | None) -> OrphanEdge:
        """The error for one edge."""
        return OrphanEdge(
            f"edge {self.type_name} {row_id!r}: {self.end} {node_id!r} not found in {self.node_type}",
            type_name=self.type_name,
            row_id=row_id,
            end=self.end,
            node_type=self.node_type,
            node_id=node_id,
        )


@dataclass(frozen=True)
class EdgeCount:
    """A source that has, or had, an edge of the type has a permitted number. Lookup: edges by id, then by source."""

    edge_key: str
    type_name: str
    node_key: str
    node_type: str
    minimum: int
    maximum: int | None

    def violation(self, source_id: str, count: int) -> CardinalityViolation:
        """The error for one source node."""
        bounds = f"{self.minimum}..{'' if self.maximum is None else self.maximum}"
        return CardinalityViolation(
            f"@card violation on {self.type_name}: {self.node_type} {source_id!r} has {count} edges, expected {bounds}",
            type_name=self.type_name,
            source_id=source_id,
            count=count,
            minimum=self.minimum,
            maximum=self.maximum,
        )


def value_rules(catalog: Catalog, table_key: str) -> tuple[ValueRule, ...]:
    """The rules on single values of a table, in column order."""
    kind = type_of(catalog, table_key)
    name = kind.name
    endpoints = ENDS if table_key.startswith("edge:") else ()
    rules: list[ValueRule] = [Required(name, end) for end in endpoints]
    for each in kind.properties.values():
        rules += _property_rules(name, each)
    rules += [Within(name, each.property, each.minimum, each.maximum) for each in kind.rules.ranges]
    rules += [RegexRule(name, each.property, each.pattern) for each in kind.rules.checks]
    return tuple(rules)


def unique_rules(catalog: Catalog, table_key: str) -> tuple[Unique, ...]:
    """The key, then all other unique tuples. Tuples with blobs are not checked."""
    kind = type_of(catalog, table_key)
    name = kind.name
    blobs = {each.name for each in kind.properties.values() if each.type.scalar == "Blob"}
    keys = [Unique(table_key, name, kind.rules.key, is_key=True)] if kind.rules.key else []
    others = [Unique(table_key, name, each) for each in kind.rules.unique if not blobs & set(each)]
    return (*keys, *others)


def endpoint_rules(edge: EdgeType) -> tuple[Endpoint, ...]:
    """The rules for both endpoints of an edge type."""
    kinds = {"src": edge.source, "dst": edge.target}
    return tuple(Endpoint(edge.table_key, edge.name, end, f"node:{kinds[end]}", kinds[end]) for end in ENDS)


def count_rule(edge: EdgeType) -> EdgeCount | None:
    """The cardinality rule of an edge type, or None if any number of edges is permitted."""
    least, most = edge.cardinality.minimum, edge.cardinality.maximum
    if not least and most is None:
        return None
    return EdgeCount(edge.table_key, edge.name, f"node:{edge.source}", edge.source, least, most)


def _property_rules(type_name: str, each: Property) -> list[ValueRule]:
    rules: list[ValueRule] = [] if each.type.nullable else [Required(type_name, each.name)]
    if each.type.enum_values is not None:
        rules.append(Allowed(type_name, each.name, each.type.enum_values))
    if each.type.dimensions is not None:
        rules.append(Dimensions(type_name, each.name, each.type.dimensions))
    return rules


def type_of(catalog: Catalog, table_key: str) -> NodeType | EdgeType:
    """The node or edge type that a table holds."""
    kind, _, name = table_key.partition(":")
    return catalog.nodes[name] if kind == "node" else catalog.edges[name]


def _display_text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else repr(value)


def _value_violation(rule: ValueRule, name: str, text: str, row_id: str | None, value: object) -> ValueViolation:
    return ValueViolation(
        f"{text} (row {row_id!r})",
        rule=name,
        type_name=rule.type_name,
        property_name=rule.property,
        row_id=row_id,
        value=value,
    )
