"""Frames and streams into the graph through `format("omnigraph")` and `foreachBatch`, and its changes out again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import omnigraph as og
from omnigraph.errors import InvalidInput, SchemaChanged
from omnigraph.load.plan import FAIL
from omnigraph.pipeline.datasource.options import GraphReference
from omnigraph.pipeline.datasource.sink import stream_into
from omnigraph.pipeline.datasource.writer import WriteTarget
from omnigraph.world import REAL
from spark.loading import row_ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = """
node Person { name: String @key  age: U64?  seen: DateTime? }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph.omni", schema=SCHEMA)
    graph.load({"Person": [{"name": "Ada", "age": 36}, {"name": "Bob"}], "Knows": [{"from": "Ada", "to": "Bob"}]})
    return graph


def people(graph: og.Graph, branch: str = "main") -> list[tuple[Any, ...]]:
    ask = "query q() { match { $p: Person } return { $p.name, $p.age } order { $p.name asc } }"
    return [tuple(each.values()) for each in graph.query(ask, branch=branch).to_pylist()]


def write(frame: DataFrame, graph: og.Graph, save: str = "append", **options: str) -> None:
    frame.write.format("omnigraph").options(**{"type": "Person", **options}).mode(save).save(graph.uri)


@pytest.mark.spark
def test_a_frame_is_written_as_one_commit(graph: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    commits = len(graph.commits())
    new = spark.createDataFrame([("Cy", 1), ("Di", 2)], "name string, age long").repartition(2)
    write(new, graph, key="once")
    write(new, graph, key="once")
    assert people(graph) == [("Ada", 36), ("Bob", None), ("Cy", 1), ("Di", 2)]
    assert len(graph.commits()) == commits + 1
    assert not (tmp_path / "graph.omni" / "__spark_writes").exists()


@pytest.mark.spark
@pytest.mark.slow
def test_edges_are_checked_against_the_graph_and_named_by_their_row(graph: og.Graph, spark: SparkSession) -> None:
    good = spark.createDataFrame([("Bob", "Ada"), ("Ada", "Ada")], "from string, to string").repartition(2)
    write(good, graph, type="Knows")
    ask = "query q() { match { $a: Person  $a knows $b } return { count($b) as n } }"
    assert graph.query(ask).to_pylist() == [{"n": 3}]
    bad = spark.createDataFrame([("Bob", "Ada"), ("Bob", "nobody")], "from string, to string").repartition(2)
    with pytest.raises(PySparkException, match="'nobody'"):
        write(bad, graph, type="Knows")
    twice = spark.createDataFrame([("Cy", 1), ("Di", 2), ("Cy", 3)], "name string, age long").coalesce(1)
    with pytest.raises(PySparkException, match=r"row 3: @unique violation on Person\.name: the key 'Cy' occurs twice"):
        write(twice, graph)
    with pytest.raises(PySparkException, match="Person has no property 'agee': did you mean 'age'"):
        write(spark.createDataFrame([("Cy", 1)], "name string, agee long"), graph)
    assert graph.query(ask).to_pylist() == [{"n": 3}]


@pytest.mark.spark
@pytest.mark.slow
def test_many_rows_are_merged_by_the_process_that_commits(graph: og.Graph, spark: SparkSession) -> None:
    frame = spark.range(0, 60_000, 1, 4).selectExpr("concat('p', id) as name", "id as age")
    write(frame, graph)
    before = row_ids(graph, "node:Person")
    changed = spark.range(30_000, 90_000, 1, 4).selectExpr("concat('p', id) as name", "id + 1 as age")
    write(changed, graph, mode="merge")
    ask = "query q() { match { $p: Person } return { count($p) as n, sum($p.age) as s } }"
    total = sum(range(30_000)) + sum(range(30_001, 90_001)) + 36
    assert [int(each) for each in graph.query(ask).to_pylist()[0].values()] == [90_002, total]
    after = row_ids(graph, "node:Person")
    assert {name: after[name] for name in before} == before, "merged rows keep their stable row ids"


@pytest.mark.spark
@pytest.mark.slow
def test_a_type_that_changed_since_the_write_was_planned_is_refused(graph: og.Graph, tmp_path: Path) -> None:
    target = WriteTarget(GraphReference(graph.uri), "Person", "append", "main", None, "k")
    prepared = [target.prepared(["name", "age"]) for _ in range(2)]
    told = [
        each.write(iter([pa.record_batch({"name": [name], "age": [1]})]))
        for each, name in zip(prepared, "xy", strict=True)
    ]
    graph.apply_schema(SCHEMA + "node City { name: String @key }")
    prepared[0].commit([told[0]], "one")
    assert [name for name, _ in people(graph)] == ["Ada", "Bob", "x"], "another type does not concern it"
    graph.apply_schema(SCHEMA.replace("age: U64?", "age: U64?  nick: String?") + "node City { name: String @key }")
    with pytest.raises(SchemaChanged):
        prepared[1].commit([told[1]], "two")
    assert [name for name, _ in people(graph)] == ["Ada", "Bob", "x"]


@pytest.mark.spark
@pytest.mark.slow
def test_what_a_killed_writer_left_is_collected_when_it_is_old(graph: og.Graph) -> None:
    prepared = WriteTarget(GraphReference(graph.uri), "Person", "append", "main", None, "k").prepared(["name"])
    before = files(graph)
    prepared.write(iter([pa.record_batch({"name": ["lost"]})]))
    (left,) = files(graph) - before
    graph.cleanup(keep=1)
    assert left in files(graph), "a living writer may still need it"
    eight_days_ago = REAL.now_us() / 1e6 - 8 * 86_400
    os.utime(left, (eight_days_ago, eight_days_ago))
    graph.cleanup(keep=1)
    assert left not in files(graph)
    assert people(graph) == [("Ada", 36), ("Bob", None)]


def files(graph: og.Graph) -> set[str]:
    return {str(each) for each in Path(graph.uri.removeprefix("file://")).glob("nodes/*/data/*")}


@pytest.mark.spark
@pytest.mark.slow
def test_a_frame_is_merged_or_replaces_a_type_and_a_refused_one_changes_nothing(
    graph: og.Graph, spark: SparkSession
) -> None:
    new = spark.createDataFrame([("Ada", 1)], "name string, age long")
    with pytest.raises(PySparkException, match="is there already"):
        write(new, graph)
    with pytest.raises(PySparkException, match="option mode is append or merge, not 'overwrite'"):
        write(new, graph, mode="overwrite")
    assert people(graph) == [("Ada", 36), ("Bob", None)]
    changed = (
        spark.read.format("omnigraph").option("type", "Person").load(graph.uri).selectExpr("name", "age + 1 as age")
    )
    write(changed.selectExpr("name", "cast(age as bigint) as age"), graph, mode="merge")
    assert people(graph)[0] == ("Ada", 37)
    graph.mutate('query d() { delete Knows where src = "Ada" }')
    write(new, graph, "overwrite")
    assert people(graph) == [("Ada", 1)]


@pytest.mark.spark
def test_a_query_is_a_source(graph: og.Graph, spark: SparkSession) -> None:
    ask = "query q($n: String) { match { $p: Person { name: $n }  $p knows $f } return { $f.name, $p.age as age } }"
    reader = spark.read.format("omnigraph").option("query", ask).option("params", '{"n": "Ada"}')
    frame = reader.option("graph", graph.uri).load()
    graph.mutate('query m() { update Person set { age: 99 } where name = "Ada" }')
    assert [tuple(row) for row in frame.collect()] == [("Bob", 36)]
    with pytest.raises(PySparkException, match="is not JSON"):
        reader.option("params", "{").load(graph.uri)


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema("name string, age long").json(str(folder))


def test_a_stream_sets_rows_aside_by_the_policy_of_a_load(graph: og.Graph) -> None:
    assert stream_into(graph.uri, "Person").errors == FAIL
    assert stream_into(graph.uri, "Person", on_error=og.quarantine(3)).errors == og.quarantine(3)
    with pytest.warns(DeprecationWarning, match="use on_error="):
        assert stream_into(graph.uri, "Person", errors=og.quarantine(3)).errors == og.quarantine(3)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="on_error is 'fail' or"):
        stream_into(graph.uri, "Person", on_error="skip")  # type: ignore[arg-type]


