"""What Spark says when it cannot open a source, in one line, with what to install when something is missing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from omnigraph.spark.jvm import spark_home
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from collections.abc import Sequence

# The Hadoop connector of each scheme, and the scheme that is read here without one.
_CONNECTORS = {
    "s3a": ("org.apache.hadoop:hadoop-aws:{hadoop}", "s3://bucket/path"),
    "s3n": ("org.apache.hadoop:hadoop-aws:{hadoop}", "s3://bucket/path"),
    "abfs": ("org.apache.hadoop:hadoop-azure:{hadoop}", "az://container/path"),
    "abfss": ("org.apache.hadoop:hadoop-azure:{hadoop}", "az://container/path"),
    "wasb": ("org.apache.hadoop:hadoop-azure:{hadoop}", "az://container/path"),
    "wasbs": ("org.apache.hadoop:hadoop-azure:{hadoop}", "az://container/path"),
    "gcs": ("com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26", "gs://bucket/path"),
}
_NO_CLIENT = re.compile(r'ClassNotFoundException: Class org\.apache\.hadoop\.fs\.|No FileSystem for scheme "')
_NO_DRIVER = re.compile(r"No suitable driver|ClassNotFoundException: (?!Class )([\w.]+)")
_JAVA = re.compile(r"^: (?:[\w.$]+: )+(.*)$", re.MULTILINE)


def refusal(error: Exception, paths: Sequence[str] = (), world: World = REAL) -> str:
    """One line about an error of Spark while it opened these paths."""
    told = str(error)
    scheme = next((each.partition("://")[0] for each in paths if "://" in each), "")
    if _NO_CLIENT.search(told):
        return _connector_missing(scheme, world)
    if _NO_DRIVER.search(told):
        return (
            f"Spark has no JDBC driver for this url ({_first_line(told)}): start the session with the driver's jar, "
            "spark.jars=/path/to/driver.jar, and name its class in the option driver."
        )
    return _first_line(told)


def _connector_missing(scheme: str, world: World) -> str:
    package, own = _CONNECTORS.get(scheme, ("the Hadoop file system of that scheme", ""))
    instead = f", or write {own}, which needs nothing installed" if own else ""
    wanted = package.format(hadoop=_hadoop_version(world))
    return (
        f"Spark has no connector for {scheme}://: start the session with spark.jars.packages={wanted} (or its jars in "
        f"spark.jars){instead}."
    )


def _hadoop_version(world: World) -> str:
    """Connectors go with the release of the client that Spark was delivered with."""
    found = next((spark_home(world) / "jars").glob("hadoop-client-api-*.jar"), None)
    return "<the version of Spark's Hadoop>" if found is None else found.stem.removeprefix("hadoop-client-api-")


def _first_line(told: str) -> str:
    """Without the plan and the trace that follow."""
    java = _JAVA.search(told)
    if java is not None:
        return java[1].strip()
    return told.partition("\n\nJVM stacktrace")[0].partition(";\n'")[0].strip().split("\n")[0]
