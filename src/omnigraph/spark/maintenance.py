"""Compaction and index builds on Spark.

For a compaction, each task rewrites some fragments of a table in an executor. For an index, each task builds a partial
index over some fragments and the driver merges them. Nothing is visible until the driver commits the result. A task
that fails or runs twice leaves files that no version references, which a cleanup removes.
"""

from __future__ import annotations

import base64
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.spark.runner import errors_of_tasks, one_task_each
from omnigraph.spark.runtime.session import spark_session
from omnigraph.storage.tables.compaction import execute_text, result_of_text
from omnigraph.storage.tables.indexes import joined, partial_segment, training_of
from omnigraph.storage.tables.table import open_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import lance
    from lance.optimize import CompactionTask, RewriteResult
    from pyspark.sql import SparkSession

    from omnigraph.storage.tables.compaction import Execute
    from omnigraph.storage.tables.indexes import Build, IndexSpec, VectorTraining
    from omnigraph.storage.tables.table import Table

_NUMBER: pa.DataType = pa.int32()
_TEXT: pa.DataType = pa.string()
WRITTEN = pa.schema([("task", _NUMBER), ("result", _TEXT)])


def execute_on_spark(session: SparkSession | None = None) -> Execute:
    """An executor of compaction tasks on Spark; without a session, on the one that `spark_session` returns."""

    def execute(table: Table, tasks: Sequence[CompactionTask]) -> list[RewriteResult]:
        work = _CompactionWork(table)
        items = [(number, task.json()) for number, task in enumerate(tasks)]
        with errors_of_tasks():
            written: Any = one_task_each(session or spark_session(), items, work, WRITTEN).toArrow()
        rows = sorted(written.to_pylist(), key=lambda each: each["task"])
        return [result_of_text(each["result"]) for each in rows]

    return execute


class _CompactionWork:
    """Runs one compaction task, given its number and JSON form. Pickled to the executors."""

    def __init__(self, table: Table) -> None:
        self._location = table.uri, table.version, table.storage_options

    def __call__(self, item: tuple[int, str]) -> Iterator[pa.RecordBatch]:
        number, text = item
        uri, version, options = self._location
        result = execute_text(open_dataset(uri, version=version, storage_options=options), text)
        yield pa.record_batch([[number], [result]], schema=WRITTEN)


BUILT = pa.schema([("part", _TEXT)])
# Beyond this, merging partial indexes on the driver costs more than the executors save.
MOST_SEGMENTS = 16


def build_on_spark(session: SparkSession | None = None) -> Build:
    """An index builder on Spark; without a session, on the one that `spark_session` returns."""

    def build(table: Table, spec: IndexSpec, fragments: Sequence[int]) -> lance.Index:
        training = training_of(table, spec, shared=True)
        if len(fragments) < 2 or (training is not None and training.partitions == 1):
            return joined(table, spec, [partial_segment(table, spec, fragments, training)])
        work = _IndexWork(table, spec, training)
        with errors_of_tasks():
            built: Any = one_task_each(session or spark_session(), _groups(fragments), work, BUILT).toArrow()
        return joined(table, spec, [_decoded(each) for each in built.column("part").to_pylist()])

    return build


def _groups(fragments: Sequence[int]) -> list[list[int]]:
    """Distribute the fragments over at most `MOST_SEGMENTS` groups."""
    return [group for number in range(MOST_SEGMENTS) if (group := list(fragments[number::MOST_SEGMENTS]))]


class _IndexWork:
    """Builds a partial index over some fragments. Pickled to the executors."""

    def __init__(self, table: Table, spec: IndexSpec, training: VectorTraining | None) -> None:
        self._location = table.uri, table.version, table.storage_options
        self._what = spec, training

    def __call__(self, fragments: list[int]) -> Iterator[pa.RecordBatch]:
        uri, version, options = self._location
        spec, training = self._what
        table = open_dataset(uri, version=version, storage_options=options)
        segment = partial_segment(table, spec, fragments, training)
        yield pa.record_batch([[base64.b64encode(pickle.dumps(segment)).decode()]], schema=BUILT)


def _decoded(text: str) -> lance.Index:
    # Safe to unpickle: the text comes from the tasks of this job.
    return pickle.loads(base64.b64decode(text))  # noqa: S301
