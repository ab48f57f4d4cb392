"""Net changes become the cheapest staging that is right, on main and on a branch that has no line of the table yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from omnigraph.counters import counting
from omnigraph.errors import KeyConflict
from omnigraph.transaction.table_writes import writes_of
from omnigraph.transaction.write_set import TableChanges
from transaction.small_graph import SmallGraph

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCHEMA = "node Person { name: String  age: I32? }\nedge Knows: Person -> Person { since: I32? }"
PERSON = "node:Person"


@pytest.fixture
def graph(tmp_path: Path) -> SmallGraph:
    graph = SmallGraph(tmp_path / "g.omni", SCHEMA)
    graph.load(node_Person=[_person("ada", 36), _person("bob", 20)])
    return graph


def _person(name: str, age: int | None = None) -> dict[str, object]:
    return {"id": name, "name": name, "age": age}


def _staged_as(graph: SmallGraph, changes: Mapping[str, TableChanges]) -> dict[str, str]:
    view = graph.view()
    tables = graph.manifest.stores.tables
    return {each.entry.table_key: each.stage(tables.open(each.entry.pin)).change for each in writes_of(view, changes)}


def test_rows_whose_ids_are_all_new_are_appended(graph: SmallGraph) -> None:
    assert _staged_as(graph, {PERSON: graph.change(PERSON, [_person("cy"), _person("di")])}) == {PERSON: "append"}


def test_rows_are_upserted_when_one_of_their_ids_is_committed(graph: SmallGraph) -> None:
    assert _staged_as(graph, {PERSON: graph.change(PERSON, [_person("ada"), _person("di")])}) == {PERSON: "upsert"}


def test_removals_alone_are_a_delete(graph: SmallGraph) -> None:
    assert _staged_as(graph, {PERSON: graph.change(PERSON, deletes={"ada"})}) == {PERSON: "delete"}


def test_puts_and_removals_are_one_change(graph: SmallGraph) -> None:
    assert _staged_as(graph, {PERSON: graph.change(PERSON, [_person("cy")], {"ada"})}) == {PERSON: "change"}


def test_an_overwrite_stays_one_even_without_rows(graph: SmallGraph) -> None:
    assert _staged_as(graph, {PERSON: TableChanges(PERSON, overwrite=True)}) == {PERSON: "overwrite"}


def test_a_table_in_which_nothing_would_change_is_not_written(graph: SmallGraph) -> None:
    changes = {PERSON: graph.change(PERSON, deletes={"nobody"}), "edge:Knows": TableChanges("edge:Knows")}
    assert _staged_as(graph, changes) == {}
    assert graph.apply(changes) is None


@pytest.mark.parametrize("how", ["all", "some"])
def test_a_row_that_must_be_new_and_is_committed_is_named_and_nothing_moves(graph: SmallGraph, how: str) -> None:
    rows = [_person("cy"), _person("bob", 99), _person("ada", 99)]
    whole = graph.change(PERSON, rows, only_new=True)
    some = TableChanges(PERSON, whole.puts, new_ids=frozenset({"ada"}))
    with pytest.raises(KeyConflict) as error:
        graph.apply({PERSON: whole if how == "all" else some})
    assert (error.value.type_name, error.value.row_id) == ("Person", "bob" if how == "all" else "ada")
    assert {row["age"] for row in graph.content(PERSON).values()} == {36, 20}


@pytest.mark.parametrize("branch", ["main", "review"])
def test_every_kind_of_change_lands_on_main_and_on_a_branch_that_forks_the_table(
    graph: SmallGraph, branch: str
) -> None:
    if branch != "main":
        graph.manifest.create_branch(branch)
    before = graph.content(PERSON)
    graph.apply({PERSON: graph.change(PERSON, [_person("ada", 37), _person("cy", 5)], {"bob"})}, branch)
    graph.apply({PERSON: graph.change(PERSON, [_person("di", 1)], only_new=True)}, branch)
    graph.apply({PERSON: graph.change(PERSON, deletes={"cy"})}, branch)
    assert {row["id"]: row["age"] for row in graph.content(PERSON, branch).values()} == {"ada": 37, "di": 1}
    graph.apply({PERSON: graph.change(PERSON, [_person("eve", 2)], overwrite=True)}, branch)
    assert list(graph.content(PERSON, branch)) == ["eve"]
    if branch != "main":
        assert graph.content(PERSON) == before


@pytest.mark.parametrize(
    "first",
    [{"puts": [_person("ada", 1)]}, {"deletes": {"ada"}}, {"puts": [_person("cy")], "deletes": {"ada"}},
     {"puts": [_person("cy")], "only_new": True}, {"overwrite": True}],
    ids=["upsert", "delete", "change", "append", "overwrite"],
)  # fmt: skip
def test_the_first_write_of_a_branch_may_be_of_any_kind(graph: SmallGraph, first: dict[str, object]) -> None:
    graph.apply({PERSON: graph.change(PERSON, **first)})  # type: ignore[arg-type]
    expected = graph.content(PERSON)
    other = {row["id"]: row for row in [_person("ada", 36), _person("bob", 20)]}
    graph.apply({PERSON: graph.change(PERSON, list(other.values()), overwrite=True)})
    graph.manifest.create_branch("review")
    graph.apply({PERSON: graph.change(PERSON, **first)}, "review")  # type: ignore[arg-type]
    assert graph.content(PERSON, "review") == expected
    assert graph.content(PERSON) == other


def test_thousands_of_ids_are_not_listed_one_by_one(graph: SmallGraph) -> None:
    many = [_person(f"p{n:05}", n) for n in range(5_000)]
    graph.apply({PERSON: graph.change(PERSON, many, only_new=True)})
    newer = [_person(f"p{n:05}", -n) for n in range(2_500, 7_500)]
    with counting() as counts:
        graph.apply({PERSON: graph.change(PERSON, newer)})
    assert counts.table_scans <= 4
    content = graph.content(PERSON)
    assert len(content) == 7_502
    assert (content["p02499"]["age"], content["p02500"]["age"]) == (2_499, -2_500)


def test_thousands_of_ids_can_be_removed_at_once(graph: SmallGraph) -> None:
    graph.apply({PERSON: graph.change(PERSON, [_person(f"p{n:05}", n) for n in range(5_000)])})
    graph.apply({PERSON: graph.change(PERSON, [_person("ada", 1)], {f"p{n:05}" for n in range(4_999)})})
    assert {row["id"]: row["age"] for row in graph.content(PERSON).values()} == {"ada": 1, "bob": 20, "p04999": 4_999}
    graph.apply({PERSON: graph.change(PERSON, [_person(f"p{n:05}", n) for n in range(3_000)])})
    graph.apply({PERSON: graph.change(PERSON, deletes={f"p{n:05}" for n in range(5_000)})})
    assert sorted(graph.content(PERSON)) == ["ada", "bob"]
