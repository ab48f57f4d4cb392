"""Who runs partitioned work, and how large one task is.

A `TaskRunner` runs functions over items, brings the batches that they yield together by partition, and returns Arrow.
Loads and merges of any size are written against it; `tasks/local_runner.py` runs them in this process and
`spark/runner.py` on Spark.

Memory follows the sizes below, not the input. They are settings of the runner, on Spark of the session:
`spark.omnigraph.splitBytes`, `rowsPerFile`, `bufferBytes`, `numbersPerPart`, `smallLoad`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from omnigraph.storage.tables.table import ROWS_PER_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from omnigraph.world import World

# The Arrow types of what tasks and driver exchange, named with their common type, as a schema wants them.
INT: pa.DataType = pa.int32()
LONG: pa.DataType = pa.int64()
TEXT: pa.DataType = pa.string()
BYTES: pa.DataType = pa.binary()


Item = TypeVar("Item")
# The column of a batch that says which partition its rows go to.
PARTITION = "part"
SPLIT_BYTES = 32 << 20
# Rows that one task should have to do with, and rows that are not worth a second task.
ROWS_PER_TASK = 1_000_000
FEW_ROWS = 100_000


class Batches(Protocol):
    """Arrow batches that tasks yield. Nothing runs before they are collected."""

    def collect(self) -> pa.Table:
        """Run the tasks and return all that they yield. An `OmniGraphError` of a task is raised as it was."""


class TaskRunner(Protocol):
    """Runs partitioned work. Items and functions are pickled where tasks run in other processes."""

    @property
    def cores(self) -> int:
        """How many tasks run at once."""

    def map(
        self, items: Sequence[Item], work: Callable[[Item], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Batches:
        """What `work` yields for the items, each item in a task of its own, which is run again when it fails."""

    def map_frame(
        self, frame: object, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> Batches:
        """What `work` yields for each partition of a frame of the runner's own engine."""

    def exchange(
        self,
        batches: Batches,
        partitions: int,
        reduce: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> Batches:
        """What `reduce` yields for each partition, given all batches whose column `PARTITION` names it."""

    def setting(self, name: str) -> str | None:
        """A setting that the runner was configured with; None when it has none of the name."""

    def shared_directory(self) -> AbstractContextManager[str | None]:
        """A new directory that all tasks see, deleted at the end; None where there is no such place."""

    def progress(self, label: str, world: World) -> AbstractContextManager[None]:
        """Show how far the tasks of the block are, where somebody can see it."""


def grouped(items: Iterable[Item], size: Callable[[Item], int], most: int) -> list[list[Item]]:
    """Neighbours together, up to `most` in a group; a larger item is a group of its own."""
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
    """Groups that keep all cores busy without being too many."""
    total = sum(rows(each) for each in items)
    share = -(-total // runner.cores)
    return grouped(items, rows, min(ROWS_PER_TASK, max(share, FEW_ROWS)))


@dataclass(frozen=True)
class Sizes:
    """A task reads `split_bytes` of text, writes files of `rows_per_file`, and holds `buffer_bytes` of one type.

    A part of the shuffle has `numbers_per_part` numbers of 8 bytes, which are in memory several times over. Of a load
    of at most `small_load` rows the numbers, and the rows that they find, are in every task and in the driver.
    """

    split_bytes: int = SPLIT_BYTES
    rows_per_file: int = ROWS_PER_FILE
    buffer_bytes: int = 64 << 20
    numbers_per_part: int = 2_000_000
    small_load: int = 1_000_000


def sizes_of(runner: TaskRunner) -> Sizes:
    """The sizes that a runner is configured with."""
    plain = Sizes()
    return Sizes(
        split_bytes=_setting(runner, "splitBytes", plain.split_bytes),
        rows_per_file=_setting(runner, "rowsPerFile", plain.rows_per_file),
        buffer_bytes=_setting(runner, "bufferBytes", plain.buffer_bytes),
        numbers_per_part=_setting(runner, "numbersPerPart", plain.numbers_per_part),
        small_load=_setting(runner, "smallLoad", plain.small_load),
    )


def _setting(runner: TaskRunner, name: str, otherwise: int) -> int:
    return int(runner.setting(name) or otherwise)
