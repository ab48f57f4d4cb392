"""A merge of very many changed rows, and how much memory it takes at most. Each step is a process of its own.

large_merge.py build PLACE ROWS      a graph whose branch `feature` has changed every row
large_merge.py merge PLACE ENGINE    merge it, and tell rows, MB before, MB at most, and the row that both changed
"""

from __future__ import annotations

import resource
import sys
import time

import pyarrow as pa

import omnigraph as og
from omnigraph.graph import backends
from omnigraph.history.merge.partitioned.hash_partitions import MergeBudget

BATCH = 500_000


def people(first: int, rows: int, age: int) -> pa.Table:
    names = [f"p{each:08d}" for each in range(first, first + rows)]
    return pa.table({"name": names, "age": pa.array([age] * rows, pa.int32()), "city": ["somewhere"] * rows})


def peak() -> int:
    """The most memory that the process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_000


def build(place: str, rows: int) -> None:
    graph = og.init(place, schema="node Person { name: String @key  age: I32?  city: String? }")
    starts = range(0, rows, BATCH)
    for start in starts:
        graph.load({"Person": people(start, min(BATCH, rows - start), 1)}, mode="append", engine="local")
    graph.branches.create("feature")
    for start in starts:
        batch = people(start, min(BATCH, rows - start), 2)
        graph.load({"Person": batch}, mode="merge", branch="feature", engine="local")
    graph.mutate('query q() { update Person set { city: "here" } where name = "p00000007" }')


def merge(place: str, engine: str) -> None:
    graph = og.open(place)
    if engine == "memory":
        backends.BUDGET = MergeBudget(bytes=1 << 60)
    before, started = peak(), time.perf_counter()
    merged = graph.merge("feature", engine="spark" if engine == "spark" else "local")
    took = time.perf_counter() - started
    most = peak()
    (row,) = graph.query(
        'query q() { match { $p: Person { name: "p00000007" } } return { $p.age, $p.city } }'
    ).to_pylist()
    print(merged.puts["node:Person"], before, most, f"{took:.1f}", *row.values())


if __name__ == "__main__":
    if sys.argv[1] == "build":
        build(sys.argv[2], int(sys.argv[3]))
    else:
        merge(*sys.argv[2:4])
