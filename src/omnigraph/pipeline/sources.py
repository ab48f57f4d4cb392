"""Opens the sources and transforms of a pipeline as Spark frames and registers each as a temporary view while it runs.

An error of Spark is reduced to one line, which says what to install if a connector or driver is missing.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.base import QueryContextType

from omnigraph.errors import InvalidInput, OmniGraphError
from omnigraph.language.core.diagnostics import Span
from omnigraph.load.files import list_files
from omnigraph.pipeline.bucket_files import read_bucket_files
from omnigraph.pipeline.datasource.options import NAME
from omnigraph.pipeline.datasource.source import read_type, register_spark
from omnigraph.pipeline.file import YamlText, expressions_of, names_of
from omnigraph.spark.runner import one_task_each
from omnigraph.spark.runtime.jvm import spark_home
from omnigraph.storage.objects.location import OBJECT_STORES, parse_location
from omnigraph.storage.tables.table import TableStore
from omnigraph.tasks.table_scan import TableScan, read_scan, tasks_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.pipeline.file import PipelineFile, PipelineSource
    from omnigraph.pipeline.yaml import PipelineFindings
    from omnigraph.world import World

# By scheme: the Hadoop connector, and the equivalent URI that needs no connector.
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


def refusal(error: Exception, paths: Sequence[str], world: World) -> str:
    """A one-line message for an error that Spark raised while opening these paths."""
    message = str(error)
    scheme = next((each.partition("://")[0] for each in paths if "://" in each), "")
    if _NO_CLIENT.search(message):
        return _connector_missing(scheme, world)
    if _NO_DRIVER.search(message):
        return (
            f"Spark has no JDBC driver for this url ({_first_line(message)}): start the session with the driver's jar, "
            "spark.jars=/path/to/driver.jar, and name its class in the option driver."
        )
    return _first_line(message)


def _connector_missing(scheme: str, world: World) -> str:
    package, own = _CONNECTORS.get(scheme, ("the Hadoop file system of that scheme", ""))
    instead = f", or write {own}, which needs nothing installed" if own else ""
    wanted = package.format(hadoop=_hadoop_version(world))
    return (
        f"Spark has no connector for {scheme}://: start the session with spark.jars.packages={wanted} (or its jars in "
        f"spark.jars){instead}."
    )


def _hadoop_version(world: World) -> str:
    """The version of Spark's bundled Hadoop client, which connectors must match."""
    found = next((spark_home(world) / "jars").glob("hadoop-client-api-*.jar"), None)
    return "<the version of Spark's Hadoop>" if found is None else found.stem.removeprefix("hadoop-client-api-")


def _first_line(message: str) -> str:
    """The message without the query plan and stack trace that follow."""
    java = _JAVA.search(message)
    if java is not None:
        return java[1].strip()
    return message.partition("\n\nJVM stacktrace")[0].partition(";\n'")[0].strip().split("\n")[0]


# By default Spark ignores CSV headers, reads every cell as a string, and turns malformed cells into nulls.
_DEFAULTS: dict[str, dict[str, str]] = {
    "csv": {"header": "true", "inferSchema": "true", "mode": "FAILFAST"},
    "json": {"mode": "FAILFAST"},
}


