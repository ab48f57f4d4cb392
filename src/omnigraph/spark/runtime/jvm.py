"""Starts one JVM with Spark's gateway, without Spark's shell scripts.

The scripts start a second JVM only to compute a command line, print to the terminal, and make pyspark fork this
process, which is unsafe once Lance is in use. Here the command line is built directly, output goes to an unnamed file,
and the process is started without a fork hook. The JVM exits when its standard input closes, so it never outlives this
process.
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
# The flags of Spark's launcher, except the incubator module: only MLlib uses it, and it causes a warning at start.
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
    """A running JVM, its output, and a directory that is deleted with it."""

    process: subprocess.Popen[bytes]
    log: IO[bytes] = field(repr=False)
    directory: Path

    def said(self, characters: int = 2_000) -> str:
        """The end of its output."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-characters:].strip()

    def end(self, patience: float = 30.0) -> None:
        """Close its standard input and wait; kill it after `patience` seconds."""
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


def spark_home(world: World) -> Path:
    """The Spark installation: SPARK_HOME, else the installed package."""
    given = world.environ.get("SPARK_HOME")
    return Path(given) if given else Path(pyspark.__file__).parent


def start_jvm(
    java: Java,
    conf: Mapping[str, str],
    *,
    memory: str,
    world: World,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    temporary: Path | None = None,
) -> Jvm:
    """Start Spark's gateway; `attach` connects to it. `conf` must name the master."""
    directory = Path(tempfile.mkdtemp(prefix="omnigraph-spark-", dir=temporary))
    # The directory is also SPARK_HOME, so that files Spark would leave in the package directory are deleted with it.
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
            env={**_inherited(world), **_spark_variables(java, directory, world), **(environment or {})},
            # Ctrl-C must not reach the JVM: this process cancels the job and the JVM stays.
            start_new_session=True,
        )
    except OSError as error:
        shutil.rmtree(directory, ignore_errors=True)
        raise SparkUnavailable(f"{java.executable} could not be started: {error}") from error
    return Jvm(process, log, directory)


def attach(jvm: Jvm, world: World) -> object:
    """Wait until the gateway listens and connect as pyspark does. Raises `SparkUnavailable` if the JVM exits first."""
    port, secret = _connection(jvm, world)
    with _gateway_variables(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
        return launch_gateway()  # type: ignore[no-untyped-call]


def _command(java: Java, conf: Mapping[str, str], memory: str, options: Sequence[str], world: World) -> list[str]:
    settings = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    flags = [f"-Xmx{memory}", *_FLAGS, *options]
    submit = "org.apache.spark.deploy.SparkSubmit"
    return [str(java.executable), *flags, "-cp", _class_path(world), submit, *settings, "pyspark-shell"]


def _class_path(world: World) -> str:
    """The class path, jars first: a class archive is valid only if the path has the prefix it was built with."""
    home = spark_home(world)
    given = [world.environ.get(name, "") for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")]
    extra = [each for each in (*given, world.environ.get("SPARK_DIST_CLASSPATH", "")) if each]
    return os.pathsep.join([f"{home}/jars/*", *extra])


def _inherited(world: World) -> dict[str, str]:
    """The environment for the JVM, without variables that would make it a client of another Spark."""
    left_out = {"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_HOME"}
    return {name: value for name, value in world.environ.items() if name not in left_out}


def _spark_variables(java: Java, directory: Path, world: World) -> dict[str, str]:
    return {
        "SPARK_CONNECT_MODE": "0",
        "SPARK_HOME": str(directory),
        "SPARK_SCALA_VERSION": _scala_version(world),
        "JAVA_HOME": str(java.home_for_spark),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(directory / "connection"),
    }


def _scala_version(world: World) -> str:
    """The Scala version. Without it Spark searches SPARK_HOME for one and expects a layout that ours lacks."""
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
def _gateway_variables(**variables: str) -> Iterator[None]:
    """Set variables during the call: pyspark reads the address of a gateway only from its own environment."""
    environment = cast("MutableMapping[str, str]", REAL.environ)
    environment.update(variables)
    try:
        yield
    finally:
        for name in variables:
            environment.pop(name, None)
