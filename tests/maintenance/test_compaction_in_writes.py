"""Small writes leave small fragments; every now and then a write joins them, within its own commit."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph import failpoints
from omnigraph.storage.tables.compaction import MINOR_COMPACTION, CompactionPolicy, stage_minor_compaction
from omnigraph.storage.tables.immediate import create_branch
from omnigraph.storage.tables.indexes import IndexSpec, stage_indexes
from omnigraph.storage.tables.staging import commit_staged, stage_append
from storage.every_type import made, open_store, small
from storage.joined_changes import stage_upsert

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.storage.tables.table import Table

SCHEMA = "node Person { name: String @key  age: I32? }\nnode City { name: String @key }\n"
ADD = "query q($n: String) { insert Person { name: $n } }"
SET = 'query q($a: I32) { update Person set { age: $a } where name = "p0" }'


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", schema=SCHEMA)


@pytest.fixture
def folding_soon(graph: og.Graph) -> og.Graph:
    graph._manifest.minor_compaction = CompactionPolicy(fragments=3)
    return graph


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")


def person(graph: og.Graph, branch: str = "main") -> Table:
    return graph._manifest.stores.tables.open(graph.snapshot(branch=branch)["node:Person"].pin)


def names(graph: og.Graph, branch: str = "main") -> list[str]:
    return sorted(person(graph, branch).read(["name"]).column("name").to_pylist())


def add(graph: og.Graph, *numbers: int, branch: str = "main") -> None:
    for number in numbers:
        graph.mutate(ADD, {"n": f"p{number}"}, branch=branch)


def test_fragments_stay_few_while_rows_are_added_one_by_one(graph: og.Graph) -> None:
    counts = []
    for number in range(60):
        add(graph, number)
        counts.append(len(person(graph).fragment_ids()))
    assert max(counts) < MINOR_COMPACTION.fragments + 4
    assert names(graph) == sorted(f"p{each}" for each in range(60))


def test_a_write_that_folds_is_one_commit_like_any_other(folding_soon: og.Graph) -> None:
    before = len(folding_soon.commits())
    add(folding_soon, *range(9))
    assert len(folding_soon.commits()) == before + 9
    assert len(person(folding_soon).fragment_ids()) < 4


def test_every_past_commit_reads_as_it_was(folding_soon: og.Graph) -> None:
    for number in range(8):
        add(folding_soon, number)
    for number, commit in enumerate(reversed(folding_soon.commits()[:8])):
        rows = folding_soon.query("query q() { match { $p: Person } return { $p.name } }", at=commit.id)
        assert len(rows.to_pylist()) == number + 1


def test_a_diff_tells_what_was_changed_and_not_what_was_joined(folding_soon: og.Graph) -> None:
    add(folding_soon, *range(5))
    before = folding_soon.commits()[0].id
    add(folding_soon, 5, 6, 7)
    folding_soon.mutate(SET, {"a": 1})
    (changed,) = folding_soon.diff(before, "main")
    assert changed.inserted.column("id").to_pylist() == ["p5", "p6", "p7"]
    assert changed.before_ids.to_pylist() == ["p0"]


def test_a_branch_folds_its_own_fragments(folding_soon: og.Graph) -> None:
    add(folding_soon, 0, 1)
    folding_soon.branches.create("side")
    add(folding_soon, *range(2, 8), branch="side")
    assert len(person(folding_soon, "side").fragment_ids()) < 5
    assert names(folding_soon) == ["p0", "p1"]
    assert names(folding_soon, "side") == [f"p{each}" for each in range(8)]
    folding_soon.merge("side")
    assert names(folding_soon) == names(folding_soon, "side")


def test_folding_can_be_turned_off(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", schema=SCHEMA, auto_compact=False)
    add(graph, *range(20))
    assert len(person(graph).fragment_ids()) == 20
    again = og.open(tmp_path / "graph", auto_compact=False)
    add(again, 20)
    assert len(person(again).fragment_ids()) == 21
    add(og.open(tmp_path / "graph"), 21)
    assert len(person(graph).fragment_ids()) == 1


def test_a_fold_that_fails_is_no_failure_of_the_write(folding_soon: og.Graph) -> None:
    add(folding_soon, 0, 1)
    # The first durable step is the sidecar, the second the write itself; the third is the fold.
    failpoints.arm("store.write=raise@3")
    add(folding_soon, 2)
    assert names(folding_soon) == ["p0", "p1", "p2"]
    assert len(person(folding_soon).fragment_ids()) == 3
    add(folding_soon, 3)
    assert len(person(folding_soon).fragment_ids()) == 1


def test_a_lost_answer_to_a_fold_is_settled_by_looking(folding_soon: og.Graph) -> None:
    add(folding_soon, 0, 1)
    failpoints.arm("table.committed=lost@2")
    add(folding_soon, 2)
    assert len(person(folding_soon).fragment_ids()) == 1
    add(folding_soon, 3)
    assert names(folding_soon) == ["p0", "p1", "p2", "p3"]


def chain(table: Table, sizes: list[int], policy: CompactionPolicy) -> list[int]:
    """Append fragments of these sizes, compacting after each as a writer does; the number of fragments each time."""
    most = []
    names = itertools.count()
    for size in sizes:
        table = commit_staged(stage_append(table, small(*(f"r{next(names)}" for _ in range(size))))).table
        staged = stage_minor_compaction(table, policy)
        table = table if staged is None else commit_staged(staged).table
        most.append(len(table.fragment_ids()))
    assert table.count_rows() == sum(sizes) + 1
    return most


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=10, max_size=60))
def test_the_number_of_fragments_is_bounded_whatever_their_sizes(tmp_path_factory: Any, sizes: list[int]) -> None:
    table = made(open_store(str(tmp_path_factory.mktemp("fold"))), small("first"))
    assert max(chain(table, sizes, CompactionPolicy(fragments=4))) <= 4 + 6


def test_no_fold_rewrites_more_than_the_policy_allows(tmp_path: Path) -> None:
    policy = CompactionPolicy(fragments=3, rows=50)
    table = made(open_store(str(tmp_path)), small("first"))
    for first in range(0, 200, 10):
        table = commit_staged(stage_append(table, small(*(f"r{first + each}" for each in range(10))))).table
        staged = stage_minor_compaction(table, policy)
        table = table if staged is None else commit_staged(staged).table
    assert max(each.metadata.num_rows for each in table.handle.get_fragments()) <= 50
    assert stage_minor_compaction(table, CompactionPolicy(fragments=2, bytes=10)) is None


def test_what_an_index_covers_is_left_to_optimize(tmp_path: Path) -> None:
    table = made(open_store(str(tmp_path)), small("a"))
    for name in "bcd":
        table = commit_staged(stage_append(table, small(name))).table
    table = commit_staged(stage_indexes(table, [IndexSpec("id", "btree", "id_idx")])).table
    assert stage_minor_compaction(table, CompactionPolicy(fragments=2)) is None
    for name in "efg":
        table = commit_staged(stage_append(table, small(name))).table
    staged = stage_minor_compaction(table, CompactionPolicy(fragments=3))
    assert staged is not None
    folded = commit_staged(staged).table
    assert len(folded.fragment_ids()) == 5
    assert "ScalarIndexQuery" in folded.handle.scanner(filter="id = 'b'").explain_plan()
    assert [folded.handle.count_rows(f"id = '{name}'") for name in "abcdefgh"] == [1] * 7 + [0]


def test_rows_that_were_changed_and_folded_are_found_by_their_new_values(tmp_path: Path) -> None:
    table = made(open_store(str(tmp_path)), small("a", "b", n=1))
    table = commit_staged(stage_indexes(table, [IndexSpec("n", "btree", "n_idx")])).table
    for number, name in enumerate("abab"):
        table = commit_staged(stage_upsert(table, small(name, n=10 + number))).table
    staged = stage_minor_compaction(table, CompactionPolicy(fragments=2))
    table = table if staged is None else commit_staged(staged).table
    assert [table.handle.count_rows(f"n = {value}") for value in (1, 10, 11, 12, 13)] == [0, 0, 0, 1, 1]


def test_a_fork_folds_without_touching_its_parent(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    main = made(store, small("a"))
    create_branch(main, "x")
    table = store.open_newest(main.path, "x")
    for name in "bcd":
        table = commit_staged(stage_append(table, small(name))).table
    staged = stage_minor_compaction(table, CompactionPolicy(fragments=3))
    assert staged is not None
    assert commit_staged(staged).table.count_rows() == 4
    assert store.open_newest(main.path).count_rows() == 1
