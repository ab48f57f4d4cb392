"""Rows of a Spark frame as fragments of a Lance table: executors write the files, the driver gets their descriptions.

Nothing is visible until the driver stages and commits the descriptions it got. A task that fails, runs twice or is
lost leaves files that no description names; Spark returns the description of one successful attempt per task.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from omnigraph.spark.tasks import errors_of_tasks
from omnigraph.spark.types import from_spark, spark_schema, stored_schema
from omnigraph.store.tables import FILE_FORMAT, ROWS_PER_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lance import FragmentMetadata
    from pyspark.sql import DataFrame

Mode = Literal["append", "overwrite"]

# A task's number comes first, so that the table has its rows in the order of the tasks.
_NUMBER: pa.DataType = pa.int32()
_TEXT: pa.DataType = pa.string()
WRITTEN = pa.schema([("task", _NUMBER), ("position", _NUMBER), ("fragment", _TEXT)])


def write_fragments_distributed(
    frame: DataFrame,
    table_uri: str,
    storage_options: Mapping[str, str] | None,
    schema: pa.Schema,
    *,
    rows_per_file: int = ROWS_PER_FILE,
    mode: Mode = "append",
) -> list[FragmentMetadata]:
    """Write the frame's rows beside a table that exists; `stage_fragments` makes a transaction of what is returned.

    `schema` is the table's, and the frame must have its columns by name. Each of the frame's partitions is one task
    and at least one file, so a frame of many tiny ones should be coalesced first.
    """
    task = fragment_writer(table_uri, storage_options, schema, rows_per_file=rows_per_file, mode=mode)
    with errors_of_tasks():
        written: Any = frame.mapInArrow(task, spark_schema(WRITTEN)).toArrow()
    return fragments_of(written)


def fragments_of(written: pa.Table) -> list[FragmentMetadata]:
    """The descriptions that tasks returned as rows of `WRITTEN`."""
    from lance import FragmentMetadata

    rows = sorted(written.to_pylist(), key=lambda each: (each["task"], each["position"]))
    return [FragmentMetadata.from_json(each["fragment"]) for each in rows]


def fragment_writer(
    table_uri: str,
    storage_options: Mapping[str, str] | None,
    schema: pa.Schema,
    *,
    rows_per_file: int = ROWS_PER_FILE,
    mode: Mode = "append",
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The body of a `mapInArrow` task: takes rows as Spark has them, yields rows of `WRITTEN`."""
    described = stored_schema(schema).serialize().to_pybytes()
    options = None if storage_options is None else dict(storage_options)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stored = pa.ipc.read_schema(pa.py_buffer(described))
        rows = (from_spark(batch, stored) for batch in batches if batch.num_rows)
        for position, fragment in enumerate(write_rows(rows, table_uri, options, stored, rows_per_file, mode)):
            yield pa.record_batch([[task_number()], [position], [json.dumps(fragment.to_json())]], schema=WRITTEN)

    return task


def write_rows(
    rows: Iterator[pa.RecordBatch],
    table_uri: str,
    storage_options: dict[str, str] | None,
    schema: pa.Schema,
    rows_per_file: int,
    mode: Mode,
) -> list[FragmentMetadata]:
    """Write a stream of stored rows as fragments; no rows give none."""
    first = next(rows, None)
    if first is None:
        return []
    # Imported in the task: the process that workers are forked from must not have it.
    from lance.fragment import write_fragments

    written: list[FragmentMetadata] = write_fragments(
        pa.RecordBatchReader.from_batches(schema, chain([first], rows)),
        table_uri,
        schema=schema,
        mode=mode,
        max_rows_per_file=rows_per_file,
        storage_options=storage_options,
        data_storage_version=FILE_FORMAT,
        enable_stable_row_ids=True,
        allow_external_blob_outside_bases=True,
    )
    return written


def task_number() -> int:
    """The number of the running task's partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())
