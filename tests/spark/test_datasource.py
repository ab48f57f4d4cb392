from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from omnigraph.errors import NotFound
from omnigraph.pipeline.datasource.source import read_type
from omnigraph.storage.filters.model import Compare, Or, equal
from omnigraph.storage.objects.location import parse_location
from omnigraph.tasks.table_scan import resolve_scan, tasks_of
from omnigraph.world import REAL
from spark.tables import EVERY_TYPE, append, every_type, graph_with

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.manifest.graph_manifest import GraphManifest

KNOWS = pa.table(
    {"id": ["e1", "e2"], "src": ["a", "b"], "dst": ["b", "a"]},
    schema=pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("id", "src", "dst")]),
)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A graph of one node type with every property type, and one edge type."""
    where = str(tmp_path_factory.mktemp("graphs") / "graph.omni")
    graph_with(where, {"node:Thing": local_rows(), "edge:Knows": KNOWS})
    return where


def local_rows() -> pa.Table:
    """Rows without a blob outside the graph, which an embedded append refuses."""
    rows = every_type()
    values = [None, {"data": b"\0\xff", "uri": None}, *[None] * (rows.num_rows - 2)]
    blobs = pa.array(values, EVERY_TYPE.field("blob").type)
    return rows.set_column(rows.num_columns - 1, EVERY_TYPE.field("blob"), blobs)


@pytest.mark.spark
def test_a_type_is_found_by_its_name_and_has_the_tables_columns(spark: SparkSession, uri: str) -> None:
    frame = load(spark, uri, "Thing")
    assert frame.columns == EVERY_TYPE.names
    assert frame.count() == 8
    row = frame.where("u64 = 18446744073709551615").select("id", "u32", "u64").first()
    assert row is not None
    assert (row["id"], row["u32"], row["u64"]) == ("e", 2**32 - 1, Decimal(2**64 - 1))
    assert frame.where("id = 'b'").select("blob.data").first() == (bytearray(b"\0\xff"),)


@pytest.mark.spark
def test_edges_are_found_in_any_case_and_join_with_nodes(spark: SparkSession, uri: str) -> None:
    edges, nodes = load(spark, uri, "knows"), load(spark, uri, "Thing", columns="id,i32")
    joined = edges.join(nodes, edges.src == nodes.id).select(edges.id, "i32").orderBy("id").collect()
    assert [tuple(row) for row in joined] == [("e1", None), ("e2", 0)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i64 > 1 and id != 'g'", ["e", "😀"]),
        ("u32 in (1, 4294967295)", ["e", "ä'\\\"\n\0"]),
        ('id = "ä\'\\\\\\"\\n\\0"', ["ä'\\\"\n\0"]),
        ("moment is null", ["a"]),
        ("moment = timestamp '1970-01-01 00:00:00.001'", ["ä'\\\"\n\0"]),
        ("moment > timestamp '1970-01-01 00:00:00.0005' and moment < timestamp '2000-01-01'", ["ä'\\\"\n\0"]),
        ("date = date '1970-01-02'", ["f"]),
        ("f64 = 0.0d", ["b", "ä'\\\"\n\0"]),
        ("not (i32 > 0) and bool is not null", ["b", "ä'\\\"\n\0"]),
        ("id like 'a%' or i32 = 3", ["a", "😀"]),
        ("bool <=> null and i32 is not null", ["", "😀"]),
        ("u64 > 9223372036854775807", ["", "e"]),
        ("blob is not null", ["b"]),
        ("size(strings) = 2 and strings[0] = 'z'", ["😀"]),
    ],
)
def test_conditions_mean_the_same_whether_the_table_applies_them_or_spark(
    spark: SparkSession, uri: str, in_memory: DataFrame, condition: str, expected: list[str]
) -> None:
    applied_by_table, applied_by_spark = load(spark, uri, "Thing").where(condition), in_memory.where(condition)
    assert ids(applied_by_table) == ids(applied_by_spark) == sorted(expected)


@pytest.fixture(scope="module")
def in_memory(spark: SparkSession, uri: str) -> DataFrame:
    """The same rows, where no filter reaches the table."""
    return load(spark, uri, "Thing").cache()


@pytest.mark.spark
def test_a_session_that_pushes_no_filters_can_read_too(spark: SparkSession, uri: str) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert ids(load(spark, uri, "Thing").where("i32 = 1")) == ["f"]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


@pytest.mark.spark
def test_only_the_columns_asked_for_are_read(spark: SparkSession, uri: str) -> None:
    assert load(spark, uri, "Thing", columns="u64, id").columns == ["u64", "id"]
    reader = spark.read.format("omnigraph").option("type", "Thing").schema("moment timestamp, id string")
    assert reader.load(uri).where("id = 'a'").collect() == [(None, "a")]
    with pytest.raises(PySparkException, match="there is no column 'nmae'"):
        load(spark, uri, "Thing", columns="nmae")
    with pytest.raises(PySparkException, match=r"column 'u64' is decimal\(20,0\), not bigint"):
        spark.read.format("omnigraph").option("type", "Thing").schema("u64 bigint").load(uri).count()


@pytest.mark.spark
def test_the_helper_reads_with_any_condition_and_columns(spark: SparkSession, uri: str) -> None:
    where = Or((equal("id", "a"), Compare("u64", ">", 2**63)))
    frame = read_type(spark, uri, "Thing", columns=["id", "u64"], where=where)
    assert sorted(tuple(row) for row in frame.collect()) == [("a", None), ("e", Decimal(2**64 - 1))]
    assert read_type(spark, uri, "Thing", rows_per_task=1).agg(f.count("*")).first() == (8,)


@pytest.mark.spark
def test_a_frame_stays_at_the_commit_it_was_loaded_at(spark: SparkSession, tmp_path: Path) -> None:
    where = str(tmp_path / "graph.omni")
    graph = graph_with(where, {"edge:Knows": KNOWS})
    first = head(graph)
    loaded = load(spark, where, "Knows")
    graph.create_branch("review")
    second = append(graph, "edge:Knows", another("e3"))
    assert loaded.count() == 2
    assert load(spark, where, "Knows").count() == 3
    assert load(spark, where, "Knows", branch="review").count() == 2
    assert load(spark, where, "Knows", snapshot=first).count() == 2
    assert load(spark, where, "Knows", snapshot=second).count() == 3
    before = dt.datetime.fromtimestamp((graph.commit(second).created_us - 1) / 1e6, dt.UTC).isoformat()
    assert load(spark, where, "Knows", timestamp=before).count() == 2


@pytest.mark.spark
@pytest.mark.s3
def test_a_graph_in_a_bucket_is_read_with_settings_given_as_options(spark: SparkSession, s3_uri: str) -> None:
    graph_with(s3_uri, {"edge:Knows": KNOWS})
    settings = {
        f"storage.{name}": value for name, value in (parse_location(s3_uri, REAL).storage_options or {}).items()
    }
    assert load(spark, s3_uri, "Knows", **settings).where("src = 'b'").count() == 1
    assert read_type(spark, s3_uri, "Knows", columns=["id"]).count() == 2


@pytest.mark.spark
def test_an_empty_type_is_an_empty_frame(spark: SparkSession, tmp_path: Path) -> None:
    where = str(tmp_path / "graph.omni")
    graph_with(where, {"edge:Knows": KNOWS.slice(0, 0)})
    assert load(spark, where, "Knows").collect() == []
    assert read_type(spark, where, "Knows").collect() == []


@pytest.mark.spark
def test_what_is_missing_is_said(spark: SparkSession, uri: str) -> None:
    with pytest.raises(PySparkException, match="the graph has no type 'Person'; it has Knows, Thing"):
        load(spark, uri, "Person")
    with pytest.raises(PySparkException, match="needs the type"):
        spark.read.format("omnigraph").load(uri)


@pytest.mark.spark
def test_a_view_can_be_made_in_sql(spark: SparkSession, uri: str) -> None:
    spark.sql(f"create or replace temporary view things using omnigraph options (path '{uri}', type 'Thing')")
    assert spark.sql("select count(*) from things where i64 is null").first() == (1,)
    spark.catalog.dropTempView("things")


def test_tasks_are_groups_of_neighbouring_fragments(tmp_path: Path) -> None:
    where = str(tmp_path / "graph.omni")
    graph = graph_with(where, {"edge:Knows": KNOWS})
    for number in range(3):
        append(graph, "edge:Knows", another(f"n{number}"))
    scan = resolve_scan(where, "Knows", world=REAL)
    assert [task.fragments for task in tasks_of(scan)] == [(0, 1, 2, 3)]
    assert [task.fragments for task in tasks_of(scan, rows_per_task=2)] == [(0,), (1, 2), (3,)]
    with pytest.raises(NotFound, match="no commit until 2001"):
        resolve_scan(where, "Knows", world=REAL, timestamp="2001-01-01")


def load(session: SparkSession, uri: str, type_name: str, **options: str) -> DataFrame:
    return session.read.format("omnigraph").option("type", type_name).options(**options).load(uri)


def ids(frame: DataFrame) -> list[str]:
    return sorted(row["id"] for row in frame.select("id").collect())


def head(graph: GraphManifest) -> str:
    commit: Any = graph.lineage().head
    return str(commit.id)


def another(name: str) -> pa.Table:
    return pa.table({"id": [name], "src": ["a"], "dst": ["a"]}, schema=KNOWS.schema)
