"""A `TaskRunner` on Spark: one Spark task per item, Arrow batches as results, typed errors raised on the driver.

Spark schedules and retries the work. Rows are read and written by Python workers and do not pass through the JVM.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from pyspark.errors import PySparkException

from omnigraph import errors
from omnigraph.errors.root import pack_error, unpack_error
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
if TYPE_CHECKING:
    Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

# The error line in the traceback that a Python worker sends when a task fails.
_RAISED = re.compile(r"^omnigraph\.errors(?:\.\w+)*\.(\w+): (.*)$", re.MULTILINE)
# The line after it, which has all fields of the error.
_PACKED = "omnigraph error: "
_FIELDS = re.compile(rf"^{_PACKED}(.*)$", re.MULTILINE)
_LONGEST_ERROR = 1 << 20

# Prefix of OmniGraph's settings of a session.
_PREFIX = "spark.omnigraph."
SHARED_DIRECTORY = "sharedDirectory"


@dataclass(frozen=True)
class SparkBatches:
    """A lazy frame of task results; `collect` runs the job."""

    frame: DataFrame

    def collect(self) -> pa.Table:
        """Run the job and return its rows."""
        with errors_of_tasks():
            return self.frame.toArrow()


@dataclass(frozen=True)
class SparkRunner:
    """A `TaskRunner` that runs tasks on a Spark session, classic or Connect."""

    session: SparkSession
    engine: Literal["local", "spark"] = "spark"

    @property
    def cores(self) -> int:
        """The session's default parallelism; over Connect, estimated from its number of shuffle partitions."""
        context = self._context
        if context is not None:
            return max(1, int(context.defaultParallelism))
        return max(1, int(self.session.conf.get("spark.sql.shuffle.partitions", "8") or 8) // 4)

    def map(
        self, items: Sequence[Item], work: Callable[[Item], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> SparkBatches:
        """Run `work` for each item in a Spark task of its own."""
        return SparkBatches(one_task_each(self.session, items, work, schema))

    def map_frame(
        self, frame: object, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> SparkBatches:
        """Run `work` on each partition of a Spark frame."""
        return SparkBatches(cast("DataFrame", frame).mapInArrow(telling_errors(work), spark_schema(schema)))

    def exchange(
        self,
        batches: Batches,
        partitions: int,
        reduce: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> SparkBatches:
        """Shuffle batches by the column `PARTITION`, then run `reduce` on each partition."""
        frame = cast("SparkBatches", batches).frame.repartitionById(partitions, PARTITION)
        return SparkBatches(frame.mapInArrow(telling_errors(reduce), spark_schema(schema)))

    def setting(self, name: str) -> str | None:
        """The session's setting `spark.omnigraph.<name>`."""
        return self.session.conf.get(_PREFIX + name, None)

    @contextmanager
    def shared_directory(self) -> Iterator[str | None]:
        """A temporary directory visible to all tasks; None on a cluster without a configured shared directory."""
        parent = self._shared_parent()
        if not parent:
            yield None
            return
        # A task whose result is no longer awaited may still write during the clean-up.
        with tempfile.TemporaryDirectory(prefix="omnigraph-load-", dir=parent, ignore_cleanup_errors=True) as directory:
            yield directory

    def progress(self, label: str, world: World) -> AbstractContextManager[None]:
        """Show a progress bar on the terminal."""
        return progress_bar(self.session, label, world=world)

    @property
    def _context(self) -> SparkContext | None:
        return getattr(self.session, "_sc", None)

    def _shared_parent(self) -> str | None:
        """The configured shared directory, else the temporary directory if all tasks run on this machine."""
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
    """A frame of the batches that `work` yields, with one task per item. Spark retries failed tasks.

    Items and `work` are pickled. Batches must have `schema`; the frame has the corresponding Spark types.
    """

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_numpy():
                for rows in work(items[int(number)]):
                    yield to_spark(rows, schema)

    partitions = max(1, len(items))
    return session.range(0, len(items), 1, partitions).mapInArrow(telling_errors(task), spark_schema(schema))


def telling_errors(task: Task) -> Task:
    """The same task; an `OmniGraphError` that it raises takes its fields along, as a line of its traceback."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from task(batches)
        except errors.OmniGraphError as error:
            packed = pack_error(error)
            if len(packed) <= _LONGEST_ERROR:
                error.add_note(f"{_PACKED}{packed}")
            raise

    return run


@contextmanager
def errors_of_tasks() -> Iterator[None]:
    """Raise the `OmniGraphError` of a failed task instead of the exception in which Spark wraps it."""
    try:
        yield
    except PySparkException as failure:
        message = str(failure)
        packed = [unpack_error(each) for each in _FIELDS.findall(message)]
        if packed and packed[-1] is not None:
            raise packed[-1] from failure
        found = _RAISED.findall(message)
        kind = getattr(errors, found[-1][0], None) if found else None
        if kind is None or not issubclass(kind, errors.OmniGraphError):
            raise
        error = kind.__new__(kind)
        errors.OmniGraphError.__init__(error, found[-1][1])
        raise error from failure
