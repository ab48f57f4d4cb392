"""Merges in groups: whatever is merged in memory is merged in groups of any size with the same outcome."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from history.drawn_merges import Drawn, outcome
from history.test_state_machine import STEPS, Machine
from omnigraph import errors
from omnigraph.graph import backends
from omnigraph.history.merge.conflicts import MOST_LISTED
from omnigraph.history.merge.partitioned.deltas import SpillDirectory
from omnigraph.history.merge.partitioned.hash_partitions import HashPartitions, MergeBudget, groups_of, partitions_of
from omnigraph.world import REAL

if TYPE_CHECKING:
    from pathlib import Path

SMALLEST, SMALL = MergeBudget(bytes=0), MergeBudget(bytes=400_000)


def allow(monkeypatch: pytest.MonkeyPatch, budget: MergeBudget) -> None:
    """So much may be held, and no session of Spark that other tests have left running takes the rest."""
    monkeypatch.setattr(backends, "BUDGET", budget)
    monkeypatch.setattr(backends, "_running_session", lambda: None)


@pytest.fixture
def smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every merge is too large for memory, and every part of it is a group."""
    allow(monkeypatch, SMALLEST)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this process keeps its temporary files."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def in_groups(monkeypatch: pytest.MonkeyPatch, drawn: Drawn, *args: Any, **options: Any) -> object:
    with monkeypatch.context() as patched:
        allow(patched, SMALLEST)
        return outcome(drawn, lambda: drawn.graph.merge(*args, **options))


def same_either_way(monkeypatch: pytest.MonkeyPatch, drawn: Drawn, pairs: int) -> set[str]:
    """Merge drawn pairs both ways; the kinds of conflicts that were met."""
    kinds: set[str] = set()
    for _ in range(pairs):
        source, one, other = drawn.sides()
        options = {"resolve": drawn.resolver(), "by_property": drawn.chance.random() < 0.8}
        whole = outcome(drawn, lambda: drawn.graph.merge(source, into=one, **options))  # noqa: B023
        groups = in_groups(monkeypatch, drawn, source, into=other, **options)
        assert groups == whole
        assert drawn.rows(other) == drawn.rows(one)
        kinds |= {each[0] for each in whole} if isinstance(whole, list) else set()
    return kinds


def test_groups_and_memory_agree_on_drawn_merges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert same_either_way(monkeypatch, Drawn.begin(tmp_path, 1), 10)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_groups_and_memory_agree_on_very_many_drawn_merges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    met: set[str] = set()
    for seed in range(10):
        met |= same_either_way(monkeypatch, Drawn.begin(tmp_path / str(seed), seed), 30)
    assert met == {
        *("DivergentInsert", "DivergentUpdate", "DeleteVsUpdate", "OrphanEdge"),
        *("UniqueViolation", "CardinalityViolation", "ValueConstraintViolation"),
    }


@pytest.mark.usefixtures("smallest")
@pytest.mark.parametrize("seed", range(3))
def test_random_histories_in_groups(tmp_path: Path, seed: int) -> None:
    Machine(tmp_path, seed).run(STEPS)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.usefixtures("smallest")
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_histories_in_groups(tmp_path: Path, seed: int) -> None:
    Machine(tmp_path, seed).run(STEPS)


def people(first: int, rows: int, age: int) -> pa.Table:
    names = [f"p{each:06d}" for each in range(first, first + rows)]
    return pa.table({"name": names, "age": pa.array([age] * rows, pa.int32()), "city": ["here"] * rows})


def row_ids(graph: og.Graph) -> dict[str, int]:
    table = graph._manifest.stores.tables.open(graph.snapshot()["node:Person"].pin).read(["id", "_rowid"])
    return dict(zip(table.column("id").to_pylist(), table.column("_rowid").to_pylist(), strict=True))


def test_rows_keep_their_row_ids_and_no_file_of_the_merge_is_left_behind(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, SMALL)
    graph = og.init(tmp_path / "g", schema="node Person { name: String @key  age: I32?  city: String? }")
    graph.load({"Person": people(0, 3_000, 1)}, mode="append", engine="local")
    graph.branches.create("side")
    graph.load({"Person": people(1_000, 3_000, 2)}, mode="merge", branch="side", engine="local")
    graph.mutate('query q() { delete Person where name = "p000002" }', branch="side")
    graph.mutate('query q() { update Person set { city: "there" } where name = "p001007" }')
    before = row_ids(graph)
    done = graph.merge("side")
    assert (done.puts, done.deletes) == ({"node:Person": 3_000}, {"node:Person": 1})
    after = row_ids(graph)
    assert after.keys() == before.keys() - {"p000002"} | {f"p{each:06d}" for each in range(3_000, 4_000)}
    assert all(after[each] == before[each] for each in before if each != "p000002")
    assert graph.entity("Person", "p001007") == {"id": "p001007", "name": "p001007", "age": 2, "city": "there"}
    (left,) = graph.diff("main", "side").summary()
    assert (left.inserted, left.updated, left.deleted) == (0, 1, 0)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("budget", [backends.BUDGET, SMALL], ids=["in memory", "in groups"])
def test_of_very_many_conflicts_some_are_listed_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: MergeBudget
) -> None:
    allow(monkeypatch, budget)
    graph = og.init(tmp_path / "g", schema="node Person { name: String @key  age: I32?  city: String? }")
    rows = MOST_LISTED + 17
    graph.load({"Person": people(0, rows, 1)}, mode="append", engine="local")
    graph.branches.create("side")
    for branch, age in (("side", 2), ("main", 3)):
        graph.load({"Person": people(0, rows, age)}, mode="merge", branch=branch, engine="local")
    with pytest.raises(errors.MergeConflicts, match=f"{rows} conflicts, nothing was written") as refusal:
        graph.merge("side")
    assert (len(refusal.value.conflicts), refusal.value.more) == (MOST_LISTED, 17)
    assert graph.merge("side", dry_run=True).more_conflicts == 17
    assert graph.merge("side", resolve="theirs").puts == {"node:Person": rows}


