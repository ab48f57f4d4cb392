"""Merges where one side has changed the schema: it wins, and rows of the other are read in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from omnigraph import errors

if TYPE_CHECKING:
    from pathlib import Path

CITY = "node City { name: String @key }"
LIVES = "edge LivesIn: Person -> City { since: I32?  @key(src, dst) }"
SCHEMA = f"node Person {{ name: String @key  age: I32?  nick: String? }}\n{CITY}\n{LIVES}"


def do(graph: og.Graph, statement: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {statement} }}", branch=branch)


def people(graph: og.Graph, *columns: str, branch: str = "main", type_name: str = "Person") -> dict[str, Any]:
    names = ", ".join(f"$p.{each}" for each in ("name", *columns))
    found = graph.query(f"query q() {{ match {{ $p: {type_name} }} return {{ {names} }} }}", branch=branch)
    return {row[0]: row[1:] for row in (tuple(each.values()) for each in found.to_pylist())}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    rows = [{"name": name, "age": 30, "nick": name[0]} for name in ("ada", "bo", "cy")]
    graph.load({"Person": rows, "City": [{"name": "Rome"}]})
    return graph


def left_behind(graph: og.Graph, *schemas: str) -> og.Graph:
    """A branch `past` of the state before the schema was changed, which has changes of its own."""
    before = graph.commits()[0].id
    for each in schemas:
        graph.apply_schema(each)
    graph.branches.create("past", from_=before)
    do(graph, 'update Person set { age: 31 } where name = "ada"', "past")
    do(graph, 'insert Person { name: "dan", age: 50, nick: "d" } insert LivesIn { from: "dan", to: "Rome" }', "past")
    do(graph, 'delete Person where name = "cy"', "past")
    return graph


def test_a_property_was_added_with_a_default(graph: og.Graph) -> None:
    person = 'node Person { name: String @key  age: I32?  nick: String?  state: String @default("new") }'
    left_behind(graph, f"{person}\n{CITY}\n{LIVES}")
    do(graph, 'update Person set { state: "old", nick: "AA" } where name = "ada"')
    merged = graph.merge("past")
    assert (merged.kind, merged.puts["node:Person"], merged.deletes) == ("merged", 2, {"node:Person": 1})
    expected = {"ada": (31, "AA", "old"), "bo": (30, "b", "new"), "dan": (50, "d", "new")}
    assert people(graph, "age", "nick", "state") == expected
    assert graph.merge("past").kind == "already_up_to_date"


def test_a_property_was_widened_renamed_and_dropped_in_several_steps(graph: og.Graph) -> None:
    steps = [
        "node Person { name: String @key  age: I64?  nick: String? }",
        'node Person { name: String @key  years: I64? @rename_from("age")  nick: String? }',
        "node Person { name: String @key  years: I64? }",
    ]
    left_behind(graph, *(f"{each}\n{CITY}\n{LIVES}" for each in steps))
    graph.merge("past")
    assert people(graph, "years") == {"ada": (31,), "bo": (30,), "dan": (50,)}


def test_a_type_was_renamed_and_another_added(graph: og.Graph) -> None:
    human = 'node Human @rename_from("Person") { name: String @key  age: I32?  nick: String? }'
    lives = "edge LivesIn: Human -> City { since: I32?  @key(src, dst) }"
    left_behind(graph, f"{human}\n{CITY}\n{lives}\nnode Tag {{ label: String @key }}")
    do(graph, 'insert Human { name: "eve" } insert Tag { label: "t" }')
    graph.merge("past")
    assert set(people(graph, type_name="Human")) == {"ada", "bo", "dan", "eve"}
    assert graph.snapshot()["edge:LivesIn"].row_count == 1


def test_both_sides_changed_one_property_of_one_entity(graph: og.Graph) -> None:
    left_behind(graph, f"node Person {{ name: String @key  age: I64?  nick: String?  x: I32? }}\n{CITY}\n{LIVES}")
    do(graph, 'update Person set { age: 99 } where name = "ada"')
    do(graph, 'update Person set { nick: "same" } where name = "cy"')
    preview = graph.merge("past", dry_run=True)
    assert {(each.kind, each.row_id) for each in preview.conflicts} == {
        ("DivergentUpdate", "ada"),
        ("DeleteVsUpdate", "cy"),
    }
    graph.merge("past", resolve="theirs")
    assert people(graph, "age") == {"ada": (31,), "bo": (30,), "dan": (50,)}


def test_rules_of_the_new_schema_are_checked(graph: og.Graph) -> None:
    left_behind(
        graph,
        f"node Person {{ name: String @key  age: I32?  nick: String?  x: I32?  @range(age, 0..40) }}\n{CITY}\n{LIVES}",
    )
    with pytest.raises(errors.MergeConflicts) as refusal:
        graph.merge("past")
    assert [(each.kind, each.row_id) for each in refusal.value.conflicts] == [("ValueConstraintViolation", "dan")]


def test_changed_rows_of_a_type_that_was_dropped_are_not_lost_silently(graph: og.Graph) -> None:
    before = graph.commits()[0].id
    graph.apply_schema("node Person { name: String @key  age: I32?  nick: String? }")
    for name, statement in (("clean", 'insert Person { name: "x" }'), ("past", 'insert City { name: "Oslo" }')):
        graph.branches.create(name, from_=before)
        do(graph, statement, name)
    graph.merge("clean")
    assert "x" in people(graph)
    with pytest.raises(errors.CommitRejected, match="changed rows of node:City"):
        graph.merge("past")
