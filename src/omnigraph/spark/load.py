"""A load on Spark, of any size, as one commit: the door to `load/bulk`.

    read and write   tasks parse, cast and check rows, and write them as fragments of their tables; nothing is visible
    validate         ids, ends, tuples and counts as 64-bit numbers that meet by part; rows are fetched for suspects
    match            in merge mode: which committed rows are replaced, so that they keep their stable row ids
    commit           one write set for the commit protocol

The semantics, ids and errors are the embedded loader's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import InvalidInput
from omnigraph.load.bulk.operation import BulkLoad
from omnigraph.load.bulk.read import InputRead
from omnigraph.load.bulk.rejects import counts_of
from omnigraph.load.operation import LoadSummary
from omnigraph.load.plan import FAIL, ErrorPolicy, Input, LoadPlan, named_type
from omnigraph.manifest.layout import MAIN
from omnigraph.spark.runner import SparkRunner
from omnigraph.spark.runtime.session import spark_session
from omnigraph.transaction.commit.protocol import ANY_SCHEMA, AnySchema, Operation, Receipt, commit
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.embeddings.embedder import Embeddings
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.values.batches import Mode


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
    """Load Spark frames, one per type, as one commit. Columns are properties; edges have `from` and `to` besides."""
    kinds = [(named_type(name, catalog), frame) for name, frame in frames.items()]
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
    """Load whatever `plan_load` has understood. A key that was used before returns its commit and reads nothing.

    `schema` names the one that the catalog is of: when the branch has another by then, that is `SchemaChanged`.
    `embeddings` makes missing vectors; the plan is then of a catalog in which they may be missing.
    """
    if not strict and not errors.fails:
        raise InvalidInput("rows are set aside by the strict grammar only: load without a quarantine, or strictly.")
    world = manifest.world
    started = world.monotonic()
    session = spark or _session_of(plan) or load_session(master=master, world=world)
    # It takes long: begun from an old state, it would have to be validated a second time while others wait.
    manifest.fresh_line(branch)
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


def load_session(*, master: str | None = None, memory: str | None = None, world: World = REAL) -> SparkSession:
    """The session that is there, or a new one for loads of files, in which Java does little: it is compiled once.

    Compiling twice, which pays for long work in Java, took more than half of what a load takes.
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
