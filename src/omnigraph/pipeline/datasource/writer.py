"""The writers behind `df.write.format("omnigraph")` and `writeStream`: rows of one type, one commit per write or batch.

Executors cast and check rows and write them as fragments next to the type's table, like every load on Spark. At the end
Spark calls the driver side of the writer, in a separate process, with the messages of the tasks. It validates the rows
against each other and against the graph, by reading back narrow columns in bounded memory, and commits them as one. A
write that fails or dies leaves files that no version references, until a cleanup removes them.
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
from omnigraph.load.plan import Input, LoadPlan
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
    from omnigraph.pipeline.datasource.options import GraphReference
    from omnigraph.values.batches import GraphType, Mode


@dataclass(frozen=True)
class WriteTarget:
    """The target of a write. `key` is the idempotency key: a retried commit happens once."""

    reference: GraphReference
    type_name: str
    mode: Mode
    branch: str
    actor: str | None
    key: str

    def prepared(self, columns: Sequence[str]) -> PreparedWrite:
        """Resolve the target on the current snapshot of the branch, and check that the columns fit the type."""
        manifest, schemas = self.reference.reader()
        branch_manifest = manifest.branch(self.branch)
        catalog, snapshot = schemas.of(branch_manifest.schema).catalog, manifest.snapshot(self.branch)
        kind = catalog.resolve_type(self.type_name)
        _require_columns(kind, catalog, columns)
        entry, location = snapshot[kind.table_key], self.reference.location
        targets = targets_of(catalog, [entry], location, self.mode)
        job = WriteJob(catalog, targets, self.mode, Sizes(), store_settings(REAL))
        return PreparedWrite(self, kind, entry, tuple(columns), job)


@dataclass(frozen=True)
class PreparedWrite:
    """A write resolved for its tasks, bound to the definition of the type at that time."""

    target: WriteTarget
    kind: GraphType
    entry: TableEntry
    columns: tuple[str, ...]
    job: WriteJob = field(repr=False)

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write the rows of one task."""
        named = (each.rename_columns(list(self.columns)) for each in batches)
        frame_results = write_frame(self.job, self.kind, self.job.catalog, self.kind.name, named)
        return TaskMessage([row for batch in frame_results for row in batch.to_pylist()])

    def commit(self, messages: Sequence[WriterCommitMessage | None], key: str) -> None:
        """Commit the rows of all tasks at once. A reused key makes no commit."""
        target, world = self.target, REAL
        results = [row for each in messages if isinstance(each, TaskMessage) for row in each.results]
        manifest = target.reference.manifest()
        schema = manifest.fresh_branch(target.branch).schema
        catalog = Schemas(manifest).of(schema).catalog
        key_of_table = self.kind.table_key
        if key_of_table not in catalog.table_keys() or type_of(catalog, key_of_table) != self.kind:
            raise SchemaChanged(target.branch)
        plan = LoadPlan((Input("spark", None, self.kind.name, self.kind),))
        reading = InputRead(LocalRunner(), catalog, plan, target.mode, world)
        units, frame_results = frame_units(self.kind.name, results)
        written = reading.gathered(frame_results, units, {key_of_table: self.entry}, target.reference.location)
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
    """The message of one task: the fragments that it wrote, and errors."""

    results: list[dict[str, Any]]


class TypeWriter(DataSourceArrowWriter):
    """A batch write of one type."""

    def __init__(self, target: WriteTarget, columns: Sequence[str]) -> None:
        self.prepared = target.prepared(columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:  # type: ignore[override]
        """Write the rows of one task."""
        return self.prepared.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the rows of all tasks."""
        self.prepared.commit(messages, self.prepared.target.key)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: nothing was committed, and a cleanup removes the files that tasks wrote."""


class TypeStreamWriter(DataSourceStreamArrowWriter):
    """A stream into one type. Each micro-batch is one commit, keyed by the query id and the batch number."""

    def __init__(self, target: WriteTarget, columns: Sequence[str]) -> None:
        self.prepared = target.prepared(columns)
        if target.mode == "merge" and any(
            each.type.scalar == "Blob" for each in self.prepared.kind.properties.values()
        ):
            raise InvalidInput(
                f"{target.type_name} has blobs: merge the stream with foreachBatch(og.stream_into(...))."
            )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:  # type: ignore[override]
        """Write the rows of one task."""
        return self.prepared.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit the rows of a micro-batch. A batch that was committed before makes no commit."""
        self.prepared.commit(messages, f"{self.prepared.target.key}:{batchId}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: nothing was committed, and a cleanup removes the files that tasks wrote."""


def _require_columns(kind: GraphType, catalog: Catalog, columns: Sequence[str]) -> None:
    nothing: pa.DataType = pa.null()
    empty = pa.RecordBatchReader.from_batches(pa.schema([(name, nothing) for name in columns]), [])
    list(read_arrow(empty, kind, catalog, source=kind.name))
