"""Pipelines, analytics, exports and streams where executors are other processes: Spark Connect and a local cluster."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from omnigraph.world import REAL
from spark.test_connect import server

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["server"]

PROGRAM = """
import sys
import omnigraph as og
from omnigraph.spark.runtime.session import spark_session, stop_session

folder, master = sys.argv[1], sys.argv[2] or None
spark = spark_session(master=master, memory="1g", options={"spark.sql.shuffle.partitions": "2"})
g = og.init(folder + "/graph.omni", schema="node P { name: String @key  n: I64?  rank: F64? } edge E: P -> P")
text = '''
mode: append
sources:
  rows: {format: json, path: rows.jsonl}
transforms:
  named: select cast(id as string) as name, id as n from rows lateral view explode(sequence(0L, 5L)) as id
  pairs: select name as a, cast((n + 1) % 6 as string) as b from named
nodes: {P: {source: named}}
edges: {E: {source: pairs, columns: [], from: a, to: {lookup: {name: b}}}}
'''
open(folder + "/rows.jsonl", "w").write('{"x": 1}\\n')
done = og.Pipeline.from_text(text, folder=folder).run(g, session=spark)
print(done.summary.nodes, done.summary.edges)
ranks = g.analytics.on(spark).page_rank(["E"], max_iterations=2)
print(g.analytics.on(spark).write_back(ranks, {"rank": "rank"}).nodes)
print([round(row["rank"], 6) for row in ranks.collect()] == [0.166667] * 6)
print(len(g.export(folder + "/out", format="parquet", engine="spark", spark=spark)))
og.stream_into(g.uri, "P", name="batches")(spark.createDataFrame([("new", 1)], "name string, n long"), 0)
og.register_spark(spark)
newer = spark.createDataFrame([("newer", 2)], "name string, n long")
newer.write.format("omnigraph").option("type", "P").mode("append").save(g.uri)
print(spark.read.format("omnigraph").option("type", "P").load(g.uri).count())
if master:
    stop_session(spark)
"""
TOLD = ["{'P': 6} {'E': 6}", "{'P': 6}", "True", "2", "8"]


def told(folder: Path, master: str, **environment: str) -> tuple[list[str], str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), master],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=folder,
        env={**REAL.environ, "OMNIGRAPH_SPARK_ARCHIVE": "use", **environment},
    )
    return done.stdout.splitlines(), done.stderr


@pytest.mark.spark
@pytest.mark.slow
def test_everything_works_through_a_server(server: str, tmp_path: Path) -> None:
    assert told(tmp_path, "", SPARK_REMOTE=server, PATH="/nowhere", JAVA_HOME="/nowhere") == (TOLD, "")


@pytest.mark.spark
@pytest.mark.slow
def test_everything_works_with_executors_in_other_processes(tmp_path: Path) -> None:
    lines, said = told(tmp_path, "local-cluster[2,1,1024]")
    assert lines == TOLD, said
