from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.errors import InvalidInput
from omnigraph.spark.runtime.session import spark_session, stop_session
from omnigraph.spark.types import spark_schema
from omnigraph.world import REAL, World
from spark.tables import landed, new_table
from spark.written_frames import WRITTEN, fragment_writer, fragments_of, write_fragments_distributed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

PEOPLE = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("age", pa.uint32()),
        pa.field("seen", pa.date64()),
        pa.field("vector", pa.list_(pa.field("item", pa.float32()), 2)),
    ]
)
_COLUMNS = (
    "concat('p', id) as id",
    "id % 100 as age",
    "timestamp_millis(id) as seen",
    "array(cast(id as float), cast(-id as float)) as vector",
)


@pytest.mark.spark
def test_a_million_rows_become_bounded_fragments_and_equal_the_input(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, PEOPLE)
    written = write_fragments_distributed(people(spark, 1_000_000), str(tmp_path / "table"), None, PEOPLE)
    assert all(fragment.physical_rows <= 100_000 for fragment in written)
    assert 10 <= len(written) <= 12
    filled = landed(table, written)
    assert filled.version == table.version + 1
    found = filled.read(["id", "age", "seen"])
    numbers = pc.cast(pc.utf8_slice_codeunits(found["id"], 1), pa.int64())
    # Tasks take ranges in order, and their fragments are in the order of the tasks.
    assert numbers.to_pylist() == list(range(1_000_000))
    assert found["age"].cast(pa.int64()).equals(pc.subtract(numbers, pc.multiply(pc.divide(numbers, 100), 100)))
    assert found["seen"].cast(pa.int64()).equals(numbers)


@pytest.mark.spark
@pytest.mark.parametrize("how", ["raises", "is killed"])
def test_a_task_that_fails_once_is_tried_again_and_nothing_is_doubled(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    table = new_table(tmp_path, PEOPLE)
    marks = tmp_path / "marks"
    marks.mkdir()
    writer = fragment_writer(str(tmp_path / "table"), None, PEOPLE, rows_per_file=5_000)
    task = failing_once(writer, str(marks), how)
    written = fragments_of(people(spark, 40_000).mapInArrow(task, spark_schema(WRITTEN)).toArrow())
    assert len(list(marks.iterdir())) == 4
    assert sum(fragment.physical_rows for fragment in written) == 40_000
    files = {path.name for path in (tmp_path / "table" / "data").iterdir()}
    named = {Path(file.path).name for fragment in written for file in fragment.files}
    assert named < files
    assert len(files) == 2 * len(named), "the failed attempts left files that no fragment names"
    found = landed(table, written).read(["id"])["id"]
    assert len(found) == 40_000
    assert len(found.unique()) == 40_000


@pytest.mark.spark
def test_a_value_that_does_not_fit_is_our_error_and_names_the_column(spark: SparkSession, tmp_path: Path) -> None:
    new_table(tmp_path, PEOPLE)
    frame = people(spark, 10).selectExpr("id", "cast(-1 as bigint) as age", "seen", "vector")
    with pytest.raises(InvalidInput, match="column 'age' cannot become uint32"):
        write_fragments_distributed(frame, str(tmp_path / "table"), None, PEOPLE)


@pytest.mark.spark
def test_a_frame_without_rows_gives_no_fragments(spark: SparkSession, tmp_path: Path) -> None:
    new_table(tmp_path, PEOPLE)
    frame = people(spark, 100).where("age > 1000")
    assert write_fragments_distributed(frame, str(tmp_path / "table"), None, PEOPLE) == []


@pytest.mark.spark
@pytest.mark.s3
def test_executors_write_to_a_bucket(spark: SparkSession, s3_uri: str) -> None:
    from omnigraph.storage.objects.location import parse_location
    from omnigraph.storage.tables.new_tables import create_table
    from omnigraph.storage.tables.table import TableStore

    location = parse_location(s3_uri, REAL)
    table = create_table(TableStore(location, REAL), "table", PEOPLE)
    written = write_fragments_distributed(
        people(spark, 1_000), location.child("table"), location.storage_options, PEOPLE
    )
    assert landed(table, written).count_rows() == 1_000


@pytest.mark.spark
@pytest.mark.slow
def test_executors_in_processes_of_their_own_write_too(tmp_path: Path) -> None:
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        pytest.skip("another session is running in this process")
    session = spark_session(
        master="local-cluster[2,1,1024]",
        memory="1g",
        tmp_dir=tmp_path,
        world=World(environ={**REAL.environ, "OMNIGRAPH_SPARK_ARCHIVE": "use"}),
    )
    try:
        table = new_table(tmp_path, PEOPLE)
        written = write_fragments_distributed(people(session, 100_000), str(tmp_path / "table"), None, PEOPLE)
        assert landed(table, written).count_rows() == 100_000
    finally:
        stop_session(session)


def people(session: SparkSession, rows: int) -> DataFrame:
    return session.range(0, rows, 1, 4).selectExpr(*_COLUMNS)


def failing_once(writer: Task, marks: str, how: str) -> Task:
    """Writes, then fails, unless the same task has failed before."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        written = list(writer(batches))
        context = TaskContext.get()
        assert context is not None
        mark = Path(marks) / str(context.partitionId())
        if not mark.exists():
            mark.touch()
            if how == "is killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("this attempt fails after its files are written")
        yield from written

    return task
