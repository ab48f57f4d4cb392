"""Chooses the engine of a call: this process or Spark.

A load runs in memory, task by task in this process, or on Spark; an export is written here or by Spark; a merge that is
too large for memory runs partition by partition here, or on Spark; so do index builds and compaction. Whether Spark is
installed is checked before a module that needs it is imported.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from omnigraph.errors.inputs import InvalidInput, require_choice
from omnigraph.history.merge.partitioned.backend import PartitionedMerge
from omnigraph.history.merge.partitioned.deltas import SpillDirectory
from omnigraph.history.merge.partitioned.hash_partitions import MergeBudget
from omnigraph.kernels.report import Report
from omnigraph.load.bulk.operation import run_bulk_load
from omnigraph.load.operation import Load, load_operation, read_load, with_vectors
from omnigraph.load.plan import IN_MEMORY_BYTES, can_be_read_again, plan_load
from omnigraph.tasks.local_runner import LocalRunner
from omnigraph.tasks.runner import Engine, require_engine, require_spark
from omnigraph.transaction.commit.protocol import commit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.graph.refs import Branches
    from omnigraph.history.merge.reconcile import MergeBackend
    from omnigraph.load.operation import LoadSummary
    from omnigraph.load.plan import LoadOptions, LoadPlan
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.query.run import QueryRunner, ReadRequest
    from omnigraph.storage.tables.compaction import Execute
    from omnigraph.storage.tables.indexes import Build
    from omnigraph.transaction.commit.protocol import Receipt
    from omnigraph.transaction.schemas import Schemas
    from omnigraph.world import World


ExportFormat: TypeAlias = Literal["jsonl", "parquet", "csv"]


@dataclass(frozen=True)
class Export:
    """One export: the state, the destination and the format. `types` limits it; None is every type."""

    snapshot: Snapshot
    catalog: Catalog
    destination: str | os.PathLike[str]
    form: ExportFormat
    types: Sequence[str] | None

    def __post_init__(self) -> None:
        require_choice("format", self.form, get_args(ExportFormat))

    def write(self, manifest: GraphManifest) -> list[Path | str]:
        """Write graph records to one file, or each type to a file of its own."""
        try:
            return self._write(manifest)
        except (IsADirectoryError, NotADirectoryError, FileNotFoundError, FileExistsError, PermissionError) as error:
            kind = "a file" if self.form == "jsonl" else "a directory"
            where = os.fspath(self.destination)
            raise InvalidInput(
                f"{where!r} cannot be written as {kind}: {error.strerror} ({error.filename})."
            ) from error

    def _write(self, manifest: GraphManifest) -> list[Path | str]:
        from omnigraph.export.records import export_records, export_tables

        tables, destination = manifest.stores.tables, Path(self.destination)
        if self.form != "jsonl":
            written = export_tables(self.snapshot, tables, self.catalog, destination, form=self.form, types=self.types)
            return [*written.values()]
        with destination.open("wb") as file:
            file.writelines(export_records(self.snapshot, tables, self.catalog, types=self.types))
        return [destination]

    def write_on_spark(self, manifest: GraphManifest, spark: SparkSession | None) -> list[Path | str]:
        """Write many files with Spark tasks."""
        require_spark("an export with engine='spark'")
        from omnigraph.spark.export import export_files
        from omnigraph.spark.runtime.session import spark_session

        session, where = spark_session(session=spark, world=manifest.world), os.fspath(self.destination)
        files = export_files(session, manifest, self.catalog, self.snapshot, where, form=self.form, types=self.types)
        return [each.file if "://" in each.file else Path(each.file) for each in files]


BUDGET = MergeBudget()


@contextmanager
def merge_backend(
    engine: Engine, spark: SparkSession | None, world: World, *, dry_run: bool = False
) -> Iterator[MergeBackend]:
    """The backend of large merges; its temporary files are removed at the end.

    `spark` takes every merge, with a new session if there is none; `auto` uses a running session, and only for merges
    that are too large for memory.
    """
    require_engine(engine)
    with SpillDirectory(world) as spill:
        session = spark if engine != "auto" or spark is not None else _running_session()
        if engine == "local" or (engine == "auto" and session is None):
            yield PartitionedMerge(spill, BUDGET)
            return
        require_spark("this merge")
        from omnigraph.spark.load import load_session
        from omnigraph.spark.merge import SparkMerge

        name = f"omnigraph_merge_{world.ulid().lower()}"
        budget = BUDGET if engine == "auto" else None
        yield SparkMerge(session or load_session(world=world), spill, name, budget, writes=not dry_run)


def _running_session() -> SparkSession | None:
    if "pyspark" not in sys.modules:
        return None
    from omnigraph.spark.runtime.session import session_at_hand

    return session_at_hand()


def index_builder(engine: str) -> Build | None:
    """The function that builds index segments on Spark; None builds them in this process."""
    if not _on_spark(engine, "building indexes on Spark"):
        return None
    from omnigraph.spark.maintenance import build_on_spark

    return build_on_spark()


def rewriter(engine: str) -> Execute | None:
    """The function that runs compaction tasks on Spark; None runs them in this process."""
    if not _on_spark(engine, "optimize on Spark"):
        return None
    from omnigraph.spark.maintenance import execute_on_spark

    return execute_on_spark()


def _on_spark(engine: str, what: str) -> bool:
    require_engine(engine)
    if engine != "spark":
        return False

    require_spark(what)
    return True


def runs_on_spark(plan: LoadPlan, options: LoadOptions) -> bool:
    """Whether Spark runs this load. `auto`: its frames, a quarantine with a session, much data if installed."""
    if options.engine != "auto":
        return options.engine == "spark"
    if any(each.form == "spark" for each in plan.inputs) or (options.spark is not None and not options.errors.fails):
        return True
    return plan.engine == "spark" and find_spec("pyspark") is not None


def runs_in_tasks(plan: LoadPlan, options: LoadOptions) -> bool:
    """Whether a load in this process goes task by task: rows may be set aside, or they may not fit in memory."""
    if any(each.form == "spark" for each in plan.inputs):
        return False
    return not options.errors.fails or (plan.size or 0) > IN_MEMORY_BYTES


@dataclass(frozen=True, repr=False)
class Loaded(Report):
    """What a load did. `repeated` when its key had been used before: then nothing was written."""

    commit: GraphCommit
    summary: LoadSummary
    repeated: bool = False

    def _summary(self) -> str:
        rows = f"{self.summary.rows:,} rows in {self.summary.seconds:.2f} s"
        done = "repeated" if self.repeated else rows
        return f"{done}, commit {self.commit.id} on {self.commit.branch}"


@dataclass(frozen=True)
class Loading:
    """The target graph of loads."""

    manifest: GraphManifest
    schemas: Schemas
    branches: Branches

    def run(self, source: object, options: LoadOptions) -> Loaded:
        """Run the load under the schema of its branch; again if that schema changes meanwhile."""
        base = options.branch if options.from_ is None or options.branch in self.branches else options.from_
        again = can_be_read_again(source)
        return self.schemas.attempt(base, lambda schema: self._attempt(schema, source, options), again=again)

    def _attempt(self, schema: str | None, source: object, options: LoadOptions) -> Loaded:
        catalog = self.schemas.of(schema).catalog
        plan = plan_load(source, options.readable(catalog), self.manifest.world)
        if runs_on_spark(plan, options):
            require_spark("this load")
            from omnigraph.spark.load import load_plan

            self._make_branch(options)
            receipt, summary = load_plan(self.manifest, catalog, plan, options, schema=schema)
        elif runs_in_tasks(plan, options):
            self._make_branch(options)
            receipt, summary = run_bulk_load(self.manifest, catalog, plan, options, LocalRunner(), schema=schema)
        else:
            receipt, summary = self._in_memory(schema, catalog, plan, options)
        return Loaded(receipt.commit, summary, repeated=receipt.repeated)

    def _in_memory(
        self, schema: str | None, catalog: Catalog, plan: LoadPlan, options: LoadOptions
    ) -> tuple[Receipt, LoadSummary]:
        world = self.manifest.world
        started = world.monotonic()
        rows = read_load(options.readable(catalog), plan, world, strict=options.strict)
        if options.embeddings is not None:
            rows = with_vectors(rows, catalog, options.embeddings(), world)
        load = Load(catalog, rows, options.mode, world)
        self._make_branch(options)
        operation = load_operation(load.prepare, options, repeatable=load.is_repeatable, schema=schema)
        receipt = commit(self.manifest, operation)
        assert receipt is not None, "a load always makes a commit"
        return receipt, replace(load.loaded.summary, seconds=world.monotonic() - started)

    def _make_branch(self, options: LoadOptions) -> None:
        if options.from_ is not None and options.branch not in self.branches:
            self.branches.create(options.branch, from_=options.from_)


def query_on_spark(reading: QueryRunner, request: ReadRequest, spark: SparkSession | None) -> DataFrame:
    """The rows of a query as a Spark data frame, which runs the query when it is evaluated."""
    require_spark("a query with engine='spark'")
    from omnigraph.spark.query.run import run_on_spark
    from omnigraph.spark.runtime.session import spark_session

    return run_on_spark(spark_session(session=spark, world=reading.manifest.world), reading.prepared(request))
