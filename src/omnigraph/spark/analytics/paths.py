"""How far vertices are from given ones, and how many triangles they are in."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from omnigraph.errors import InvalidInput, NotFound
from omnigraph.spark.analytics.rounds import settle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.spark.analytics.topology import Topology

Direction = Literal["out", "in", "both"]
# So many levels are kept apart before they become one frame: few enough for a short plan, and rows are seldom copied.
_LEVELS_APART = 12


def shortest_paths(
    topology: Topology,
    sources: Mapping[str, Sequence[str]],
    *,
    direction: Direction,
    max_distance: int | None,
) -> DataFrame:
    """source_type, source, type, id and distance: how many edges lead from a source to a vertex, at the least.

    One row for each source and each vertex that it reaches, itself included.
    """
    steps = _steps(topology.edges, direction)
    starts = _starts(topology, sources)
    level = settle(starts.select(f.col("v").alias("source_v"), "v", f.lit(0).alias("distance")))
    levels, distance = [level], 0
    while (max_distance is None or distance < max_distance) and not level.isEmpty():
        distance += 1
        level = settle(_beyond(level, steps, reduce(DataFrame.union, levels), distance))
        levels.append(level)
        if len(levels) > _LEVELS_APART:
            levels = [settle(reduce(DataFrame.union, levels))]
    named = starts.select(f.col("v").alias("source_v"), f.col("type").alias("source_type"), f.col("id").alias("source"))
    found = reduce(DataFrame.union, levels).join(named, "source_v").join(topology.vertices, "v")
    return found.select("source_type", "source", "type", "id", "distance")


def triangle_count(topology: Topology) -> DataFrame:
    """type, id and triangles: how many sets of three vertices, each two of them joined, a vertex is in.

    Edges count both ways. Edges lead from the vertex with fewer neighbours to the one with more, so that a vertex
    with very many neighbours does not have to look at all pairs of them.
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
    return forward if direction == "out" else settle(ways[direction].repartition("src"))


def _starts(topology: Topology, sources: Mapping[str, Sequence[str]]) -> DataFrame:
    wanted = sorted({(kind, each) for kind, ids in sources.items() for each in ids})
    if not wanted:
        raise InvalidInput("shortest paths start somewhere: give the ids of at least one source.")
    named = topology.vertices.sparkSession.createDataFrame(wanted, "type string, id string")
    starts = settle(topology.vertices.join(f.broadcast(named), ["type", "id"]).select("v", "type", "id"))
    missing = set(wanted) - {(row["type"], row["id"]) for row in starts.collect()}
    if missing:
        kind, each = min(missing)
        raise NotFound(f"there is no {kind} {each!r} among the ends of these edges to start from.")
    return starts


def _beyond(level: DataFrame, steps: DataFrame, known: DataFrame, distance: int) -> DataFrame:
    """What one more step reaches for the first time."""
    ahead = level.select("source_v", f.col("v").alias("src")).join(steps, "src")
    reached = ahead.select("source_v", f.col("dst").alias("v")).distinct()
    return reached.join(known, ["source_v", "v"], "left_anti").withColumn("distance", f.lit(distance))


def _by_degree(pairs: DataFrame) -> DataFrame:
    """low, high and high's rank: every pair once, led from the vertex of the lower rank (degree, then number)."""
    ends = pairs.select(f.explode(f.array("a", "b")).alias("v"))
    degree = settle(ends.groupBy("v").agg(f.count("*").alias("degree")))
    rank_a = degree.select(f.col("v").alias("a"), f.struct("degree", "v").alias("a_rank"))
    rank_b = degree.select(f.col("v").alias("b"), f.struct("degree", "v").alias("b_rank"))
    ranked = pairs.join(rank_a, "a").join(rank_b, "b")
    up = f.col("a_rank") < f.col("b_rank")
    low, high = f.when(up, f.col("a")).otherwise(f.col("b")), f.when(up, f.col("b")).otherwise(f.col("a"))
    return settle(ranked.select(low.alias("low"), high.alias("high"), f.greatest("a_rank", "b_rank").alias("rank")))
