"""Writes rows as fragments of a Lance table: tasks write the files, and the driver receives the fragment metadata.

Nothing is visible until the driver stages and commits the metadata it received. A task that fails, runs twice or is
lost leaves files that no metadata names; Spark returns the metadata of one successful attempt per task.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from omnigraph.storage.tables.table import FILE_FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance import FragmentMetadata

Mode = Literal["append", "overwrite"]


def write_rows(
    rows: Iterator[pa.RecordBatch],
    table_uri: str,
    storage_options: dict[str, str] | None,
    schema: pa.Schema,
    rows_per_file: int,
    mode: Mode,
) -> list[FragmentMetadata]:
    """Write a stream of stored rows as fragments; an empty stream writes none."""
    first = next(rows, None)
    if first is None:
        return []
    # Imported in the task: the process that workers are forked from must not have loaded it.
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
    """The partition number of the running Spark task; 0 outside of one."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())
