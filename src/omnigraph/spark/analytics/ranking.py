"""How much each vertex matters: PageRank and degrees.

PageRank is computed in whole numbers, parts of 2**-60: sums of them do not depend on the order in which Spark adds
them, so that a score is the same to the last bit on every run and on every cluster.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from omnigraph.errors import InvalidInput
from omnigraph.spark.analytics.rounds import settle, totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from omnigraph.spark.analytics.topology import Topology

log = logging.getLogger(__name__)

WHOLE = 1 << 60
# The rank of vertices that have nobody to give it to.
_LOST = "sum(if(out = 0, rank, 0L))"


def page_rank(topology: Topology, *, damping: float, tolerance: float, max_iterations: int) -> DataFrame:
    """type, id and rank; ranks add up to 1. Vertices without edges out give their rank to all.

    Stops when the ranks change by less than `tolerance` in total.
    """
    require_damping(damping)
    if not topology.count:
        return topology.named(topology.vertices.select("v", f.lit(0.0).alias("rank")), "rank")
    state = _first_ranks(topology)
    lost = totals(state, lost=f.expr(_LOST))["lost"]
    for _ in range(max_iterations):
        state = _next_ranks(topology, state, damping, lost or 0)
        moved, lost = totals(state, moved=f.sum("moved"), lost=f.expr(_LOST))
        if moved < tolerance * WHOLE:
            break
    else:
        log.warning("the ranks still moved by more than %g after %d rounds", tolerance, max_iterations)
    whole = totals(state, all=f.sum("rank"))["all"]
    return topology.named(state.select("v", (f.col("rank") / f.lit(whole)).alias("rank")), "rank")


def require_damping(damping: float) -> None:
    """Refuse what is no damping."""
    if not 0 <= damping < 1:
        raise InvalidInput(f"damping is at least 0 and less than 1, not {damping}.")


def everyones_share(damping: float, lost: int, count: int) -> int:
    """What each vertex gets in a round whoever points at it."""
    return int((1 - damping) * WHOLE / count) + int(damping * lost / count)


def degrees(topology: Topology) -> DataFrame:
    """type, id, in_degree, out_degree and degree, which is their sum."""
    out = topology.edges.select(f.col("src").alias("v"), f.lit(1).alias("out_degree"), f.lit(0).alias("in_degree"))
    into = topology.edges.select(f.col("dst").alias("v"), f.lit(0).alias("out_degree"), f.lit(1).alias("in_degree"))
    sums = out.union(into).groupBy("v").agg(*(f.sum(name).alias(name) for name in ("in_degree", "out_degree")))
    named = topology.named(sums, "in_degree", "out_degree").fillna(0)
    return named.withColumn("degree", f.col("in_degree") + f.col("out_degree"))


def _first_ranks(topology: Topology) -> DataFrame:
    out = topology.edges.groupBy(f.col("src").alias("v")).agg(f.count("*").alias("out"))
    start = f.lit(WHOLE // topology.count).alias("rank")
    first = topology.vertices.join(out, "v", "left").select("v", f.coalesce("out", f.lit(0)).alias("out"), start)
    return settle(first.repartition("v"))


def _next_ranks(topology: Topology, state: DataFrame, damping: float, lost: int) -> DataFrame:
    everyones = everyones_share(damping, lost, topology.count)
    given = state.where("out > 0").select(f.col("v").alias("src"), f.expr("rank div out").alias("given"))
    received = topology.edges.join(given, "src").groupBy(f.col("dst").alias("v")).agg(f.sum("given").alias("received"))
    share = (f.lit(damping) * f.coalesce("received", f.lit(0))).cast("bigint")
    after = state.join(received, "v", "left").select(
        "v", "out", (share + f.lit(everyones)).alias("rank"), f.col("rank").alias("was")
    )
    return settle(after.select("v", "out", "rank", f.abs(f.expr("rank - was")).alias("moved")))
