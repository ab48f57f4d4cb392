"""One Java process with Spark in it, started without Spark's shell scripts and held by its handle.

The scripts start a second Java only to compute a command line, print to the terminal, and make pyspark fork this
process, which is not safe once Lance is in use. Here the command line is ours, everything the process says goes to an
unnamed file, and it is started without a fork hook. It ends when its standard input does: with us, however we end.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import pyspark
from pyspark.java_gateway import launch_gateway

from omnigraph.errors import SparkUnavailable
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping, Sequence

    from omnigraph.spark.runtime.java import Java

_PATIENCE = 120.0
_LOGGING = Path(__file__).with_name("log4j2.properties")
# What Spark's own launcher passes, except the incubator module, which only MLlib uses and every start would warn of.
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)
_FLAGS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    f"-Dlog4j2.configurationFile=file:{_LOGGING}",
)


@dataclass(frozen=True)
class Jvm:
    """A running process, what it said so far, and a directory that goes with it."""

    process: subprocess.Popen[bytes]
    log: IO[bytes] = field(repr=False)
    directory: Path

    def said(self, characters: int = 2_000) -> str:
        """The end of what it printed."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-characters:].strip()

    def end(self, patience: float = 30.0) -> None:
        """Close its standard input and wait; one that does not end by then is killed."""
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def spark_home(world: World = REAL) -> Path:
    """Where the jars are: SPARK_HOME, else the installed package."""
    given = world.environ.get("SPARK_HOME")
    return Path(given) if given else Path(pyspark.__file__).parent


def start_jvm(
    java: Java,
    conf: Mapping[str, str],
    *,
    memory: str,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    temporary: Path | None = None,
    world: World = REAL,
) -> Jvm:
    """Start Spark's gateway; `attach` connects to it. `conf` must name the master."""
    directory = Path(tempfile.mkdtemp(prefix="omnigraph-spark-", dir=temporary))
    # The directory is the process's home too, so that what Spark would leave in the package directory goes with it.
    for part in ("jars", "bin"):
        (directory / part).symlink_to(spark_home(world) / part)
    log = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        process = subprocess.Popen(  # noqa: S603
            _command(java, conf, memory, options, world),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=directory,
            env={**_inherited(world), **_told(java, directory, world), **(environment or {})},
            # Ctrl-C at the terminal is ours to handle: the job is cancelled, the process stays.
            start_new_session=True,
        )
    except OSError as error:
        shutil.rmtree(directory, ignore_errors=True)
        raise SparkUnavailable(f"{java.executable} could not be started: {error}") from error
    return Jvm(process, log, directory)


def attach(jvm: Jvm, world: World = REAL) -> object:
    """Wait until the gateway listens and connect to it as pyspark does; a process that ends before is an error."""
    port, secret = _connection(jvm, world)
    with _told_to_pyspark(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
        return launch_gateway()  # type: ignore[no-untyped-call]


def _command(java: Java, conf: Mapping[str, str], memory: str, options: Sequence[str], world: World) -> list[str]:
    settings = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    flags = [f"-Xmx{memory}", *_FLAGS, *options]
    submit = "org.apache.spark.deploy.SparkSubmit"
    return [str(java.executable), *flags, "-cp", _class_path(world), submit, *settings, "pyspark-shell"]


def _class_path(world: World) -> str:
    """The jars first: a class archive is good only for a path that begins as the one it was made with."""
    home = spark_home(world)
    given = [world.environ.get(name, "") for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")]
    extra = [each for each in (*given, world.environ.get("SPARK_DIST_CLASSPATH", "")) if each]
    return os.pathsep.join([f"{home}/jars/*", *extra])


def _inherited(world: World) -> dict[str, str]:
    """This process's environment, without what would make the child a client of another Spark."""
    left_out = {"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_HOME"}
    return {name: value for name, value in world.environ.items() if name not in left_out}


def _told(java: Java, directory: Path, world: World) -> dict[str, str]:
    return {
        "SPARK_CONNECT_MODE": "0",
        "SPARK_HOME": str(directory),
        "SPARK_SCALA_VERSION": _scala_version(world),
        "JAVA_HOME": str(java.home_for_spark),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(directory / "connection"),
    }


def _scala_version(world: World) -> str:
    """Spark looks for it in its directory when it starts executors, and expects a layout that ours has not."""
    core = next((spark_home(world) / "jars").glob("spark-core_*.jar"), None)
    if core is None:
        raise SparkUnavailable(f"{spark_home(world)} holds no Spark: unset SPARK_HOME, or correct it.")
    return core.name.removeprefix("spark-core_").partition("-")[0]


def _connection(jvm: Jvm, world: World) -> tuple[int, str]:
    file = jvm.directory / "connection"
    deadline = world.monotonic() + _PATIENCE
    while not file.exists():
        if jvm.process.poll() is not None or world.monotonic() > deadline:
            message = f"Spark did not start (exit status {jvm.process.poll()}):\n{jvm.said()}"
            jvm.process.kill()
            jvm.end()
            raise SparkUnavailable(message)
        world.sleep(0.02)
    data = file.read_bytes()
    file.unlink()
    port, length = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + length].decode()


@contextmanager
def _told_to_pyspark(**variables: str) -> Iterator[None]:
    """pyspark takes the address of a gateway from its own environment only; it is there for the moment of the call."""
    environment = cast("MutableMapping[str, str]", REAL.environ)
    environment.update(variables)
    try:
        yield
    finally:
        for name in variables:
            environment.pop(name, None)
