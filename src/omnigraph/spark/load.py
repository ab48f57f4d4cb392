"""Runs a load of any size on Spark as one commit; the entry point to `load/bulk`.

    read and write   tasks parse, cast and check rows and write them as fragments; nothing is visible yet
    validate         64-bit hashes of ids, endpoints and tuples are compared by hash partition; only rows of
                     candidates are fetched
    match            in merge mode: find the committed rows that are replaced, so that they keep their stable row ids
    commit           one write set for the commit protocol

Semantics, ids and errors are those of the embedded loader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import InvalidInput
from omnigraph.load.bulk.operation import BulkLoad
from omnigraph.load.bulk.read import InputRead
from omnigraph.load.bulk.rejects import counts_of
from omnigraph.load.operation import LoadSummary
from omnigraph.load.plan import FAIL, ErrorPolicy, Input, LoadPlan
from omnigraph.manifest.layout import MAIN
from omnigraph.spark.runner import SparkRunner
from omnigraph.spark.runtime.session import spark_session
from omnigraph.transaction.commit.protocol import ANY_SCHEMA, AnySchema, Operation, Receipt, commit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.embeddings.embedder import Embeddings
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.values.batches import Mode
    from omnigraph.world import World


def load_frames(
    manifest: GraphManifest,
    catalog: Catalog,
    frames: Mapping[str, DataFrame],
    *,
    mode: Mode = "merge",
    branch: str = MAIN,
    actor: str | None = None,
    idempotency_key: str | None = None,
    errors: ErrorPolicy = FAIL,
    spark: SparkSession | None = None,
) -> tuple[Receipt, LoadSummary]:
    """Load Spark frames, one per type, as one commit. Columns are properties; edges also have `from` and `to`."""
    kinds = [(catalog.resolve_type(name), frame) for name, frame in frames.items()]
    plan = LoadPlan(tuple(Input("spark", frame, kind.name, kind) for kind, frame in kinds))
    session = spark or next((frame.sparkSession for frame in frames.values()), None)
    return load_plan(
        manifest,
        catalog,
        plan,
        mode=mode,
        branch=branch,
        actor=actor,
        idempotency_key=idempotency_key,
        errors=errors,
        spark=session,
    )


def load_plan(
    manifest: GraphManifest,
    catalog: Catalog,
    plan: LoadPlan,
    *,
    mode: Mode,
    branch: str = MAIN,
    actor: str | None = None,
    idempotency_key: str | None = None,
    errors: ErrorPolicy = FAIL,
    spark: SparkSession | None = None,
    master: str | None = None,
    strict: bool = True,
    schema: str | AnySchema | None = ANY_SCHEMA,
    embeddings: Embeddings | None = None,
) -> tuple[Receipt, LoadSummary]:
    """Run a load plan. A reused idempotency key returns the earlier commit and reads nothing.

    `schema` is the schema of `catalog`: if the branch has another one at commit, this raises `SchemaChanged`.
    `embeddings` computes missing vectors; the plan must then come from a catalog in which they are nullable.
    """
    if not strict and not errors.fails:
        raise InvalidInput("rows are set aside by the strict grammar only: load without a quarantine, or strictly.")
    world = manifest.world
    started = world.monotonic()
    session = spark or _session_of(plan) or load_session(master=master, world=world)
    # A load takes long. Started from a stale snapshot, it would be validated again while other writers wait.
    manifest.fresh_branch(branch)
    runner = SparkRunner(session)
    with runner.shared_directory() as directory:
        load = BulkLoad(InputRead(runner, catalog, plan, mode, world, errors, directory, strict, embeddings))
        operation = Operation(
            "Load",
            load.prepare,
            branch=branch,
            actor=actor,
            repeatable=load.is_repeatable,
            idempotency_key=idempotency_key,
            schema=schema,
        )
        receipt = commit(manifest, operation)
    assert receipt is not None, "a load always makes a commit"
    return receipt, _summary(load, plan, world.monotonic() - started)


def load_session(*, world: World, master: str | None = None, memory: str | None = None) -> SparkSession:
    """The running session, or a new one for file loads with only the first tier of the JIT compiler.

    Java does little in such a load; the second tier took more than half of its time.
    """
    return spark_session(master=master, memory=memory, java_options=["-XX:TieredStopAtLevel=1"], world=world)


def _session_of(plan: LoadPlan) -> SparkSession | None:
    return next((each.data.sparkSession for each in plan.inputs if each.form == "spark"), None)


def _summary(load: BulkLoad, plan: LoadPlan, seconds: float) -> LoadSummary:
    tables = {} if load.loaded is None else load.loaded.tables
    counts = {key: table.rows for key, table in sorted(tables.items())}
    stages = {**load.seconds, "commit": max(0.0, seconds - sum(load.seconds.values()))}
    return LoadSummary(
        nodes={key[5:]: rows for key, rows in counts.items() if key.startswith("node:")},
        edges={key[5:]: rows for key, rows in counts.items() if key.startswith("edge:")},
        seconds=seconds,
        bytes=plan.size,
        engine="spark",
        stages=stages,
        rejected=counts_of(load.rejects),
        rejects=load.reading.policy.path if load.rejects else None,
    )
