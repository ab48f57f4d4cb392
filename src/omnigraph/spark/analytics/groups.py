"""Which vertices belong together: connected components, and communities by label propagation."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from omnigraph.spark.analytics.rounds import settle, totals

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from omnigraph.spark.analytics.topology import Topology

log = logging.getLogger(__name__)


def connected_components(topology: Topology) -> DataFrame:
    """type, id and component, the number of the component's first vertex in the order of type and id.

    Edges count both ways. Every round links each vertex to the smallest one it knows of, by the two star operations
    of Kiveris et al., "Connected Components in MapReduce and Beyond", until only stars are left.
    """
    pairs = topology.neighbours().select(f.col("b").alias("u"), f.col("a").alias("v"))
    seen = _fingerprint(pairs)
    while True:
        pairs = settle(_small_star(_large_star(pairs)))
        now = _fingerprint(pairs)
        if now == seen:
            break
        seen = now
    stars = pairs.select(f.col("u").alias("v"), f.col("v").alias("first"))
    found = topology.vertices.select("v").join(stars, "v", "left")
    return topology.named(found.select("v", f.coalesce("first", "v").alias("component")), "component")


def label_propagation(topology: Topology, *, max_iterations: int) -> DataFrame:
    """type, id and community, the number of the vertex that the label comes from.

    In a round every vertex takes the label that most of its neighbours and itself have, the smallest among equals.
    Ends when no label changes. Edges count both ways, and several between two vertices count as one.
    """
    pairs = topology.neighbours()
    both = settle(pairs.select(f.col("a").alias("src"), f.col("b").alias("dst")).union(pairs.select("b", "a")))
    labels = topology.vertices.select("v", f.col("v").alias("label"))
    for _ in range(max_iterations):
        labels = settle(_vote(both, labels))
        if not totals(labels, changed=f.count_if(f.col("label") != f.col("was")))["changed"]:
            break
        labels = labels.select("v", "label")
    else:
        log.warning("labels still changed after %d rounds", max_iterations)
    return topology.named(labels.select("v", f.col("label").alias("community")), "community")


def _large_star(pairs: DataFrame) -> DataFrame:
    """Every vertex links its larger neighbours to the smallest one among its neighbours and itself."""
    both = pairs.union(pairs.select("v", "u"))
    smallest = both.groupBy("u").agg(f.least(f.min("v"), f.first("u")).alias("m"))
    return both.join(smallest, "u").where("v > u").select(f.col("v").alias("u"), f.col("m").alias("v")).distinct()


def _small_star(pairs: DataFrame) -> DataFrame:
    """Every vertex links its smaller neighbours and itself to the smallest of them."""
    smallest = pairs.groupBy("u").agg(f.min("v").alias("m"))
    moved = pairs.join(smallest, "u").where("v != m").select(f.col("v").alias("u"), f.col("m").alias("v"))
    return moved.union(smallest.select("u", f.col("m").alias("v"))).distinct()


def _fingerprint(pairs: DataFrame) -> tuple[object, ...]:
    """Equal for equal sets of pairs, whatever their order."""
    as_sum = f.sum(f.xxhash64("u", "v").cast("decimal(38,0)"))
    return tuple(totals(pairs, rows=f.count("*"), hashes=as_sum))


def _vote(both: DataFrame, labels: DataFrame) -> DataFrame:
    own: Column = f.col("label").alias("own")
    heard = both.join(labels.withColumnRenamed("v", "src"), "src").select(
        f.col("dst").alias("v"), "label", f.lit(None).cast("bigint").alias("own")
    )
    votes = (
        heard.union(labels.select("v", "label", own))
        .groupBy("v", "label")
        .agg(f.count("*").alias("votes"), f.max("own").alias("own"))
    )
    ranked = f.max(f.struct("votes", (-f.col("label")).alias("smallest")))
    won = votes.groupBy("v").agg(ranked.alias("best"), f.max("own").alias("was"))
    return won.select("v", (-f.col("best.smallest")).alias("label"), "was")
