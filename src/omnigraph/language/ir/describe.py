"""What a query does, for tools that never run it: its result columns, and the types it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.catalog.catalog import PropertyType
from omnigraph.language.ir.query import (
    CheckedMutation,
    CheckedQuery,
    Delete,
    EntityKind,
    Insert,
    Pattern,
    Statement,
    Upsert,
)
from omnigraph.lazy import record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.language.ir.types import ValueType

_KINDS = {
    "String": "string",
    "Bool": "bool",
    "I32": "int",
    "U32": "int",
    "I64": "bigint",
    "U64": "bigint",
    "F32": "float",
    "F64": "float",
    "Date": "date",
    "DateTime": "datetime",
    "Blob": "blob",
    "Vector": "vector",
}


@dataclass(frozen=True, order=True)
class TypeUse:
    """A node or edge type that a query touches."""

    kind: EntityKind
    type_name: str

    def to_json(self) -> dict[str, object]:
        """As lint prints it."""
        return {"kind": self.kind, "type_name": self.type_name}


@record
class ValueDescription:
    """A named value and the kind of it: a result column or a parameter."""

    name: str
    kind: str
    nullable: bool
    item_kind: str | None = None
    vector_dim: int | None = None

    def to_json(self) -> dict[str, object]:
        """As lint and the server's catalog print it; what does not apply is left out."""
        extras = {"item_kind": self.item_kind, "vector_dim": self.vector_dim}
        present = {key: value for key, value in extras.items() if value is not None}
        return {"name": self.name, "kind": self.kind, **present, "nullable": self.nullable}


@record
class QueryDescription:
    """Result columns, and what is read and written, nodes before edges, by name."""

    result: tuple[ValueDescription, ...]
    reads: tuple[TypeUse, ...]
    writes: tuple[TypeUse, ...]

    def to_json(self) -> dict[str, object]:
        """As lint prints it."""
        return {
            "result": [each.to_json() for each in self.result],
            "reads": [each.to_json() for each in self.reads],
            "writes": [each.to_json() for each in self.writes],
        }


def describe(name: str, value: ValueType) -> ValueDescription:
    """The description of one named value."""
    if not isinstance(value, PropertyType):
        return ValueDescription(name, "object", value.nullable)
    kind = _KINDS[value.scalar]
    if value.is_list:
        return ValueDescription(name, "list", value.nullable, item_kind=kind)
    return ValueDescription(name, kind, value.nullable, vector_dim=value.dimensions)


def describe_operation(checked: CheckedQuery | CheckedMutation, catalog: Catalog) -> QueryDescription:
    """What a checked query returns, reads and writes."""
    if isinstance(checked, CheckedQuery):
        result = tuple(describe(each.name, each.type) for each in checked.columns)
        return QueryDescription(result, _sorted(_read_by(checked.pattern, catalog)), ())
    reads = {use for each in checked.statements for use in (*_written_by(each), *_looked_at_by(each, catalog))}
    writes = {use for each in checked.statements for use in _written_by(each)}
    return QueryDescription((), _sorted(reads), _sorted(writes))


def _sorted(uses: Iterable[TypeUse]) -> tuple[TypeUse, ...]:
    return tuple(sorted(uses, key=lambda each: (each.kind == "edge", each.type_name)))


def _read_by(pattern: Pattern, catalog: Catalog) -> set[TypeUse]:
    nodes = {TypeUse("node", name) for each in pattern.variables if each.kind == "node" for name in each.types}
    walked = [*(each.edge for each in pattern.traversals), *(each.edge for each in pattern.paths)]
    edges = {use for name in walked for use in (TypeUse("edge", name), *_endpoints(name, catalog))}
    inner = [_read_by(each, catalog) for each in (*pattern.optionals, *pattern.negations)]
    return nodes.union(edges, *inner)


def _endpoints(edge: str, catalog: Catalog) -> set[TypeUse]:
    return {TypeUse("node", catalog.edges[edge].source), TypeUse("node", catalog.edges[edge].target)}


def _written_by(statement: Statement) -> set[TypeUse]:
    cascades = statement.cascades if isinstance(statement, Delete) else ()
    return {TypeUse(statement.table.kind, statement.table.name), *(TypeUse("edge", each) for each in cascades)}


def _looked_at_by(statement: Statement, catalog: Catalog) -> set[TypeUse]:
    """A new edge needs the nodes at its ends."""
    if isinstance(statement, Insert | Upsert) and statement.table.kind == "edge":
        return _endpoints(statement.table.name, catalog)
    return set()
