"""`LocalRunner` runs tasks in this process, one after another.

The commit of a data source write runs in a Python process without a Spark session, and needs no engine of its own.
Batches that wait for their partition are spilled to a file, so memory is bounded by one partition.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Literal, TypeVar, cast

import pyarrow as pa

from omnigraph.tasks.runner import PARTITION, grouped, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from omnigraph.tasks.runner import Batches
    from omnigraph.world import World

    Partitions = Callable[[], Iterator[Iterator[pa.RecordBatch]]]

Item = TypeVar("Item")


@dataclass(frozen=True)
class LocalRunner:
    """A `TaskRunner` without settings, whose tasks run in item order.

    With `group_bytes`, neighbouring partitions of an exchange are reduced together, up to this many bytes.
    """

    cores: int = 1
    group_bytes: int | None = None
    engine: Literal["local", "spark"] = "local"

    def map(
        self, items: Sequence[Item], work: Callable[[Item], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> LocalBatches:
        """Run `work` on each item."""
        return LocalBatches(lambda: (iter(work(item)) for item in items), schema)

    def map_frame(
        self, frame: object, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> LocalBatches:
        """Run `work` on the batches of an Arrow table."""
        table = cast("pa.Table", frame)
        return LocalBatches(lambda: iter([work(iter(table.to_batches()))]), schema)

    def exchange(
        self,
        batches: Batches,
        partitions: int,
        reduce: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> LocalBatches:
        """Run `reduce` on each partition, or on each group of partitions."""
        sent = cast("LocalBatches", batches)
        return LocalBatches(lambda: (reduce(each) for each in self._exchanged(sent, partitions)), schema)

    def _exchanged(self, sent: LocalBatches, count: int) -> Iterator[Iterator[pa.RecordBatch]]:
        with _spill() as spill:
            for batch in sent.stream():
                spill.put(batch)
            alone = [[partition] for partition in range(count)]
            groups = alone if self.group_bytes is None else grouped(range(count), spill.size, self.group_bytes)
            for partitions in groups:
                yield spill.take(partitions)

    def setting(self, name: str) -> str | None:
        """Always None: there are no settings."""
        del name
        return None

    def shared_directory(self) -> AbstractContextManager[str | None]:
        """A temporary directory."""
        return tempfile.TemporaryDirectory(prefix="omnigraph-load-")

    def progress(self, label: str, world: World) -> AbstractContextManager[None]:
        """Show nothing."""
        del label, world
        return nullcontext()


@dataclass(frozen=True)
class LocalBatches:
    """Partitions that are computed one after another, when they are collected."""

    partitions: Partitions
    schema: pa.Schema

    def collect(self) -> pa.Table:
        """Run the tasks and return all batches."""
        return pa.Table.from_batches(list(self.stream()), self.schema)

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Run the tasks and yield their batches, one after another."""
        for partition in self.partitions():
            yield from partition


@dataclass(frozen=True)
class _Spill:
    """Batches in one file, and the byte ranges of each partition."""

    file: IO[bytes]
    ranges: dict[int, list[tuple[int, int]]]

    def put(self, batch: pa.RecordBatch) -> None:
        for row, partition in enumerate(batch.column(PARTITION).to_pylist()):
            start = self.file.tell()
            self.file.write(pack(pa.Table.from_batches([batch.slice(row, 1)])))
            self.ranges.setdefault(int(partition or 0), []).append((start, self.file.tell() - start))

    def size(self, partition: int) -> int:
        return sum(size for _, size in self.ranges.get(partition, ()))

    def take(self, group: Iterable[int]) -> Iterator[pa.RecordBatch]:
        for start, size in (each for partition in group for each in self.ranges.pop(partition, [])):
            self.file.seek(start)
            yield from unpack(self.file.read(size)).to_batches()


@contextmanager
def _spill() -> Iterator[_Spill]:
    with tempfile.TemporaryFile() as file:
        yield _Spill(file, {})
