"""`df.write.format("omnigraph")` and `writeStream`: rows of one type into the graph, as one commit a write or batch.

Tasks put their rows into files beside the graph; nothing else happens in them. At the end Spark calls the driver's side
of the writer, in a process of its own, which loads the files as one commit and removes them. That process has no Spark,
so the rows must fit into its memory: `graph.load({...: frame})` has no such limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from omnigraph.errors import ResourceLimitExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.spark.graph_door import GraphDoor
    from omnigraph.write.load.load import Mode

# What the process that commits agrees to hold.
MOST_BYTES = 1 << 30
_FOLDER = "__spark_writes"


@dataclass(frozen=True)
class Target:
    """Where rows go. `key` makes the commit happen once, however often Spark asks for it; `staging` names the folder
    that the rows wait in.
    """

    door: GraphDoor
    type_name: str
    mode: Mode
    branch: str
    actor: str | None
    key: str
    staging: str

    def put(self, rows: pa.Table, name: str) -> StagedRows:
        """Keep the rows of a task in a file."""
        held = pa.BufferOutputStream()
        with pa.ipc.new_file(held, rows.schema) as writer:
            writer.write_table(rows)
        data = held.getvalue().to_pybytes()
        path = f"{self._folder}/{name}.arrow"
        self.door.objects().write(path, data)
        return StagedRows(path, rows.num_rows, len(data))

    def load(self, staged: Sequence[StagedRows], key: str) -> None:
        """All the rows as one commit."""
        from omnigraph.write.commit import Operation, commit
        from omnigraph.write.load.load import read_load
        from omnigraph.write.load.operation import Load

        _refuse_too_much(staged)
        manifest, catalog = self.door.manifest(), self.door.catalog(self.branch)
        pieces = [self.door.objects().read(each.path) for each in sorted(staged, key=lambda each: each.path)]
        tables = [pa.ipc.open_file(pa.py_buffer(each)).read_all() for each in pieces]
        rows: Any = pa.concat_tables(tables) if tables else []
        load = Load(catalog, read_load(catalog, {self.type_name: rows}, manifest.world), self.mode, manifest.world)
        operation = Operation(
            "Load",
            load.prepare,
            branch=self.branch,
            actor=self.actor,
            repeatable=load.is_repeatable,
            idempotency_key=key,
        )
        commit(manifest, operation)

    def drop(self) -> None:
        """Remove the files, those of lost attempts included."""
        self.door.objects().delete_prefix(self._folder)

    @property
    def _folder(self) -> str:
        return f"{_FOLDER}/{self.staging}"


@dataclass
class StagedRows(WriterCommitMessage):
    """A file with the rows of one task."""

    path: str
    rows: int
    size: int


class TypeWriter(DataSourceArrowWriter):
    """A batch write of one type."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:  # type: ignore[override]
        """The body of a task."""
        return _staged(self.target, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """One commit of all tasks' rows."""
        staged = _all_of(messages)
        self.target.load(staged, self.target.key)
        self.target.drop()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Nothing was loaded: only files go."""
        self.target.drop()


class TypeStreamWriter(DataSourceStreamArrowWriter):
    """A stream into one type: each micro-batch is a commit, whose key is the query's and the batch's number."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:  # type: ignore[override]
        """The body of a task."""
        return _staged(self.target, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """One commit of the batch's rows; a batch that was committed before makes none."""
        staged = _all_of(messages)
        self.target.load(staged, f"{self.target.key}:{batchId}")
        self.target.drop()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Nothing was loaded: only files go."""
        self.target.drop()


def _staged(target: Target, batches: Iterator[pa.RecordBatch]) -> StagedRows:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    rows = pa.Table.from_batches(held) if (held := list(batches)) else pa.table({})
    if not rows.num_rows:
        return StagedRows("", 0, 0)
    return target.put(rows, f"{context.partitionId():06}-{context.taskAttemptId()}")


def _all_of(messages: Sequence[WriterCommitMessage | None]) -> list[StagedRows]:
    return [each for each in messages if isinstance(each, StagedRows) and each.path]


def _refuse_too_much(staged: Sequence[StagedRows]) -> None:
    size = sum(each.size for each in staged)
    if size > MOST_BYTES:
        raise ResourceLimitExceeded(
            f"format('omnigraph') writes up to {MOST_BYTES >> 20} MiB at once, and this is {size >> 20} MiB: load the "
            "frame with graph.load({'TypeName': frame}), which has no limit.",
            resource="bytes of a write",
            limit=MOST_BYTES,
            actual=size,
        )
