"""How much a publish costs as the history grows, against one bare Lance commit in the same run.

    python benchmarks/publish.py                                 local disk, depths 10, 100 and 1,000
    python benchmarks/publish.py --depths 10 100 1000 10000      the whole curve
    python benchmarks/publish.py --s3                            the S3 server of the tests, requests counted by a proxy

A publish makes one table version visible. `requests` are all object-store requests of a publish, upkeep included, as a
mean over the window; `p50` is the median time of one. A local disk has no requests: there the operations on tables and
control objects are counted (commits, opens, scans, looks for a newer version).

The floor is an append of one row to a small table on an open handle, taken in turns with what is measured, so that the
drift of a busy machine shows. The goals are judged on the plain ratio of the last depth to the first. The ratio with
the floor's drift taken out is printed beside it, and decides nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from omnigraph.manifest.genesis import Blueprint
from omnigraph.manifest.graph_manifest import GraphManifest, create_manifest
from omnigraph.manifest.publisher import NewVersion, PublishRequest
from omnigraph.manifest.rows import KEY, SCHEMA
from omnigraph.store.counting import Counts, count, counting
from omnigraph.store.location import parse_location
from omnigraph.store.staging import commit_staged, create_table, stage_append
from omnigraph.store.tables import Table, TableStore
from omnigraph.world import REAL
from servers.counting_proxy import CountingProxy
from servers.seaweed import Seaweed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TYPE = "node:Person"
PERSON = pa.schema([pa.field("id", pa.utf8(), nullable=False)])
REQUEST_GOAL, TIME_GOAL = 1.3, 1.5


@dataclass(frozen=True)
class Measured:
    """One line of the table. `floor_ms` is the bare append's median in the same window, taken in turns."""

    what: str
    p50_ms: float
    p95_ms: float
    requests: float
    floor_ms: float
    floor_requests: float

    @property
    def against_floor(self) -> float:
        """How many bare appends this takes."""
        return self.p50_ms / self.floor_ms


@dataclass
class Meter:
    """What was asked of the store so far: HTTP requests through the proxy, or operations on a disk."""

    proxy: CountingProxy | None
    counts: Counts

    def __call__(self) -> int:
        """The number up to now."""
        return len(self.proxy.requests) if self.proxy is not None else len(self.counts.requests)


@dataclass
class Series:
    """The times and requests of one kind of act."""

    act: Callable[[], None]
    meter: Meter
    taken: list[float] = field(default_factory=list)
    requests: int = 0

    def once(self) -> None:
        """Do it, and note what it took."""
        before, started = self.meter(), time.perf_counter()
        self.act()
        self.taken.append((time.perf_counter() - started) * 1_000)
        self.requests += self.meter() - before


def measure(what: str, act: Callable[[], None], floor: Callable[[], None], meter: Meter, times: int) -> Measured:
    """The act and the floor in turns, so that a busy machine is equally busy for both."""
    mine, theirs = Series(act, meter), Series(floor, meter)
    for _ in range(times):
        mine.once()
        theirs.once()
    return Measured(
        what,
        statistics.median(mine.taken),
        statistics.quantiles(mine.taken, n=20)[-1],
        mine.requests / times,
        statistics.median(theirs.taken),
        theirs.requests / times,
    )


class Publisher:
    """A graph of one type that is published to, one version after the other, through one warm handle."""

    def __init__(self, uri: str) -> None:
        files = {"_schema.pg": b"", "_schema.ir.json": b"{}", "__schema_state.json": b"{}"}
        self.graph: GraphManifest = create_manifest(parse_location(uri), Blueprint(files, {TYPE: PERSON}))
        self.depth = 1

    def publish(self) -> None:
        """One more version."""
        self.depth += 1
        new = NewVersion(TYPE, self.depth, self.depth)
        self.graph.publish(PublishRequest(REAL.ulid(), REAL.now_us(), [new], expected_versions={TYPE: self.depth - 1}))

    def deepen(self, depth: int) -> None:
        """Real publishes until the history is this deep."""
        while self.depth < depth:
            self.publish()


def bare_append(uri: str) -> Callable[[], None]:
    """One row onto a small table, staged and committed on an open handle."""
    store = TableStore(parse_location(uri))
    options = store.location.storage_options
    create_table(store.uri("bare"), PERSON, None, None if options is None else dict(options))
    handle: list[Table] = [store.open_newest("bare")]

    def append() -> None:
        handle[0] = commit_staged(stage_append(handle[0], pa.table({"id": [REAL.ulid()]}, schema=PERSON))).table

    return append


