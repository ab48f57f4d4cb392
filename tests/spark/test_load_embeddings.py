"""Vectors made by executors during a load on Spark: the same as in one process, asked for in batches, without leaks."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from embeddings.service import Service, serving
from omnigraph.embeddings import Embeddings, Mock, OpenAICompatible, Patience
from omnigraph.embeddings.providers import mock_vector
from omnigraph.errors import EmbeddingFailed, InvalidInput, OmniGraphError
from omnigraph.world import REAL
from spark.loading import outcome_of, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = """
node Doc { slug: String @key  text: String?  v: Vector(4) @embed(text) }
node Note { slug: String @key  text: String?  v: Vector(4)? @embed(text) }
edge About: Note -> Doc
"""
QUICK = Patience(attempts=3, backoff=0.01, timeout=5.0, deadline=10.0)


def records(count: int) -> list[dict[str, Any]]:
    docs = [{"type": "Doc", "data": {"slug": f"d{each}", "text": f"text {each % 7}"}} for each in range(count)]
    notes = [{"type": "Note", "data": {"slug": f"n{each}"}} for each in range(3)]
    given = {"type": "Doc", "data": {"slug": "given", "text": "x", "v": [1.0, 0.0, 0.0, 0.0]}}
    return [*docs, *notes, given, {"edge": "About", "from": "n0", "to": "d0"}]


def graph_at(place: Path, embeddings: Embeddings, schema: str = SCHEMA) -> og.Graph:
    graph = og.init(place, schema=schema)
    graph.embeddings = embeddings
    return graph


def asking(service: Service, batch_size: int = 4) -> Embeddings:
    return Embeddings(OpenAICompatible(service.url, "m-1", "sk-very-secret", QUICK), batch_size)


def test_executors_make_the_vectors_that_one_process_would(spark: SparkSession, tmp_path: Path) -> None:
    with serving() as service:
        graphs = [graph_at(tmp_path / name, asking(service)) for name in ("local", "spark")]
        service.troubles = [500, 429]
        local = outcome_of(graphs[0], records(20), "append", "local", None, embed=True)
        service.asked.clear()
        service.troubles = [500, 429]
        distributed = outcome_of(graphs[1], records(20), "append", "spark", spark, embed=True)
        asked = [body["input"] for _, _, body in service.asked]
    assert distributed == local
    assert local.error is None
    assert rows_of(graphs[1])["node:Doc"][-1]["v"] == [1.0, 0.0, 0.0, 0.0]
    assert sorted({text for texts in asked for text in texts}) == [f"text {each}" for each in range(7)]
    assert asked[:3] == [[f"text {each}" for each in range(4)]] * 3, "asked again after trouble"
    assert len(asked) == 4, "each text once, four at a time"


def test_a_provider_that_fails_is_told_and_nothing_is_written(spark: SparkSession, tmp_path: Path) -> None:
    with serving() as service:
        graph = graph_at(tmp_path / "g", asking(service))
        service.troubles = [500] * 3
        with pytest.raises(EmbeddingFailed, match="failed 3 times: status 500"):
            graph.load(records(3), engine="spark", spark=spark, embed=True)
        service.troubles = [401]
        with pytest.raises(EmbeddingFailed, match="refused the request with status 401"):
            graph.load(records(3), engine="spark", spark=spark, embed=True)
    assert not any(rows_of(graph).values())


@pytest.mark.slow
def test_vectors_of_another_model_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    schema = SCHEMA.replace("@embed(text)", '@embed(text, model="m-2")')
    graph = graph_at(tmp_path / "g", Embeddings(Mock()), schema)
    with pytest.raises(InvalidInput, match="'m-2', and the embedding provider is set up for 'mock'"):
        graph.load(records(3), engine="spark", spark=spark, embed=True)


@pytest.mark.slow
def test_a_frame_gets_vectors_and_rows_without_text_are_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    with serving() as service:
        graph = graph_at(tmp_path / "g", asking(service))
        frame = spark.createDataFrame([("a", "one"), ("b", None), ("c", "two")], "slug string, text string")
        done = graph.load({"Doc": frame}, on_error=og.quarantine(5), spark=spark, embed=True)
        rows = [*records(3), {"type": "Doc", "data": {"slug": "empty"}}]
        more = graph.load(rows, on_error=og.quarantine(5), engine="spark", spark=spark, embed=True)
        asked = sorted(text for _, _, body in service.asked for text in body["input"])
    assert (done.summary.nodes, done.summary.rejected) == ({"Doc": 2}, {"required": 1})
    assert (more.summary.nodes, more.summary.rejected) == ({"Doc": 4, "Note": 3}, {"required": 1})
    assert asked == ["one", "text 0", "text 1", "text 2", "two"], "nobody is asked twice to find the bad row"
    assert all(row["v"] is not None for row in rows_of(graph)["node:Doc"])


@pytest.mark.slow
def test_a_pipeline_makes_vectors_when_it_says_so(spark: SparkSession, tmp_path: Path) -> None:
    graph = graph_at(tmp_path / "g", Embeddings(Mock()))
    (tmp_path / "docs.jsonl").write_text('{"name": "a", "body": "one"}\n{"name": "b", "body": "two"}\n')
    text = """
