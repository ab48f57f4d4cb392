"""Fixtures for every suite: a real S3 server, and locations on a disk and on that server."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from servers.seaweed import Seaweed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

_numbers = itertools.count()

# What lands is judged by the same examples every time; the slow tier draws new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)


class _ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Which of two processes runs what: a file stays in one of them, and so do all that share the Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "spark" if file.startswith("tests/spark/") else file

    def remove_node(self, node: WorkerController) -> str | None:
        """Files that a process had finished before it died are not handed out again: one that gets no other waits."""
        work = self.assigned_work[node]
        self.assigned_work[node] = {file: tests for file, tests in work.items() if not all(tests.values())}
        left: str | None = super().remove_node(node)
        return left

    def schedule(self) -> None:
        """A process begins a test when it knows what comes after it: a second file, or that there is none."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return _ByFile(config, log)


ENDED_ONCE = "ended once"
_ended: set[str] = set()


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport) -> None:
    """A test that hangs is ended with its process, and its stacks are shown. It runs again, and then it must pass."""
    if crashitem not in _ended:
        _ended.add(crashitem)
        report.outcome = ENDED_ONCE  # type: ignore[assignment]


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    return (ENDED_ONCE, "H", "ENDED ONCE") if report.outcome == ENDED_ONCE else None


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    """A SeaweedFS, started for the first test that asks and killed at the end of the session."""
    server = Seaweed(tmp_path_factory.mktemp("seaweed"))
    try:
        yield server.start()
    finally:
        server.kill()


@pytest.fixture
def s3_environment(s3_server: Seaweed) -> dict[str, str]:
    """The AWS_* variables with which a process reaches the server."""
    return s3_server.environment


@pytest.fixture
def s3_uri(s3_server: Seaweed, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh prefix on the S3 server, with the environment set for this process and its children."""
    for name in ("AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_S3_FORCE_PATH_STYLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3_server.bucket}/{next(_numbers)}/graph.omni"


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def graph_uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh location for one graph: every test that takes it runs on a disk and on the S3 server."""
    if request.param == "local":
        return str(tmp_path / "graph.omni")
    return str(request.getfixturevalue("s3_uri"))
