"""Properties that are added to a type with rows: what was there is not written again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.storage.tables.table import Table

OLD = "age: I32?  tags: [String]?  v: Vector(2)?"


def person(properties: str) -> str:
    return f"node Person {{ name: String @key  {properties} }}\nnode City {{ name: String @key }}"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=person(OLD))
    rows = [{"name": f"p{each}", "age": each, "tags": ["x"], "v": [1.0, each]} for each in range(100)]
    graph.load({"Person": rows})
    graph.mutate('query q() { update Person set { age: 0 } where name = "p7" }')
    graph.mutate('query q() { delete Person where name = "p8" }')
    graph.ensure_indices()
    return graph


def stored(graph: og.Graph) -> Table:
    return graph._manifest.stores.tables.open(graph.snapshot()["node:Person"].pin)


def files(graph: og.Graph) -> list[str]:
    return [str(file.path) for each in stored(graph).handle.get_fragments() for file in each.metadata.files]


def facts(graph: og.Graph) -> list[dict[str, Any]]:
    columns = ["name", "age", "_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]
    found: list[dict[str, Any]] = stored(graph).read(columns).to_pylist()
    return found


def values(graph: og.Graph, *columns: str, where: str = "", **at: Any) -> list[tuple[Any, ...]]:
    names = ", ".join(f"$p.{each}" for each in columns)
    query = f"query q() {{ match {{ $p: Person {where} }} return {{ {names} }} order {{ $p.name }} }}"
    return [tuple(row.values()) for row in graph.query(query, **at).to_pylist()]


def test_a_nullable_property_writes_no_data_and_moves_no_row(graph: og.Graph) -> None:
    before, rows, commit = files(graph), facts(graph), graph.commits()[0].id
    indexes = {each.name for each in stored(graph).handle.describe_indices()}
    graph.apply_schema(person(f"boss: String?  {OLD}  born: Date?  marks: [I64]?"))
    assert (files(graph), facts(graph)) == (before, rows)
    assert {each.name for each in stored(graph).handle.describe_indices()} == indexes
    assert values(graph, "name", "boss", "age", "born", "marks")[:2] == [
        ("p0", None, 0, None, None),
        ("p1", None, 1, None, None),
    ]
    assert "boss" not in [name for row in stored_at(graph, commit) for name in row]


def stored_at(graph: og.Graph, commit_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        graph._manifest.stores.tables.open(graph.snapshot(at=commit_id)["node:Person"].pin).read().to_pylist()
    )
    return found


def test_everything_goes_on_with_the_new_columns(graph: og.Graph) -> None:
    graph.apply_schema(person(f"boss: String? @index  {OLD}"))
    graph.mutate('query q() { insert Person { name: "new", boss: "p1", v: [5.0, 5.0] } }')
    graph.mutate('query q() { update Person set { boss: "p2" } where name = "p3" }')
    graph.apply_schema(person(f"boss: String? @index  {OLD}  flag: Bool?"))
    graph.load({"Person": [{"name": "p4", "boss": "p5", "flag": True}]}, mode="merge")
    graph.optimize()
    again = og.open(graph.uri)
    assert values(again, "name", "boss", "flag", where='{ boss: "p5" }') == [("p4", "p5", True)]
    assert values(again, "name", "boss", "flag", where='{ name: "new" }') == [("new", "p1", None)]
    assert values(again, "name", "boss", where='{ boss: "p2" }') == [("p3", "p2")]
    again.branches.create("side")
    again.mutate('query q() { update Person set { flag: false } where name = "p9" }', branch="side")
    again.merge("side")
    assert values(again, "flag", where='{ name: "p9" }') == [(False,)]
    stored(again).handle.validate()


def test_a_diff_over_the_change_tells_only_what_changed(graph: og.Graph) -> None:
    before = graph.commits()[0].id
    graph.apply_schema(person(f"{OLD}  boss: String?"))
    graph.mutate('query q() { update Person set { boss: "p2" } where name = "p3" }')
    (delta,) = graph.diff(before, "main")
    assert (delta.inserted.num_rows, delta.deleted.num_rows) == (0, 0)
    assert delta.updated[1].select(["name", "boss"]).to_pylist() == [{"name": "p3", "boss": "p2"}]


def test_one_with_a_default_is_written_beside_the_others(graph: og.Graph) -> None:
    before, rows = files(graph), facts(graph)
    graph.apply_schema(person(f'state: String @default("new")  {OLD}  score: F64? @default(1.5)  boss: String?'))
    assert set(before) < set(files(graph))
    places = ("name", "_rowid", "_rowaddr", "_row_created_at_version")
    assert [[row[each] for each in places] for row in facts(graph)] == [[row[each] for each in places] for row in rows]
    assert set(values(graph, "state", "score", "boss")) == {("new", 1.5, None)}
    assert len(values(graph, "name", where='{ state: "new" }')) == 99
    graph.mutate('query q() { insert Person { name: "last" } }')
    assert values(graph, "state", "score", where='{ name: "last" }') == [("new", 1.5)]
    graph.optimize()
    assert set(values(og.open(graph.uri), "state", "score", "boss")) == {("new", 1.5, None)}
