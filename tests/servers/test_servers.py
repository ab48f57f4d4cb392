"""The servers themselves: they end with the tests, and the proxy is seen through."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.world import REAL
from servers.counting_proxy import CountingProxy
from servers.seaweed import Seaweed, remove_sockets, weed

START = """
import pathlib, sys, time
sys.path.insert(0, sys.argv[1])
from servers.seaweed import Seaweed
server = Seaweed(pathlib.Path(sys.argv[2])).start()
print(*server.ports, flush=True)
time.sleep(60)
"""


def servers_below(directory: Path) -> list[int]:
    """The processes that run the server's binary on this directory."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == weed().encode() and any(str(directory).encode() in word for word in words):
            found.append(int(each.parent.name))
    return found


@pytest.mark.s3
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_the_server_ends_with_a_test_run_that_is_killed(tmp_path: Path) -> None:
    tests = str(Path(__file__).parent.parent)
    run = subprocess.Popen([sys.executable, "-c", START, tests, str(tmp_path)], stdout=subprocess.PIPE)
    assert run.stdout is not None
    ports = [int(each) for each in run.stdout.readline().split()]
    assert len(servers_below(tmp_path)) == 1
    run.kill()
    run.communicate(timeout=10)
    deadline = time.monotonic() + 10
    while servers_below(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)  # noqa: TID251
    assert servers_below(tmp_path) == []
    remove_sockets(ports)


@pytest.mark.s3
def test_the_proxy_delays_every_request(s3_uri: str, s3_server: Seaweed) -> None:
    with CountingProxy(s3_server.endpoint, latency_seconds=0.1) as proxy:
        store = open_control_store(parse_location(s3_uri, REAL, storage_options={"aws_endpoint": proxy.endpoint}), REAL)
        store.write("a", b"x" * 1_000)
        assert store.read("a") == b"x" * 1_000
        assert [(each.method, each.status) for each in proxy.requests] == [("PUT", 200), ("GET", 200)]
        assert min(each.seconds for each in proxy.requests) >= 0.1
        assert (proxy.requests[0].sent, proxy.requests[1].received) == (1_000, 1_000)
        proxy.reset()
        assert proxy.counts == {}
