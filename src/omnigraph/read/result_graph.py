"""The nodes and links that a result shows: its entities, edges and paths, of the first rows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.language.query.expressions import EntityValue
from omnigraph.read.result_json import json_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from omnigraph.language.query.checked import CheckedQuery, Variable
    from omnigraph.language.schema.catalog import Catalog

_ROWS, MOST_NODES = 200, 60
# The first property of these that an entity has is what it is called.
_NAMES = ("name", "title", "label", "slug")

Key = tuple[str, str]


@dataclass(frozen=True)
class EntityColumn:
    """What a column of whole entities holds. `ends` are the types at the two ends of an edge, or along a path."""

    kind: Literal["node", "edge", "path"]
    type: str
    ends: tuple[str, str] | None = None


@dataclass(frozen=True)
class Link:
    """A line between two nodes. Without a label it only says that both stand in one row."""

    source: Key
    target: Key
    label: str | None


@dataclass
class ResultGraph:
    """What there is to draw. Nodes are known by type and id; each has its properties, as far as the result has them."""

    nodes: dict[Key, dict[str, Any]] = field(default_factory=dict)
    links: dict[Link, None] = field(default_factory=dict)
    left_out: bool = False

    def node(self, key: Key, properties: Mapping[str, Any] | None = None) -> bool:
        """Put a node in; False when there are too many."""
        if key not in self.nodes and len(self.nodes) >= MOST_NODES:
            self.left_out = True
            return False
        self.nodes[key] = {**self.nodes.get(key, {}), **(properties or {})}
        return True

    def link(self, source: Key, target: Key, label: str | None) -> None:
        """Put a line in, and its ends if they are not there yet."""
        if self.node(source) and self.node(target):
            self.links[Link(source, target, label)] = None

    def name(self, key: Key) -> str:
        """What a node is called."""
        found = (self.nodes[key].get(each) for each in _NAMES)
        return next((str(each) for each in found if isinstance(each, str)), key[1])


def entity_columns(checked: CheckedQuery, catalog: Catalog) -> dict[str, EntityColumn]:
    """The columns of a query that hold whole entities."""
    variables = checked.variables
    wholes = {each.name: each.value for each in checked.columns if isinstance(each.value, EntityValue)}
    edges = {path.variable: path.edge for path in checked.pattern.paths}
    return {name: _column(variables[value.variable], edges, catalog) for name, value in wholes.items()}


def _column(variable: Variable, paths: Mapping[str, str], catalog: Catalog) -> EntityColumn:
    if variable.kind == "node":
        return EntityColumn("node", variable.declared)
    name = variable.declared if variable.kind == "edge" else paths.get(variable.name, variable.declared)
    edge = catalog.edges.get(name)
    ends = None if edge is None else (edge.source, edge.target)
    return EntityColumn(variable.kind, name, ends)


def graph_of(table: pa.Table, columns: Mapping[str, EntityColumn]) -> ResultGraph:
    """The graph that the first rows of a result show."""
    graph = ResultGraph()
    names = [name for name in table.column_names if name in columns]
    if not names:
        return graph
    rows = json_rows(table.select(names).slice(0, _ROWS), large_integers_as_text=False)
    graph.left_out = table.num_rows > _ROWS
    for row in rows:
        _add_row(graph, row, columns)
    return graph


def _add_row(graph: ResultGraph, row: Mapping[str, Any], columns: Mapping[str, EntityColumn]) -> None:
    nodes: list[Key] = []
    for name, value in row.items():
        column = columns[name]
        if value is not None and column.kind == "node":
            key = (value.get("type", column.type), value["id"])
            if graph.node(key, value):
                nodes.append(key)
    lines = [name for name in row if columns[name].kind != "node"]
    for name in lines:
        if row[name] is not None:
            _add_lines(graph, row[name], columns[name])
    if not lines:
        for source, target in itertools.pairwise(nodes):
            graph.link(source, target, None)


def _add_lines(graph: ResultGraph, value: Mapping[str, Any], column: EntityColumn) -> None:
    source_type, target_type = column.ends or (column.type, column.type)
    if column.kind == "edge":
        graph.link((source_type, value["src"]), (target_type, value["dst"]), column.type)
        return
    for source, target in zip(value["nodes"], value["nodes"][1:], strict=False):
        graph.link((source_type, source), (target_type, target), column.type)
