"""A commit that is under way for so long that the version it becomes was made and collected by others meanwhile."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from manifest.graphs import AUTHOR, EAGER, PAPER, chain, create, publish_next, reopen, request, version
from omnigraph.manifest.graph_manifest import GraphManifest
from omnigraph.manifest.publisher import Stopwatch
from omnigraph.storage.objects.location import parse_location
from omnigraph.world import REAL, World
from seeded_world import SeededWorld
from servers.counting_proxy import CountingProxy, _Handler

if TYPE_CHECKING:
    from servers.seaweed import Seaweed


class HoldingProxy(CountingProxy):
    """Once told to, holds the next write of a version file until it is let go."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.hold = False
        self.holds = threading.Event()
        self.let_go = threading.Event()
        self._server.RequestHandlerClass = _HoldingHandler

    def __enter__(self) -> HoldingProxy:
        self.start()
        return self


class _HoldingHandler(_Handler):
    def relay(self) -> None:
        proxy = self.server.proxy
        assert isinstance(proxy, HoldingProxy)
        if proxy.hold and self.command == "PUT" and ".manifest" in self.path:
            proxy.hold = False
            proxy.holds.set()
            assert proxy.let_go.wait(60)
        super().relay()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relay  # noqa: N815


def held_publish(server: Seaweed, uri: str, commit_grace_seconds: float) -> str:
    """Publish through a proxy that holds the commit back while another publishes and collects; the commit id."""
    policy = replace(EAGER, commit_grace_seconds=commit_grace_seconds)
    with HoldingProxy(server.endpoint) as proxy, ThreadPoolExecutor(1) as thread:
        place = parse_location(uri, REAL, storage_options={"aws_endpoint": proxy.endpoint})
        slow, busy = GraphManifest(place, world=REAL, manifest_policy=policy), reopen(uri, manifest_policy=EAGER)
        proxy.hold = True
        done = thread.submit(slow.publish, request(version(PAPER, 2)))
        assert proxy.holds.wait(60)
        held = slow.branch().table.version + 1
        while (
            held in [each["version"] for each in busy.branch().table.handle.versions()]
            or busy.branch().table.version <= held
        ):
            publish_next(busy, AUTHOR)
        proxy.let_go.set()
        return done.result(60).commit.id


@pytest.mark.s3
def test_a_publish_that_was_held_up_while_others_collected_is_not_lost(s3_server: Seaweed, s3_uri: str) -> None:
    create(s3_uri)
    published = held_publish(s3_server, s3_uri, commit_grace_seconds=0.2)
    assert published == chain(reopen(s3_uri))[0]
    assert reopen(s3_uri).snapshot()[PAPER].version == 2


@pytest.mark.s3
def test_without_looking_again_it_would_be_acknowledged_and_lost(s3_server: Seaweed, s3_uri: str) -> None:
    """What the look is for. Should this fail one day, the store or Lance has learned to refuse such a commit."""
    create(s3_uri)
    published = held_publish(s3_server, s3_uri, commit_grace_seconds=10**6)
    assert published not in chain(reopen(s3_uri))


class Leaping(World):
    """A world in which one of the clocks stands still."""

    def now_us(self) -> int:
        return 0


def test_either_clock_can_tell_that_a_commit_is_late() -> None:
    watch = Stopwatch(REAL, 1_000)
    assert not watch.is_late()
    assert Stopwatch(Leaping(), 0).is_late()
    seeded = Stopwatch(SeededWorld(), 0.003)
    assert [seeded.is_late() for _ in range(4)] == [False, False, True, True]
