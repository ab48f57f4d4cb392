"""A call of `Graph.load`: which engine runs it, and what it hands to the commit protocol."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.spark.installed import require_spark
from omnigraph.write.commit import Operation, commit
from omnigraph.write.load.embedding import vectors_may_be_missing, with_vectors
from omnigraph.write.load.engine import runs_on_spark
from omnigraph.write.load.load import read_load
from omnigraph.write.load.operation import Load
from omnigraph.write.load.sources import can_be_read_again, plan_load

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from omnigraph.embeddings.embeddings import Embeddings
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.names import Branches
    from omnigraph.schema_contract import Schemas
    from omnigraph.write.load.engine import Engine
    from omnigraph.write.load.error_policy import ErrorPolicy
    from omnigraph.write.load.load import LoadSummary, Mode
    from omnigraph.write.load.sources import LoadPlan


@dataclass(frozen=True)
class Loaded:
    """What a load did. `repeated` when its key had been used before: then nothing was written."""

    commit: GraphCommit
    summary: LoadSummary
    repeated: bool = False


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
