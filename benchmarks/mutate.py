"""What a commit costs: time and requests, against bare Lance commits to the same tables plus one manifest publish.

    python benchmarks/mutate.py                  on the disk, at depths 10 and 1,000
    python benchmarks/mutate.py --deep           at depth 10,000 as well (takes a while)
    python benchmarks/mutate.py --s3             on an S3 server that it starts, counting requests through a proxy
    python benchmarks/mutate.py --depths 10 100 1000 10000   one-row inserts and updates after so many others [--s3];
                                                 with --kept FOLDER, the graphs stay for the next run

The floor does the same work without the protocol: it stages and commits the same rows to tables of the same content,
and publishes them, with no sidecar, no queue and no look at what others do. Commits of both are timed in turn. Times
are lower quartiles; `noise` says how much higher the median is.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deep_graphs import copy_graph, kept_graph

import omnigraph as og
from omnigraph.manifest.create import NewGraph
from omnigraph.manifest.graph_manifest import GraphManifest, create_manifest
from omnigraph.manifest.publisher import NewVersion, PublishRequest
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.staging import Staged, commit_staged, stage_append
from omnigraph.storage.tables.table import TableStore
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.write_set import TableWrite, WriteSet
from omnigraph.world import REAL

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from servers.counting_proxy import CountingProxy
from servers.seaweed import Seaweed
from storage.joined_changes import stage_upsert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from omnigraph.storage.tables.table import Table

TABLES = ("node:A", "node:B", "node:C")
SCHEMA = pa.schema([pa.field("id", pa.utf8(), nullable=False), pa.field("v", pa.int64())])
FILES = {"_schema.pg": b"node A { name: String @key }\n", "_schema.ir.json": b"{}", "__schema_state.json": b"{}"}
TYPES = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge LivesIn: Person -> City
"""
ROUNDS = 40
# Whole cycles of joining small fragments, so that each measurement has its share of them.
DEPTH_ROUNDS = 64


@dataclass(frozen=True)
class Case:
    """Rows for some tables; `change` sets one row that is there instead of adding new ones."""

    name: str
    tables: Sequence[str]
    rows: int = 1
    change: bool = False

    def stage(self, table: Table, number: int) -> Staged:
        """The change, staged on a table."""
        if self.change:
            return stage_upsert(table, _rows(["seed"], number))
        return stage_append(table, _rows([f"{number}-{each}" for each in range(self.rows)], number))


CASES = (
    Case("one row, one table", TABLES[:1]),
    Case("one row updated", TABLES[:1], change=True),
    Case("1,000 rows, one table", TABLES[:1], rows=1_000),
    Case("one row, two tables", TABLES[:2]),
    Case("one row, three tables", TABLES),
)


@dataclass
class Timings:
    """Seconds and requests of one way to do it."""

    seconds: list[float] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)

    @property
    def milliseconds(self) -> float:
        """The lower quartile: what it takes when other programs leave the machine alone for a moment."""
        return statistics.quantiles(self.seconds, n=4)[0] * 1_000

    @property
    def noise(self) -> float:
        """How far the median is above that."""
        low, middle, _ = statistics.quantiles(self.seconds, n=4)
        return middle / low - 1

    @property
    def typical_requests(self) -> int | None:
        """The median, where requests were counted."""
        return int(statistics.median(self.requests)) if self.requests else None


def main() -> None:
    """Print the tables."""
    options = _options()
    if options.build_only:
        for depth in options.depths:
            kept_graph(options.kept, f"mutate-{depth}", partial(_build, depth=depth))
        return
    with ExitStack() as stack:
        proxy = _server(stack) if options.s3 else None
        where = _places(stack, s3=options.s3)
        if options.depths:
            kept = options.kept or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            _flatness(where, sorted(options.depths), proxy, "S3" if options.s3 else "disk", kept)
            return
        depths = [10, 1_000, 10_000] if options.deep else [10, 200] if options.s3 else [10, 1_000]
        print(f"| {'S3' if options.s3 else 'disk'}: commit | depth | floor ms | commit ms | ratio | noise | requests |")
        print("|---|---|---|---|---|---|---|")
        graph, floor = _create(next(where)), _create(next(where))
        for depth in depths:
            _deepen(graph, depth)
            _deepen(floor, depth)
            for case in CASES:
                _report(case, depth, *_compare(graph, floor, case, proxy))
        _mutations(next(where), proxy)