mode: append
embed: true
sources: {docs: {format: json, path: docs.jsonl}}
nodes: {Doc: {source: docs, columns: {slug: name, text: body}}}
"""
    done = og.Pipeline.from_text(text, folder=tmp_path).run(graph, session=spark)
    assert done.summary is not None
    assert [row["v"] for row in rows_of(graph)["node:Doc"]] == [
        pytest.approx(mock_vector(each, 4)) for each in ("one", "two")
    ]
    with pytest.raises(OmniGraphError):
        og.Pipeline.from_text(text.replace("embed: true", "embed: false"), folder=tmp_path).validate(graph)


# Everything that Spark says and keeps about the jobs, told in full.
PROGRAM = """
import sys
from pathlib import Path
import omnigraph as og
from omnigraph.embeddings import Embeddings, OpenAICompatible
from omnigraph.spark.runtime.session import spark_session, stop_session
from omnigraph.spark.runtime import jvm

place, url = Path(sys.argv[1]), sys.argv[2]
log = place / "log4j2.properties"
log.write_text("rootLogger.level = debug\\nrootLogger.appenderRef.f.ref = f\\nappender.f.type = File\\n"
    f"appender.f.name = f\\nappender.f.fileName = {place}/logs/spark.log\\n"
    "appender.f.layout.type = PatternLayout\\nappender.f.layout.pattern = %m%n%ex\\n")
options = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(place / "logs"),
    "spark.eventLog.compress": "false", "spark.sql.debug.maxToStringFields": "10000"}
spark = spark_session(memory="512m", options=options, java_options=[f"-Dlog4j2.configurationFile=file:{log}"])
graph = og.open(place / "g")
graph.embeddings = Embeddings(OpenAICompatible(url, "m-1", "sk-very-secret"))
print(graph.embeddings)
frame = spark.createDataFrame([("a", "one"), ("c", "two")], "slug string, text string")
print(graph.load({"Doc": frame}, spark=spark, embed=True).summary.to_dict())
stop_session(spark)
"""


@pytest.mark.slow
def test_the_key_is_in_no_log_and_no_plan(tmp_path: Path) -> None:
    og.init(tmp_path / "g", schema=SCHEMA)
    (tmp_path / "logs").mkdir()
    with serving() as service:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path), service.url],
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
            env={**REAL.environ, "OMNIGRAPH_SPARK_ARCHIVE": "use"},
        )
        assert {headers["authorization"] for _, headers, _ in service.asked} == {"Bearer sk-very-secret"}
    told = [each for each in (tmp_path / "logs").rglob("*") if each.is_file()]
    assert sum(each.stat().st_size for each in told) > 100_000, done.stderr
    assert json.loads(done.stdout.splitlines()[-1].replace("'", '"').replace("None", "null"))["rows"] == 2
    for text in (done.stdout, done.stderr, *(each.read_text(errors="replace") for each in told)):
        assert "sk-very-secret" not in text
