"""Python functions as Spark tasks: one task per item, Arrow batches out, typed errors back.

This is how a pipeline uses Spark for what it is best at, placing and retrying work, without sending rows through Java.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from pyspark.errors import PySparkException

from omnigraph import errors
from omnigraph.spark.types import spark_schema, to_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Item = TypeVar("Item")

# The last lines of the traceback that a Python worker sends when a task fails.
_RAISED = re.compile(r"^omnigraph\.errors(?:\.\w+)*\.(\w+): (.*)$", re.MULTILINE)


def one_task_each(
    session: SparkSession,
    items: Sequence[Item],
    work: Callable[[Item], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """The batches that `work` yields for the items, each item in a task of its own, retried when it fails.

    Items and `work` travel to the executors by pickle. Batches must have `schema`; the frame has its Spark types.
    """

    def task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_numpy():
                for rows in work(items[int(number)]):
                    yield to_spark(rows, schema)

    partitions = max(1, len(items))
    return session.range(0, len(items), 1, partitions).mapInArrow(task, spark_schema(schema))


@contextmanager
def errors_of_tasks() -> Iterator[None]:
    """Raise the `OmniGraphError` that a task failed with, instead of Spark's account of the failure."""
    try:
        yield
    except PySparkException as failure:
        found = _RAISED.findall(str(failure))
        kind = getattr(errors, found[-1][0], None) if found else None
        if kind is None or not issubclass(kind, errors.OmniGraphError):
            raise
        error = kind.__new__(kind)
        errors.OmniGraphError.__init__(error, found[-1][1])
        raise error from failure
