"""Graph algorithms on Spark frames: components, label propagation, shortest paths, triangles, PageRank and degrees.

PageRank is computed in integers, in units of 2**-60: integer sums do not depend on the order in which Spark adds them,
so a score is bit for bit the same on every run and every cluster.
"""

from __future__ import annotations

import logging
from functools import reduce
from typing import TYPE_CHECKING, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from omnigraph.errors import InvalidInput, NotFound
from omnigraph.spark.analytics.topology import materialize, totals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

    from omnigraph.spark.analytics.topology import Topology

log = logging.getLogger(__name__)


def connected_components(topology: Topology) -> DataFrame:
    """type, id and component, the number of the component's first vertex in the order of type and id.

    Edges are undirected. Every round links each vertex to the smallest vertex known to it, with the large-star and
    small-star operations of Kiveris et al., "Connected Components in MapReduce and Beyond", until only stars remain.
    """
    pairs = topology.neighbours().select(f.col("b").alias("u"), f.col("a").alias("v"))
    seen = _fingerprint(pairs)
    while True:
        pairs = materialize(_small_star(_large_star(pairs)))
        now = _fingerprint(pairs)
        if now == seen:
            break
        seen = now
    stars = pairs.select(f.col("u").alias("v"), f.col("v").alias("first"))
    found = topology.vertices.select("v").join(stars, "v", "left")
    return topology.named(found.select("v", f.coalesce("first", "v").alias("component")), "component")


def label_propagation(topology: Topology, *, max_iterations: int) -> DataFrame:
    """type, id and community, the number of the vertex that the label comes from.

    Each round, every vertex takes the most frequent label among its neighbours and itself, the smallest on a tie. Stops
    when no label changes. Edges are undirected, and parallel edges count once.
    """
    pairs = topology.neighbours()
    both = materialize(pairs.select(f.col("a").alias("src"), f.col("b").alias("dst")).union(pairs.select("b", "a")))
    labels = topology.vertices.select("v", f.col("v").alias("label"))
    for _ in range(max_iterations):
        labels = materialize(_vote(both, labels))
        if not totals(labels, changed=f.count_if(f.col("label") != f.col("was")))["changed"]:
            break
        labels = labels.select("v", "label")
    else:
        log.warning("labels still changed after %d rounds", max_iterations)
    return topology.named(labels.select("v", f.col("label").alias("community")), "community")


def _large_star(pairs: DataFrame) -> DataFrame:
    """Link the larger neighbours of every vertex to the smallest of its neighbours and itself."""
    both = pairs.union(pairs.select("v", "u"))
    smallest = both.groupBy("u").agg(f.least(f.min("v"), f.first("u")).alias("m"))
    return both.join(smallest, "u").where("v > u").select(f.col("v").alias("u"), f.col("m").alias("v")).distinct()


def _small_star(pairs: DataFrame) -> DataFrame:
    """Link the smaller neighbours of every vertex, and itself, to the smallest of them."""
    smallest = pairs.groupBy("u").agg(f.min("v").alias("m"))
    moved = pairs.join(smallest, "u").where("v != m").select(f.col("v").alias("u"), f.col("m").alias("v"))
    return moved.union(smallest.select("u", f.col("m").alias("v"))).distinct()


def _fingerprint(pairs: DataFrame) -> tuple[object, ...]:
    """An order-independent hash of a set of pairs."""
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


Direction = Literal["out", "in", "both"]
# Levels held as separate frames before they are merged: few enough for a short plan, and rows are rarely copied.
_LEVELS_APART = 12


def shortest_paths(
    topology: Topology,
    sources: Mapping[str, Sequence[str]],
    *,
    direction: Direction,
    max_distance: int | None,
) -> DataFrame:
    """source_type, source, type, id and distance: the length of the shortest path from a source, in edges.

    One row for each pair of a source and a vertex that it reaches, including itself.
    """
    steps = _steps(topology.edges, direction)
    starts = _starts(topology, sources)
    level = materialize(starts.select(f.col("v").alias("source_v"), "v", f.lit(0).alias("distance")))
    levels, distance = [level], 0
    while (max_distance is None or distance < max_distance) and not level.isEmpty():
        distance += 1
        level = materialize(_beyond(level, steps, reduce(DataFrame.union, levels), distance))
        levels.append(level)
        if len(levels) > _LEVELS_APART:
            levels = [materialize(reduce(DataFrame.union, levels))]
    named = starts.select(f.col("v").alias("source_v"), f.col("type").alias("source_type"), f.col("id").alias("source"))
    found = reduce(DataFrame.union, levels).join(named, "source_v").join(topology.vertices, "v")
    return found.select("source_type", "source", "type", "id", "distance")


def triangle_count(topology: Topology) -> DataFrame:
    """type, id and triangles: the number of triangles that contain the vertex.

    Edges are undirected. They are oriented from the vertex of lower degree to the one of higher degree, so that a
    vertex of very high degree does not enumerate all pairs of its neighbours.
    """
    pairs = _by_degree(topology.neighbours())
    one, other = pairs.toDF("a", "b", "b_rank"), pairs.toDF("a", "c", "c_rank")
    wedges = one.join(other, "a").where("b_rank < c_rank").select("a", "b", "c")
    closing = pairs.select(f.col("low").alias("b"), f.col("high").alias("c"))
    corners = wedges.join(closing, ["b", "c"]).select(f.explode(f.array("a", "b", "c")).alias("v"))
    return topology.named(corners.groupBy("v").agg(f.count("*").alias("triangles")), "triangles").fillna(0)


