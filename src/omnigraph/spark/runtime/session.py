"""Chooses or starts the Spark session: the caller's, a Spark Connect server's, a cluster's, or a tuned local one.

A local session logs nothing to the terminal, loads Spark's classes from an archive if there is one (`class_archive`),
retries failed tasks, binds to the loopback interface and uses UTC.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from omnigraph.errors import InvalidInput, SparkUnavailable
from omnigraph.spark.runtime.class_archive import archive_for, build_at_exit
from omnigraph.spark.runtime.java import find_java
from omnigraph.spark.runtime.jvm import Jvm, attach, start_jvm
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_RETRIES = 4
_GIB = 1 << 30
_LOOPBACK = "127.0.0.1"
_NOISY_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
# The JVMs that this process has started; at most one, because pyspark supports a single gateway.
_started: list[Jvm] = []


def spark_session(
    *,
    session: SparkSession | None = None,
    remote: str | None = None,
    master: str | None = None,
    memory: str | None = None,
    tmp_dir: str | os.PathLike[str] | None = None,
    options: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
    world: World = REAL,
) -> SparkSession:
    """Return `session`, else connect to `remote`, else use `master`, else the session running in this process, else
    SPARK_REMOTE, else start a local one. `memory` (such as "4g"), `tmp_dir`, `options` (Spark's own) and `java_options`
    are for a new session. A running one takes the options that can be set at run time; of the others it is warned
    (`SparkOptionsIgnored`).
    """
    _hush()
    fixed = {"memory": memory, "tmp_dir": tmp_dir, "java_options": java_options}
    if session is not None:
        return _with_options(session, options or {}, [name for name, value in fixed.items() if value])
    if remote is not None and master is not None:
        raise InvalidInput("give either a remote server or a master, not both.")
    running = None if remote is not None else _running(master)
    if running is not None:
        return _with_options(running, options or {}, [name for name, value in fixed.items() if value])
    remote = remote or (None if master is not None else world.environ.get("SPARK_REMOTE"))
    if remote is not None:
        return _connect(remote, options or {})
    master = master or f"local[{_cores()},{_RETRIES}]"
    conf = _configuration(master, memory or _default_memory(), tmp_dir) | dict(options or {})
    return _start(conf, tmp_dir, java_options, world)


class SparkOptionsIgnored(UserWarning):
    """Options that a running Spark session cannot take any more."""


def _with_options(session: SparkSession, options: Mapping[str, str], ignored: list[str]) -> SparkSession:
    """Set the options that can be set on a running session, and warn of the others."""
    for name, value in options.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
        elif session.conf.get(name, None) != value:
            ignored.append(name)
    if ignored:
        text = f"a Spark session is running, which cannot take {', '.join(ignored)}: stop it first to have them."
        warnings.warn(text, SparkOptionsIgnored, stacklevel=3)
    return session


def session_at_hand() -> SparkSession | None:
    """The session running in this process, or None."""
    return _running(None)


def stop_session(session: SparkSession, *, patience: float = 30.0) -> None:
    """Stop a session and the JVM that `spark_session` started for it, killing the JVM after `patience` seconds."""
    session.stop()
    _end_started(patience)


def _running(master: str | None) -> SparkSession | None:
    context = SparkContext._active_spark_context
    if context is None:
        return SparkSession.getActiveSession() if is_remote() and master is None else None
    if master not in (None, context.master):
        raise InvalidInput(
            f"a Spark session with master {context.master!r} is running in this process, so none with {master!r} can "
            "be started. Stop it first, or work with it."
        )
    return SparkSession.getActiveSession() or SparkSession(context)


def _connect(url: str, options: Mapping[str, str]) -> SparkSession:
    try:
        builder = SparkSession.builder.remote(url)
        for name, value in options.items():
            builder = builder.config(name, value)
        session: SparkSession = builder.getOrCreate()
    except ImportError as error:
        raise SparkUnavailable(f"Spark Connect needs pip install 'pyspark[connect]' ({error})") from error
    return session


def _start(
    conf: Mapping[str, str], tmp_dir: str | os.PathLike[str] | None, java_options: Sequence[str], world: World
) -> SparkSession:
    if SparkContext._gateway is None:
        _launch(conf, tmp_dir, java_options, world)
    spark_conf = SparkConf(loadDefaults=False)
    for name, value in conf.items():
        spark_conf.set(name, value)
    try:
        context = SparkContext(conf=spark_conf)
        # By default workers run the first python3 on the PATH, which may lack this package.
        context.pythonExec = _python(world)
        return SparkSession(context)
    except Py4JError as error:
        raise _not_started(conf["spark.master"], error) from error


def _not_started(master: str, error: Exception) -> SparkUnavailable:
    said = _started[-1].said() if _started else str(error)
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    _end_started()
    return SparkUnavailable(f"Spark did not start with master {master!r}:\n{said}")


def _launch(
    conf: Mapping[str, str], tmp_dir: str | os.PathLike[str] | None, java_options: Sequence[str], world: World
) -> None:
    java = find_java(world)
    archive = archive_for(java, world)
    jvm = start_jvm(
        java,
        conf,
        memory=conf["spark.driver.memory"],
        options=[*archive.options(), *java_options],
        environment=_environment(conf["spark.master"], world),
        temporary=None if tmp_dir is None else Path(tmp_dir),
        world=world,
    )
    SparkContext._ensure_initialized(gateway=attach(jvm, world))
    _started.append(jvm)
    atexit.register(_end_started)
    build_at_exit(archive, world)


def _end_started(patience: float = 30.0) -> None:
    """End the JVM. Closing the gateway first lets the process exit by itself."""
    atexit.unregister(_end_started)
    _expect_the_end()
    while _started:
        jvm = _started.pop()
        gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
        if gateway is not None:
            gateway.shutdown()
        jvm.end(patience)


def _expect_the_end() -> None:
    """Silence pyspark's accumulator thread, which prints a traceback if the JVM exits first."""
    context = SparkContext._active_spark_context
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def _configuration(master: str, memory: str, tmp_dir: str | os.PathLike[str] | None) -> dict[str, str]:
    conf = {
        "spark.master": master,
        "spark.app.name": "omnigraph",
        "spark.driver.memory": memory,
        "spark.submit.deployMode": "client",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(8, 4 * _cores())),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    if tmp_dir is not None:
        conf["spark.local.dir"] = os.fspath(tmp_dir)
    if _is_on_this_machine(master):
        conf |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    return conf


def _environment(master: str, world: World) -> dict[str, str]:
    """Environment variables for the JVM and the Python workers that it starts."""
    python = _python(world)
    variables = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    return variables | {"SPARK_LOCAL_IP": _LOOPBACK} if _is_on_this_machine(master) else variables


def _is_on_this_machine(master: str) -> bool:
    return master.startswith(("local", f"spark://{_LOOPBACK}", "spark://localhost"))


def _python(world: World) -> str:
    return world.environ.get("PYSPARK_PYTHON") or sys.executable


def _cores() -> int:
    """The cores that this process may use; can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _default_memory() -> str:
    """A quarter of the machine's memory, from 1 to 4 GiB; more brought nothing in measurements."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{max(1, min(4, machine // 4 // _GIB))}g"


def _hush() -> None:
    """Silence loggers that repeat every analysis error, and a warning about pandas, which is not used."""
    for name in _NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
