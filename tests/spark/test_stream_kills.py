"""Streams whose driver is killed after a commit and before the checkpoint knows of it: nothing twice, nothing lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph.world import REAL

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.crash, pytest.mark.timeout(600)]

SCHEMA = "node Person { name: String @key  age: I64? }"
# The process of Spark goes with ours, which holds its standard input.
BEGIN = """
import json, os, signal, sys
from pathlib import Path
import omnigraph as og
from omnigraph.spark.runtime.session import spark_session, stop_session

place, kill_at, driver = Path(sys.argv[1]), int(sys.argv[2]), os.getpid()
spark = spark_session(master="local[2,4]", memory="512m", options={"spark.sql.shuffle.partitions": "2"},
    java_options=["-XX:TieredStopAtLevel=1"])
og.register_spark(spark)
rows = spark.readStream.schema("name string, age long").option("maxFilesPerTrigger", "1").json(str(place / "in"))

def run(writer):
    query = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination(200)
    stop_session(spark)
"""
FOR_EACH_BATCH = """
sink = og.stream_into(str(place / "g"), "Person", mode="append")

def each(frame, batch):
    sink(frame, batch)
    if batch == kill_at:
        os.kill(driver, signal.SIGKILL)

run(rows.writeStream.foreachBatch(each))
"""
# The end of a batch runs in a process of its own: killing the driver there is killing it before the checkpoint.
DATA_SOURCE = """
from omnigraph.pipeline.datasource.source import OmniGraphSource
from omnigraph.pipeline.datasource.writer import TypeStreamWriter

class Deadly(TypeStreamWriter):
    def commit(self, messages, batchId):
        super().commit(messages, batchId)
        if batchId == kill_at:
            os.kill(driver, signal.SIGKILL)
            import time; time.sleep(60)

class Source(OmniGraphSource):
    @classmethod
    def name(cls):
        return "deadly"

    def streamWriter(self, schema, overwrite):
        return Deadly(self.asked.stream_target(overwrite=overwrite), schema.fieldNames())

spark.dataSource.register(Source)
run(rows.writeStream.format("deadly").option("type", "Person").option("path", str(place / "g")))
"""
CHANGES = """
changes = spark.readStream.format("omnigraph").options(type="Person", changes="true", maxCommitsPerBatch="1")

def each(frame, batch):
    told = [[row["name"], row["age"], row["_op"]] for row in frame.orderBy("name").collect()]
    with (place / "told").open("a") as file:
        print(json.dumps([batch, told]), file=file)
    if batch == kill_at:
        os.kill(driver, signal.SIGKILL)

run(changes.load(str(place / "g")).writeStream.foreachBatch(each))
"""
NEVER = -1


def go(program: str, place: Path, kill_at: int) -> int:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEGIN + program, str(place), str(kill_at)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=place,
        env={**REAL.environ, "OMNIGRAPH_SPARK_ARCHIVE": "use"},
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def people(graph: og.Graph) -> list[tuple[object, ...]]:
    ask = "query q() { match { $p: Person } return { $p.name, $p.age } order { $p.name asc } }"
    return [tuple(each.values()) for each in graph.query(ask).to_pylist()]


@pytest.mark.parametrize("program", [FOR_EACH_BATCH, DATA_SOURCE], ids=["foreachBatch", "format"])
def test_a_batch_that_was_committed_is_not_committed_again(tmp_path: Path, program: str) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    commits = len(graph.commits())
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps({"name": f"p{number}", "age": number}) + "\n")
    assert go(program, tmp_path, 1) == -signal.SIGKILL
    assert len(graph.commits()) == commits + 2, "the batch is in the graph"
    assert not (tmp_path / "checkpoint" / "commits" / "1").exists(), "the checkpoint does not know"
    assert go(program, tmp_path, NEVER) == 0
    assert (tmp_path / "checkpoint" / "commits" / "1").exists()
    assert [age for _, age in people(graph)] == [0, 1, 2]
    assert len(graph.commits()) == commits + 3, "an append of the same rows again would have been refused"
    assert graph.recoveries() == []


def test_changes_that_were_handled_are_told_again_as_the_same_batch(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.load([{"type": "Person", "data": {"name": "a", "age": 1}}])
    graph.load([{"type": "Person", "data": {"name": "b", "age": 2}}])
    assert go(CHANGES, tmp_path, 1) == -signal.SIGKILL
    graph.mutate('query m() { update Person set { age: 5 } where name = "a" }')
    assert go(CHANGES, tmp_path, NEVER) == 0
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert told[1] == told[2], "a consumer that knows the batch drops it"
    once = dict(told)
    assert once == {0: [], 1: [["a", 1, "insert"]], 2: [["b", 2, "insert"]], 3: [["a", 5, "update"]]}, "0 is the init"