def _compare(
    graph: GraphManifest, floor: GraphManifest, case: Case, proxy: CountingProxy | None
) -> tuple[Timings, Timings]:
    for number in range(3):
        _bare(floor, case, -1 - number)
        _commit(graph, case, -1 - number)
    bare, whole = Timings(), Timings()
    for number in range(ROUNDS):
        _time(bare, lambda n=number: _bare(floor, case, n), proxy)
        _time(whole, lambda n=number: _commit(graph, case, n), proxy)
    return bare, whole


def _time(into: Timings, work: Callable[[], object], proxy: CountingProxy | None) -> None:
    if proxy is not None:
        proxy.reset()
    started = time.perf_counter()
    work()
    into.seconds.append(time.perf_counter() - started)
    if proxy is not None:
        into.requests.append(len(proxy.requests))


def _commit(graph: GraphManifest, case: Case, number: int) -> None:
    commit(
        graph,
        Operation(
            "Mutation",
            lambda view: WriteSet(
                [TableWrite(view.entry(key), lambda table: case.stage(table, number)) for key in case.tables]
            ),
        ),
    )


def _bare(graph: GraphManifest, case: Case, number: int) -> None:
    """The same tables and the same publish, without anything that makes it safe."""
    snapshot = graph.branch().snapshot()
    versions = []
    for key in case.tables:
        landed = commit_staged(case.stage(graph.stores.tables.open(snapshot[key].pin), number))
        graph.stores.tables.cache_handle(landed.table)
        versions.append(NewVersion(key, landed.version, landed.table.count_rows()))
    graph.publish(PublishRequest(REAL.ulid(), REAL.now_us(), versions))


def _mutations(uri: str, proxy: CountingProxy | None) -> None:
    """The same through the language: parsed, checked and validated. There is no floor for this."""
    graph = og.init(uri, schema=TYPES)
    graph.mutate('query q() { insert City { name: "Rome" } insert Person { name: "ada", age: 1 } }')
    queries = {
        "insert a node": ("query q($n: String) { insert Person { name: $n } }", lambda n: {"n": f"p{n}"}),
        "update a node": ('query q($a: I32) { update Person set { age: $a } where name = "ada" }', lambda n: {"a": n}),
        "insert a node and an edge": (
            'query q($n: String) { insert Person { name: $n } insert LivesIn { from: $n, to: "Rome" } }',
            lambda n: {"n": f"e{n}"},
        ),
        "delete a node and its edge": (
            "query q($n: String) { delete Person where name = $n }",
            lambda n: {"n": f"e{n}"},
        ),
    }
    print("\n| mutation | ms | noise | requests |\n|---|---|---|---|")
    for name, (query, params) in queries.items():
        timings = Timings()
        for number in range(ROUNDS):
            _time(timings, lambda n=number, q=query, p=params: graph.mutate(q, p(n)), proxy)
        print(f"| {name} | {timings.milliseconds:.1f} | +{timings.noise:.0%} | {timings.typical_requests or '-'} |")


INSERT = "query q($n: String) { insert Person { name: $n } }"
UPDATE = 'query q($a: I32) { update Person set { age: $a } where name = "p0" }'


def _build(uri: str, depth: int) -> None:
    """A graph in which so many mutations have moved the same table."""
    graph = og.open(uri) if Path(uri).exists() else og.init(uri, schema=TYPES)
    for number in range(graph.snapshot()["node:Person"].row_count, depth):
        graph.mutate(INSERT, {"n": f"p{number}"})


