"""How many edges a source has: only sources whose number changes are counted, lower and upper bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from omnigraph.counters import counting
from omnigraph.errors import CardinalityViolation
from omnigraph.transaction.constraints.validate import validate, violations
from transaction.small_graph import SmallGraph

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.transaction.write_set import TableChanges

SCHEMA = """
node Person { name: String? }
node Team { name: String? }
edge In: Person -> Team @card(1..2) { since: I32? }
edge Leads: Person -> Team @card(0..1)
edge Likes: Person -> Team
"""
PERSON, TEAM, IN, LEADS, LIKES = "node:Person", "node:Team", "edge:In", "edge:Leads", "edge:Likes"


@pytest.fixture
def graph(tmp_path: Path) -> SmallGraph:
    graph = SmallGraph(tmp_path / "g.omni", SCHEMA)
    graph.load(
        node_Person=[{"id": each} for each in ("ada", "bob", "cy", "di")],
        node_Team=[{"id": each} for each in ("red", "blue", "green")],
        edge_In=[_edge("i1", "ada", "red"), _edge("i2", "ada", "blue"), _edge("i3", "bob", "red")],
        edge_Leads=[_edge("l1", "ada", "red")],
    )
    return graph


def _edge(row_id: str, source: str, target: str) -> dict[str, Any]:
    return {"id": row_id, "src": source, "dst": target}


def _found(graph: SmallGraph, *changes: TableChanges) -> list[str]:
    return [str(each) for each in violations(graph.catalog, graph.view(), {each.table_key: each for each in changes})]


def test_one_edge_too_many_is_told_with_count_and_bounds(graph: SmallGraph) -> None:
    [error] = violations(graph.catalog, graph.view(), {IN: graph.change(IN, [_edge("i4", "ada", "green")])})
    assert isinstance(error, CardinalityViolation)
    assert (error.code, error.type_name, error.source_id, error.count, error.minimum, error.maximum) == (
        "cardinality_violation", "In", "ada", 3, 1, 2,
    )  # fmt: skip
    assert str(error) == "@card violation on In: Person 'ada' has 3 edges, expected 1..2"


def test_edges_of_one_change_are_counted_together(graph: SmallGraph) -> None:
    rows = [_edge("l2", "cy", "red"), _edge("l3", "di", "red"), _edge("l4", "cy", "blue")]
    assert _found(graph, graph.change(LEADS, rows)) == [
        "@card violation on Leads: Person 'cy' has 2 edges, expected 0..1"
    ]


def test_an_edge_that_is_put_again_is_counted_once(graph: SmallGraph) -> None:
    assert _found(graph, graph.change(IN, [_edge("i1", "ada", "green")])) == []


def test_removing_below_the_minimum_is_refused_and_down_to_it_is_not(graph: SmallGraph) -> None:
    assert _found(graph, graph.change(IN, deletes={"i1"})) == []
    assert _found(graph, graph.change(IN, deletes={"i1", "i3", "i2"})) == [
        "@card violation on In: Person 'ada' has 0 edges, expected 1..2",
        "@card violation on In: Person 'bob' has 0 edges, expected 1..2",
    ]


def test_moving_an_edge_recounts_the_source_it_leaves_and_the_one_it_comes_to(graph: SmallGraph) -> None:
    assert _found(graph, graph.change(IN, [_edge("i3", "ada", "red")])) == [
        "@card violation on In: Person 'ada' has 3 edges, expected 1..2",
        "@card violation on In: Person 'bob' has 0 edges, expected 1..2",
    ]
    assert _found(graph, graph.change(IN, [_edge("i1", "cy", "red")])) == []


def test_a_source_that_is_removed_is_not_counted(graph: SmallGraph) -> None:
    assert _found(graph, graph.change(IN, deletes={"i3"}), graph.change(PERSON, deletes={"bob"})) == []


def test_a_node_that_never_had_an_edge_owes_none(graph: SmallGraph) -> None:
    assert _found(graph, graph.change(PERSON, [{"id": "eve"}])) == []


def test_a_new_source_owes_the_minimum_at_once(tmp_path: Path) -> None:
    graph = SmallGraph(tmp_path / "two.omni", "node N { x: I32? }\nedge E: N -> N @card(2..)")
    graph.load(node_N=[{"id": "a"}, {"id": "b"}])
    assert _found(graph, graph.change("edge:E", [_edge("e1", "a", "b")])) == [
        "@card violation on E: N 'a' has 1 edges, expected 2.."
    ]
    assert _found(graph, graph.change("edge:E", [_edge("e1", "a", "b"), _edge("e2", "a", "a")])) == []


def test_an_overwrite_counts_the_new_edges_and_the_sources_that_lost_theirs(graph: SmallGraph) -> None:
    assert _found(graph, graph.change(IN, [_edge("x", "ada", "red")], overwrite=True)) == [
        "@card violation on In: Person 'bob' has 0 edges, expected 1..2"
    ]
    people = graph.change(PERSON, [{"id": "ada"}, {"id": "di"}], overwrite=True)
    assert _found(graph, people, graph.change(IN, [_edge("x", "ada", "red")], overwrite=True)) == []


def test_sources_that_the_change_does_not_alter_are_left_alone(graph: SmallGraph) -> None:
    graph.load(edge_Leads=[_edge("l2", "ada", "blue")])
    assert _found(graph, graph.change(LEADS, [_edge("l3", "bob", "blue")])) == []
    assert _found(graph, graph.change(LEADS, [_edge("l2", "ada", "green")])) == []


def test_an_edge_type_without_bounds_costs_no_count(graph: SmallGraph) -> None:
    view = graph.view()
    with counting() as counts:
        validate(graph.catalog, view, {LIKES: graph.change(LIKES, [_edge("x", "ada", "red")], only_new=True)})
    assert counts.table_scans == 2
    assert LIKES not in view.reads


def test_a_count_makes_the_edge_table_a_part_of_the_read_set(graph: SmallGraph) -> None:
    view = graph.view()
    validate(graph.catalog, view, {LEADS: graph.change(LEADS, [_edge("x", "bob", "red")], only_new=True)})
    assert LEADS in view.reads
