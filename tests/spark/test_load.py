"""A load on Spark: every mode and source, stable row ids, branches, and one commit for all of it."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import CommitConflict, InvalidInput, KeyConflict
from omnigraph.load.plan import LOCAL_BYTES, LoadOptions
from omnigraph.spark.load import load_frames
from spark.loading import make_graph, row_ids, rows_of, small_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def records(people: range, friends: int = 0) -> list[dict[str, Any]]:
    nodes = [{"type": "Person", "data": {"name": f"p{i}", "age": i % 100, "email": f"e{i}"}} for i in people]
    ends = [people[i % len(people)] for i in range(friends + 1)]
    return nodes + [{"edge": "knows", "from": f"p{a}", "to": f"p{b}"} for a, b in itertools.pairwise(ends)]


def write_lines(place: Path, rows: list[dict[str, Any]]) -> Path:
    place.write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    return place


@pytest.fixture
def many_small_tasks(spark: SparkSession) -> Iterator[None]:
    """Tiny splits and files, so that a small input has many of both."""
    with small_tasks(spark, split_bytes=2_000, rows_per_file=40):
        yield


def test_files_of_many_splits_become_one_commit(tmp_path: Path, spark: SparkSession, many_small_tasks: None) -> None:
    graph = make_graph(tmp_path / "g")
    file = write_lines(tmp_path / "d.jsonl", records(range(200), 100))
    before = len(graph.commits())

    done = graph.load(file, mode="append", engine="spark", spark=spark, idempotency_key="run-1")

    assert len(graph.commits()) == before + 1
    assert (done.summary.engine, done.summary.nodes, done.summary.edges) == ("spark", {"Person": 200}, {"Knows": 100})
    assert done.summary.bytes == file.stat().st_size
    assert set(done.summary.stages) == {"read and write", "validate", "commit"}
    assert json.loads(done.summary.to_json())["rows"] == 300
    twin = make_graph(tmp_path / "twin")
    twin.load(file, mode="append", engine="local")
    assert rows_of(graph) == rows_of(twin)
    # The key is that of a run that was done: nothing is read, not even whether the file is there.
    file.unlink()
    file.write_text("not json")
    assert graph.load(file, mode="append", engine="spark", spark=spark, idempotency_key="run-1").repeated
    assert len(graph.commits()) == before + 1


def test_a_merge_replaces_rows_in_place_and_keeps_their_row_ids(
    tmp_path: Path, spark: SparkSession, many_small_tasks: None
) -> None:
    graph = make_graph(tmp_path / "g")
    graph.load(records(range(100)), mode="append")
    before = row_ids(graph, "node:Person")
    people = [{"name": f"p{i}", "age": 7, "email": f"e{i}"} for i in range(50, 150)]

    graph.load({"Person": people}, mode="merge", engine="spark", spark=spark)

    after = row_ids(graph, "node:Person")
    assert {name: after[name] for name in before} == before
    assert len(set(after.values())) == len(after) == 150
    ages = {row["name"]: row["age"] for row in rows_of(graph)["node:Person"]}
    assert (ages["p10"], ages["p50"], ages["p149"]) == (10, 7, 7)
    # A merge of nothing but known rows removes whole fragments, and the row ids stay.
    graph.load({"Person": people}, mode="merge", engine="spark", spark=spark)
    assert row_ids(graph, "node:Person") == after


def test_frames_on_a_branch_that_has_no_tables_of_its_own(tmp_path: Path, spark: SparkSession) -> None:
    graph = make_graph(tmp_path / "g")
    graph.load(records(range(10)), mode="append")
    before = rows_of(graph)
    graph.branches.create("review")
    people = spark.createDataFrame([("p1", 50), ("new", 51)], "name string, age int")
    friends = spark.createDataFrame([("p1", "new")], "`from` string, `to` string")

    receipt, summary = load_frames(
        graph._manifest, graph.catalog, {"Person": people, "Knows": friends}, LoadOptions(branch="review")
    )

    assert receipt.commit.id == graph.commits(branch="review")[0].id
    assert summary.rows == 3
    assert rows_of(graph) == before
    assert {e.table_key: e.row_count for e in graph.snapshot(branch="review") if e.row_count} == {
        "node:Person": 11,
        "edge:Knows": 1,
    }
    told = graph.query(
        'query q() { match { $a: Person  $a.name = "p1"  $a knows $b } return { $a.age, $b.name } }', branch="review"
    )
    assert told.to_pylist() == [{"a.age": 50, "b.name": "new"}]


def test_overwrite_replaces_the_types_of_the_source_and_no_others(tmp_path: Path, spark: SparkSession) -> None:
    graph = make_graph(tmp_path / "g")
    graph.load([*records(range(10)), {"type": "City", "data": {"title": "c"}}], mode="append")
    table = pa.table({"name": ["x", "y"], "age": [1, 2]})

    graph.load({"Person": table}, mode="overwrite", engine="spark", spark=spark)

    rows = rows_of(graph)
    assert [row["name"] for row in rows["node:Person"]] == ["x", "y"]
    assert len(rows["node:City"]) == 1
    graph.load({"Person": table.slice(0, 0)}, mode="overwrite", engine="spark", spark=spark)
    assert rows_of(graph)["node:Person"] == []


def test_an_append_whose_id_is_taken_changes_nothing(tmp_path: Path, spark: SparkSession) -> None:
    graph = make_graph(tmp_path / "g")
    graph.load(records(range(10)), mode="append")
    commits = len(graph.commits())
    with pytest.raises(KeyConflict, match="Person 'p3' is there already"):
        graph.load({"Person": [{"name": "new"}, {"name": "p3"}]}, mode="append", engine="spark", spark=spark)
    assert len(graph.commits()) == commits


def test_a_load_that_lost_a_race_is_validated_against_what_won(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The input is read once: a second writer comes in between, and the load is prepared again."""
    from omnigraph.load.bulk.operation import BulkLoad

    graph = make_graph(tmp_path / "g")
    file = write_lines(tmp_path / "d.jsonl", records(range(5)))
    prepare, calls = BulkLoad.prepare, []

    def interrupted(self: BulkLoad, view: Any) -> Any:
        prepared = prepare(self, view)
        calls.append(view)
        if len(calls) == 1:
            file.write_text("gone\n")
            graph.load([{"type": "Person", "data": {"name": "p2", "age": 99}}], mode="merge")
        return prepared

    monkeypatch.setattr(BulkLoad, "prepare", interrupted)
    graph.load(file, mode="merge", engine="spark", spark=spark)
    assert len(calls) == 2
    assert {row["name"]: row["age"] for row in rows_of(graph)["node:Person"]}["p2"] == 2
    # Replacing what somebody has just written is refused.
    calls.clear()
    file = write_lines(tmp_path / "d.jsonl", records(range(5)))
    with pytest.raises(CommitConflict):
        graph.load(file, mode="overwrite", engine="spark", spark=spark)


