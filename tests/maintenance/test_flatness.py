"""The cost of a small write does not follow the number of small writes before it: requests are counted on S3."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph.counters import counting
from servers.counting_proxy import CountingProxy

if TYPE_CHECKING:
    from pathlib import Path

    from servers.seaweed import Seaweed

SCHEMA = "node Person { name: String @key  age: I32? }\n"
ADD = "query q($n: String) { insert Person { name: $n } }"
SET = 'query q($a: I32) { update Person set { age: $a } where name = "p0" }'
# Two whole cycles of joining small fragments.
ROUNDS = 32


class Writer:
    """Adds people one by one, and changes the first."""

    def __init__(self, graph: og.Graph) -> None:
        self.graph = graph
        self.people = 0

    def add(self) -> None:
        self.graph.mutate(ADD, {"n": f"p{self.people}"})
        self.people += 1

    def change(self) -> None:
        self.graph.mutate(SET, {"a": self.people})

    def until(self, depth: int) -> None:
        while self.people < depth:
            self.add()


def test_operations_of_a_write_stay_the_same_on_disk(tmp_path: Path) -> None:
    writer = Writer(og.init(tmp_path / "graph", schema=SCHEMA))

    def cost(work: str) -> float:
        found = []
        for _ in range(ROUNDS):
            with counting() as counts:
                getattr(writer, work)()
            found.append(counts.objects + counts.table_opens + counts.table_probes + counts.table_commits)
        return statistics.mean(found)

    writer.until(10)
    early = {work: cost(work) for work in ("add", "change")}
    writer.until(150)
    late = {work: cost(work) for work in ("add", "change")}
    assert all(late[work] <= early[work] * 1.1 for work in early), (early, late)


def _requests(proxy: CountingProxy, writer: Writer) -> dict[str, tuple[float, float]]:
    """The median and the mean of a write's requests."""
    found = {}
    for work in ("add", "change"):
        counts = []
        for _ in range(ROUNDS):
            proxy.reset()
            getattr(writer, work)()
            counts.append(len(proxy.requests))
        found[work] = (statistics.median(counts), statistics.mean(counts))
    return found


def _flat(server: Seaweed, monkeypatch: pytest.MonkeyPatch, name: str, depths: tuple[int, ...]) -> None:
    with CountingProxy(server.endpoint) as proxy:
        for key, value in {**server.environment, "AWS_ENDPOINT_URL_S3": proxy.endpoint}.items():
            monkeypatch.setenv(key, value)
        writer = Writer(og.init(f"s3://{server.bucket}/{name}/graph.omni", schema=SCHEMA))
        found = []
        for depth in depths:
            writer.until(depth)
            found.append(_requests(proxy, writer))
        print(dict(zip(depths, found, strict=True)))
        for later in found[1:]:
            for work, (median, mean) in later.items():
                assert median <= found[0][work][0] * 1.3
                assert mean <= found[0][work][1] * 1.3


@pytest.mark.s3
def test_requests_of_a_write_stay_the_same_on_s3(s3_server: Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    _flat(s3_server, monkeypatch, "flat", (10, 60))


@pytest.mark.s3
@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_requests_stay_the_same_from_the_tenth_to_the_thousandth(
    s3_server: Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    _flat(s3_server, monkeypatch, "deep", (10, 100, 1_000))
