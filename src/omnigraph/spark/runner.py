"""Runs tasks on Spark: one Spark task per item, Arrow batches out, typed errors back.

Spark places and retries the work; rows do not pass through Java.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from pyspark.errors import PySparkException

from omnigraph import errors
from omnigraph.spark.runtime.progress import progress_bar
from omnigraph.spark.types import spark_schema, to_spark
from omnigraph.tasks.runner import PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.tasks.runner import Batches
    from omnigraph.world import World

Item = TypeVar("Item")

# The last lines of the traceback that a Python worker sends when a task fails.
_RAISED = re.compile(r"^omnigraph\.errors(?:\.\w+)*\.(\w+): (.*)$", re.MULTILINE)


# Settings of a session are named `spark.omnigraph.…`.
_PREFIX = "spark.omnigraph."
SHARED_DIRECTORY = "sharedDirectory"


@dataclass(frozen=True)
class SparkBatches:
    """A frame that tasks compute when it is collected."""

    frame: DataFrame

    def collect(self) -> pa.Table:
        """Run the job."""
        with errors_of_tasks():
            return self.frame.toArrow()


@dataclass(frozen=True)
class SparkRunner:
    """A `TaskRunner` whose tasks are those of a Spark session, on a driver or over Connect."""

    session: SparkSession

    @property
    def cores(self) -> int:
        """The parallelism of the session; over Connect, what its shuffle partitions suggest."""
        context = self._context
        if context is not None:
            return max(1, int(context.defaultParallelism))
        return max(1, int(self.session.conf.get("spark.sql.shuffle.partitions", "8") or 8) // 4)

    def map(
        self, items: Sequence[Item], work: Callable[[Item], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> SparkBatches:
        """What `work` yields for the items, each in a Spark task of its own."""
        return SparkBatches(one_task_each(self.session, items, work, schema))

    def map_frame(
        self, frame: object, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> SparkBatches:
        """What `work` yields for the partitions of a data frame."""
        return SparkBatches(cast("DataFrame", frame).mapInArrow(work, spark_schema(schema)))

    def exchange(
        self,
        batches: Batches,
        partitions: int,
        reduce: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> SparkBatches:
        """A shuffle by the column `PARTITION`, then `reduce` in the task of each partition."""
        frame = cast("SparkBatches", batches).frame.repartitionById(partitions, PARTITION)
        return SparkBatches(frame.mapInArrow(reduce, spark_schema(schema)))

    def setting(self, name: str) -> str | None:
        """`spark.omnigraph.<name>` of the session."""
        return self.session.conf.get(_PREFIX + name, None)

    @contextmanager
    def shared_directory(self) -> Iterator[str | None]:
        """A new directory that all tasks see, deleted afterwards; None on clusters that have no such place set."""
        parent = self._shared_parent()
        if not parent:
            yield None
            return
        # A task that nobody waits for any more may still write.
        with tempfile.TemporaryDirectory(prefix="omnigraph-load-", dir=parent, ignore_cleanup_errors=True) as directory:
            yield directory

    def progress(self, label: str, world: World) -> AbstractContextManager[None]:
        """A bar on the terminal."""
        return progress_bar(self.session, label, world=world)

    @property
    def _context(self) -> SparkContext | None:
        return getattr(self.session, "_sc", None)

    def _shared_parent(self) -> str | None:
        """The directory of the setting; without one the temporary directory, if all tasks run on this machine."""
        given = self.setting(SHARED_DIRECTORY)
        if given is not None:
            return given
        context = self._context
        master = "" if context is None else str(context.master)
        if context is None or not master.startswith("local") or master.startswith("local-cluster"):
            return None
        local = str(context.getConf().get("spark.local.dir", "")).partition(",")[0]
        return local or tempfile.gettempdir()


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
