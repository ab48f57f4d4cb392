"""PageRank and components of a drawn graph on Spark, beside scipy's on the same arrays, in one process.

    python benchmarks/analytics.py [--edges 2000000] [--vertices 400000] [--rounds 10] [--at FOLDER]

The graph is made once in FOLDER and used again. Times leave out starting the session, which is told apart.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import omnigraph as og
from omnigraph.spark.runtime.session import spark_session, stop_session

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = "node Person { name: String @key } edge Follows: Person -> Person"


def drawn(vertices: int, edges: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Pairs with a few very popular targets, the same at every run."""
    chance = np.random.default_rng(7)
    return chance.integers(0, vertices, edges), (vertices * chance.random(edges) ** 3).astype(np.int64)


def graph_at(place: Path, vertices: int, edges: int) -> og.Graph:
    """The graph, made if it is not there."""
    if place.exists():
        return og.open(place)
    graph = og.init(place, schema=SCHEMA)
    source, target = drawn(vertices, edges)
    names = pa.array([f"person-{each:09}" for each in range(vertices)])
    ends = {"from": names.take(pa.array(source)), "to": names.take(pa.array(target))}
    graph.load({"Person": pa.table({"name": names}), "Follows": pa.table(ends)}, mode="append", engine="local")
    return graph


def timed(act: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came of it."""
    start = time.perf_counter()
    found = act()
    return time.perf_counter() - start, found


def by_arrays(vertices: int, edges: int, rounds: int) -> np.ndarray[Any, Any]:
    """The same rounds with numpy alone, on numbers that are there already."""
    source, target = drawn(vertices, edges)
    out = np.bincount(source, minlength=vertices)
    rank = np.full(vertices, 1 / vertices)
    for _ in range(rounds):
        given = np.where(out > 0, rank / np.maximum(out, 1), 0)
        received = np.bincount(target, given[source], vertices)
        rank = 0.15 / vertices + 0.85 * (received + rank[out == 0].sum() / vertices)
    return rank


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=2_000_000)
    parser.add_argument("--vertices", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--at", type=Path, default=None)
    parser.add_argument("--only-make", action="store_true")
    asked = parser.parse_args()
    folder = asked.at or Path(tempfile.mkdtemp())
    graph = graph_at(folder / f"analytics-{asked.vertices}-{asked.edges}.omni", asked.vertices, asked.edges)
    if asked.only_make:
        return
    started, session = timed(spark_session)
    analytics = graph.analytics.on(session)
    load = os.getloadavg()[0]
    ranking, ranks = timed(
        lambda: analytics.page_rank(["Follows"], tolerance=0, max_iterations=asked.rounds).orderBy("id").toArrow()
    )
    again, _ = timed(
        lambda: analytics.page_rank(["Follows"], tolerance=0, max_iterations=asked.rounds).orderBy("id").toArrow()
    )
    grouping, _ = timed(lambda: analytics.connected_components(["Follows"]).toArrow())
    plain, expected = timed(lambda: by_arrays(asked.vertices, asked.edges, asked.rounds))
    worst = float(np.max(np.abs(ranks.column("rank").to_numpy() - expected)))
    print(f"{asked.vertices:,} vertices, {asked.edges:,} edges, {asked.rounds} rounds; load average {load:.1f}")
    for what, seconds in (
        ("session", started),
        ("page_rank, first", ranking),
        ("page_rank, again", again),
        ("connected_components", grouping),
        ("page_rank, numpy on numbers that are there", plain),
    ):
        print(f"  {what:<44} {seconds:7.2f} s")
    print(f"  largest difference of a rank {worst:.1e}")
    stop_session(session)


if __name__ == "__main__":
    sys.exit(main())
