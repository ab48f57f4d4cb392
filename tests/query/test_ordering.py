"""The order of rows: total, and the same however they were found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from query.conftest import SOCIAL, edge, person
from query.graphs import make_graph

if TYPE_CHECKING:
    from pathlib import Path

    from query.graphs import Graph


def test_descending(social: Graph) -> None:
    rows = social.rows("match { $p: Person } return { $p.name } order { $p.age desc }")
    assert [row[0] for row in rows] == ["Charlie", "Alice", "Diana", "Bob"]


def test_the_second_key_decides_where_the_first_is_equal(tmp_path: Path) -> None:
    graph = make_graph(tmp_path, SOCIAL, {"Person": [person("b", 1), person("a", 1), person("c", 2)]})
    assert graph.rows("match { $p: Person } return { $p.name } order { $p.age desc, $p.name }") == [
        ("c",),
        ("a",),
        ("b",),
    ]


@pytest.mark.parametrize("names", ["abc", "cab", "bca"])
def test_ids_decide_what_the_keys_leave_equal(tmp_path: Path, names: str) -> None:
    graph = make_graph(tmp_path, SOCIAL, {"Person": [person(name, 1) for name in names]})
    assert graph.rows("match { $p: Person } return { $p.name } order { $p.age }") == [("a",), ("b",), ("c",)]


def test_parallel_edges_are_ordered_by_their_ids(tmp_path: Path) -> None:
    knows = [edge("a", "b", id="z"), edge("a", "b", id="x"), edge("a", "b", id="y")]
    graph = make_graph(tmp_path, SOCIAL, {"Person": [person("a", 1), person("b", 1)], "Knows": knows})
    rows = graph.rows("match { $a $e: knows $b } return { $e.id } order { $a.name, $b.name }")
    assert rows == [("x",), ("y",), ("z",)]


def test_nulls_come_first_ascending_and_last_descending(tmp_path: Path) -> None:
    graph = make_graph(tmp_path, SOCIAL, {"Person": [person("a", 2), person("b", None), person("c", 1)]})
    ascending = graph.rows("match { $p: Person } return { $p.name } order { $p.age }")
    descending = graph.rows("match { $p: Person } return { $p.name } order { $p.age desc }")
    assert ascending == [("b",), ("c",), ("a",)]
    assert descending == [("a",), ("c",), ("b",)]


def test_limit_and_offset_are_applied_after_the_order(social: Graph) -> None:
    text = "query q($n: I64, $m: I64) { match { $p: Person } return { $p.name } order { $p.name } limit $n offset $m }"
    assert social.rows(text, {"n": 2, "m": 1}) == [("Bob",), ("Charlie",)]
    assert social.rows(text, {"n": 0, "m": 0}) == []


def test_any_expression_is_a_key(social: Graph) -> None:
    rows = social.rows("match { $p: Person } return { $p.name } order { $p.age % 10, $p.name desc }")
    assert [row[0] for row in rows] == ["Alice", "Charlie", "Bob", "Diana"]


def test_an_entity_is_ordered_by_its_id_and_not_by_its_place(tmp_path: Path) -> None:
    graph = make_graph(tmp_path, SOCIAL, {"Person": [person(name, 1) for name in "bca"]})
    assert graph.rows("match { $p: Person } return { $p.name } order { $p desc }") == [("c",), ("b",), ("a",)]
    assert [row[0]["id"] for row in graph.rows("match { $p: Person } return distinct { $p } order { $p }")] == [
        "a",
        "b",
        "c",
    ]


def test_distinct_rows_come_once(social: Graph) -> None:
    assert social.rows("match { $a knows $b } return distinct { $a.name } order { $a.name }") == [("Alice",), ("Bob",)]


def test_without_an_order_a_limit_stops_early(social: Graph) -> None:
    assert len(social.rows("match { $p: Person } return { $p.name } limit 2")) == 2
