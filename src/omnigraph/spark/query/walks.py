"""Walks of several hops: from each start, every end once, at its shortest distance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import HopCapReached
from omnigraph.spark.query.frames import FROM, TO, column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from omnigraph.language.query.checked import Hops

_NODE = "#node"


def reached(starts: DataFrame, pairs: DataFrame, hops: Hops, edge: str) -> DataFrame:
    """The pairs of a start and an end within the bounds. Each hop runs when this is called: only it tells when to stop.

    `starts` has one column, FROM. A start counts as visited; a loop of its own reaches it at the first hop.
    """
    steps = pairs.select(column(FROM).alias(_NODE), column(TO)).localCheckpoint()
    frontier = starts.select(column(FROM), column(FROM).alias(_NODE))
    visited, found = frontier, starts.select(column(FROM), column(FROM).alias(TO)).limit(0)
    for depth in range(1, hops.maximum + 1):
        near = frontier.join(steps, _NODE).select(FROM, TO).distinct().localCheckpoint()
        fresh = near.join(visited.withColumnRenamed(_NODE, TO), [FROM, TO], "left_anti").localCheckpoint()
        if depth >= hops.minimum:
            found = found.unionByName(fresh)
            if depth == 1:
                found = found.unionByName(near.where(column(FROM) == column(TO)))
        frontier = fresh.withColumnRenamed(TO, _NODE)
        if frontier.isEmpty():
            return found
        visited = visited.unionByName(frontier)
    if hops.capped:
        _refuse_more(frontier, visited, steps, hops, edge)
    return found


def _refuse_more(frontier: DataFrame, visited: DataFrame, steps: DataFrame, hops: Hops, edge: str) -> None:
    more = frontier.join(steps, _NODE).select(FROM, TO)
    if not more.join(visited.withColumnRenamed(_NODE, TO), [FROM, TO], "left_anti").isEmpty():
        raise HopCapReached(edge, hops.maximum)
