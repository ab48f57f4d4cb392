"""Compaction on Spark: each task of the plan rewrites some pieces of a table in an executor.

Nothing is visible until the driver lands what the tasks have written; a task that fails or runs twice leaves files that
no version names, which a cleanup removes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.spark.session import spark_session
from omnigraph.spark.tasks import errors_of_tasks, one_task_each

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance.optimize import CompactionTask, RewriteResult
    from pyspark.sql import SparkSession

    from omnigraph.store.compaction import Execute
    from omnigraph.store.tables import Table

_NUMBER: pa.DataType = pa.int32()
_TEXT: pa.DataType = pa.string()
WRITTEN = pa.schema([("task", _NUMBER), ("result", _TEXT)])


def execute_on_spark(session: SparkSession | None = None) -> Execute:
    """Carries out the tasks of a compaction on Spark; without a session, on the one that `spark_session` finds."""

    def execute(table: Table, tasks: Sequence[CompactionTask]) -> list[RewriteResult]:
        from lance.optimize import RewriteResult

        work = _Work(table.dataset.uri, table.version, table.dataset.initial_storage_options)
        items = [(number, task.json()) for number, task in enumerate(tasks)]
        with errors_of_tasks():
            written: Any = one_task_each(session or spark_session(), items, work, WRITTEN).toArrow()
        rows = sorted(written.to_pylist(), key=lambda each: each["task"])
        return [RewriteResult.from_json(each["result"]) for each in rows]

    return execute


class _Work:
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
