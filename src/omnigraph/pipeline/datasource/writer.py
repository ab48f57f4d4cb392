"""`df.write.format("omnigraph")` and `writeStream`: rows of one type into the graph, as one commit a write or batch.

Executors cast and check rows and write them as fragments beside the type's table, as every load on Spark does. At the
end Spark calls the driver's side of the writer, in a process of its own, with what the tasks have told. There the rows
are compared with each other and with the graph, by narrow columns read back, in bounded memory, and committed as one.
A write that fails or dies leaves files that no version names, until cleanup.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from omnigraph.catalog.rules import type_of
from omnigraph.errors import InvalidInput, SchemaChanged
from omnigraph.load.bulk.operation import BulkLoad
from omnigraph.load.bulk.read import InputRead, frame_units, targets_of, write_frame
from omnigraph.load.bulk.units import store_settings
from omnigraph.load.bulk.write import WriteJob
from omnigraph.load.plan import Input, LoadPlan, named_type
from omnigraph.load.tabular import read_arrow
from omnigraph.tasks.local_runner import LocalRunner
from omnigraph.tasks.runner import Sizes
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.schemas import Schemas
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.pipeline.datasource.graph_reference import GraphReference
    from omnigraph.values.batches import GraphType, Mode


@dataclass(frozen=True)
class WriteTarget:
    """Where rows go. `key` makes the commit happen once, however often Spark asks for it."""

    door: GraphReference
    type_name: str
    mode: Mode
    branch: str
    actor: str | None
    key: str

    def prepared(self, columns: Sequence[str]) -> PreparedWrite:
        """The target as the branch is now: what tasks need to write beside its table. The columns must fit the type."""
        manifest, schemas = self.door.reader()
        line = manifest.line(self.branch)
        catalog, snapshot = schemas.of(line.state.schema).catalog, manifest.snapshot(self.branch)
        kind = named_type(self.type_name, catalog)
        _require_columns(kind, catalog, columns)
        entry, location = snapshot[kind.table_key], self.door.location
        targets = targets_of(catalog, [entry], location, self.mode)
        job = WriteJob(catalog, targets, self.mode, Sizes(), store_settings(REAL))
        return PreparedWrite(self, kind, entry, tuple(columns), job)


@dataclass(frozen=True)
class PreparedWrite:
    """A write whose tasks may begin. It is for rows of the type as it was then."""

    target: WriteTarget
    kind: GraphType
    entry: TableEntry
    columns: tuple[str, ...]
    job: WriteJob = field(repr=False)

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        """The body of a task."""
        named = (each.rename_columns(list(self.columns)) for each in batches)
        told = write_frame(self.job, self.kind, self.job.catalog, self.kind.name, named)
        return TaskMessage([row for batch in told for row in batch.to_pylist()])

    def commit(self, messages: Sequence[WriterCommitMessage | None], key: str) -> None:
        """All that the tasks have written as one commit; none for a key that was used before."""
        target, world = self.target, REAL
        results = [row for each in messages if isinstance(each, TaskMessage) for row in each.results]
        manifest = target.door.manifest()
        schema = manifest.fresh_line(target.branch).state.schema
        catalog = Schemas(manifest).of(schema).catalog
        key_of_table = self.kind.table_key
        if key_of_table not in catalog.table_keys() or type_of(catalog, key_of_table) != self.kind:
            raise SchemaChanged(target.branch)
        plan = LoadPlan((Input("spark", None, self.kind.name, self.kind),))
        reading = InputRead(LocalRunner(), catalog, plan, target.mode, world)
        units, told = frame_units(self.kind.name, results)
        written = reading.gathered(told, units, {key_of_table: self.entry}, target.door.location)
        load = BulkLoad(reading, written=written)
        operation = Operation(
            "Load",
            load.prepare,
            branch=target.branch,
            actor=target.actor,
            repeatable=load.is_repeatable,
            idempotency_key=key,
            schema=schema,
        )
        commit(manifest, operation)


@dataclass
class TaskMessage(WriterCommitMessage):
    """What one task tells of its rows: the fragments that it wrote, and what was wrong."""

    results: list[dict[str, Any]]


class TypeWriter(DataSourceArrowWriter):
    """A batch write of one type."""

    def __init__(self, target: WriteTarget, columns: Sequence[str]) -> None:
        self.prepared = target.prepared(columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:  # type: ignore[override]
        """The body of a task."""
        return self.prepared.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """One commit of all tasks' rows."""
        self.prepared.commit(messages, self.prepared.target.key)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing was committed: the files that tasks wrote wait for cleanup."""


class TypeStreamWriter(DataSourceStreamArrowWriter):
    """A stream into one type: each micro-batch is a commit, whose key is the query's and the batch's number."""

    def __init__(self, target: WriteTarget, columns: Sequence[str]) -> None:
        self.prepared = target.prepared(columns)
        if target.mode == "merge" and any(
            each.type.scalar == "Blob" for each in self.prepared.kind.properties.values()
        ):
            raise InvalidInput(
                f"{target.type_name} has blobs: merge the stream with foreachBatch(og.stream_into(...))."
            )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:  # type: ignore[override]
        """The body of a task."""
        return self.prepared.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """One commit of the batch's rows; a batch that was committed before makes none."""
        self.prepared.commit(messages, f"{self.prepared.target.key}:{batchId}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing was committed: the files that tasks wrote wait for cleanup."""


def _require_columns(kind: GraphType, catalog: Catalog, columns: Sequence[str]) -> None:
    nothing: pa.DataType = pa.null()
    empty = pa.RecordBatchReader.from_batches(pa.schema([(name, nothing) for name in columns]), [])
    list(read_arrow(empty, kind, catalog, source=kind.name))
