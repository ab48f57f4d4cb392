"""Loads on a real cluster: a standalone master and worker, with executors that are processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph.world import REAL
from spark.loading import make_graph, rows_of
from spark.slow_rows import SLOW_ROWS
from spark.standalone import standalone_cluster
from spark.test_load_cluster import wait_until_tasks_run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

BEGIN = """
import sys, time
from pathlib import Path
import omnigraph as og
from omnigraph.spark.runtime.session import spark_session, stop_session

place, master = Path(sys.argv[1]), sys.argv[2]
wanted = {"spark.sql.shuffle.partitions": "2", "spark.executor.cores": "1", "spark.executor.memory": "512m"}
spark = spark_session(master=master, memory="512m", options=wanted, java_options=["-XX:TieredStopAtLevel=1"])
graph = og.open(place / "g")
"""
VALIDATED = """
for name in ("bad", "good"):
    try:
        print(graph.load(place / f"{name}.jsonl", mode="append", engine="spark", spark=spark).summary.rows)
    except og.errors.OmniGraphError as error:
        print(error)
people = spark.read.format("omnigraph").option("type", "Person").load(str(place / "g"))
print([tuple(row) for row in people.selectExpr("count(*)", "sum(age)").collect()])
stop_session(spark)
"""

INTERRUPTED = """
print(graph.load({"Person": people, "Knows": knows}, mode="append", spark=spark).summary.rows, flush=True)
stop_session(spark)
"""


def start(program: str, place: Path, master: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", BEGIN + program, str(place), master],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**REAL.environ, "OMNIGRAPH_SPARK_ARCHIVE": "use"},
        cwd=place,
    )


def lines(*extra: dict[str, object]) -> str:
    people = [{"type": "Person", "data": {"name": f"p{each}", "age": each % 90}} for each in range(3_000)]
    knows = [{"edge": "Knows", "from": f"p{each}", "to": f"p{(each * 7) % 3_000}"} for each in range(3_000)]
    return "".join(f"{json.dumps(each)}\n" for each in (*people, *knows, *extra))


def test_a_standalone_cluster_validates_loads_and_reads_back(tmp_path: Path) -> None:
    make_graph(tmp_path / "g")
    (tmp_path / "good.jsonl").write_text(lines())
    (tmp_path / "bad.jsonl").write_text(lines({"edge": "Knows", "from": "p1", "to": "nobody"}))
    with standalone_cluster(tmp_path) as cluster:
        said, err = start(VALIDATED, tmp_path, cluster.url).communicate(timeout=250)
    refused, *done = said.splitlines()
    assert "'nobody'" in refused, err
    assert done == ["6000", f"[(3000, {sum(each % 90 for each in range(3_000))})]"], err
    assert len(og.open(tmp_path / "g").commits()) == 2


def test_a_standalone_cluster_finishes_a_load_whose_executor_was_killed(tmp_path: Path) -> None:
    graph = make_graph(tmp_path / "g")
    before = len(graph.commits())
    (tmp_path / "started").mkdir()
    with standalone_cluster(tmp_path) as cluster:
        program = start(SLOW_ROWS + INTERRUPTED, tmp_path, cluster.url)
        wait_until_tasks_run(tmp_path, 2, program)
        cluster.kill_an_executor()
        (tmp_path / "go").touch()
        said, err = program.communicate(timeout=250)
    assert said.split() == ["40000"], err
    assert len(list((tmp_path / "started").iterdir())) > 4, "some task began twice"
    rows = rows_of(graph)
    assert {row["name"] for row in rows["node:Person"]} == {f"p{each}" for each in range(20_000)}
    assert len(rows["edge:Knows"]) == 20_000
    assert len(graph.commits()) == before + 1
