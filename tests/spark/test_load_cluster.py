"""Loads where things die: an executor in the middle of its tasks, the driver before it commits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph.world import REAL
from spark.loading import make_graph, rows_of
from spark.slow_rows import SLOW_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BEGIN = """
import sys, time
from pathlib import Path
import omnigraph as og
from omnigraph.spark.runtime.session import spark_session, stop_session

place, master = Path(sys.argv[1]), sys.argv[2]
spark = spark_session(master=master, memory="1g", options={"spark.sql.shuffle.partitions": "2"})
graph = og.open(place / "g")
"""
LOADED = """
done = graph.load({"Person": people, "Knows": knows}, mode="append", spark=spark, idempotency_key="run-1")
print(done.summary.rows, flush=True)
stop_session(spark)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make_graph(tmp_path / "g")
    (tmp_path / "started").mkdir()
    return tmp_path


def start(place: Path, master: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-c", BEGIN + SLOW_ROWS + LOADED, str(place), master]
    environment = {**REAL.environ, "OMNIGRAPH_SPARK_ARCHIVE": "use"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=place
    )


def wait_until_tasks_run(place: Path, count: int, program: subprocess.Popen[str]) -> None:
    deadline = REAL.monotonic() + 120
    while len(list((place / "started").iterdir())) < count:
        assert program.poll() is None, program.communicate()
        assert REAL.monotonic() < deadline, "no task began"
        REAL.sleep(0.1)


def executors_of(pid: int) -> Iterator[int]:
    """The executor processes below a process."""
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and _is_below(int(each.name), pid):
            command = _read(each / "cmdline").split("\0")
            if any("CoarseGrainedExecutorBackend" in word for word in command):
                yield int(each.name)


def _is_below(process: int, ancestor: int) -> bool:
    while process > 1:
        if process == ancestor:
            return True
        process = int((_read(Path(f"/proc/{process}/stat")).rpartition(")")[2].split() or ["", "0"])[1])
    return False


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def test_a_load_survives_the_death_of_an_executor(place: Path) -> None:
    program = start(place, "local-cluster[2,1,1024]")
    wait_until_tasks_run(place, 2, program)
    victim = next(executors_of(program.pid))
    os.kill(victim, signal.SIGKILL)
    (place / "go").touch()
    out, err = program.communicate(timeout=250)
    assert out.split() == ["40000"], err
    assert len(list((place / "started").iterdir())) > 4, "some task began twice"
    graph = og.open(place / "g")
    rows = rows_of(graph)
    assert {row["name"] for row in rows["node:Person"]} == {f"p{i}" for i in range(20_000)}
    assert len(rows["edge:Knows"]) == 20_000
    assert len(graph.commits()) == len(make_graph(place / "empty").commits()) + 1


def test_a_graph_is_whole_after_the_death_of_the_driver(place: Path) -> None:
    program = start(place, "local[2,4]")
    wait_until_tasks_run(place, 2, program)
    program.kill()
    program.communicate()
    graph = og.open(place / "g")
    assert [each for each in rows_of(graph).values() if each] == []
    assert graph.recoveries() == []
    # The same run, started again, is done once; a third time it is not done at all.
    (place / "go").touch()
    for _ in range(2):
        again = start(place, "local[2,4]")
        out, err = again.communicate(timeout=250)
        assert again.returncode == 0, err
    assert json.loads(out) == 0
    assert len(rows_of(graph)["node:Person"]) == 20_000