def _flatness(where: Iterator[str], depths: Sequence[int], proxy: CountingProxy | None, store: str, kept: Path) -> None:
    """Inserts and updates of one row after so many others, in graphs of all depths in turns, and what Lance alone does.

    The floors come last, on the same table: one row appended by a bare Lance commit, and a look for the newest version,
    which every commit takes as well.
    """
    graphs, floors = {}, {}
    for depth in depths:
        source = kept_graph(kept, f"mutate-{depth}", partial(_build, depth=depth))
        place = copy_graph(source, next(where))
        graphs[depth], floors[depth] = og.open(place), BareTable(place)
        graphs[depth].mutate(INSERT, {"n": "first"})
    print(f"| {store}: mutations before | what | ms | noise | mean ms | requests | mean requests |")
    print("|---|---|---|---|---|---|---|")
    for name, query in (("insert", INSERT), ("update", UPDATE), ("bare commit", None), ("look at versions", "")):
        timings = {depth: Timings() for depth in depths}
        for number in range(DEPTH_ROUNDS):
            given = {"n": f"n{number}"} if query is INSERT else {"a": number}
            for depth, graph in graphs.items():
                work: Callable[[], object] = partial(graph.mutate, query, given) if query else floors[depth].look
                _time(timings[depth], partial(floors[depth].commit, number) if query is None else work, proxy)
        for depth, each in timings.items():
            mean = statistics.mean(each.requests) if each.requests else 0.0
            print(
                f"| {depth:,} | {name} | {each.milliseconds:.1f} | +{each.noise:.0%} "
                f"| {statistics.mean(each.seconds) * 1_000:.1f} | {each.typical_requests or '-'} | {mean:.1f} |",
                flush=True,
            )


class BareTable:
    """The table of people of a graph, through Lance alone: from its first commit on, the graph is of no use."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    @cached_property
    def _table(self) -> Table:
        entry = og.open(self._uri, read_only=True).snapshot()["node:Person"]
        return TableStore(parse_location(self._uri, REAL), REAL).open_newest(entry.path)

    def commit(self, number: int) -> None:
        """One row more."""
        row = {"id": f"bare-{number}", "name": f"bare-{number}", "age": number}
        rows = pa.Table.from_pylist([row], schema=self._table.schema)
        self._table = commit_staged(stage_append(self._table, rows)).table

    def look(self) -> None:
        """Ask for the newest version."""
        self._table.latest_version()


def _report(case: Case, depth: int, bare: Timings, whole: Timings) -> None:
    ratio = whole.milliseconds / bare.milliseconds
    requests = f"{whole.typical_requests} (floor {bare.typical_requests})" if whole.requests else "-"
    noise = max(bare.noise, whole.noise)
    print(
        f"| {case.name} | {depth:,} | {bare.milliseconds:.1f} | {whole.milliseconds:.1f} | {ratio:.2f} "
        f"| +{noise:.0%} | {requests} |",
        flush=True,
    )


def _create(uri: str) -> GraphManifest:
    graph = create_manifest(parse_location(uri, REAL), NewGraph(FILES, dict.fromkeys(TABLES, SCHEMA)), REAL)
    seed = Operation(
        "Load",
        lambda view: WriteSet(
            [TableWrite(view.entry(key), lambda table: stage_append(table, _rows(["seed"], 0))) for key in TABLES]
        ),
    )
    commit(graph, seed)
    return graph


def _deepen(graph: GraphManifest, depth: int) -> None:
    """Add commits that change no table, so that only the history grows."""
    for _ in range(depth - len(graph.branch().lineage().commits)):
        commit(graph, Operation("Load", lambda _: WriteSet()))


def _rows(ids: Sequence[str], value: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [value] * len(ids)}, schema=SCHEMA)


def _server(stack: ExitStack) -> CountingProxy:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    server = Seaweed(Path(folder)).start()
    stack.callback(server.kill)
    proxy = stack.enter_context(CountingProxy(server.endpoint))
    os.environ.update({**server.environment, "AWS_ENDPOINT_URL_S3": proxy.endpoint, "OMNIGRAPH_BUCKET": server.bucket})
    return proxy


def _places(stack: ExitStack, *, s3: bool) -> Iterator[str]:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    for number in range(100):
        yield f"s3://{os.environ['OMNIGRAPH_BUCKET']}/{number}/graph.omni" if s3 else f"{folder}/{number}/graph.omni"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--s3", action="store_true", help="on an S3 server, counting requests")
    parser.add_argument("--depths", type=int, nargs="+", help="only one-row mutations, after so many others")
    parser.add_argument("--kept", type=Path, help="a folder in which the graphs of --depths stay for the next run")
    parser.add_argument("--build-only", action="store_true", help="only build those of --depths there")
    parser.add_argument("--deep", action="store_true", help="at depth 10,000 as well")
    return parser.parse_args()


if __name__ == "__main__":
    main()
