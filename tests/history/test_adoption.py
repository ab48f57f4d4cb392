"""A branch that never wrote to a table takes a newer version of it by pointing there: no row is written again."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.counters import counting

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge LivesIn: Person -> City { @key(src, dst) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """A branch `old` that main has left behind: people have come and one has gone."""
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.load({"Person": [{"name": "Ada", "age": 36}, {"name": "Bo"}], "City": [{"name": "Rome"}]})
    graph.branches.create("old")
    graph.load({"Person": [{"name": f"new {each}"} for each in range(50)]}, mode="merge")
    do(graph, 'delete Person where name = "Bo"')
    do(graph, 'update Person set { age: 37 } where name = "Ada"')
    return graph


def do(graph: og.Graph, statement: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {statement} }}", branch=branch)


def names(graph: og.Graph, branch: str, type_name: str = "Person") -> set[str]:
    query = f"query q() {{ match {{ $x: {type_name} }} return {{ $x.name }} }}"
    return {row["x.name"] for row in graph.query(query, branch=branch).to_pylist()}


def test_a_branch_that_is_only_behind_catches_up_without_reading_or_writing_a_row(graph: og.Graph) -> None:
    with counting() as counts:
        merged = graph.merge("main", into="old")
    assert (merged.kind, merged.adopted, merged.puts, merged.deletes) == ("fast_forward", ("node:Person",), {}, {})
    touched = [each for each in counts.requests if each.startswith(("table_scans", "table_commits"))]
    assert not [each for each in touched if "__manifest" not in each]
    assert graph.snapshot(branch="old")["node:Person"] == graph.snapshot()["node:Person"]
    assert names(graph, "old") == names(graph, "main")
    assert graph.merge("main", into="old").kind == "already_up_to_date"


def test_what_the_branch_has_changed_itself_is_merged_row_by_row(graph: og.Graph) -> None:
    do(graph, 'insert City { name: "Oslo" } insert LivesIn { from: "Ada", to: "Oslo" }', "old")
    do(graph, 'insert City { name: "Bern" }')
    merged = graph.merge("main", into="old")
    assert (merged.kind, merged.adopted, merged.puts) == (
        "merged",
        ("node:Person",),
        {"node:City": 1, "node:Person": 51},
    )
    assert names(graph, "old", "City") == {"Rome", "Oslo", "Bern"}
    assert names(graph, "old") == names(graph, "main")


def test_the_merged_whole_is_checked_also_where_nothing_is_written(graph: og.Graph) -> None:
    do(graph, 'insert LivesIn { from: "Bo", to: "Rome" }', "old")
    with pytest.raises(errors.MergeConflicts) as refusal:
        graph.merge("main", into="old")
    assert [each.kind for each in refusal.value.conflicts] == ["OrphanEdge"]
    assert "Bo" in names(graph, "old")


def test_the_branch_can_be_written_to_afterwards_and_merged_back(graph: og.Graph) -> None:
    graph.merge("main", into="old")
    do(graph, 'update Person set { age: 1 } where name = "new 7"', "old")
    do(graph, 'delete Person where name = "new 8"', "old")
    do(graph, 'insert Person { name: "later" }')
    graph.merge("old")
    assert "new 8" not in names(graph, "main")
    assert "later" in names(graph, "main")


def test_a_cleanup_keeps_what_the_branch_points_at(graph: og.Graph) -> None:
    graph.merge("main", into="old")
    before = names(graph, "old")
    for number in range(3):
        do(graph, f'insert Person {{ name: "late {number}" }}')
    graph.optimize()
    report = graph.cleanup(keep=1, grace=dt.timedelta(0))
    assert report.versions_removed
    fresh = og.open(graph.uri)
    assert names(fresh, "old") == before
    do(fresh, 'insert Person { name: "own" }', "old")
    assert names(fresh, "old") == before | {"own"}


def test_a_cleanup_keeps_it_for_older_commits_of_the_branch_that_are_kept(graph: og.Graph) -> None:
    caught_up = graph.merge("main", into="old").commit
    assert caught_up is not None
    do(graph, "delete Person where age = 37", "old")
    do(graph, 'insert Person { name: "late" }')
    graph.cleanup(keep=2, grace=dt.timedelta(0))
    entity = og.open(graph.uri).entity("Person", "Ada", at=caught_up.id)
    assert entity is not None
    assert entity["age"] == 37


def test_either_branch_can_be_deleted_and_the_other_is_whole(graph: og.Graph) -> None:
    graph.branches.create("parent")
    do(graph, 'insert Person { name: "of the parent" }', "parent")
    graph.branches.create("child", from_="parent")
    do(graph, 'insert Person { name: "later" }', "parent")
    assert graph.merge("parent", into="child").adopted == ("node:Person",)
    with pytest.raises(errors.BranchInUse, match="child"):
        graph.branches.delete("parent")
    graph.branches.delete("child")
    assert "later" in names(graph, "parent")
    graph.branches.delete("parent")
    graph.branches.delete("old")
    assert "new 1" in names(og.open(graph.uri), "main")


def test_rows_of_a_line_that_the_target_does_not_stand_on_are_written(graph: og.Graph) -> None:
    """Else the source could not be deleted any more."""
    do(graph, 'insert City { name: "Oslo" }', "old")
    merged = graph.merge("old")
    assert (merged.adopted, merged.puts) == ((), {"node:City": 1})
    graph.branches.delete("old")
    assert names(og.open(graph.uri), "main", "City") == {"Rome", "Oslo"}


def test_two_branches_behind_catch_up_through_each_other(graph: og.Graph) -> None:
    graph.branches.create("other", from_=graph.commits(branch="old")[0].id)
    graph.merge("main", into="old")
    assert graph.merge("old", into="other").adopted == ("node:Person",)
    graph.branches.delete("old")
    assert names(graph, "other") == names(graph, "main")
