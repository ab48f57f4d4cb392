"""How much a publish costs as the history grows, against one bare Lance commit in the same run.

    python benchmarks/publish.py                                 local disk, depths 10, 100 and 1,000
    python benchmarks/publish.py --depths 10 100 1000 10000      the whole curve
    python benchmarks/publish.py --s3                            the S3 server of the tests, requests counted by a proxy
    python benchmarks/publish.py --kept FOLDER [--build-only]    graphs are built once, and copied from there


A publish makes one table version visible. `requests` are all object-store requests of a publish, upkeep included, as a
mean over the window; `p50` is the median time of one. A local disk has no requests: there the operations on tables and
control objects are counted (commits, opens, scans, looks for a newer version).

There is one graph per depth, built by real publishes on the disk and copied to where it is measured. Then all of them
are published to in turns, and the floors with them, so that a busy machine is equally busy for every line and the ratio
of the last depth to the first needs no correction. The window is longer than one cycle of collecting old versions, so
that the lines of deep histories carry its requests. `cpu` is the processor time of one act, all threads. The floors: an
append of one row to a small table on an open handle, and the format's other way to publish, a keyed merge_insert into a
table that is not tidied.
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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from deep_graphs import copy_graph, kept_graph

from omnigraph.counters import Counts, count, counting
from omnigraph.manifest.create import NewGraph
from omnigraph.manifest.graph_manifest import GraphManifest, create_manifest
from omnigraph.manifest.layout import MANIFEST
from omnigraph.manifest.publisher import NewVersion, PublishRequest
from omnigraph.manifest.rows import KEY, SCHEMA
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.new_tables import create_table
from omnigraph.storage.tables.staging import commit_staged, stage_append
from omnigraph.storage.tables.table import Table, TableStore
from omnigraph.world import REAL
from servers.counting_proxy import CountingProxy
from servers.seaweed import Seaweed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TYPE = "node:Person"
PERSON = pa.schema([pa.field("id", pa.utf8(), nullable=False)])
REQUEST_GOAL, TIME_GOAL = 1.3, 1.5


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
    """The times and requests of one kind of act; one line of the table."""

    what: str
    act: Callable[[], None]
    meter: Meter
    taken: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    asked: int = 0

    def once(self) -> None:
        """Do it, and note what it took."""
        before, started, used = self.meter(), time.perf_counter(), time.process_time()
        self.act()
        self.taken.append((time.perf_counter() - started) * 1_000)
        self.cpu.append((time.process_time() - used) * 1_000)
        self.asked += self.meter() - before

    @property
    def p50(self) -> float:
        """The median time, in milliseconds."""
        return statistics.median(self.taken)

    @property
    def requests(self) -> float:
        """The mean number of requests."""
        return self.asked / len(self.taken)


class Publisher:
    """A graph of one type that is published to, one version after the other, through one warm handle."""

    def __init__(self, graph: GraphManifest) -> None:
        self.graph = graph
        self.depth = graph.snapshot()[TYPE].version

    def publish(self) -> None:
        """One more version."""
        self.depth += 1
        new = NewVersion(TYPE, self.depth, self.depth)
        self.graph.publish(PublishRequest(REAL.ulid(), REAL.now_us(), [new], expected_versions={TYPE: self.depth - 1}))

    def deepen(self, depth: int) -> None:
        """Real publishes until the history is this deep."""
        while self.depth < depth:
            self.publish()


def build(uri: str, depth: int) -> None:
    """A graph with a history of this depth."""
    files = {"_schema.pg": b"", "_schema.ir.json": b"{}", "__schema_state.json": b"{}"}
    location = parse_location(uri, REAL)
    begun = Path(uri, MANIFEST).exists()
    graph = (
        GraphManifest(location, world=REAL)
        if begun
        else create_manifest(location, NewGraph(files, {TYPE: PERSON}), REAL)
    )
    Publisher(graph).deepen(depth)


def bare_append(uri: str) -> Callable[[], None]:
    """One row onto a small table, staged and committed on an open handle."""
    store = TableStore(parse_location(uri, REAL), REAL)
    name = f"bare-{REAL.ulid()}"
    handle: list[Table] = [create_table(store, name, PERSON)]

    def append() -> None:
        handle[0] = commit_staged(stage_append(handle[0], pa.table({"id": [REAL.ulid()]}, schema=PERSON))).table

    return append


def bare_keyed_publish(uri: str) -> Callable[[], None]:
    """Three rows, one of them replaced, by merge_insert on the primary key."""
    store = TableStore(parse_location(uri, REAL), REAL)
    dataset = create_table(store, "keyed", SCHEMA, [_rows("first")]).handle

    def publish() -> None:
        count("table_commits", "keyed")
        builder = dataset.merge_insert(KEY).when_matched_update_all().when_not_matched_insert_all()
        builder.conflict_retries(0).use_index(False).execute(_rows(REAL.ulid()))

    return publish


def _rows(commit: str) -> pa.Table:
    facts = [(f"{TYPE}${commit}", "table_version"), (commit, "graph_commit"), ("graph_head:main", "graph_head")]
    rows = [{"object_id": key, "object_type": kind, "table_key": "", "metadata": "x" * 150} for key, kind in facts]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def run(uri: str, depths: list[int], meter: Meter, window: int, kept: Path) -> list[Series]:
    """Build every graph that is not kept, then measure all in turns."""
    lines = [
        Series("bare append of one row", bare_append(uri), meter),
        Series("bare keyed publish (merge_insert)", bare_keyed_publish(uri), meter),
    ]
    for depth in depths:
        source = kept_graph(kept, f"publish-{depth}", partial(build, depth=depth))
        publisher = Publisher(
            GraphManifest(parse_location(copy_graph(source, f"{uri}/graph-{depth}"), world=REAL), world=REAL)
        )
        publisher.publish()
        lines.append(Series(f"publish at depth {depth:,}", publisher.publish, meter))
    for turn in range(window):
        # Another one begins each time: what a line leaves behind in caches and threads falls on all others alike.
        first = turn % len(lines)
        for each in lines[first:] + lines[:first]:
            each.once()
    return lines


def report(lines: list[Series], where: str) -> bool:
    """Print the table and the ratios; whether the goals were kept."""
    floor, first, last = lines[0], lines[2], lines[-1]
    print(f"\n{where}, {len(floor.taken)} of each in turns\n")
    print("| what | p50 ms | p95 ms | cpu ms | requests | p50 to append | requests to append |")
    print("|---|---|---|---|---|---|---|")
    for each in lines:
        times = f"{each.p50:.2f} | {statistics.quantiles(each.taken, n=20)[-1]:.2f} | {statistics.median(each.cpu):.2f}"
        ratios = f"{each.p50 / floor.p50:.2f} | {each.requests / floor.requests:.2f}"
        print(f"| {each.what} | {times} | {each.requests:.1f} | {ratios} |")
    requests, seconds = last.requests / first.requests, last.p50 / first.p50
    print(f"\n{last.what} to {first.what}:")
    print(f"- requests {requests:.2f}, goal {REQUEST_GOAL}: {_verdict(requests, REQUEST_GOAL)}")
    print(f"- time {seconds:.2f}, goal {TIME_GOAL}: {_verdict(seconds, TIME_GOAL)}")
    return requests <= REQUEST_GOAL and seconds <= TIME_GOAL


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
    parser.add_argument("--window", type=int, default=240, help="publishes measured at each depth")
    parser.add_argument("--kept", type=Path, help="a folder in which built graphs stay for the next run")
    parser.add_argument("--build-only", action="store_true", help="only build them there")
    chosen = parser.parse_args()
    if chosen.build_only:
        for depth in chosen.depths:
            kept_graph(chosen.kept, f"publish-{depth}", partial(build, depth=depth))
        return 0
    place = bucket if chosen.s3 else local
    with place() as (uri, meter), tempfile.TemporaryDirectory() as folder:
        lines = run(uri, sorted(chosen.depths), meter, chosen.window, chosen.kept or Path(folder))
    return 0 if report(lines, "S3 server on loopback" if chosen.s3 else "local disk") else 1


if __name__ == "__main__":
    sys.exit(main())
