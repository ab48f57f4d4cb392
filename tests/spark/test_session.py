from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import InvalidInput
from omnigraph.spark.runtime.session import SparkOptionsIgnored, spark_session
from omnigraph.world import REAL

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# What a program does that has used Lance before it comes to Spark, as every load does.
PROGRAM = """
import sys, warnings
import lance, pyarrow as pa
from pyspark.errors import AnalysisException
lance.write_dataset(pa.table({"a": [1, 2]}), sys.argv[1] + "/table").count_rows()
from omnigraph.spark.runtime import session as sessions
spark = sessions.spark_session(master="local[2,4]", memory="1g", tmp_dir=sys.argv[1])
frame = spark.range(10).mapInArrow(lambda batches: batches, "id long")
assert frame.count() == 10
try:
    frame.select("missing")
except AnalysisException:
    pass
else:
    raise AssertionError("a column that is not there was found")
assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
print(sessions._started[0].process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.spark
def test_a_session_is_silent_after_lance_and_ends_with_a_killed_driver(tmp_path: Path) -> None:
    environment = {**REAL.environ, "OMNIGRAPH_SPARK_ARCHIVE": "use", "LANCE_LOG": "error"}
    program = subprocess.Popen(
        [sys.executable, "-W", "error::UserWarning", "-c", PROGRAM, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert program.stdout is not None
    line = program.stdout.readline()
    program.send_signal(signal.SIGKILL)
    _, errors = program.communicate(timeout=60)
    assert errors == ""
    java = int(line)
    deadline = time.monotonic() + 30
    while is_alive(java):
        assert time.monotonic() < deadline, "the Java process outlived the program that started it"
        time.sleep(0.1)  # noqa: TID251


@pytest.mark.spark
def test_the_callers_session_and_a_running_one_are_used(spark: SparkSession) -> None:
    assert spark_session(session=spark) is spark
    assert spark_session().sparkContext is spark.sparkContext
    assert spark_session(master="local[2,4]").sparkContext is spark.sparkContext


@pytest.mark.spark
def test_a_second_master_in_one_process_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match=r"master 'local\[2,4\]' is running.*'local\[8\]'"):
        spark_session(master="local[8]")


def test_a_server_and_a_master_at_once_are_refused() -> None:
    with pytest.raises(InvalidInput, match="not both"):
        spark_session(remote="sc://localhost", master="local[1]")


@pytest.mark.spark
def test_a_running_session_takes_the_options_that_it_can_and_warns_of_the_others(spark: SparkSession) -> None:
    name, before = "spark.sql.shuffle.partitions", spark.conf.get("spark.sql.shuffle.partitions")
    try:
        assert spark_session(session=spark, options={name: "3"}) is spark
        assert spark.conf.get(name) == "3"
    finally:
        spark.conf.set(name, str(before))
    with pytest.warns(SparkOptionsIgnored, match="cannot take memory, spark.executor.memory: stop it first"):
        spark_session(memory="3g", options={"spark.executor.memory": "3g"})


@pytest.mark.spark
@pytest.mark.slow
def test_a_session_that_cannot_start_says_why_and_leaves_no_process(tmp_path: Path) -> None:
    program = """
import sys
from omnigraph.errors import SparkUnavailable
from omnigraph.spark.runtime import session as sessions
for settings in ({"master": "nonsense"}, {"java_options": ["-XX:NoSuchOption"], "memory": "1x"}):
    try:
        sessions.spark_session(**settings)
    except SparkUnavailable as error:
        print(error)
    assert sessions._started == []
print(sessions.spark_session(master="local[1,4]", memory="1g").range(3).count())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env={**REAL.environ, "OMNIGRAPH_SPARK_ARCHIVE": "use"},
        check=False,
    )
    assert done.stderr == ""
    assert "Master must either be" in done.stdout
    assert "Invalid maximum heap size" in done.stdout
    assert done.stdout.splitlines()[-1] == "3"


def is_alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False
