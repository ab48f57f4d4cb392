"""Runs the single pass over the input: a task reads each unit, and the fragments written become staged tables."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog.rules import type_of
from omnigraph.load.bulk.bisect import chunks_of, table_chunks, write_valid_rows
from omnigraph.load.bulk.old_ids import recorded_legacy_ids, rewrite_legacy_endpoints
from omnigraph.load.bulk.rejects import FrameUnit, InputError, task_errors, task_rejects
from omnigraph.load.bulk.units import Unit, plan_units, read_unit, store_settings
from omnigraph.load.bulk.write import RESULT, FragmentTarget, WriteJob, partition_unit, write_batches
from omnigraph.load.plan import FAIL, ErrorPolicy, vectors_may_be_missing
from omnigraph.load.tabular import read_arrow
from omnigraph.storage.lance.paths import table_dir
from omnigraph.tasks.hash_runs import hash_columns_of
from omnigraph.tasks.runner import grouped, sizes_of
from omnigraph.tasks.staged_rows import StagedFragment, StagedRows
from omnigraph.tasks.table_scan import TableScan
from omnigraph.values.arrow_casts import cast_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.embeddings.embedder import Embeddings
    from omnigraph.load.bulk.rejects import Reject
    from omnigraph.load.plan import Input, LoadPlan
    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.storage.objects.location import Location
    from omnigraph.tasks.hash_runs import HashColumns, HashRun
    from omnigraph.tasks.runner import TaskRunner
    from omnigraph.values.batches import GraphType, Mode
    from omnigraph.world import World

    Entries = Snapshot | Mapping[str, TableEntry]
    Results = list[dict[str, Any]]


@dataclass(frozen=True)
class Written:
    """The result of reading the input: staged tables in input order, errors and rejects."""

    tables: Mapping[str, StagedRows]
    units: Sequence[Unit | FrameUnit]
    errors: Sequence[InputError]
    rejects: Sequence[tuple[int, Reject]] = ()


@dataclass(frozen=True)
class InputRead:
    """What to read and how. `directory` is a directory shared by all tasks, if there is one."""

    runner: TaskRunner
    catalog: Catalog
    plan: LoadPlan
    mode: Mode
    world: World
    policy: ErrorPolicy = FAIL
    directory: str | None = None
    strict: bool = True
    embeddings: Embeddings | None = None

    @cached_property
    def readable(self) -> Catalog:
        """The catalog for reading: vectors that this load computes may be missing."""
        return self.catalog if self.embeddings is None else vectors_may_be_missing(self.catalog)

    def run(self, snapshot: Snapshot, location: Location) -> Written:
        """Read the whole input and write it as unreferenced fragments of the snapshot's tables."""
        targets = targets_of(self.catalog, snapshot, location, self.mode)
        sizes, settings = sizes_of(self.runner), store_settings(self.world)
        job = WriteJob(self.catalog, targets, self.mode, sizes, settings, self.directory, self.strict, self.embeddings)
        units: list[Unit | FrameUnit] = []
        results: Results = []
        for group in _groups(self.plan.inputs):
            more_units, more = self._frame(job, group[0]) if group[0].form == "spark" else self._files(job, group)
            results += [{**each, "unit": each["unit"] + len(units)} for each in more]
            units += more_units
        return self.gathered(results, units, snapshot, location)

    def gathered(
        self, results: Results, units: Sequence[Unit | FrameUnit], snapshot: Entries, location: Location
    ) -> Written:
        """Build the staged tables, errors and rejects from the results of tasks."""
        tables = self._tables(results, snapshot, location)
        written = Written(tables, units, task_errors(results, units), task_rejects(results, units))
        return written if self.strict else rewrite_legacy_endpoints(self, written, recorded_legacy_ids(results, units))

    def _files(self, job: WriteJob, inputs: Sequence[Input]) -> tuple[list[Unit], Results]:
        catalog, limit = self.readable, self.policy.limit
        units = plan_units(self.runner, inputs, self.world, split_bytes=job.sizes.split_bytes, strict=self.strict)

        def work(group: list[tuple[int, Unit]]) -> Iterator[pa.RecordBatch]:
            for number, unit in group:
                if limit:
                    yield from write_valid_rows(job, number, chunks_of(unit, catalog, job.world()), limit)
                else:
                    yield from write_batches(job, number, read_unit(unit, catalog, job.world()))

        groups = grouped(enumerate(units), lambda each: each[1].size, job.sizes.split_bytes)
        results = self.runner.map(groups, work, RESULT).collect()
        return units, results.to_pylist()

    def _frame(self, job: WriteJob, each: Input) -> tuple[list[FrameUnit], Results]:
        catalog, limit, kind, name = self.readable, self.policy.limit, each.type, each.name
        assert kind is not None
        nothing: pa.DataType = pa.null()
        # Tasks may get columns in the spelling of the data source, `NAME` for an alias `name`; the frame's names apply.
        names = list(each.data.columns)
        columns = pa.schema([(column, nothing) for column in names])
        list(read_arrow(pa.RecordBatchReader.from_batches(columns, []), kind, catalog, source=name))

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return write_frame(job, kind, catalog, name, (each.rename_columns(names) for each in batches), limit)

        results = self.runner.map_frame(each.data, work, RESULT).collect()
        return frame_units(name, results.to_pylist())

    def _tables(self, results: Results, snapshot: Entries, location: Location) -> dict[str, StagedRows]:
        """Staged tables: named types, nodes, edges, by first appearance. Duplicate ids are reported in this order."""
        ordered = sorted(results, key=lambda each: each["unit"])
        seen = [key for each in ordered if each["kind"] == "read" for key in json.loads(each["body"])]
        keys = [each.table_key for each in self.plan.types] + sorted(seen, key=lambda key: key.startswith("edge:"))
        tables = {}
        for key in dict.fromkeys(keys):
            entry, kind = snapshot[key], type_of(self.catalog, key)
            mine = [each for each in ordered if each["table"] == key]
            hash_runs = (
                {} if self.directory is None else _hash_runs(hash_columns_of(self.catalog, key, self.mode), mine)
            )
            tables[key] = StagedRows(kind, location, entry.path, entry.branch, _fragments(mine), hash_runs)
        return tables


