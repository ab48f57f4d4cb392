"""Merges on Spark: the same rows, counts and conflicts as in this process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import omnigraph as og
from history.drawn_merges import Drawn, outcome, told
from history.test_partitioned_merge import people, row_ids
from omnigraph import errors
from omnigraph.graph import backends
from omnigraph.history.merge.partitioned.hash_partitions import MergeBudget, partitions_of
from omnigraph.storage.tables.row_rewrite import STABLE_IDS_SPAN

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "node Person { name: String @key  age: I32?  city: String? }"


def same_on_spark(spark: SparkSession, drawn: Drawn, pairs: int) -> set[str]:
    """Merge drawn pairs by both engines; the kinds of conflicts that were met."""
    kinds: set[str] = set()
    for _ in range(pairs):
        source, one, other = drawn.sides()
        options = {"resolve": drawn.resolver(), "by_property": drawn.chance.random() < 0.8}
        here = outcome(drawn, lambda: drawn.graph.merge(source, into=one, engine="local", **options))  # noqa: B023
        there = outcome(
            drawn,
            lambda: drawn.graph.merge(source, into=other, engine="spark", spark=spark, **options),  # noqa: B023
        )
        assert there == here
        assert drawn.rows(other) == drawn.rows(one)
        kinds |= {each[0] for each in here} if isinstance(here, list) else set()
    return kinds


def test_both_engines_agree_on_drawn_merges(spark: SparkSession, tmp_path: Path) -> None:
    same_on_spark(spark, Drawn.begin(tmp_path, 53), 1)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_both_engines_agree_on_very_many_drawn_merges(spark: SparkSession, tmp_path: Path) -> None:
    met: set[str] = set()
    for seed in range(50, 54):
        met |= same_on_spark(spark, Drawn.begin(tmp_path / str(seed), seed), 20)
    assert {"DivergentInsert", "DivergentUpdate", "DeleteVsUpdate", "OrphanEdge", "UniqueViolation"} <= met
    assert {"CardinalityViolation", "ValueConstraintViolation"} <= met


def test_edges_follow_their_node_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node P { name: String @key  age: I32? } edge K: P -> P { @key(src, dst) }")
    graph.load([*({"type": "P", "data": {"name": name}} for name in "ab"), {"edge": "K", "from": "a", "to": "b"}])
    graph.branches.create("side")
    for branch, text in (("side", 'delete P where name = "a"'), ("main", 'update P set { age: 9 } where name = "a"')):
        graph.mutate(f"query q() {{ {text} }}", branch=branch)
    graph.merge("side", resolve="ours", engine="spark", spark=spark)
    assert (graph.snapshot()["node:P"].row_count, graph.snapshot()["edge:K"].row_count) == (2, 1)


def test_rules_that_only_the_merged_whole_breaks_are_told_alike(spark: SparkSession, tmp_path: Path) -> None:
    graph = Drawn.begin(tmp_path, 0).graph
    sides = {"main": ("p5", "Bern", "Rome"), "side": ("p0", "Rome", "Oslo")}
    graph.branches.create("side")
    for branch, (name, owned, home) in sides.items():
        records = [
            {"type": "Person", "data": {"name": name, "email": "same@x", "seen": "2026-01-01T10:00:00Z"}},
            {"edge": "Owns", "from": "p1", "to": owned, "data": {}},
            {"edge": "LivesIn", "from": "p2", "to": home, "data": {}},
        ]
        graph.load(records, mode="merge", branch=branch, engine="local")
    graph.load([{"edge": "Likes", "from": "p3", "to": "p4", "data": {}}], mode="merge", engine="local")
    graph.mutate('query q() { delete Person where name = "p4" }', branch="side")
    here = graph.merge("side", engine="local", dry_run=True)
    there = graph.merge("side", engine="spark", spark=spark, dry_run=True)
    assert told(there.conflicts) == told(here.conflicts)
    assert [each[:3] for each in told(here.conflicts)] == [
        ("CardinalityViolation", "edge:LivesIn", "p2"),
        ("CardinalityViolation", "edge:Owns", "p1"),
        ("OrphanEdge", "edge:Likes", '["p4","p3"]'),
        ("UniqueViolation", "node:Person", "p0"),
    ]


def parted(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.load({"Person": people(0, 3_000, 1)}, mode="append", engine="local")
    graph.branches.create("side")
    graph.load({"Person": people(1_000, 3_000, 2)}, mode="merge", branch="side", engine="local")
    graph.mutate('query q() { delete Person where name = "p000002" }', branch="side")
    graph.mutate('query q() { update Person set { city: "there" } where name = "p001007" }')
    return graph


def files(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.rglob("data/*.lance"))


def test_rows_keep_their_row_ids_and_a_dry_run_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    graph = parted(tmp_path)
    before, written = row_ids(graph), files(tmp_path)
    told = graph.merge("side", engine="spark", spark=spark, dry_run=True)
    assert (told.puts, told.deletes, told.conflicts) == ({"node:Person": 3_000}, {"node:Person": 1}, ())
    assert (row_ids(graph), files(tmp_path)) == (before, written)
    done = graph.merge("side", engine="spark", spark=spark)
    assert (done.puts, done.deletes) == (told.puts, told.deletes)
    after = row_ids(graph)
    assert after.keys() == before.keys() - {"p000002"} | {f"p{each:06d}" for each in range(3_000, 4_000)}
    assert all(after[each] == before[each] for each in before if each != "p000002")
    assert graph.entity("Person", "p001007") == {"id": "p001007", "name": "p001007", "age": 2, "city": "there"}


def test_rows_far_apart_get_new_row_ids_whatever_partitions_they_are_in(spark: SparkSession, tmp_path: Path) -> None:
    """Of each partition alone the rows would lie close together: the decision is that of the whole table."""
    rows = STABLE_IDS_SPAN + 10
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.load({"Person": people(0, rows, 1)}, mode="append", engine="local")
    graph.branches.create("side")
    ends = pa.concat_tables([people(0, 4, 2), people(rows - 4, 4, 2)])
    assert len(set(partitions_of(ends.slice(0, 4).column("name"), 2))) == 2
    graph.load({"Person": ends}, mode="merge", branch="side", engine="local")
    graph.mutate('query q() { update Person set { city: "there" } where name = "p001007" }')
    assert graph.merge("side", engine="spark", spark=spark).puts == {"node:Person": 8}
    after = row_ids(graph)
    changed = [*range(4), *range(rows - 4, rows)]
    assert sorted(after[f"p{each:06d}"] for each in changed) == [*range(rows, rows + 8)]
    assert (len(after), after["p000004"]) == (rows, 4)


def test_a_branch_without_a_table_of_its_own_takes_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    graph = parted(tmp_path)
    graph.branches.create("fresh")
    graph.mutate('query q() { delete Person where name = "p000003" }', branch="side")
    assert graph.merge("side", into="fresh", engine="spark", spark=spark).deletes == {"node:Person": 2}
    assert graph.merge("side", into="fresh", engine="spark", spark=spark).kind == "already_up_to_date"
    (left,) = graph.diff("side", "fresh").summary()
    assert (left.inserted, left.updated, left.deleted) == (0, 1, 0)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_half_a_million_changed_rows_by_both_engines(spark: SparkSession, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.load({"Person": people(0, 500_000, 1)}, mode="append", engine="local")
    graph.branches.create("side")
    graph.load({"Person": people(0, 500_000, 2)}, mode="merge", branch="side", engine="local")
    took = {}
    for engine in ("local", "spark"):
        graph.branches.create(engine)
        started = time.perf_counter()
        done = graph.merge("side", into=engine, engine=engine, spark=spark)
        took[engine] = time.perf_counter() - started
        assert done.puts == {"node:Person": 500_000}
        assert list(graph.diff("side", engine)) == []
    print(f"500,000 changed rows: {took['local']:.1f} s in this process, {took['spark']:.1f} s on Spark")


def test_auto_takes_a_session_that_is_there_for_large_merges_only(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "BUDGET", MergeBudget(bytes=100_000))
    graph = parted(tmp_path)
    graph.branches.create("small")
    graph.mutate('query q() { update Person set { age: 9 } where name = "p000009" }', branch="small")
    context = spark.sparkContext
    jobs = context.statusTracker()
    context.setJobGroup("merges", "what auto does")
    try:
        graph.merge("small")
        assert list(jobs.getJobIdsForGroup("merges")) == []
        graph.merge("side")
        assert list(jobs.getJobIdsForGroup("merges")) != []
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]


def test_an_unknown_engine_is_refused(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.branches.create("side")
    with pytest.raises(errors.InvalidInput, match="there is no engine 'dask': use auto, local or spark"):
        graph.merge("side", engine="dask")  # type: ignore[arg-type]
