"""Shortest paths against networkx: which pairs have one, how long it is, and which of several is given."""

from __future__ import annotations

from random import Random  # noqa: TID251 - seeded, so that a failure can be repeated
from typing import TYPE_CHECKING, Any

import networkx as nx
import pytest

from query.conftest import SOCIAL, edge, person
from query.graphs import make_graph

if TYPE_CHECKING:
    from pathlib import Path

    from query.graphs import Graph

TEXT = (
    "match {{ $a: Person $b: Person $r: shortest($a {edge}{bounds} $b) }}"
    " return {{ $a.name, $b.name, $r.length, $r.nodes }}"
)


def generated(folder: Path, seed: int, size: int = 9) -> tuple[Graph, Any]:
    """Loops, parallel edges, several components."""
    random = Random(seed)
    names = [f"p{number}" for number in range(size)]
    random.shuffle(names)
    pairs = [(random.choice(names), random.choice(names)) for _ in range(random.randint(size // 2, 2 * size))]
    known = nx.MultiDiGraph()
    known.add_nodes_from(names)
    known.add_edges_from(pairs)
    people = [person(name, None) for name in names]
    return make_graph(folder, SOCIAL, {"Person": people, "Knows": [edge(a, b) for a, b in pairs]}), known


def expected(known: Any, low: int, high: int) -> dict[tuple[str, str], list[str]]:
    """Of all shortest paths the one whose ids come first; a path has edges, so a node reaches itself by none."""
    found = {}
    for a in known:
        for b, several in nx.single_source_all_shortest_paths(known, a):
            path = min(several)
            if low <= len(path) - 1 <= high:
                found[a, b] = path
    return found


@pytest.mark.parametrize("mode", ["csr", "indexed"])
@pytest.mark.parametrize("way", ["knows", "<knows>"])
@pytest.mark.parametrize(("bounds", "low", "high"), [("", 1, 1000), ("{0,3}", 0, 3), ("{2,4}", 2, 4)])
@pytest.mark.parametrize("seed", [2])
def test_paths_are_those_of_networkx(
    tmp_path: Path, seed: int, way: str, bounds: str, low: int, high: int, mode: str
) -> None:
    graph, known = generated(tmp_path, seed)
    undirected = known.to_undirected() if way == "<knows>" else known
    rows = graph.rows(TEXT.format(edge=way, bounds=bounds), traversal=mode)
    found = {(a, b): nodes for a, b, length, nodes in rows if length == len(nodes) - 1}
    assert len(found) == len(rows)
    assert found == expected(undirected, low, high)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_paths_of_many_graphs_are_those_of_networkx(tmp_path: Path, seed: int) -> None:
    graph, known = generated(tmp_path, seed, size=25)
    for way, undirected in (("knows", known), ("<knows>", known.to_undirected())):
        rows = graph.rows(TEXT.format(edge=way, bounds=""))
        assert {(a, b): nodes for a, b, _, nodes in rows} == expected(undirected, 1, 1000)
