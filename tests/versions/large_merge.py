"""Merges very many changed rows, and tells how much memory that took at most. Run as a process of its own."""

from __future__ import annotations

import resource
import sys

import pyarrow as pa

import omnigraph as og

PIECE = 500_000


def people(first: int, rows: int, age: int) -> pa.Table:
    names = [f"p{each:08d}" for each in range(first, first + rows)]
    return pa.table({"name": names, "age": pa.array([age] * rows, pa.int32()), "city": ["somewhere"] * rows})


def peak() -> int:
    """The most memory that the process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_000


def main(place: str, rows: int) -> None:
    graph = og.init(place, schema="node Person { name: String @key  age: I32?  city: String? }")
    starts = range(0, rows, PIECE)
    for start in starts:
        graph.load({"Person": people(start, min(PIECE, rows - start), 1)}, mode="append", engine="local")
    graph.branches.create("feature")
    for start in starts:
        piece = people(start, min(PIECE, rows - start), 2)
        graph.load({"Person": piece}, mode="merge", branch="feature", engine="local")
    graph.mutate('query q() { update Person set { city: "here" } where name = "p00000007" }')
    before = peak()
    merged = graph.merge("feature")
    (row,) = graph.query(
        'query q() { match { $p: Person { name: "p00000007" } } return { $p.age, $p.city } }'
    ).to_pylist()
    print(merged.puts["node:Person"], before, peak(), *row.values())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
