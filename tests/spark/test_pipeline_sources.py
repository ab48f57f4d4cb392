"""Where rows of a pipeline come from: a database, ORC, Lance, frames of other libraries; and what is told when not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import orc

import omnigraph as og
from omnigraph.errors import PipelineError
from omnigraph.pipeline.pipeline import Pipeline
from omnigraph.pipeline.sources import refusal
from omnigraph.world import REAL
from spark.loading import rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = "node Person { name: String @key  age: I32?  born: Date? } edge Knows: Person -> Person { since: Date? }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "g", schema=SCHEMA)


def run(text: str, graph: og.Graph, folder: Path, spark: SparkSession) -> Any:
    return Pipeline.from_text(text, folder=folder).run(graph, session=spark).summary


def people(graph: og.Graph) -> dict[str, tuple[Any, Any]]:
    return {row["name"]: (row["age"], str(row["born"])) for row in rows_of(graph)["node:Person"]}


@pytest.mark.spark
def test_tables_of_a_database_become_nodes_and_edges(graph: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    url = f"jdbc:derby:{tmp_path}/shop"
    statements = [
        "CREATE TABLE people (name VARCHAR(20), age INT, born DATE)",
        "INSERT INTO people VALUES ('Ada', 36, DATE('1815-12-10')), ('Bob', NULL, NULL), ('Cy', 7, NULL)",
        "CREATE TABLE knows (a VARCHAR(20), b VARCHAR(20), since DATE)",
        "INSERT INTO knows VALUES ('Ada', 'Bob', DATE('2020-02-02'))",
    ]
    connection = spark._jvm.java.sql.DriverManager.getConnection(f"{url};create=true")  # type: ignore[union-attr]
    for statement in statements:
        connection.createStatement().execute(statement)
    connection.close()
    text = f"""\
mode: append
sources:
  people: {{format: jdbc, options: {{url: "{url}", dbtable: people}}}}
  knows: {{format: jdbc, options: {{url: "{url}", query: "select a, b, since from knows"}}}}
nodes: {{Person: {{source: people, where: age is null or age > 18, columns: {{name: name, age: age, born: born}}}}}}
edges: {{Knows: {{source: knows, columns: {{since: since}}, from: a, to: b}}}}
"""
    summary = run(text, graph, tmp_path, spark)
    assert (summary.nodes, summary.edges) == ({"Person": 2}, {"Knows": 1})
    assert people(graph) == {"Ada": (36, "1815-12-10"), "Bob": (None, "None")}
    with pytest.raises(PipelineError, match=r"(?s)P009.*NOTHERE"):
        run(text.replace("dbtable: people", "dbtable: nothere"), graph, tmp_path, spark)
    with pytest.raises(PipelineError, match=r"(?s)P009.*no JDBC driver for this url.*spark.jars="):
        run(text.replace("jdbc:derby:", "jdbc:nosuch:"), graph, tmp_path, spark)


@pytest.mark.spark
@pytest.mark.slow
def test_files_and_frames_of_every_kind_are_loaded_by_tasks(
    graph: og.Graph, spark: SparkSession, tmp_path: Path
) -> None:
    table = pa.table({"name": ["x"], "age": pa.array([1], pa.int32())})
    sources: dict[str, Any] = {
        "orc": tmp_path / "x.orc",
        "lance": str(tmp_path / "x.lance"),
        "dataset": None,
        "arrow": named(table, "arrow"),
        "reader": named(table, "reader").to_reader(),
        "pandas": pd.DataFrame({"name": ["pandas"], "age": pd.array([1], "Int32")}),
        "polars": pl.DataFrame({"name": ["polars"], "age": [1]}),
        "lazy": pl.LazyFrame({"name": ["lazy"], "age": [1]}),
        "rows": [{"name": "rows", "age": 1}],
        "spark": spark.createDataFrame([("spark", 1)], "name string, age int"),
    }
    orc.write_table(named(table, "orc"), sources["orc"])
    lance.write_dataset(named(table, "lance"), sources["lance"])
    sources["dataset"] = lance.write_dataset(named(table, "dataset"), str(tmp_path / "y.lance"))
    for name, source in sources.items():
        done = graph.load({"Person": source}, mode="append", engine="spark", spark=spark)
        assert (done.summary.engine, done.summary.rows) == ("spark", 1), name
    assert people(graph) == dict.fromkeys(sources, (1, "None"))


def named(table: pa.Table, name: str) -> pa.Table:
    return table.set_column(0, "name", pa.array([name]))


@pytest.mark.spark
@pytest.mark.slow
def test_frames_of_other_libraries_are_sources_of_a_pipeline(
    graph: og.Graph, spark: SparkSession, tmp_path: Path
) -> None:
    held: dict[str, Any] = {
        "from_pandas": pd.DataFrame({"who": ["Ada"], "years": [36]}),
        "from_arrow": pa.table({"who": ["Bob"], "years": [7]}),
        "from_polars": pl.DataFrame({"who": ["Cy"], "years": [8]}).to_arrow(),
    }
    for name, frame in held.items():
        spark.createDataFrame(frame).createOrReplaceTempView(name)
    orc.write_table(pa.table({"who": ["Di"], "years": [9]}), tmp_path / "d.orc")
    lance.write_dataset(pa.table({"who": ["Ed"], "years": [10]}), str(tmp_path / "e.lance"))
    union = " union all ".join(f"select * from {each}" for each in ("t0", "t1", "t2", "files", "other"))
    tables = "\n".join(f"  t{number}: {{format: table, table: {name}}}" for number, name in enumerate(held))
    text = f"""\