def test_small_loads_do_not_ask_for_spark(tmp_path: Path) -> None:
    graph = make_graph(tmp_path / "g")
    done = graph.load(records(range(3)), mode="append")
    assert done.summary.engine == "local"
    assert LOCAL_BYTES == 64 << 20
    with pytest.raises(InvalidInput, match="there is no engine 'flink'"):
        graph.load(records(range(3)), engine="flink")  # type: ignore[arg-type]


def test_rows_with_blobs_are_replaced_in_place_too(tmp_path: Path, spark: SparkSession) -> None:
    graph = make_graph(tmp_path / "g", "node Doc { name: String @key  body: Blob? }")
    graph.load({"Doc": [{"name": f"d{i}", "body": bytes([i]) * 9} for i in range(4)]}, mode="append")
    before = row_ids(graph, "node:Doc")
    rows = [{"name": "new", "body": b"n"}, {"name": "d2", "body": b"other"}, {"name": "d0", "body": b"x" * 200_000}]

    graph.load({"Doc": rows}, mode="merge", engine="spark", spark=spark)

    assert {name: row_id for name, row_id in row_ids(graph, "node:Doc").items() if name != "new"} == before
    graph.export(tmp_path / "out.jsonl")
    told = [json.loads(line)["data"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {each["name"]: each["body"][:20] for each in told} == {
        "d0": "base64:eHh4eHh4eHh4e",
        "d1": "base64:AQEBAQEBAQEB",
        "d2": "base64:b3RoZXI=",
        "d3": "base64:AwMDAwMDAwMD",
        "new": "base64:bg==",
    }


def test_datetimes_are_cut_to_milliseconds_towards_the_past(tmp_path: Path, spark: SparkSession) -> None:
    graph = og.init(tmp_path / "g", schema="node T { name: String @key  at: DateTime  ats: [DateTime] }")
    given = {
        "a": dt.datetime(2024, 5, 6, 7, 8, 9, 123_999, dt.UTC),
        "b": dt.datetime(1969, 12, 31, 23, 59, 59, 1, dt.UTC),
    }
    frame = spark.createDataFrame(
        [(name, at, [at]) for name, at in given.items()], "name string, at timestamp, ats array<timestamp>"
    )
    graph.load({"T": frame}, engine="spark", spark=spark)
    found = graph.query("query q() { match { $t: T } return { $t.at, $t.ats } order { $t.name } }").to_pylist()
    cut = [each.replace(microsecond=each.microsecond // 1_000 * 1_000) for each in given.values()]
    assert [(each["t.at"], each["t.ats"]) for each in found] == [(each, [each]) for each in cut]