def bare_keyed_publish(uri: str) -> Callable[[], None]:
    """Three rows, one of them replaced, by merge_insert on the primary key."""
    store = TableStore(parse_location(uri))
    options = store.location.storage_options
    first = [_rows("first")]
    create_table(store.uri("keyed"), SCHEMA, first, None if options is None else dict(options))
    dataset = store.open_newest("keyed").dataset

    def publish() -> None:
        count("table_commits", "keyed")
        builder = dataset.merge_insert(KEY).when_matched_update_all().when_not_matched_insert_all()
        builder.conflict_retries(0).use_index(False).execute(_rows(REAL.ulid()))

    return publish


def _rows(commit: str) -> pa.Table:
    facts = [(f"{TYPE}${commit}", "table_version"), (commit, "graph_commit"), ("graph_head:main", "graph_head")]
    rows = [{"object_id": key, "object_type": kind, "table_key": "", "metadata": "x" * 150} for key, kind in facts]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def run(uri: str, depths: list[int], meter: Meter, window: int) -> list[Measured]:
    """The floors, then a window of publishes from each depth on."""
    floor, keyed = bare_append(uri), bare_keyed_publish(uri)
    for act in (floor, keyed):
        act()
    lines = [measure("bare append of one row", floor, floor, meter, window)]
    lines.append(measure("bare keyed publish (merge_insert)", keyed, floor, meter, window // 4))
    publisher = Publisher(f"{uri}/graph")
    for depth in depths:
        publisher.deepen(depth)
        lines.append(measure(f"publish at depth {depth:,}", publisher.publish, floor, meter, window))
    return lines


def report(lines: list[Measured], where: str) -> bool:
    """Print the table and both time ratios; whether the goals were kept, judged on the plain one."""
    print(f"\n{where}\n")
    print("| what | p50 ms | p95 ms | requests | bare append p50 ms, in turns | p50 ratio | requests ratio |")
    print("|---|---|---|---|---|---|---|")
    for each in lines:
        mine = f"{each.p50_ms:.2f} | {each.p95_ms:.2f} | {each.requests:.1f}"
        ratios = f"{each.against_floor:.2f} | {each.requests / each.floor_requests:.2f}"
        print(f"| {each.what} | {mine} | {each.floor_ms:.2f} | {ratios} |")
    published = [each for each in lines if each.what.startswith("publish")]
    first, last = published[0], published[-1]
    requests, plain = last.requests / first.requests, last.p50_ms / first.p50_ms
    print(f"\n{last.what} against {first.what}:")
    print(f"- requests {requests:.2f}, goal {REQUEST_GOAL}: {_verdict(requests, REQUEST_GOAL)}")
    print(f"- time {plain:.2f}, goal {TIME_GOAL}: {_verdict(plain, TIME_GOAL)}")
    print(f"- the floor's own time moved by {last.floor_ms / first.floor_ms:.2f} meanwhile; ", end="")
    print(f"with that taken out, time {last.against_floor / first.against_floor:.2f}")
    return requests <= REQUEST_GOAL and plain <= TIME_GOAL


def _verdict(ratio: float, goal: float) -> str:
    return "kept" if ratio <= goal else "MISSED"


@contextmanager
def local() -> Iterator[tuple[str, Meter]]:
    """A directory of its own."""
    with tempfile.TemporaryDirectory() as folder, counting() as counts:
        yield folder, Meter(None, counts)


@contextmanager
def bucket() -> Iterator[tuple[str, Meter]]:
    """A bucket of its own, behind the counting proxy."""
    with tempfile.TemporaryDirectory() as folder:
        server = Seaweed(Path(folder)).start()
        try:
            with CountingProxy(server.endpoint) as proxy:
                os.environ.update({**server.environment, "AWS_ENDPOINT_URL_S3": proxy.endpoint})
                yield f"s3://{server.bucket}/publish", Meter(proxy, Counts())
        finally:
            server.kill()


def main() -> int:
    """Exit status 0 when the goals were kept."""
    parser = argparse.ArgumentParser(description="The cost of a publish at growing depths of history.")
    parser.add_argument("--depths", type=int, nargs="+", default=[10, 100, 1_000])
    parser.add_argument("--s3", action="store_true", help="on the S3 server of the tests instead of the local disk")
    parser.add_argument("--window", type=int, default=198, help="publishes measured at each depth")
    chosen = parser.parse_args()
    place = bucket if chosen.s3 else local
    with place() as (uri, meter):
        lines = run(uri, sorted(chosen.depths), meter, chosen.window)
    return 0 if report(lines, "S3 server on loopback" if chosen.s3 else "local disk") else 1


if __name__ == "__main__":
    sys.exit(main())
