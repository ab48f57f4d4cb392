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

from omnigraph.load.bulk.operation import run_bulk_load
from omnigraph.load.plan import Input, LoadOptions, LoadPlan
from omnigraph.spark.runner import SparkRunner
from omnigraph.spark.runtime.session import spark_session
from omnigraph.transaction.commit.protocol import ANY_SCHEMA, AnySchema, Receipt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.load.operation import LoadSummary
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.world import World


def load_frames(
    manifest: GraphManifest, catalog: Catalog, frames: Mapping[str, DataFrame], options: LoadOptions
) -> tuple[Receipt, LoadSummary]:
    """Load Spark frames, one per type, as one commit. Columns are properties; edges also have `from` and `to`."""
    kinds = [(catalog.resolve_type(name), frame) for name, frame in frames.items()]
    plan = LoadPlan(tuple(Input("spark", frame, kind.name, kind) for kind, frame in kinds))
    return load_plan(manifest, catalog, plan, options)


def load_plan(
    manifest: GraphManifest,
    catalog: Catalog,
    plan: LoadPlan,
    options: LoadOptions,
    *,
    schema: str | AnySchema | None = ANY_SCHEMA,
) -> tuple[Receipt, LoadSummary]:
    """Run a load plan on the session of the options, of its frames, or one of its own; see `run_bulk_load`."""
    session = options.spark or _session_of(plan) or load_session(master=options.master, world=manifest.world)
    return run_bulk_load(manifest, catalog, plan, options, SparkRunner(session), schema=schema)


def load_session(*, world: World, master: str | None = None, memory: str | None = None) -> SparkSession:
    """The running session, or a new one for file loads with only the first tier of the JIT compiler.

    Java does little in such a load; the second tier took more than half of its time.
    """
    return spark_session(master=master, memory=memory, java_options=["-XX:TieredStopAtLevel=1"], world=world)


def _session_of(plan: LoadPlan) -> SparkSession | None:
    return next((each.data.sparkSession for each in plan.inputs if each.form == "spark"), None)
