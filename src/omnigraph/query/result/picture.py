"""Draws the graph in a result as a small SVG, without scripts or other packages, readable on light and dark.

The picture shows the entities, edges and paths of the first rows.
"""

from __future__ import annotations

import html
import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from omnigraph.language.ir.expressions import EntityValue
from omnigraph.query.result.result import json_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.language.ir.query import CheckedQuery, Variable

    Key = tuple[str, str]
    Positions = dict[Key, tuple[float, float]]

_ROWS, MOST_NODES = 200, 60
# A node is labelled with the first of these properties that it has.
_NAMES = ("name", "title", "label", "slug")


@dataclass(frozen=True)
class EntityColumn:
    """What a column of whole entities holds. `endpoints` are the node types of an edge's endpoints, or along a path."""

    kind: Literal["node", "edge", "path"]
    type: str
    endpoints: tuple[str, str] | None = None


@dataclass(frozen=True)
class Link:
    """A line between two nodes. Without a label it only means that both are in one row."""

    source: Key
    target: Key
    label: str | None


@dataclass
class ResultGraph:
    """The graph to draw. Nodes are identified by type and id, and have the properties that the result has of them."""

    nodes: dict[Key, dict[str, Any]] = field(default_factory=dict)
    links: dict[Link, None] = field(default_factory=dict)
    left_out: bool = False

    def node(self, key: Key, properties: Mapping[str, Any] | None = None) -> bool:
        """Add a node; False when there are too many."""
        if key not in self.nodes and len(self.nodes) >= MOST_NODES:
            self.left_out = True
            return False
        self.nodes[key] = {**self.nodes.get(key, {}), **(properties or {})}
        return True

    def link(self, source: Key, target: Key, label: str | None) -> None:
        """Add a link, and its endpoints if they are missing."""
        if self.node(source) and self.node(target):
            self.links[Link(source, target, label)] = None

    def name(self, key: Key) -> str:
        """The label of a node: a naming property, or its id."""
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
    endpoints = None if edge is None else (edge.source, edge.target)
    return EntityColumn(variable.kind, name, endpoints)


def graph_of(table: pa.Table, columns: Mapping[str, EntityColumn]) -> ResultGraph:
    """The graph in the first rows of a result."""
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
    connections = [name for name in row if columns[name].kind != "node"]
    for name in connections:
        if row[name] is not None:
            _add_connections(graph, row[name], columns[name])
    if not connections:
        for source, target in itertools.pairwise(nodes):
            graph.link(source, target, None)


def _add_connections(graph: ResultGraph, value: Mapping[str, Any], column: EntityColumn) -> None:
    source_type, target_type = column.endpoints or (column.type, column.type)
    if column.kind == "edge":
        graph.link((source_type, value["src"]), (target_type, value["dst"]), column.type)
        return
    for source, target in zip(value["nodes"], value["nodes"][1:], strict=False):
        graph.link((source_type, source), (target_type, target), column.type)


_WIDTH, _HEIGHT, _MARGIN, _RADIUS = 640, 400, 48, 11
_STEPS = 120
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#eeca3b", "#9d755d")
_LONGEST = 18


def picture(graph: ResultGraph) -> str | None:
    """The SVG; None when no two nodes are linked."""
    if not graph.links:
        return None
    positions, colours = _layout(graph), _colours(graph)
    elements = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}"'
            f' height="{_HEIGHT}" font-family="sans-serif" font-size="11" fill="currentColor" stroke="none">'
        ),
        (
            '<defs><marker id="og-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7"'
            ' orient="auto"><path d="M0 0L8 4L0 8z" fill="#888"/></marker></defs>'
        ),
        *(_line(each, positions) for each in graph.links),
        *(_node(graph, key, positions[key], colours[key[0]]) for key in graph.nodes),
        *_legend(colours),
    ]
    if graph.left_out:
        elements.append(f'<text x="{_WIDTH - 8}" y="{_HEIGHT - 8}" text-anchor="end">only a part is drawn</text>')
    return "".join([*elements, "</svg>"])


