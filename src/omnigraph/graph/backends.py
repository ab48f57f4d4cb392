"""A call of `Graph.load`: which engine runs it, and what it hands to the commit protocol.

The engines that a call can be asked to run on: this process, Spark, or whichever fits.

A call of `Graph.export`: one state of the graph as files, written here or by Spark.

Whether Spark is there, asked before a module that needs it is imported.

Who works on a merge that is too large for memory: this process, partition by partition, or Spark.

Who builds indexes and rewrites tables: this process (None), or Spark.

Who runs a load: this process, or Spark.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from omnigraph.errors import InvalidInput
from omnigraph.graph.engines import Engine, require_engine, require_spark
from omnigraph.history.merge.partitioned.backend import PartitionedMerge
from omnigraph.history.merge.partitioned.deltas import SpillDirectory
from omnigraph.history.merge.partitioned.hash_partitions import MergeBudget
from omnigraph.kernels.report import Report
from omnigraph.load.operation import Load, read_load, vectors_may_be_missing, with_vectors
from omnigraph.load.plan import can_be_read_again, plan_load
from omnigraph.transaction.commit.protocol import Operation, commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.embeddings.embedder import Embeddings
    from omnigraph.graph.refs import Branches
    from omnigraph.history.merge.reconcile import MergeBackend
    from omnigraph.load.operation import LoadSummary
    from omnigraph.load.plan import ErrorPolicy, LoadPlan
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.query.run import QueryRunner, ReadRequest
    from omnigraph.storage.tables.compaction import Execute
    from omnigraph.storage.tables.indexes import Build
    from omnigraph.transaction.schemas import Schemas
    from omnigraph.values.batches import Mode
    from omnigraph.world import World


ExportFormat: TypeAlias = Literal["jsonl", "parquet", "csv"]


@dataclass(frozen=True)
class Export:
    """What goes where. `types` limits it; None is every type."""

    snapshot: Snapshot
    catalog: Catalog
    place: str | os.PathLike[str]
    form: ExportFormat
    types: Sequence[str] | None

    def write(self, manifest: GraphManifest) -> list[Path | str]:
        """Write graph records to one file, or each type to a file of its own."""
        from omnigraph.export.records import export_records
        from omnigraph.export.tables import export_tables

        tables, place = manifest.stores.tables, Path(self.place)
        if self.form != "jsonl":
            written = export_tables(self.snapshot, tables, self.catalog, place, form=self.form, types=self.types)
            return [*written.values()]
        with place.open("wb") as file:
            file.writelines(export_records(self.snapshot, tables, self.catalog, types=self.types))
        return [place]

    def write_on_spark(self, manifest: GraphManifest, spark: SparkSession | None) -> list[Path | str]:
        """Let many tasks write many files."""

        require_spark("an export with engine='spark'")
        from omnigraph.spark.export import export_files
        from omnigraph.spark.runtime.session import spark_session

        session, where = spark_session(session=spark, world=manifest.world), os.fspath(self.place)
        files = export_files(session, manifest, self.catalog, self.snapshot, where, form=self.form, types=self.types)
        return [each.file if "://" in each.file else Path(each.file) for each in files]


BUDGET = MergeBudget()


@contextmanager
def workshop(
    engine: Engine, spark: SparkSession | None, world: World, *, dry_run: bool = False
) -> Iterator[MergeBackend]:
    """Where large merges are worked on; what lies there is gone at the end.

    `spark` works on every merge, on a session of its own if there is none; `auto` takes a session that is there, and
    only for merges that are too large for memory.
    """
    require_engine(engine)
    with SpillDirectory(world) as place:
        session = spark if engine != "auto" or spark is not None else _at_hand()
        if engine == "local" or (engine == "auto" and session is None):
            yield PartitionedMerge(place, BUDGET)
            return
        require_spark("this merge")
        from omnigraph.spark.load import load_session
        from omnigraph.spark.merge import SparkMerge

        name = f"omnigraph_merge_{world.ulid().lower()}"
        budget = BUDGET if engine == "auto" else None
        yield SparkMerge(session or load_session(world=world), place, name, budget, writes=not dry_run)


def _at_hand() -> SparkSession | None:
    if "pyspark" not in sys.modules:
        return None
    from omnigraph.spark.runtime.session import session_at_hand

    return session_at_hand()


def index_builder(engine: str) -> Build | None:
    """Who builds the parts of an index."""
    if not _on_spark(engine, "building indexes on Spark"):
        return None
    from omnigraph.spark.maintenance import build_on_spark

    return build_on_spark()


def rewriter(engine: str) -> Execute | None:
    """Who compacts small fragments."""
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


def runs_on_spark(plan: LoadPlan, engine: Engine, policy: ErrorPolicy) -> bool:
    """Whether Spark runs this load. `auto`: for what only Spark can do, and for much data where it is installed."""
    require_engine(engine)
    if engine == "local" and not policy.fails:
        raise InvalidInput("rows are set aside by Spark: use engine='spark' or 'auto' with quarantine.")
    if engine != "auto":
        return engine == "spark"
    if not policy.fails or any(each.form == "spark" for each in plan.inputs):
        return True
    return plan.engine == "spark" and find_spec("pyspark") is not None


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
class LoadRequest:
    """What is asked for. `embeddings` makes missing vectors; None leaves them missing."""

    source: object
    mode: Mode
    branch: str
    from_: str | None
    strict: bool
    actor: str | None
    idempotency_key: str | None
    engine: Engine
    spark: SparkSession | None
    master: str | None
    errors: ErrorPolicy
    embeddings: Callable[[], Embeddings] | None


@dataclass(frozen=True)
class Loading:
    """A graph that is loaded into."""

    manifest: GraphManifest
    schemas: Schemas
    branches: Branches

    def run(self, request: LoadRequest) -> Loaded:
        """Carry it out under the schema of its branch; again, should that change meanwhile."""
        base = request.branch if request.from_ is None or request.branch in self.branches else request.from_
        again = can_be_read_again(request.source)
        return self.schemas.attempt(base, lambda schema: self._attempt(schema, request), again=again)

    def _attempt(self, schema: str | None, request: LoadRequest) -> Loaded:
        catalog = self.schemas.of(schema).catalog
        readable = catalog if request.embeddings is None else vectors_may_be_missing(catalog)
        plan = plan_load(request.source, readable, self.manifest.world)
        if runs_on_spark(plan, request.engine, request.errors):
            return self._on_spark(schema, catalog, plan, request)
        return self._here(schema, catalog, readable, plan, request)

    def _here(
        self, schema: str | None, catalog: Catalog, readable: Catalog, plan: LoadPlan, request: LoadRequest
    ) -> Loaded:
        world = self.manifest.world
        started = world.monotonic()
        rows = read_load(readable, plan, world, strict=request.strict)
        if request.embeddings is not None:
            rows = with_vectors(rows, catalog, request.embeddings(), world)
        load = Load(catalog, rows, request.mode, world)
        self._make_branch(request)
        operation = Operation(
            "Load",
            load.prepare,
            branch=request.branch,
            actor=request.actor,
            repeatable=load.is_repeatable,
            idempotency_key=request.idempotency_key,
            schema=schema,
        )
        receipt = commit(self.manifest, operation)
        assert receipt is not None, "a load always makes a commit"
        summary = replace(load.loaded.summary, seconds=world.monotonic() - started)
        return Loaded(receipt.commit, summary, repeated=receipt.repeated)

    def _on_spark(self, schema: str | None, catalog: Catalog, plan: LoadPlan, request: LoadRequest) -> Loaded:
        require_spark("this load")
        from omnigraph.spark.load import load_plan

        self._make_branch(request)
        done, summary = load_plan(
            self.manifest,
            catalog,
            plan,
            mode=request.mode,
            branch=request.branch,
            actor=request.actor,
            idempotency_key=request.idempotency_key,
            errors=request.errors,
            spark=request.spark,
            master=request.master,
            strict=request.strict,
            schema=schema,
            embeddings=None if request.embeddings is None else request.embeddings(),
        )
        return Loaded(done.commit, summary, repeated=done.repeated)

    def _make_branch(self, request: LoadRequest) -> None:
        if request.from_ is not None and request.branch not in self.branches:
            self.branches.create(request.branch, from_=request.from_)


def query_on_spark(reading: QueryRunner, request: ReadRequest, spark: SparkSession | None) -> DataFrame:
    """The rows of a query as a Spark data frame, which runs the query when it is evaluated."""
    require_spark("a query with engine='spark'")
    from omnigraph.spark.query.run import run_on_spark
    from omnigraph.spark.runtime.session import spark_session

    return run_on_spark(spark_session(session=spark, world=reading.manifest.world), reading.prepared(request))
