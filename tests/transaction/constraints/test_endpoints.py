"""Ends of edges: both are there after the change, for edges that are put and for edges that stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from omnigraph.counters import counting
from omnigraph.errors import OrphanEdge
from omnigraph.transaction.constraints.validate import validate, violations
from omnigraph.transaction.write_set import TableChanges
from transaction.small_graph import SmallGraph

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node Person { name: String? }
node Town { name: String? }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> Town
"""
PERSON, TOWN, KNOWS, LIVES = "node:Person", "node:Town", "edge:Knows", "edge:LivesIn"


@pytest.fixture
def graph(tmp_path: Path) -> SmallGraph:
    graph = SmallGraph(tmp_path / "g.omni", SCHEMA)
    graph.load(
        node_Person=[{"id": "ada"}, {"id": "bob"}],
        node_Town=[{"id": "Rome"}],
        edge_Knows=[_edge("k1", "ada", "bob")],
        edge_LivesIn=[_edge("l1", "ada", "Rome")],
    )
    return graph


def _edge(row_id: str, source: str, target: str) -> dict[str, Any]:
    return {"id": row_id, "src": source, "dst": target}


def _found(graph: SmallGraph, *changes: TableChanges) -> list[str]:
    return [str(each) for each in violations(graph.catalog, graph.view(), {each.table_key: each for each in changes})]


def test_an_edge_between_committed_nodes_is_right(graph: SmallGraph) -> None:
    assert _found(graph, graph.change(KNOWS, [_edge("k2", "bob", "ada")])) == []


def test_an_edge_may_use_nodes_of_the_same_change(graph: SmallGraph) -> None:
    assert _found(graph, graph.change(KNOWS, [_edge("k2", "cy", "ada")]), graph.change(PERSON, [{"id": "cy"}])) == []


def test_an_end_that_is_not_there_is_told_with_its_side_and_type(graph: SmallGraph) -> None:
    rows = [_edge("l2", "ada", "Oslo"), _edge("l3", "eve", "Paris")]
    assert _found(graph, graph.change(LIVES, rows)) == [
        "edge LivesIn 'l2': dst 'Oslo' not found in Town",
        "edge LivesIn 'l3': src 'eve' not found in Person",
        "edge LivesIn 'l3': dst 'Paris' not found in Town",
    ]


def test_a_node_of_another_type_with_the_same_id_is_not_an_end(graph: SmallGraph) -> None:
    assert _found(graph, graph.change(LIVES, [_edge("l2", "ada", "bob")])) == [
        "edge LivesIn 'l2': dst 'bob' not found in Town"
    ]


def test_an_end_that_the_same_change_removes_is_not_there(graph: SmallGraph) -> None:
    changes = graph.change(KNOWS, [_edge("k2", "ada", "bob")], {"k1"}), graph.change(PERSON, deletes={"bob"})
    assert _found(graph, *changes) == ["edge Knows 'k2': dst 'bob' not found in Person"]


def test_committed_edges_of_removed_nodes_are_stranded(graph: SmallGraph) -> None:
    [error, second] = violations(graph.catalog, graph.view(), {PERSON: graph.change(PERSON, deletes={"ada"})})
    assert isinstance(error, OrphanEdge)
    assert (error.code, error.type_name, error.row_id, error.end, error.node_type, error.node_id) == (
        "orphan_edge", "Knows", "k1", "src", "Person", "ada",
    )  # fmt: skip
    assert str(second) == "edge LivesIn 'l1': src 'ada' not found in Person"


@pytest.mark.parametrize("how", ["removed", "moved", "overwritten"])
def test_an_edge_is_not_stranded_when_it_is_itself(graph: SmallGraph, how: str) -> None:
    edges = {
        "removed": graph.change(KNOWS, deletes={"k1"}),
        "moved": graph.change(KNOWS, [_edge("k1", "ada", "ada")]),
        "overwritten": TableChanges(KNOWS, overwrite=True),
    }
    assert _found(graph, edges[how], graph.change(PERSON, deletes={"bob"})) == []


def test_an_overwrite_of_nodes_strands_the_edges_it_leaves(graph: SmallGraph) -> None:
    assert _found(graph, graph.change(PERSON, [{"id": "ada"}, {"id": "eve"}], overwrite=True)) == [
        "edge Knows 'k1': dst 'bob' not found in Person"
    ]
    assert _found(graph, graph.change(PERSON, [{"id": "ada"}, {"id": "bob"}], overwrite=True)) == []


def test_an_overwrite_of_edges_is_checked_against_the_new_nodes(graph: SmallGraph) -> None:
    nodes = graph.change(PERSON, [{"id": "ada"}, {"id": "eve"}], overwrite=True)
    assert _found(graph, nodes, graph.change(KNOWS, [_edge("k9", "eve", "ada")], overwrite=True)) == []
    assert _found(graph, nodes, graph.change(KNOWS, [_edge("k9", "eve", "bob")], overwrite=True)) == [
        "edge Knows 'k9': dst 'bob' not found in Person"
    ]


def test_a_node_that_is_put_again_is_not_removed(graph: SmallGraph) -> None:
    assert _found(graph, graph.change(PERSON, [{"id": "ada", "name": "Ada"}])) == []


def test_both_ends_of_all_edges_cost_one_lookup_per_node_type(graph: SmallGraph) -> None:
    changes = {
        KNOWS: graph.change(KNOWS, [_edge(f"n{n}", "ada", "bob") for n in range(50)]),
        LIVES: graph.change(LIVES, [_edge("l2", "bob", "Rome")]),
    }
    view = graph.view()
    with counting() as counts:
        validate(graph.catalog, view, changes)
    assert counts.table_scans == 2
    assert set(view.reads) == {PERSON, TOWN}


def test_a_removed_node_makes_every_edge_table_at_it_a_part_of_the_read_set(graph: SmallGraph) -> None:
    graph.load(node_Town=[{"id": "Oslo"}])
    view = graph.view()
    validate(graph.catalog, view, {TOWN: graph.change(TOWN, deletes={"Oslo"})})
    assert LIVES in view.reads
    assert KNOWS not in view.reads