def _colours(graph: ResultGraph) -> dict[str, str]:
    types = sorted({type_name for type_name, _ in graph.nodes})
    return {name: _COLOURS[index % len(_COLOURS)] for index, name in enumerate(types)}


def _line(link: Link, positions: Positions) -> str:
    (x1, y1), (x2, y2) = positions[link.source], positions[link.target]
    title = "" if link.label is None else f"<title>{html.escape(link.label)}</title>"
    if link.source == link.target:
        return f'<circle cx="{x1:.1f}" cy="{y1 - 16:.1f}" r="10" fill="none" stroke="#888">{title}</circle>'
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    x2, y2 = x2 - (x2 - x1) / length * _RADIUS, y2 - (y2 - y1) / length * _RADIUS
    style = 'stroke-dasharray="3 3"' if link.label is None else 'marker-end="url(#og-arrow)"'
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#888" {style}>{title}</line>'


def _node(graph: ResultGraph, key: Key, position: tuple[float, float], colour: str) -> str:
    x, y = position
    properties = [f"{name}: {value}" for name, value in graph.nodes[key].items() if value is not None]
    title = html.escape("\n".join([key[0], *(properties or [f"id: {key[1]}"])]))
    name = graph.name(key)
    label = html.escape(name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…")
    return (
        f'<g><title>{title}</title><circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}" fill="{colour}"/>'
        f'<text x="{x:.1f}" y="{y + _RADIUS + 12:.1f}" text-anchor="middle">{label}</text></g>'
    )


def _legend(colours: dict[str, str]) -> list[str]:
    return [
        f'<circle cx="12" cy="{14 + 18 * index}" r="5" fill="{colour}"/>'
        f'<text x="22" y="{18 + 18 * index}">{html.escape(name)}</text>'
        for index, (name, colour) in enumerate(colours.items())
    ]


# -- layout ------------------------------------------------------------------------------------------------------------


def _layout(graph: ResultGraph) -> Positions:
    """Force-directed layout. It starts from a circle, without randomness, so that a graph always looks the same."""
    keys = list(graph.nodes)
    indices = {key: index for index, key in enumerate(keys)}
    links = np.array([[indices[each.source], indices[each.target]] for each in graph.links], np.int64)
    angles = np.linspace(0, 2 * np.pi, len(keys), endpoint=False)
    at = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    apart = math.sqrt(4.0 / len(keys))
    for step in range(_STEPS):
        pulled = _forces(at, links, apart)
        lengths = np.maximum(np.linalg.norm(pulled, axis=1, keepdims=True), 1e-9)
        at = at + pulled / lengths * np.minimum(lengths, 0.2 * (1 - step / _STEPS) + 0.002)
    return dict(zip(keys, _fitted(at), strict=True))


def _forces(at: NDArray[np.float64], links: NDArray[np.int64], apart: float) -> NDArray[np.float64]:
    between = at[:, None, :] - at[None, :, :]
    distance = np.maximum(np.linalg.norm(between, axis=2), 1e-3)
    total: NDArray[np.float64] = (between * (apart**2 / distance**2)[:, :, None]).sum(axis=1)
    offsets = at[links[:, 1]] - at[links[:, 0]]
    pull = offsets * (np.linalg.norm(offsets, axis=1, keepdims=True) / apart)
    np.add.at(total, links[:, 0], pull)
    np.add.at(total, links[:, 1], -pull)
    # A weak pull to the centre keeps unlinked nodes from drifting away.
    return total - 0.1 * at


def _fitted(at: NDArray[np.float64]) -> list[tuple[float, float]]:
    low, high = at.min(axis=0), at.max(axis=0)
    room = np.array([_WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN])
    scaled = (at - low) / np.maximum(high - low, 1e-9) * room + _MARGIN
    rows: list[Any] = scaled.tolist()
    return [(x, y) for x, y in rows]
