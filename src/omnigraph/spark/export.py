"""Exports one snapshot as files written by parallel tasks: graph records, Parquet or CSV, several files per type.

File names let a load of the directory read them back: `nodes/Person.00007.parquet`. Every task reads the version that
was current when the export began, so a task that runs twice writes the same file.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import pyarrow as pa

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import InvalidInput, StoreError
from omnigraph.export.records import exported_types, fragment_rows, record_lines, write_rows
from omnigraph.spark.runner import errors_of_tasks, one_task_each
from omnigraph.storage.objects.location import OBJECT_STORES, Location, parse_location
from omnigraph.storage.objects.remote import open_remote_objects
from omnigraph.tasks.table_scan import ROWS_PER_TASK, TableScan, tasks_of
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.snapshot import Snapshot

Form = Literal["jsonl", "parquet", "csv"]
_TEXT: pa.DataType = pa.string()
_NUMBER: pa.DataType = pa.int64()
_WRITTEN = pa.schema([("file", _TEXT), ("rows", _NUMBER)])


@dataclass(frozen=True)
class ExportedFile:
    """The path or URI of an exported file, and its number of rows."""

    file: str
    rows: int


def export_files(
    session: SparkSession,
    manifest: GraphManifest,
    catalog: Catalog,
    snapshot: Snapshot,
    destination: str,
    *,
    form: Form = "jsonl",
    types: Sequence[str] | None = None,
    rows_per_file: int = ROWS_PER_TASK,
) -> list[ExportedFile]:
    """Write the types to an empty directory or bucket prefix. Returns the files sorted by name."""
    target = _target(destination, manifest)
    location = manifest.stores.tables.location
    file_tasks = [
        _FileTask(kind, ordinal, task)
        for kind in exported_types(catalog, types)
        for ordinal, task in enumerate(_tasks(TableScan(location, snapshot[kind.table_key].pin), rows_per_file))
    ]
    with errors_of_tasks():
        frame = one_task_each(session, file_tasks, partial(_write, target=target, form=form), _WRITTEN)
        written = [ExportedFile(row["file"], row["rows"]) for row in frame.collect()]
    return sorted(written, key=lambda each: each.file)


@dataclass(frozen=True)
class _FileTask:
    """The content of one file: neighbouring fragments of a table."""

    kind: NodeType | EdgeType
    ordinal: int
    scan: TableScan

    def name(self, form: Form) -> str:
        folder = "edges" if isinstance(self.kind, EdgeType) else "nodes"
        return f"{folder}/{self.kind.name}.{self.ordinal:05}.{form}"


def _tasks(scan: TableScan, rows_per_file: int) -> list[TableScan]:
    """The scans of a type, one per file. An empty type gets one file, so that a load of the export includes it."""
    return tasks_of(scan, rows_per_task=rows_per_file) or [scan]


def _write(file_task: _FileTask, *, target: Path | Location, form: Form) -> Iterator[pa.RecordBatch]:
    table = file_task.scan.table()
    fragments = file_task.scan.fragments
    batches = fragment_rows(table, file_task.kind, fragments) if fragments else iter(())
    name = file_task.name(form)
    if isinstance(target, Path):
        where, rows = _write_file(target / name, file_task, batches, form)
    else:
        held = io.BytesIO()
        rows = _fill(held, file_task, batches, form)
        open_remote_objects(target, REAL).write(name, held.getvalue())
        where = f"{target.uri}/{name}"
    yield pa.record_batch([[where], [rows]], schema=_WRITTEN)


def _write_file(path: Path, file_task: _FileTask, batches: Iterator[pa.RecordBatch], form: Form) -> tuple[str, int]:
    """Write under a temporary name, then rename: a file with its final name is complete, whichever attempt wrote it."""
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = 0 if context is None else context.taskAttemptId()
    unfinished = path.with_name(f"_{path.name}.{attempt}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as stream:
            rows = _fill(stream, file_task, batches, form)
        unfinished.replace(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}", location=str(path)) from error
    return str(path), rows


def _fill(stream: BinaryIO, file_task: _FileTask, batches: Iterator[pa.RecordBatch], form: Form) -> int:
    if form != "jsonl":
        return write_rows(batches, file_task.kind, stream, form=form)
    rows = 0
    for batch in batches:
        stream.writelines(record_lines(file_task.kind, batch))
        rows += batch.num_rows
    return rows


def _target(destination: str, manifest: GraphManifest) -> Path | Location:
    scheme, separator, rest = destination.partition("://")
    if separator and scheme in OBJECT_STORES:
        location = parse_location(destination, manifest.world)
        taken = bool(next(iter(open_remote_objects(location, manifest.world).list("")), None))
    else:
        path = Path(rest if scheme == "file" and separator else destination).absolute()
        taken = path.is_file() or (path.is_dir() and any(path.iterdir()))
    if taken:
        raise InvalidInput(f"{destination} is not empty: export to a new directory, so that nothing else is in it.")
    return location if separator and scheme in OBJECT_STORES else path
