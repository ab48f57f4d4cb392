"""`TaskRunner` is the interface that runs partitioned work; `Sizes` bounds one task; `Engine` is who runs a call.

A `TaskRunner` runs functions over items, exchanges the batches that they yield by partition, and returns Arrow. Loads
and merges of any size are written against it; `tasks/local_runner.py` runs them in this process and `spark/runner.py`
on Spark.

Memory use depends on the sizes below, not on the input. They are settings of the runner, on Spark of the session:
`spark.omnigraph.splitBytes`, `rowsPerFile`, `bufferBytes`, `numbersPerPart`, `smallLoad`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import pyarrow as pa

from omnigraph.errors import SparkUnavailable
from omnigraph.errors.inputs import require_choice
from omnigraph.storage.tables.table import ROWS_PER_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from omnigraph.world import World

# The Arrow types that tasks and driver exchange, annotated with their common base type, which a schema expects.
INT: pa.DataType = pa.int32()
LONG: pa.DataType = pa.int64()
TEXT: pa.DataType = pa.string()
BYTES: pa.DataType = pa.binary()


Item = TypeVar("Item")
# The column of a batch that holds the partition number of each row.
PARTITION = "part"
SPLIT_BYTES = 32 << 20
# The target number of rows per task, and the number below which a second task does not pay.
ROWS_PER_TASK = 1_000_000
FEW_ROWS = 100_000


ENGINES = ("auto", "local", "spark")
# Where the caller gets something else from Spark, nothing is chosen for them.
CHOSEN = ENGINES[1:]
Engine = Literal["auto", "local", "spark"]


def require_engine(engine: str, choices: tuple[str, ...] = ENGINES) -> None:
    """Raise `InvalidInput` for an engine that there is not."""
    require_choice("engine", engine, choices)


def require_spark(what: str) -> None:
    """Raise `SparkUnavailable` when pyspark is not installed. `what` begins the message."""
    if find_spec("pyspark") is None:
        raise SparkUnavailable(f"{what} runs on Spark, which is not installed: pip install 'omnigraph[spark]'.")


class Batches(Protocol):
    """Arrow batches that tasks yield. Evaluated lazily: nothing runs before they are collected."""

    def collect(self) -> pa.Table:
        """Run the tasks and return all batches. An `OmniGraphError` raised in a task is raised unchanged."""


class TaskRunner(Protocol):
    """Runs partitioned work. Items and functions are pickled where tasks run in other processes."""

    @property
    def cores(self) -> int:
        """How many tasks run at once."""

    @property
    def engine(self) -> Literal["local", "spark"]:
        """The engine that runs the tasks."""

    def map(
        self, items: Sequence[Item], work: Callable[[Item], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Batches:
        """Run `work` on each item, in a task of its own, which is retried when it fails."""

    def map_frame(
        self, frame: object, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> Batches:
        """Run `work` on each partition of a frame of the runner's own engine."""

    def exchange(
        self,
        batches: Batches,
        partitions: int,
        reduce: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> Batches:
        """Bring the batches of a partition together by their column `PARTITION`, and run `reduce` on each partition."""

    def setting(self, name: str) -> str | None:
        """The value of a setting of the runner; None when it is not set."""

    def shared_directory(self) -> AbstractContextManager[str | None]:
        """A new directory that all tasks share, deleted at the end; None if there is none."""

    def progress(self, label: str, world: World) -> AbstractContextManager[None]:
        """Show the progress of the tasks in the block, if there is somewhere to show it."""


def pack(rows: pa.Table) -> bytes:
    """Rows with their schema, as an Arrow IPC stream: one binary value that tasks exchange."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def unpack(body: bytes | pa.Buffer) -> pa.Table:
    """The rows of an Arrow IPC stream."""
    return pa.ipc.open_stream(body).read_all()


def grouped(items: Iterable[Item], size: Callable[[Item], int], most: int) -> list[list[Item]]:
    """Group neighbouring items up to a total size of `most`; a larger item is a group of its own."""
    groups: list[list[Item]] = []
    held = most + 1
    for item in items:
        if held + size(item) > most:
            groups.append([])
            held = 0
        groups[-1].append(item)
        held += size(item)
    return groups


def grouped_rows(runner: TaskRunner, items: Sequence[Item], rows: Callable[[Item], int]) -> list[list[Item]]:
    """Group items by rows so that all cores are busy without too many groups."""
    total = sum(rows(each) for each in items)
    share = -(-total // runner.cores)
    return grouped(items, rows, min(ROWS_PER_TASK, max(share, FEW_ROWS)))


@dataclass(frozen=True)
class Sizes:
    """A task reads `split_bytes` of text, writes files of `rows_per_file`, and buffers `buffer_bytes` of one type.

    A partition of the exchange has `hashes_per_partition` hashes of 8 bytes, of which several copies are in memory.
    For a load of at most `small_load` rows, every task and the driver hold all hashes, and the rows that they match.
    """

    split_bytes: int = SPLIT_BYTES
    rows_per_file: int = ROWS_PER_FILE
    buffer_bytes: int = 64 << 20
    hashes_per_partition: int = 2_000_000
    small_load: int = 1_000_000


def sizes_of(runner: TaskRunner) -> Sizes:
    """The sizes from the settings of a runner."""
    plain = Sizes()
    return Sizes(
        split_bytes=_setting(runner, "splitBytes", plain.split_bytes),
        rows_per_file=_setting(runner, "rowsPerFile", plain.rows_per_file),
        buffer_bytes=_setting(runner, "bufferBytes", plain.buffer_bytes),
        hashes_per_partition=_setting(runner, "numbersPerPart", plain.hashes_per_partition),
        small_load=_setting(runner, "smallLoad", plain.small_load),
    )


def _setting(runner: TaskRunner, name: str, otherwise: int) -> int:
    return int(runner.setting(name) or otherwise)


def task_number() -> int:
    """The partition number of the running Spark task; 0 outside of one."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())