def _steps(edges: DataFrame, direction: Direction) -> DataFrame:
    forward = edges.select("src", "dst")
    backward = edges.select(f.col("dst").alias("src"), f.col("src").alias("dst"))
    ways = {"out": forward, "in": backward, "both": forward.union(backward)}
    if direction not in ways:
        raise InvalidInput(f"direction is out, in or both, not {direction!r}.")
    return forward if direction == "out" else materialize(ways[direction].repartition("src"))


def _starts(topology: Topology, sources: Mapping[str, Sequence[str]]) -> DataFrame:
    wanted = sorted({(kind, each) for kind, ids in sources.items() for each in ids})
    if not wanted:
        raise InvalidInput("shortest paths start somewhere: give the ids of at least one source.")
    named = topology.vertices.sparkSession.createDataFrame(wanted, "type string, id string")
    starts = materialize(topology.vertices.join(f.broadcast(named), ["type", "id"]).select("v", "type", "id"))
    missing = set(wanted) - {(row["type"], row["id"]) for row in starts.collect()}
    if missing:
        kind, each = min(missing)
        raise NotFound(f"there is no {kind} {each!r} among the ends of these edges to start from.")
    return starts


def _beyond(level: DataFrame, steps: DataFrame, visited: DataFrame, distance: int) -> DataFrame:
    """The vertices first reached at this distance."""
    ahead = level.select("source_v", f.col("v").alias("src")).join(steps, "src")
    reached = ahead.select("source_v", f.col("dst").alias("v")).distinct()
    return reached.join(visited, ["source_v", "v"], "left_anti").withColumn("distance", f.lit(distance))


def _by_degree(pairs: DataFrame) -> DataFrame:
    """low, high and the rank of high: each pair oriented from lower to higher rank (degree, then number)."""
    endpoints = pairs.select(f.explode(f.array("a", "b")).alias("v"))
    degree = materialize(endpoints.groupBy("v").agg(f.count("*").alias("degree")))
    rank_a = degree.select(f.col("v").alias("a"), f.struct("degree", "v").alias("a_rank"))
    rank_b = degree.select(f.col("v").alias("b"), f.struct("degree", "v").alias("b_rank"))
    ranked = pairs.join(rank_a, "a").join(rank_b, "b")
    up = f.col("a_rank") < f.col("b_rank")
    low, high = f.when(up, f.col("a")).otherwise(f.col("b")), f.when(up, f.col("b")).otherwise(f.col("a"))
    return materialize(
        ranked.select(low.alias("low"), high.alias("high"), f.greatest("a_rank", "b_rank").alias("rank"))
    )


WHOLE = 1 << 60
# The total rank of vertices without outgoing edges.
_DANGLING = "sum(if(out = 0, rank, 0L))"


def page_rank(topology: Topology, *, damping: float, tolerance: float, max_iterations: int) -> DataFrame:
    """type, id and rank; ranks sum to 1. Vertices without outgoing edges distribute their rank over all vertices.

    Stops when the ranks change by less than `tolerance` in total.
    """
    require_damping(damping)
    if not topology.count:
        return topology.named(topology.vertices.select("v", f.lit(0.0).alias("rank")), "rank")
    state = _first_ranks(topology)
    dangling = totals(state, dangling=f.expr(_DANGLING))["dangling"]
    for _ in range(max_iterations):
        state = _next_ranks(topology, state, damping, dangling or 0)
        moved, dangling = totals(state, moved=f.sum("moved"), dangling=f.expr(_DANGLING))
        if moved < tolerance * WHOLE:
            break
    else:
        log.warning("the ranks still moved by more than %g after %d rounds", tolerance, max_iterations)
    whole = totals(state, all=f.sum("rank"))["all"]
    return topology.named(state.select("v", (f.col("rank") / f.lit(whole)).alias("rank")), "rank")


def require_damping(damping: float) -> None:
    """Raise `InvalidInput` unless 0 <= damping < 1."""
    if not 0 <= damping < 1:
        raise InvalidInput(f"damping is at least 0 and less than 1, not {damping}.")


def everyones_share(damping: float, dangling: int, count: int) -> int:
    """The rank that every vertex gets in a round regardless of its incoming edges."""
    return int((1 - damping) * WHOLE / count) + int(damping * dangling / count)


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
    return materialize(first.repartition("v"))


def _next_ranks(topology: Topology, state: DataFrame, damping: float, dangling: int) -> DataFrame:
    everyones = everyones_share(damping, dangling, topology.count)
    given = state.where("out > 0").select(f.col("v").alias("src"), f.expr("rank div out").alias("given"))
    received = topology.edges.join(given, "src").groupBy(f.col("dst").alias("v")).agg(f.sum("given").alias("received"))
    share = (f.lit(damping) * f.coalesce("received", f.lit(0))).cast("bigint")
    after = state.join(received, "v", "left").select(
        "v", "out", (share + f.lit(everyones)).alias("rank"), f.col("rank").alias("was")
    )
    return materialize(after.select("v", "out", "rank", f.abs(f.expr("rank - was")).alias("moved")))