mode: append
sources:
{tables}
  files: {{format: orc, path: d.orc}}
  other: {{format: lance, path: e.lance}}
transforms: {{all_of_them: {union}}}
nodes: {{Person: {{source: all_of_them, columns: {{name: who, age: cast(years as int)}}}}}}
"""
    try:
        assert run(text, graph, tmp_path, spark).nodes == {"Person": 5}
    finally:
        for name in held:
            spark.catalog.dropTempView(name)
    assert {name: age for name, (age, _) in people(graph).items()} == {"Ada": 36, "Bob": 7, "Cy": 8, "Di": 9, "Ed": 10}


@pytest.mark.spark
def test_a_missing_connector_is_told_with_what_to_install(graph: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    text = """\
mode: append
sources:
  a: {format: parquet, path: "s3a://bucket/a.parquet"}
  b: {format: parquet, path: "abfss://c@account.dfs.core.windows.net/b.parquet"}
  c: {format: parquet, path: "gcs://bucket/c.parquet"}
nodes: {Person: {source: a, columns: {name: who}}}
"""
    with pytest.raises(PipelineError) as caught:
        run(text, graph, tmp_path, spark)
    told = str(caught.value)
    assert "no connector for s3a://: start the session with spark.jars.packages=org.apache.hadoop:hadoop-aws:3." in told
    assert "or write s3://bucket/path, which needs nothing installed" in told
    assert "no connector for abfss://" in told
    assert "hadoop-azure:3." in told
    assert "gs://bucket/path" in told


def test_what_java_says_is_told_without_its_trace() -> None:
    java = (
        "An error occurred while calling o1.load.\n: java.lang.RuntimeException: java.io.IOException: disk\n\tat x.y\n"
    )
    assert refusal(RuntimeError(java), (), REAL) == "disk"
    assert (
        refusal(RuntimeError("[TABLE_OR_VIEW_NOT_FOUND] no `x`;\n'Project [*]"), (), REAL)
        == "[TABLE_OR_VIEW_NOT_FOUND] no `x`"
    )
    assert "for ftp4://: start the session with" in refusal(
        RuntimeError('No FileSystem for scheme "ftp4"'), ["ftp4://h/x"], REAL
    )