def drop(folder: Path, name: str, *lines: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(each + "\n" for each in lines))


@pytest.mark.spark
def test_each_micro_batch_is_one_commit_and_a_repeated_one_none(
    graph: og.Graph, spark: SparkSession, tmp_path: Path
) -> None:
    folder, commits = tmp_path / "in", len(graph.commits())
    sink = stream_into(graph.uri, "Person", mode="merge")
    for number in range(2):
        drop(folder, f"{number}.json", f'{{"name": "p{number}", "age": {number}}}')
        query = (
            stream(spark, folder)
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .foreachBatch(sink)
            .start()
        )
        query.awaitTermination(120)
    assert [each for each, _ in people(graph)] == ["Ada", "Bob", "p0", "p1"]
    assert len(graph.commits()) == commits + 2
    again = sink.__class__(**{**vars(sink), "name": str(query.id)})
    receipt = again.load(spark.createDataFrame([("p9", 9)], "name string, age long"), 1)
    assert receipt.repeated
    assert len(graph.commits()) == commits + 2


@pytest.mark.spark
@pytest.mark.slow
def test_a_stream_is_written_and_the_changes_are_read_as_one(
    graph: og.Graph, spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    commits = len(graph.commits())
    for number in range(2):
        drop(folder, f"{number}.json", f'{{"name": "p{number}", "age": {number}}}')
        query = (
            stream(spark, folder)
            .writeStream.format("omnigraph")
            .option("type", "Person")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(graph.uri)
        )
        query.awaitTermination(120)
    assert len(graph.commits()) == commits + 2
    graph.mutate('query m() { update Person set { age: 5 } where name = "p0" }')
    graph.mutate('query m() { delete Person where name = "p1" }')

    seen: list[list[tuple[Any, ...]]] = []
    for _ in range(2):
        changes = (
            spark.readStream.format("omnigraph")
            .options(type="Person", changes="true", maxCommitsPerBatch="2")
            .load(graph.uri)
        )
        reading = (
            changes.writeStream.option("checkpointLocation", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .foreachBatch(lambda frame, _: seen.append(told(frame)))
            .start()
        )
        reading.awaitTermination(120)
        if len(seen) == 3:
            graph.mutate('query a() { insert Person { name: "new" } }')
    assert [each for batch in seen for each in batch] == [
        ("Ada", 36, "insert"),
        ("Bob", None, "insert"),
        ("p0", 0, "insert"),
        ("p1", 1, "insert"),
        ("p0", 5, "update"),
        ("p1", 1, "delete"),
        ("new", None, "insert"),
    ]


def told(frame: DataFrame) -> list[tuple[Any, ...]]:
    rows = frame.orderBy("_commit", "name").collect()
    return [(row["name"], None if row["age"] is None else int(row["age"]), row["_op"]) for row in rows]
