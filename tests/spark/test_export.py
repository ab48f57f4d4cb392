"""Exports by many tasks: every format loads back to the same graph, from a directory or a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import omnigraph as og
from omnigraph.cli.main import app
from omnigraph.errors import InvalidInput
from omnigraph.export.records import export_records
from omnigraph.spark.export import export_files

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = """
node Thing { name: String @key  n: U64?  at: DateTime?  day: Date?  tags: [String]?  v: Vector(2)?  data: Blob? }
node Empty { name: String @key }
edge Has: Thing -> Thing { w: F32? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Two fragments per type, one with a row removed, and values that formats like to lose."""
    graph = og.init(tmp_path / "graph.omni", schema=SCHEMA)
    whole = {"n": 2**64 - 1, "at": "2024-05-01T10:00:00.001Z", "day": "1815-12-10", "tags": ["a", ""], "v": [0.5, -1.0]}
    first: list[Any] = [{"name": 'a,"b', **whole, "data": "base64:AAH/"}, {"name": "gone"}, {"name": "ä\n"}]
    graph.load({"Thing": first, "Has": [{"from": "ä\n", "to": 'a,"b', "w": 0.1}]}, mode="append")
    graph.load(
        {"Thing": [{"name": "later", "data": "base64:"}], "Has": [{"from": "later", "to": "ä\n"}]}, mode="append"
    )
    graph.mutate('query d() { delete Thing where name = "gone" }')
    return graph


def records(graph: og.Graph) -> bytes:
    tables = graph._manifest.stores.tables
    return b"".join(export_records(graph.snapshot(), tables, graph.catalog))


@pytest.mark.spark
@pytest.mark.parametrize("form", ["jsonl", "parquet", "csv"])
def test_what_is_exported_loads_to_the_same_graph(
    graph: og.Graph, spark: SparkSession, tmp_path: Path, form: Any
) -> None:
    out = tmp_path / "out"
    files = export_files(spark, graph._manifest, graph.catalog, graph.snapshot(), str(out), form=form, rows_per_file=1)
    assert [(each.file.removeprefix(f"{out}/"), each.rows) for each in files] == [
        (f"edges/Has.00000.{form}", 1),
        (f"edges/Has.00001.{form}", 1),
        (f"nodes/Empty.00000.{form}", 0),
        (f"nodes/Thing.00000.{form}", 2),
        (f"nodes/Thing.00001.{form}", 1),
    ]
    copy = og.init(tmp_path / "copy.omni", schema=SCHEMA)
    copy.load(out, mode="append", engine="local")
    assert records(copy) == records(graph)


@pytest.mark.spark
def test_an_export_keeps_to_its_state_and_to_a_place_of_its_own(
    graph: og.Graph, spark: SparkSession, tmp_path: Path
) -> None:
    before = graph.commits()[0].id
    graph.load({"Thing": [{"name": "new"}]}, mode="append")
    (file,) = graph.export(tmp_path / "out", at=before, types=["Thing"], engine="spark", spark=spark)
    assert file == tmp_path / "out" / "nodes" / "Thing.00000.jsonl"
    assert b"new" not in (tmp_path / "out" / "nodes" / "Thing.00000.jsonl").read_bytes()
    with pytest.raises(InvalidInput, match="out is not empty"):
        graph.export(tmp_path / "out", engine="spark", spark=spark)


@pytest.mark.spark
def test_the_command_exports_with_many_tasks(graph: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    words = ["export", graph.uri, "--type", "Empty", "--engine", "spark", "--format", "csv"]
    ran = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")], prog_name="omnigraph")
    assert (ran.exit_code, ran.stdout) == (0, f"{tmp_path}/out/nodes/Empty.00000.csv\n")
    refused = CliRunner().invoke(app, words, prog_name="omnigraph")
    assert (refused.exit_code, "say where with --out" in refused.stderr) == (2, True)


@pytest.mark.spark
@pytest.mark.s3
@pytest.mark.slow
def test_a_bucket_takes_an_export(graph: og.Graph, spark: SparkSession, s3_uri: str, tmp_path: Path) -> None:
    place = s3_uri.removesuffix("graph.omni") + "out"
    files = graph.export(place, format="parquet", engine="spark", spark=spark)
    assert [str(each).removeprefix(place) for each in files] == [
        "/edges/Has.00000.parquet",
        "/nodes/Empty.00000.parquet",
        "/nodes/Thing.00000.parquet",
    ]
    copy = og.init(tmp_path / "copy.omni", schema=SCHEMA)
    copy.load(place, mode="append", engine="local")
    assert records(copy) == records(graph)
    with pytest.raises(InvalidInput, match="is not empty"):
        graph.export(place, engine="spark", spark=spark)
