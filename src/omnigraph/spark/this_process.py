"""The tasks of a load in this process, one after another, where there is no session: at the end of a data source write.

Spark calls that end in a Python process of its own. What a load asks of a session there is little: functions over
batches, batches brought together by their part, and the result as a table. Batches that wait for their part are in a
file, so memory follows one part.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, cast

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    Partitions = Callable[[], Iterator[Iterator[pa.RecordBatch]]]

_NUMBERS = pa.schema([("number", pa.int64())])


def this_process() -> SparkSession:
    """A stand-in for a session, for the functions of `spark.bulk`; it has no settings."""
    return cast("SparkSession", _Session(_NoSettings()))


@dataclass(frozen=True)
class _NoSettings:
    def get(self, name: str, otherwise: str | None = None) -> str | None:
        del name
        return otherwise


@dataclass(frozen=True)
class _Session:
    conf: _NoSettings

    def range(self, start: int, end: int, step: int, partitions: int) -> _Frame:
        """The numbers, each in a partition of its own."""
        del partitions
        numbers = [pa.record_batch([[each]], schema=_NUMBERS) for each in range(start, end, step)]
        return _Frame(lambda: (iter([batch]) for batch in numbers), _NUMBERS)


@dataclass(frozen=True)
class _Frame:
    """Partitions that are made one after another, when they are asked for."""

    partitions: Partitions
    schema: pa.Schema

    def mapInArrow(self, task: Task, schema: StructType) -> _Frame:  # noqa: N802 - Spark's name
        """Each partition through a function."""
        return _Frame(lambda: (task(each) for each in self.partitions()), to_arrow_schema(schema, timezone="UTC"))

    def repartitionById(self, count: int, column: str) -> _Frame:  # noqa: N802 - Spark's name
        """Rows brought together by the number that a column has."""
        return _Frame(lambda: _by_number(self, count, column), self.schema)

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        """Everything."""
        return pa.Table.from_batches([batch for each in self.partitions() for batch in each], self.schema)


def _by_number(frame: _Frame, count: int, column: str) -> Iterator[Iterator[pa.RecordBatch]]:
    with _waiting() as waiting:
        for partition in frame.partitions():
            for batch in partition:
                for row, number in enumerate(batch.column(column).to_pylist()):
                    waiting.put(int(number or 0), batch.slice(row, 1))
        for number in range(count):
            yield waiting.take(number)


@dataclass(frozen=True)
class _Waiting:
    """Batches in one file, and where those of a number are."""

    file: IO[bytes]
    places: dict[int, list[tuple[int, int]]]

    def put(self, number: int, batch: pa.RecordBatch) -> None:
        start = self.file.tell()
        held = pa.BufferOutputStream()
        with pa.ipc.new_stream(held, batch.schema) as writer:
            writer.write_batch(batch)
        self.file.write(held.getvalue())
        self.places.setdefault(number, []).append((start, self.file.tell() - start))

    def take(self, number: int) -> Iterator[pa.RecordBatch]:
        for start, size in self.places.pop(number, []):
            self.file.seek(start)
            yield from pa.ipc.open_stream(pa.py_buffer(self.file.read(size)))


@contextmanager
def _waiting() -> Iterator[_Waiting]:
    with tempfile.TemporaryFile() as file:
        yield _Waiting(file, {})
