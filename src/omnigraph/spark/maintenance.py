"""Index builds on Spark: each task builds a part of an index over some fragments of a table, and the driver joins them.

Nothing is visible until the driver lands the joined index; parts that nobody names are removed by a cleanup.

Compaction on Spark: each task of the plan rewrites some fragments of a table in an executor.

Nothing is visible until the driver lands what the tasks have written; a task that fails or runs twice leaves files that
no version names, which a cleanup removes.
"""

from __future__ import annotations

import base64
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.spark.runner import errors_of_tasks, one_task_each
from omnigraph.spark.runtime.session import spark_session
from omnigraph.storage.tables.indexes import joined, part_of_index, training_of

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
    """Carries out the tasks of a compaction on Spark; without a session, on the one that `spark_session` finds."""

    def execute(table: Table, tasks: Sequence[CompactionTask]) -> list[RewriteResult]:
        from lance.optimize import RewriteResult

        work = _CompactionWork(table.dataset.uri, table.version, table.dataset.initial_storage_options)
        items = [(number, task.json()) for number, task in enumerate(tasks)]
        with errors_of_tasks():
            written: Any = one_task_each(session or spark_session(), items, work, WRITTEN).toArrow()
        rows = sorted(written.to_pylist(), key=lambda each: each["task"])
        return [RewriteResult.from_json(each["result"]) for each in rows]

    return execute


class _CompactionWork:
    """One task, by its number and its text. Travels to the executors by pickle."""

    def __init__(self, uri: str, version: int, storage_options: dict[str, str] | None) -> None:
        self._place = uri, version, storage_options

    def __call__(self, item: tuple[int, str]) -> Iterator[pa.RecordBatch]:
        # Imported in the task: the process that workers are forked from must not have it.
        import lance
        from lance.optimize import CompactionTask

        number, text = item
        uri, version, options = self._place
        dataset = lance.dataset(uri, version=version, storage_options=options)
        result = CompactionTask.from_json(text).execute(dataset)
        yield pa.record_batch([[number], [result.json()]], schema=WRITTEN)


BUILT = pa.schema([("part", _TEXT)])
# Joining many parts costs the driver more than they save the executors.
MOST_PARTS = 16


def build_on_spark(session: SparkSession | None = None) -> Build:
    """Builds indexes on Spark; without a session, on the one that `spark_session` finds."""

    def build(table: Table, spec: IndexSpec, fragments: Sequence[int]) -> lance.Index:
        training = training_of(table, spec, shared=True)
        if len(fragments) < 2 or (training is not None and training.partitions == 1):
            return joined(table, spec, [part_of_index(table.dataset, spec, fragments, training)])
        work = _IndexWork(table, spec, training)
        with errors_of_tasks():
            built: Any = one_task_each(session or spark_session(), _groups(fragments), work, BUILT).toArrow()
        return joined(table, spec, [_decoded(each) for each in built.column("part").to_pylist()])

    return build


def _groups(fragments: Sequence[int]) -> list[list[int]]:
    """The fragments in groups of about one size."""
    return [group for number in range(MOST_PARTS) if (group := list(fragments[number::MOST_PARTS]))]


class _IndexWork:
    """A part of an index over some fragments. Travels to the executors by pickle."""

    def __init__(self, table: Table, spec: IndexSpec, training: VectorTraining | None) -> None:
        self._place = table.dataset.uri, table.version, table.dataset.initial_storage_options
        self._what = spec, training

    def __call__(self, fragments: list[int]) -> Iterator[pa.RecordBatch]:
        # Imported in the task: the process that workers are forked from must not have it.
        import lance

        uri, version, options = self._place
        spec, training = self._what
        part = part_of_index(lance.dataset(uri, version=version, storage_options=options), spec, fragments, training)
        yield pa.record_batch([[base64.b64encode(pickle.dumps(part)).decode()]], schema=BUILT)


def _decoded(text: str) -> lance.Index:
    # What the tasks of this very job have answered.
    return pickle.loads(base64.b64decode(text))  # noqa: S301