def write_frame(
    job: WriteJob, kind: GraphType, catalog: Catalog, name: str, batches: Iterator[pa.RecordBatch], limit: int = 0
) -> Iterator[pa.RecordBatch]:
    """Write the rows of one partition of a Spark frame. Yields batches of schema `RESULT`."""
    first = next(batches, None)
    if first is None:
        return write_batches(job, partition_unit(), [])
    reader = pa.RecordBatchReader.from_batches(first.schema, _chained(first, batches))
    if limit:
        return write_valid_rows(job, partition_unit(), table_chunks(kind, catalog, name, reader, cast_column), limit)
    return write_batches(job, partition_unit(), read_arrow(reader, kind, catalog, source=name))


def _chained(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def frame_units(name: str, results: Results) -> tuple[list[FrameUnit], Results]:
    """The partitions of a frame in order, each with the number of its first row."""
    read = {each["unit"]: each["rows"] for each in results if each["kind"] == "read"}
    counts = [read.get(number, 0) for number in range(max(read, default=-1) + 1)]
    firsts = accumulate(counts, initial=1)
    return [FrameUnit(name, first) for first, _ in zip(firsts, counts, strict=False)], results


def _groups(inputs: Sequence[Input]) -> Iterator[list[Input]]:
    """Group neighbouring inputs that one job can read. A Spark frame is a job by itself."""
    group: list[Input] = []
    for each in inputs:
        if each.form == "spark" and group:
            yield group
            group = []
        group.append(each)
        if each.form == "spark":
            yield group
            group = []
    if group:
        yield group


def targets_of(
    catalog: Catalog, snapshot: Iterable[TableEntry], location: Location, mode: Mode
) -> dict[str, FragmentTarget]:
    """The fragment targets of a snapshot's tables, by table key."""
    options = location.storage_options
    committed = {
        each.table_key: _committed_rows(catalog, each, location)
        for each in snapshot
        if mode == "merge" and each.row_count
    }
    return {
        entry.table_key: FragmentTarget(
            location.child(table_dir(entry.path, entry.branch)),
            None if options is None else dict(options),
            "overwrite" if mode == "overwrite" else "append",
            committed.get(entry.table_key),
        )
        for entry in snapshot
    }


def _committed_rows(catalog: Catalog, entry: TableEntry, location: Location) -> TableScan | None:
    """The committed rows of a type with blobs: its files cannot be reordered, so replacing rows are written apart."""
    kind = type_of(catalog, entry.table_key)
    has_blobs = any(each.type.scalar == "Blob" for each in kind.properties.values())
    return TableScan(location, entry.pin) if has_blobs else None


def _fragments(results: Results) -> tuple[StagedFragment, ...]:
    fragments = []
    for each in results:
        if each["kind"] != "fragment":
            continue
        body = json.loads(each["body"])
        positions = tuple(body["positions"])
        fragments.append(
            StagedFragment(
                each["unit"], body["first"], each["rows"], body["fragment"], body["minted"], positions=positions
            )
        )
    return tuple(fragments)


def _hash_runs(wanted: Sequence[HashColumns], results: Results) -> dict[HashColumns, tuple[HashRun, ...]]:
    found: list[HashRun] = [pickle.loads(each["body"]) for each in results if each["kind"] == "hash_run"]  # noqa: S301
    return {columns: tuple(each for each in found if each.columns == columns) for columns in wanted}