@pytest.mark.usefixtures("smallest")
def test_rows_that_a_compaction_has_moved_are_no_changes(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node Person { name: String @key  age: I32?  city: String? }")
    for start in range(0, 12_000, 3_000):
        graph.load({"Person": people(start, 3_000, 1)}, mode="append", engine="local")
    graph.branches.create("side")
    graph.mutate('query q() { update Person set { city: "there" } where name = "p000007" }', branch="side")
    assert graph.optimize(branch="side").commit is not None
    assert graph.merge("side").puts == {"node:Person": 1}
    assert graph.merge("main", into="side").kind == "fast_forward"


@pytest.mark.usefixtures("smallest")
def test_rows_of_a_branch_behind_a_change_of_schema_come_through_in_groups(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node Person { name: String @key  age: I32?  city: String? }")
    graph.load({"Person": people(0, 50, 1)}, mode="append", engine="local")
    early = graph.commits()[0].id
    graph.apply_schema('node Person { name: String @key  years: I64? @rename_from("age")  city: String? }')
    graph.branches.create("behind", from_=early)
    graph.load({"Person": people(40, 20, 2)}, mode="merge", branch="behind", engine="local")
    graph.mutate('query q() { update Person set { city: "there" } where name = "p000045" }')
    assert graph.merge("behind").puts == {"node:Person": 20}
    assert graph.entity("Person", "p000045") == {"id": "p000045", "name": "p000045", "years": 2, "city": "there"}
    assert graph.snapshot()["node:Person"].row_count == 60


@pytest.mark.usefixtures("smallest")
def test_a_large_commit_is_taken_back_in_groups(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node Person { name: String @key  age: I32?  city: String? }")
    graph.load({"Person": people(0, 50, 1)}, mode="append", engine="local")
    mistake = graph.load({"Person": people(40, 20, 2)}, mode="merge", engine="local").commit
    done = graph.revert(mistake.id)
    assert (done.puts, done.deletes) == ({"node:Person": 10}, {"node:Person": 10})
    assert list(graph.diff(graph.commits()[0].id, graph.commits()[2].id)) == []


@pytest.mark.usefixtures("smallest")
def test_blobs_and_vectors_come_through_in_groups(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node Doc { name: String @key  body: Blob?  at: Vector(2)? }")
    docs = [{"type": "Doc", "data": {"name": f"d{each}", "body": "base64:YWJj", "at": [each, 1]}} for each in range(9)]
    graph.load(docs, mode="append", engine="local")
    graph.branches.create("side")
    changed = {"name": "d3", "body": "base64:eHl6", "at": [7, 7]}
    graph.load([{"type": "Doc", "data": changed}], mode="merge", branch="side", engine="local")
    graph.mutate('query q() { delete Doc where name = "d4" }', branch="side")
    done = graph.merge("side")
    assert (done.puts, done.deletes) == ({"node:Doc": 1}, {"node:Doc": 1})
    assert graph.blob("Doc", "d3", "body").read() == b"xyz"
    assert graph.blob("Doc", "d5", "body").read() == b"abc"


def test_rows_wait_by_part_and_come_back_as_they_were(tmp_path: Path) -> None:
    ids = [f"id{each}" for each in range(1_000)]
    rows = pa.table({"id": ids, "n": pa.array(range(1_000)), "l": [[each] for each in range(1_000)]})
    waiting = HashPartitions(tmp_path / "rows", rows.schema, 8)
    for start in range(0, 1_000, 300):
        waiting.add(rows.slice(start, 300))
    assert waiting.row_count == 1_000
    parts = partitions_of(rows.column("id"), 8)
    for part in range(8):
        assert waiting.read([part]).equals(rows.filter(pa.array(parts == part)))
    assert sorted(pa.Table.from_batches(waiting.batches()).column("n").to_pylist()) == list(range(1_000))


@pytest.mark.parametrize(
    ("sizes", "most", "groups"),
    [([5, 5, 5], 10, [[0, 1], [2]]), ([0, 20, 1, 0, 1], 10, [[1], [2, 4]]), ([0, 0], 10, []), ([3, 3], 1, [[0], [1]])],
)
def test_neighbouring_parts_make_groups(sizes: list[int], most: int, groups: list[list[int]]) -> None:
    assert groups_of(np.array(sizes), most) == groups


def test_a_place_is_made_when_it_is_needed_and_gone_afterwards(temporary: Path) -> None:
    with SpillDirectory(REAL) as place:
        assert list(temporary.iterdir()) == []
        assert place.folder().is_dir()
        assert len(list(temporary.iterdir())) == 1
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_has_left_goes_with_the_next_large_merge(temporary: Path) -> None:
    with SpillDirectory(REAL) as other:
        living = other.folder().parent
        mine = REAL.process().replace(":", ".")
        dead = living.with_name(living.name.replace(mine, "999999999.1"))
        elsewhere = living.with_name(dead.name.replace("omnigraph-merge~", "omnigraph-merge~other-"))
        for each in (dead, elsewhere):
            (each / "1").mkdir(parents=True)
        with SpillDirectory(REAL) as place:
            place.folder()
            assert (living.exists(), dead.exists(), elsewhere.exists()) == (True, False, True)
