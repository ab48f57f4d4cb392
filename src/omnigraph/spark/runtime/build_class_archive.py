"""The process that builds the class archive: it runs a small job of every kind that pipelines run, then exits.

`class_archive` starts it; it runs at low priority. The archive is written under a temporary name and renamed.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import SparkUnavailable
from omnigraph.spark.runtime.class_archive import SETTING, ClassArchive, archive_for, take_lock
from omnigraph.spark.runtime.java import Java, find_java
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

_PATIENCE = 300.0


def main(world: World = REAL) -> None:
    """Build the archive unless it exists or another process is building it."""
    java = find_java(world)
    archive = archive_for(java, world)
    mark = None if archive.is_there else take_lock(archive, world)
    if mark is None:
        return
    try:
        os.nice(19)
        _build(java, archive, world)
    finally:
        mark.unlink(missing_ok=True)


def _build(java: Java, archive: ClassArchive, world: World) -> None:
    if archive.base is not None and not archive.base.is_file():
        _dump_base(java, archive.base)
    for left in archive.path.parent.glob(f"{archive.path.stem}.[0-9]*"):
        left.unlink()  # left by a killed builder; this process holds the lock
    unfinished = archive.path.with_suffix(f".{os.getpid()}")
    try:
        # The JVM that writes the archive must neither use one nor schedule another build.
        _run_jobs(archive.options_to_build(unfinished), World(environ={**world.environ, SETTING: "off"}))
        unfinished.replace(archive.path)
    finally:
        unfinished.unlink(missing_ok=True)


def _dump_base(java: Java, base: Path) -> None:
    """Dump the base archive of the runtime's own classes, which trimmed runtimes lack and Spark's archive extends."""
    unfinished = base.with_suffix(f".{os.getpid()}")
    command = [str(java.executable), "-Xshare:dump", f"-XX:SharedArchiveFile={unfinished}", "-Xlog:disable"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)  # noqa: S603
    if done.returncode:
        raise SparkUnavailable(f"{java.executable} could not archive its classes: {done.stdout} {done.stderr}")
    unfinished.replace(base)


def _run_jobs(java_options: list[str], world: World) -> None:
    from omnigraph.spark.runtime.session import spark_session, stop_session

    session = spark_session(master="local[2,4]", memory="1g", java_options=java_options, world=world)
    try:
        with tempfile.TemporaryDirectory() as directory:
            _typical_jobs(session, Path(directory))
    finally:
        stop_session(session, patience=_PATIENCE)


def _typical_jobs(session: SparkSession, directory: Path) -> None:
    from pyspark.errors import AnalysisException

    rows = session.range(1000).selectExpr("id", "cast(id % 7 as string) as name", "current_timestamp() as at")
    for kind in ("parquet", "json", "csv"):
        path = str(directory / kind)
        rows.write.format(kind).save(path)
        session.read.format(kind).load(path).count()
    rows.createOrReplaceTempView("numbers")
    session.sql("select name, count(*) from numbers group by name having count(*) > 1 order by name").collect()
    rows.join(rows.groupBy("name").count(), "name").where("id > 10").limit(10).collect()
    rows.select("id", "name").mapInArrow(_same, "id long, name string").toArrow()
    # A failing query loads further classes that the archive should contain.
    with suppress(AnalysisException):
        session.sql("select no_such_column from numbers")


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    main()
