"""Threads that run real code against a store in memory, one store operation at a time, in an order that a seed decides.

with Steps(seed) as steps:
    steps.run({"a": work, "b": work}, deaths=1)
"""

from __future__ import annotations

import random  # noqa: TID251
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import ObjectChanged, ObjectExists, ObjectNotFound
from omnigraph.storage.objects.model import ObjectInfo, ObjectVersion
from omnigraph.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class DeathError(BaseException):
    """The process of this thread is dead: nothing it does reaches the store any more."""


class Steps:
    """Lets one thread at a time take one step."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._changed = threading.Condition()
        self._waiting: set[str] = set()
        self._granted: str | None = None
        self.running: set[str] = set()
        self.dead: set[str] = set()
        self.failures: list[BaseException] = []

    def run(self, works: Mapping[str, Callable[[], None]], *, deaths: int = 0) -> None:
        """Run all to their ends; some die on their way."""
        threads = [threading.Thread(target=self._live, args=(name, work), daemon=True) for name, work in works.items()]
        self.running = set(works)
        for thread in threads:
            thread.start()
        while self._grant(deaths - len(self.dead)):
            pass
        for thread in threads:
            thread.join(10)
        if self.failures:
            raise self.failures[0]

    def pause(self) -> None:
        """Wait until it is this thread's turn to take its next step."""
        name = threading.current_thread().name
        with self._changed:
            if name not in self.dead:
                self._waiting.add(name)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._granted == name or name in self.dead)
            if name in self.dead:
                raise DeathError
            self._granted = None

    def _grant(self, deaths_left: int) -> bool:
        with self._changed:
            ready = self._changed.wait_for(
                lambda: self._granted is None and self._waiting == self.running - self.dead, timeout=30
            )
            assert ready, "a thread does something else than steps"
            if not self._waiting:
                return False
            chosen = self._random.choice(sorted(self._waiting))
            if deaths_left > 0 and self._random.random() < 0.05:
                self.dead.add(chosen)
                self.running.discard(chosen)
                self._waiting.discard(chosen)
            else:
                self._granted = chosen
                self._waiting.discard(chosen)
            self._changed.notify_all()
            return True

    def _live(self, name: str, work: Callable[[], None]) -> None:
        threading.current_thread().name = name
        try:
            work()
        except DeathError:
            return
        except BaseException as error:  # noqa: BLE001
            self.failures.append(error)
        finally:
            with self._changed:
                self.running.discard(name)
                self._changed.notify_all()


@dataclass
class SteppedObjects:
    """Control objects in memory. Every operation is one step."""

    steps: Steps
    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    writes: int = 0

    def read(self, path: str) -> tuple[bytes, ObjectVersion]:
        self.steps.pause()
        if path not in self.files:
            raise ObjectNotFound(path)
        data, number = self.files[path]
        return data, ObjectVersion(str(number))

    def write(self, path: str, data: bytes) -> ObjectVersion:
        self.steps.pause()
        return self._put(path, data)

    def create(self, path: str, data: bytes) -> ObjectVersion:
        self.steps.pause()
        if path in self.files:
            raise ObjectExists(path)
        return self._put(path, data)

    def replace(self, path: str, data: bytes, unchanged: ObjectVersion) -> ObjectVersion:
        self.steps.pause()
        if path not in self.files or ObjectVersion(str(self.files[path][1])) != unchanged:
            raise ObjectChanged(path)
        return self._put(path, data)

    def delete(self, path: str) -> None:
        self.steps.pause()
        self.files.pop(path, None)

    def delete_prefix(self, prefix: str) -> None:  # noqa: ARG002
        raise AssertionError("nobody asks for this here")

    def list(self, prefix: str) -> Iterable[ObjectInfo]:
        self.steps.pause()
        return [ObjectInfo(path, len(data), 0) for path, (data, _) in self.files.items() if path.startswith(prefix)]

    def is_object(self, path: str) -> bool:
        return path in self.files

    def has_any(self, prefix: str) -> bool:
        return any(path.startswith(prefix) for path in self.files)

    def _put(self, path: str, data: bytes) -> ObjectVersion:
        self.writes += 1
        self.files[path] = (data, self.writes)
        return ObjectVersion(str(self.writes))


@dataclass(frozen=True)
class SteppedWorld(World):
    """A process of its own for each thread. Sleeping is a step."""

    steps: Steps = field(default_factory=lambda: Steps(0))

    def process(self) -> str:
        """The thread's name."""
        return threading.current_thread().name

    def is_running(self, process: str) -> bool:
        """Whether it has not died."""
        return process not in self.steps.dead and process != "gone"

    def sleep(self, seconds: float) -> None:  # noqa: ARG002
        """Let others take a step."""
        self.steps.pause()
