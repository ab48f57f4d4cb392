"""The same functions against a Spark Connect server, in a process that has no Java of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
import pytest

from omnigraph.spark.runtime.java import find_java
from omnigraph.world import REAL
from servers.seaweed import free_ports
from spark.tables import graph_with

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = """
import sys
from omnigraph.pipeline.datasource.source import read_type
from omnigraph.spark.runtime.progress import watch
from omnigraph.spark.runtime.session import spark_session
from omnigraph.load.bulk.splits import number_lines, plan_splits
from omnigraph.load.files import list_files
from omnigraph.spark.runner import SparkRunner
from omnigraph.world import REAL

folder = sys.argv[1]
spark = spark_session()
told = []
with watch(spark, "reading", told.append):
    print(read_type(spark, folder + "/graph.omni", "Knows").count())
print(spark.read.format("omnigraph").option("type", "Knows").load(folder + "/graph.omni").where("id = 'e2'").count())
splits = plan_splits(list_files(folder + "/lines", world=REAL), split_bytes=4)
print([split.first_line for split in number_lines(SparkRunner(spark), splits)])
print(spark_session().session_id == spark.session_id, bool(told))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_reading_writing_and_counting_work_through_a_server(server: str, tmp_path: Path) -> None:
    schema = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("id", "src", "dst")])
    edges = pa.table({"id": ["e1", "e2"], "src": ["a", "b"], "dst": ["b", "a"]}, schema=schema)
    graph_with(str(tmp_path / "graph.omni"), {"edge:Knows": edges})
    (tmp_path / "lines").write_bytes(b"1\n2\n3\n4\n5\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**REAL.environ, "SPARK_REMOTE": server, "PATH": "/nowhere", "JAVA_HOME": "/nowhere"},
    )
    assert (done.stdout.splitlines(), done.stderr) == (["2", "1", "[1, 3, 5]", "True True"], "")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A server on loopback, ended by its handle."""
    (port,) = free_ports(1)
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.master": "local[2,4]",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(tmp_path),
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    main = "org.apache.spark.sql.connect.service.SparkConnectServer"
    environment = {"JAVA_HOME": str(find_java(REAL).home_for_spark), "PYSPARK_PYTHON": sys.executable}
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [home / "bin" / "spark-submit", "--class", main, *options, "spark-internal"],
            stdout=log,
            stderr=log,
            cwd=tmp_path,
            env={**REAL.environ, **environment, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    try:
        wait_for(port, process, tmp_path / "server.log")
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 90
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)  # noqa: TID251
