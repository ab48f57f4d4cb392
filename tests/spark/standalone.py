"""A standalone cluster on the loopback interface, from nothing but the installed pyspark: a master, and a worker."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from omnigraph.spark.runtime.java import find_java
from omnigraph.world import REAL
from servers.seaweed import free_ports
from spark.test_load_cluster import executors_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOME = Path(pyspark.__file__).parent
_PATIENCE = 90.0


@dataclass(frozen=True)
class Standalone:
    """A running cluster: its address, and the worker that starts executors."""

    url: str
    worker: subprocess.Popen[bytes]

    def kill_an_executor(self) -> None:
        """SIGKILL to one executor of the worker; the worker starts another in its place."""
        os.kill(next(executors_of(self.worker.pid)), signal.SIGKILL)


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[Standalone]:
    """A master and a worker with two cores, ended by their handles, with whatever the worker has started."""
    (port,) = free_ports(1)
    url = f"spark://127.0.0.1:{port}"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = _start(folder, "master.Master", *here, "--port", str(port))
    try:
        _wait_for(port, master, folder / "master.Master.log")
        resources = ["--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work")]
        worker = _start(folder, "worker.Worker", *here, *resources, url)
        try:
            yield Standalone(url, worker)
        finally:
            _end(worker)
    finally:
        _end(master)


def _start(folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {
        **REAL.environ,
        "JAVA_HOME": str(find_java(REAL).home_for_spark),
        "SPARK_HOME": str(_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments],
            stdout=log,
            stderr=log,
            cwd=folder,
            env=environment,
        )


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = REAL.monotonic() + _PATIENCE
    while True:
        assert process.poll() is None, log.read_text()
        assert REAL.monotonic() < deadline, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        REAL.sleep(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
