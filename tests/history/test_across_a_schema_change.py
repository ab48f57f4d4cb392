"""A state of an earlier schema is looked at and tidied in that schema, and taken back in the later one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import errors

BEFORE = "node Person { name: String @key  age: I32? @index  city: String? }\nedge Knows: Person -> Person"
AFTER = {
    "add": BEFORE.replace("city", "size: F64?  city"),
    "rename": BEFORE.replace("age: I32?", 'years: I32? @rename_from("age")'),
    "widen": BEFORE.replace("I32", "I64"),
    "rename the type": BEFORE.replace("node Person", 'node Human @rename_from("Person")').replace(
        "Person -> Person", "Human -> Human"
    ),
}
SMALLER = "node Person { name: String @key  city: String? }\nedge Knows: Person -> Person"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph", schema=BEFORE)
    people = [{"name": name, "age": age} for name, age in (("ada", 1), ("bo", 2))]
    graph.load({"Person": people, "Knows": [{"from": "ada", "to": "bo"}]})
    return graph


def do(graph: og.Graph, body: str, branch: str = "main") -> str:
    made = graph.mutate(f"query q() {{ {body} }}", branch=branch).commit
    assert made is not None
    return made.id


def ages(graph: og.Graph) -> dict[str, Any]:
    kind, age = ("Human", "age") if "node:Human" in graph.snapshot().tables else ("Person", "age")
    age = "years" if "years" in graph.schema else age
    found = graph.query(f"query q() {{ match {{ $p: {kind} }} return {{ $p.name as name, $p.{age} as age }} }}")
    return {row["name"]: row["age"] for row in found.to_pylist()}


@pytest.mark.parametrize("change", AFTER)
def test_a_commit_from_before_is_taken_back_in_the_later_schema(graph: og.Graph, change: str) -> None:
    added = do(graph, 'insert Person { name: "eve", age: 3 } insert Knows { from: "eve", to: "bo" }')
    older = do(graph, 'update Person set { age: 10 } where name = "ada"')
    gone = do(graph, 'delete Person where name = "bo"')
    graph.apply_schema(AFTER[change])
    assert ages(graph) == {"ada": 10, "eve": 3}
    graph.revert(gone)
    assert ages(graph) == {"ada": 10, "bo": 2, "eve": 3}
    graph.revert(older)
    graph.revert(added)
    assert ages(graph) == {"ada": 1, "bo": 2}
    ends = graph.query("query q() { match { $p knows $f } return { $p.name as name } }").to_pylist()
    assert ends == [{"name": "ada"}]


def test_what_was_changed_again_under_the_later_schema_stands_in_the_way(graph: og.Graph) -> None:
    older = do(graph, 'update Person set { age: 10 } where name = "ada"')
    graph.apply_schema(AFTER["rename"])
    do(graph, 'update Person set { years: 20 } where name = "ada"')
    with pytest.raises(errors.RevertConflicts) as refused:
        graph.revert(older)
    assert [(each.row_id, each.properties) for each in refused.value.conflicts] == [("ada", ("years",))]
    graph.revert(older, resolve="theirs")
    assert ages(graph) == {"ada": 1, "bo": 2}


def test_values_of_a_property_that_was_dropped_are_left_out_and_counted(graph: og.Graph) -> None:
    older = do(graph, 'update Person set { age: 10, city: "Rome" } where name = "ada"')
    graph.apply_schema(SMALLER)
    assert graph.revert(older, dry_run=True).left_out == {"node:Person.age": 1}
    done = graph.revert(older)
    assert (done.puts, done.left_out) == ({"node:Person": 1}, {"node:Person.age": 1})
    cities = graph.query("query q() { match { $p: Person } return { $p.city as city } }").to_pylist()
    assert cities == [{"city": None}, {"city": None}]


def test_rows_of_a_type_that_was_dropped_cannot_be_taken_back(graph: og.Graph) -> None:
    added = do(graph, 'insert Knows { from: "bo", to: "ada" }')
    graph.apply_schema(SMALLER.partition("\n")[0])
    with pytest.raises(errors.CommitRejected, match="edge:Knows, and branch 'main' has dropped that type since"):
        graph.revert(added)


@pytest.mark.parametrize("change", AFTER)
def test_a_branch_behind_is_indexed_tidied_exported_and_reverted_in_its_own_schema(
    graph: og.Graph, tmp_path: Path, change: str
) -> None:
    graph.branches.create("side")
    added = do(graph, 'insert Person { name: "sid", age: 9 }', "side")
    graph.apply_schema(AFTER[change])
    assert graph.catalog_of(graph.snapshot(branch="side")).nodes.keys() == {"Person"}
    assert graph.ensure_indices(branch="side").built.keys() == {"node:Person", "edge:Knows"}
    assert {each.table_key for each in graph.optimize(branch="side").tables} == {"node:Person", "edge:Knows"}
    (file,) = graph.export(tmp_path / "side.jsonl", branch="side", types=["Person"])
    rows = [json.loads(line)["data"] for line in Path(file).read_text().splitlines()]
    assert {row["name"]: row["age"] for row in rows} == {"ada": 1, "bo": 2, "sid": 9}
    lines = b"".join(graph.baseline(branch="side", types=["Person"]).records()).splitlines()
    assert [json.loads(line)["data"] for line in lines] == rows
    graph.revert(added, branch="side")
    people = graph.query("query q() { match { $p: Person } return { $p.name as name } }", branch="side").to_pylist()
    assert people == [{"name": "ada"}, {"name": "bo"}]
