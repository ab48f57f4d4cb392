"""Real processes for the tests: each takes one job, and may be told to die in the middle of it.

Importing Lance takes most of a second, so a few processes are kept ready. None is ever forked from one that used Lance.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from job import STORE_SETTINGS, Job, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

TESTS = Path(__file__).parent.parent
PATIENCE_SECONDS = 120
READY = 3


@dataclass
class Running:
    """A child that has its job."""

    process: subprocess.Popen[bytes]
    _outcome: list[Outcome] = field(default_factory=list)

    def go(self) -> None:
        """Let it begin; before this it has done nothing but read its job."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL, unless it has ended already."""
        self.process.kill()

    def outcome(self, patience: float = PATIENCE_SECONDS) -> Outcome:
        """Wait until it has ended, however it did."""
        if not self._outcome:
            self._outcome.append(self._wait(patience))
        return self._outcome[0]

    def _wait(self, patience: float) -> Outcome:
        try:
            answer, errors = self.process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            # Left alone it would go on working beside the tests that follow.
            self.process.kill()
            self.process.communicate(timeout=PATIENCE_SECONDS)
            raise
        if self.process.returncode == -signal.SIGKILL:
            return Outcome(killed=True)
        if self.process.returncode != 0 or not answer:
            raise AssertionError(f"a child ended with {self.process.returncode}:\n{errors.decode()[-4_000:]}")
        kind, value = pickle.loads(answer)
        return Outcome(value=value) if kind == "done" else Outcome(error=value)


class Hands:
    """Children, one job each. `READY` of them have imported everything beforehand."""

    def __init__(self) -> None:
        self._waiting = deque(_spawn() for _ in range(READY))

    def start(self, work: Callable[..., object], *arguments: object, failpoints: str = "") -> Running:
        """Give a child its job and wait until it has read it; `go` begins."""
        self._waiting.append(_spawn())
        process = self._waiting.popleft()
        environment = {name: os.environ[name] for name in STORE_SETTINGS if name in os.environ}  # noqa: TID251
        job = Job(f"{work.__module__}:{work.__qualname__}", arguments, failpoints, environment)
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump(job, process.stdin)
        process.stdin.flush()
        assert pickle.load(_Unbuffered(process.stdout)) == "ready"
        return Running(process)

    def run(self, work: Callable[..., object], *arguments: object, failpoints: str = "") -> Outcome:
        """Do one job in a process of its own and wait for its end."""
        child = self.start(work, *arguments, failpoints=failpoints)
        child.go()
        return child.outcome()

    def all_at_once(self, jobs: Sequence[tuple[Callable[..., object], tuple[object, ...]]]) -> list[Outcome]:
        """Do several jobs at the same time, each in its own process."""
        children = [self.start(work, *arguments) for work, arguments in jobs]
        for child in children:
            child.go()
        return [child.outcome() for child in children]

    def __enter__(self) -> Hands:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._waiting:
            process.kill()
            process.communicate(timeout=PATIENCE_SECONDS)


class _Unbuffered:
    """Reads exactly what a pickle needs, so that the answer that follows stays in the pipe."""

    def __init__(self, stream: Any) -> None:
        self._descriptor = stream.fileno()

    def read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = os.read(self._descriptor, size - len(found))
            if not more:
                raise EOFError("the child ended before it was ready")
            found += more
        return found

    def readline(self) -> bytes:
        found = b""
        while not found.endswith(b"\n"):
            found += self.read(1)
        return found


def _spawn() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "manifest.hand"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(TESTS)},  # noqa: TID251
        cwd=TESTS,
    )