@dataclass(frozen=True)
class Workspace:
    """The frames of a pipeline by name, in one session. Relative paths are resolved against `folder`."""

    session: SparkSession
    folder: Path
    findings: PipelineFindings
    world: World
    frames: dict[str, DataFrame] = field(default_factory=dict)

    def located(self, path: str) -> str:
        """A path of the pipeline file as an absolute path or URI."""
        return path if "://" in path else str((self.folder / Path(path)).absolute())

    def open(self, pipeline: PipelineFile) -> None:
        """Open every source and transform. Errors become findings at their positions; only schemas are read."""
        for source in pipeline.sources:
            if source.format != "graph":
                with self.findings_at(source.name, [each.value for each in source.paths]):
                    self._name(source.name, self._frame(source))
        for transform in pipeline.transforms:
            with self.findings_at(transform.sql):
                self._name(transform.name, self.session.sql(transform.sql.value))

    @contextmanager
    def findings_at(self, position: YamlText, paths: Sequence[str] = ()) -> Iterator[None]:
        """Turn errors in the block, which may open `paths`, into findings at a position of the file."""
        try:
            yield
        except (PySparkException, Py4JError) as error:
            self.findings.add(position, "P009", refusal(error, paths, self.world))
        except OmniGraphError as error:
            self.findings.add(position, "P009", error.message)

    @contextmanager
    def findings_of_run(self, pipeline: PipelineFile) -> Iterator[None]:
        """Raise `PipelineError` for an error that a source or an expression of the file causes while rows are read."""
        try:
            yield
        except PySparkException as error:
            found = self._cause(pipeline, error)
            if found is None:
                raise
            position, what = found
            self.findings.add(position, "P009", f"{what}: {_first_line(str(error))}")
            raise self.findings.error() from error

    def _cause(self, pipeline: PipelineFile, error: PySparkException) -> tuple[YamlText, str] | None:
        """The text of the file that Spark's error quotes; otherwise the first source or transform that fails alone."""
        for context in error.getQueryContext() if error.getCondition() else ():
            if context.contextType() != QueryContextType.SQL:
                continue
            start, stop = context.startIndex(), context.stopIndex() + 1
            for text, what in expressions_of(pipeline):
                if stop > start and text.value[start:stop] == context.fragment():
                    return self._within(text, start, stop), what
        for name, what in names_of(pipeline):
            if name.value in self.frames and _fails(self.frames[name.value]):
                return name, what
        return None

    def _within(self, text: YamlText, start: int, stop: int) -> YamlText:
        """A part of a text, at its own position if the file has the text verbatim on one line."""
        first = text.span.start
        verbatim = self.findings.text[first : text.span.end] == text.value
        return YamlText(text.value[start:stop], Span(first + start, first + stop)) if verbatim else text

    def _name(self, name: YamlText, frame: DataFrame) -> None:
        views = {each.name.lower() for each in self.session.catalog.listTables() if each.isTemporary}
        if name.value.lower() in views:
            raise InvalidInput(f"the session has a view {name.value!r} of its own: give the source another name.")
        _ = frame.schema  # a Connect session analyzes lazily; this raises its errors
        frame.createOrReplaceTempView(name.value)
        self.frames[name.value] = frame

    def _frame(self, source: PipelineSource) -> DataFrame:
        if source.format == "table":
            return self.session.table(str(source.table))
        if source.format == "jdbc":
            return self.session.read.format("jdbc").options(**source.options).load()
        if source.format == "lance":
            return self._lance(source.paths[0].value)
        if source.format == "omnigraph":
            return self._graph(source)
        return self._files(source)

    def _files(self, source: PipelineSource) -> DataFrame:
        paths = [self.located(each.value) for each in source.paths]
        if any(each.partition("://")[0] in OBJECT_STORES for each in paths if "://" in each):
            return read_bucket_files(self.session, paths, source, self.world)
        options = _DEFAULTS.get(source.format, {}) | dict(source.options)
        reader = self.session.read.format(source.format).options(**options)
        if source.schema is not None:
            reader = reader.schema(source.schema.value)
        # Spark's glob syntax differs from that of a load, so patterns are expanded here.
        return reader.load([each.where for each in list_files(paths, world=self.world)] if _are_local(paths) else paths)

    def _lance(self, path: str) -> DataFrame:
        parent, _, name = self.located(path).rstrip("/").rpartition("/")
        location = parse_location(parent, self.world)
        scan = TableScan(location, TableStore(location, self.world).open_newest(name).pin)
        return one_task_each(self.session, tasks_of(scan), read_scan, scan.schema())

    def _graph(self, source: PipelineSource) -> DataFrame:
        wanted: Any = {key: value.value for key, value in source.settings.items() if key in ("branch", "snapshot")}
        where = self.located(source.paths[0].value)
        if "query" not in source.settings:
            return read_type(self.session, where, str(source.settings["type"]), **wanted)
        register_spark(self.session)
        options = {"query": source.settings["query"].value, **wanted}
        return self.session.read.format(NAME).options(**options).load(where)


@contextmanager
def workspace(session: SparkSession, folder: Path, findings: PipelineFindings, world: World) -> Iterator[Workspace]:
    """A workspace whose views are dropped at the end."""
    made = Workspace(session, folder, findings, world)
    try:
        yield made
    finally:
        for name in made.frames:
            session.catalog.dropTempView(name)


def _fails(frame: DataFrame) -> bool:
    """Whether Spark fails to compute the rows of a frame."""
    try:
        frame.write.format("noop").mode("overwrite").save()
    except PySparkException:
        return True
    return False


def _are_local(paths: list[str]) -> bool:
    return all("://" not in each or each.startswith("file://") for each in paths)
