"""The rows of a whole Spark frame as fragments, written by its tasks as those of a load are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lance import FragmentMetadata

from omnigraph.catalog.arrow import stored_schema
from omnigraph.spark.runner import errors_of_tasks
from omnigraph.spark.types import from_spark, spark_schema
from omnigraph.storage.lance.data_files import Mode, write_rows
from omnigraph.storage.tables.table import ROWS_PER_FILE
from omnigraph.tasks.runner import task_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame

# A task's number comes first, so that the table has its rows in the order of the tasks.
WRITTEN = pa.schema([("task", pa.int32()), ("position", pa.int32()), ("fragment", pa.string())])


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
