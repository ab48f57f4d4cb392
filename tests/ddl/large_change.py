"""A change of schema of a large table, and how much memory it takes at most. Each step is a process of its own.

large_change.py build PLACE ROWS      a graph with one large table
large_change.py apply PLACE SCHEMA    change the schema, and tell the rows, MB before and MB at most
large_change.py merge PLACE FROM TO   merge one branch into another, and tell the same of the other
"""

from __future__ import annotations

import resource
import sys

import pyarrow as pa

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I32?  note: String? }"
CHANGED = 500_000


def people(first: int, rows: int) -> pa.Table:
    numbers = range(first, first + rows)
    return pa.table(
        {
            "name": [f"p{each:08d}" for each in numbers],
            "age": pa.array(numbers, pa.int32()),
            "note": [f"{each} is a number that has a long note of a hundred letters or so, " * 2 for each in numbers],
        }
    )


def peak() -> int:
    """The most memory that the process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_000


def build(place: str, rows: int) -> None:
    graph = og.init(place, schema=SCHEMA)
    for start in range(0, rows, CHANGED):
        graph.load({"Person": people(start, min(CHANGED, rows - start))}, mode="append", engine="local")


def apply(place: str, schema: str) -> None:
    graph = og.open(place)
    before = peak()
    graph.apply_schema(schema)
    print(sum(each.row_count for each in graph.snapshot()), before, peak())


def merge(place: str, source: str, target: str) -> None:
    graph = og.open(place)
    before = peak()
    graph.merge(source, into=target)
    print(sum(each.row_count for each in graph.snapshot(branch=target)), before, peak())


if __name__ == "__main__":
    if sys.argv[1] == "build":
        build(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "merge":
        merge(*sys.argv[2:5])
    else:
        apply(*sys.argv[2:4])
