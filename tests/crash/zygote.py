"""Real processes for tests, each for one job, that start in milliseconds and may be killed in the middle of it.

Importing Lance takes a second. One process does that once, calls nothing of it, and forks a child for every job: Lance
may be imported before a fork, but not used. A job is a function named by its module, so the child imports it itself.

with Zygote() as zygote:
    child = zygote.start(work, argument, failpoints="commit.table_landed=kill")
    assert child.outcome().killed
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from job import STORE_SETTINGS, Job, Outcome
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

TESTS = Path(__file__).parent.parent
PATIENCE_SECONDS = 240
# The product that is tested may be another one than the environment has installed.
_PATH = [REAL.environ["PYTHONPATH"]] if REAL.environ.get("PYTHONPATH") else []


@dataclass
class Child:
    """A child that works on its job. `lines` of what it reports on its way come before its outcome."""

    pid: int
    _connection: socket.socket
    _stream: Any
    _outcome: list[Outcome] = field(default_factory=list)

    def reports(self) -> Any:
        """The next thing that the job reported; None when it has ended."""
        if self._outcome:
            return None
        kind, value = self._next()
        if kind == "report":
            return value
        self._outcome.append(_outcome(kind, value))
        return None

    def outcome(self, patience: float = PATIENCE_SECONDS) -> Outcome:
        """Wait until it has ended, however it did."""
        self._connection.settimeout(patience)
        while not self._outcome:
            self.reports()
        self._stream.close()
        self._connection.close()
        # Its files are closed a moment before it is gone.
        deadline = REAL.monotonic() + PATIENCE_SECONDS
        while Path(f"/proc/{self.pid}").exists() and REAL.monotonic() < deadline:
            REAL.sleep(0.001)
        return self._outcome[0]

    def kill(self) -> None:
        """SIGKILL, if it has not ended."""
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop it with all of its threads, as a machine that hangs."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def is_stopped(self, patience: float = PATIENCE_SECONDS) -> bool:
        """Wait until it has stopped itself; false when it has ended instead."""
        deadline = REAL.monotonic() + patience
        while REAL.monotonic() < deadline:
            state = state_of(self.pid)
            if state == "T":
                return True
            if state in ("", "Z", "X"):
                return False
            REAL.sleep(0.002)
        raise AssertionError(f"process {self.pid} neither stopped nor ended within {patience:.0f} s")

    def _next(self) -> tuple[str, Any]:
        try:
            kind, value = pickle.load(self._stream)
        except (EOFError, ConnectionResetError):
            return "killed", None
        return kind, value

    def _signal(self, number: int) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return


class Zygote:
    """The process that forks the others. It ends with the test that started it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="zygote")
        self._address = str(Path(self._folder.name, "socket"))
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "crash.zygote_process", self._address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *_PATH])},  # noqa: TID251
            cwd=TESTS,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def start(
        self,
        work: Callable[..., object],
        *arguments: object,
        failpoints: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        """Begin a job in a process of its own. `environment` is added to what it needs to reach the store."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect(self._address)
        stream = connection.makefile("rwb")
        settings = {name: os.environ[name] for name in STORE_SETTINGS if name in os.environ}  # noqa: TID251
        settings.update(environment or {})
        pickle.dump(Job(f"{work.__module__}:{work.__qualname__}", arguments, failpoints, settings), stream)
        stream.flush()
        return Child(pickle.load(stream), connection, stream)

    def run(
        self,
        work: Callable[..., object],
        *arguments: object,
        failpoints: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Do one job in a process of its own and wait for its end."""
        return self.start(work, *arguments, failpoints=failpoints, environment=environment).outcome()

    def __enter__(self) -> Zygote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate(timeout=PATIENCE_SECONDS)
        self._folder.cleanup()


def state_of(pid: int) -> str:
    """One letter of Linux: T is stopped; nothing when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _outcome(kind: str, value: Any) -> Outcome:
    if kind == "died":
        raise AssertionError(f"a child failed:\n{value}")
    if kind == "killed":
        return Outcome(killed=True)
    return Outcome(value=value) if kind == "done" else Outcome(error=value)
