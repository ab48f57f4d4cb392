"""What the processes of a busy graph do: write, read, and look after it."""

from __future__ import annotations

import datetime as dt

import omnigraph as og
from omnigraph.errors import ReadSetChanged
from omnigraph.storage.tables.compaction import CompactionPolicy
from omnigraph.world import REAL

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { @key(src, dst) }\n"
ADD = "query q($n: String) { insert Person { name: $n } insert Knows { from: $n, to: $n } }"
SET = "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
COUNT = "query q() { match { $p: Person  $p knows $p } return { count($p) as n } }"
ALL = "query q() { match { $p: Person } return { count($p) as n } }"


def keep_writing(uri: str, name: str, times: int) -> int:
    """Add people who know themselves, and change them; how many were added."""
    graph = og.open(uri)
    graph._manifest.minor_compaction = CompactionPolicy(fragments=3)
    for number in range(times):
        graph.mutate(ADD, {"n": f"{name}-{number}"})
        for attempt in range(100):
            try:
                graph.mutate(SET, {"n": f"{name}-{number}", "a": number})
                break
            except ReadSetChanged:
                # The other writer was first; two that retry in step would meet again.
                REAL.sleep(REAL.random_bits(10) / 1_024 * 0.01 * attempt)
        else:
            raise AssertionError("an update never got through")
    return times


def keep_reading(uri: str, seconds: float) -> int:
    """Read one state twice, and then the next; how often. Everybody is seen with their edge, and nobody vanishes."""
    graph = og.open(uri, read_only=True)
    reads = seen = 0
    end = REAL.monotonic() + seconds
    while REAL.monotonic() < end:
        snapshot = graph.snapshot()
        people = graph.query(ALL, at=snapshot).to_pylist()[0]["n"]
        assert graph.query(COUNT, at=snapshot).to_pylist()[0]["n"] == people, "a state between two"
        assert people >= seen, "somebody has vanished"
        seen = people
        reads += 1
    return reads


def keep_tidy(uri: str, what: str, seconds: float) -> int:
    """Optimize or clean up, over and over; how often. No table may fail."""
    graph = og.open(uri)
    times = 0
    end = REAL.monotonic() + seconds
    while REAL.monotonic() < end:
        if what == "optimize":
            errors = [each.error for each in graph.optimize().tables if each.error]
        else:
            report = graph.cleanup(keep=2, grace=dt.timedelta(seconds=20))
            errors = [each.error for each in report.tables if each.error]
        assert errors == []
        times += 1
    return times
