"""A merge knows where the rows lie that it replaces: it does not look for them, and finds them where they are now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.counters import counting

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "node Person { name: String @key  age: I32?  city: String? }"
PEOPLE = [f"p{each:03d}" for each in range(300)]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Three hundred people on main, all of age 1, and a branch `feature`."""
    graph = og.init(tmp_path / "graph", schema=SCHEMA)
    _put(graph, PEOPLE, 1)
    graph.branches.create("feature")
    return graph


def _put(graph: og.Graph, names: list[str], age: int, branch: str = "main") -> None:
    ages = pa.array([age] * len(names), pa.int32())
    graph.load({"Person": pa.table({"name": names, "age": ages})}, branch=branch, mode="merge")


def _rows(graph: og.Graph, branch: str = "main") -> list[dict[str, Any]]:
    entry = graph.snapshot(branch=branch)["node:Person"]
    return graph._manifest.stores.tables.open(entry.pin).read(["name", "age", "city"]).to_pylist()


def _ages(graph: og.Graph, branch: str = "main") -> dict[Any, Any]:
    """Every row, so that one that is there twice is seen."""
    rows = _rows(graph, branch)
    assert len({row["name"] for row in rows}) == len(rows)
    return {row["name"]: row["age"] for row in rows}


def _merge(graph: og.Graph) -> int:
    """How many scans a merge takes."""
    with counting() as counts:
        graph.merge("feature")
    return counts.table_scans


def test_rows_that_the_target_has_not_touched_are_replaced_where_they_lay(graph: og.Graph) -> None:
    _put(graph, PEOPLE[::30], 2, "feature")
    _put(graph, ["other"], 3)
    # What the branch has changed, as it was and as it is; what main has changed; and how many rows there are then.
    assert _merge(graph) == 4
    assert _ages(graph) == {**dict.fromkeys(PEOPLE, 1), **dict.fromkeys(PEOPLE[::30], 2), "other": 3}


def test_rows_that_the_target_rewrote_as_they_were_are_replaced_where_they_are_now(graph: og.Graph) -> None:
    _put(graph, PEOPLE[:200], 2, "feature")
    _put(graph, PEOPLE[100:], 1)
    assert _merge(graph) <= 5
    assert _ages(graph) == {**dict.fromkeys(PEOPLE, 1), **dict.fromkeys(PEOPLE[:200], 2)}


def test_rows_that_both_sides_changed_are_replaced_once(graph: og.Graph) -> None:
    change = "query q($n: String) {{ update Person set {{ {} }} where name = $n }}"
    for name in PEOPLE[:4]:
        graph.mutate(change.format("age: 2"), {"n": name}, branch="feature")
        graph.mutate(change.format('city: "Oslo"'), {"n": name})
    _put(graph, ["new on both"], 7, "feature")
    _put(graph, ["new on both"], 7)
    assert _merge(graph) <= 5
    assert _ages(graph) == {**dict.fromkeys(PEOPLE, 1), **dict.fromkeys(PEOPLE[:4], 2), "new on both": 7}
    assert [row["city"] for row in _rows(graph)].count("Oslo") == 4


def test_rows_that_were_removed_on_one_side_stay_so(graph: og.Graph) -> None:
    gone = "query q($n: String) { delete Person where name = $n }"
    graph.mutate(gone, {"n": "p000"}, branch="feature")
    graph.mutate(gone, {"n": "p001"}, branch="feature")
    graph.mutate(gone, {"n": "p001"})
    _put(graph, PEOPLE[2:4], 2, "feature")
    graph.merge("feature")
    assert _ages(graph) == {**dict.fromkeys(PEOPLE[4:], 1), "p002": 2, "p003": 2}


def test_rows_that_upkeep_has_moved_on_the_target_are_looked_for(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.history.delta.MOVED_ROWS", 0)
    _put(graph, PEOPLE[::30], 2, "feature")
    _put(graph, PEOPLE[5::30], 3)
    graph.optimize()
    graph.merge("feature")
    assert _ages(graph) == {
        **dict.fromkeys(PEOPLE, 1), **dict.fromkeys(PEOPLE[::30], 2), **dict.fromkeys(PEOPLE[5::30], 3)
    }  # fmt: skip


def test_a_merge_into_a_branch_that_has_no_table_of_its_own_yet(graph: og.Graph) -> None:
    graph.branches.create("copy")
    _put(graph, PEOPLE[::30], 2, "feature")
    graph.merge("feature", into="copy")
    assert _ages(graph, "copy") == {**dict.fromkeys(PEOPLE, 1), **dict.fromkeys(PEOPLE[::30], 2)}


@pytest.mark.s3
def test_in_a_bucket_the_lists_of_removed_rows_are_read_once_and_written_at_once(s3_uri: str) -> None:
    graph = og.init(s3_uri, schema=SCHEMA)
    _put(graph, PEOPLE[:150], 1)
    _put(graph, PEOPLE[150:], 1)
    graph.branches.create("feature")
    _put(graph, PEOPLE[::30], 2, "feature")
    _put(graph, PEOPLE[5::30], 3)
    with counting() as counts:
        og.open(s3_uri).merge("feature")
    lists = [each.partition(" ")[0] for each in counts.requests if "_deletions" in each]
    assert (lists.count("object_reads"), lists.count("object_writes")) == (4, 2)
    assert _ages(og.open(s3_uri)) == {
        **dict.fromkeys(PEOPLE, 1), **dict.fromkeys(PEOPLE[::30], 2), **dict.fromkeys(PEOPLE[5::30], 3)
    }  # fmt: skip
