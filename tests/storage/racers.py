"""What spawned processes of this suite do. It stands outside the test files so that a spawned process can import it."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from omnigraph.errors import OmniGraphError
from omnigraph.storage.objects.acquire import try_acquire
from omnigraph.storage.objects.lease import Lease
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.storage.tables.new_tables import create_table
from omnigraph.world import REAL
from storage.every_type import SMALL, open_store, small

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from threading import Barrier

T = TypeVar("T")
RACERS = 6
PATIENCE_SECONDS = 60
_meeting: list[Barrier] = []


@dataclass(frozen=True)
class Racers:
    """Processes that do the same thing at the same moment."""

    pool: ProcessPoolExecutor

    def all(self, work: Callable[[str, int], T], uri: str) -> list[T]:
        """`work(uri, number)` in every process at once; the results in the order of the numbers."""
        settings = {name: value for name, value in REAL.environ.items() if name.startswith("AWS_")}
        tasks = [self.pool.submit(_together, work, uri, number, settings) for number in range(RACERS)]
        return [task.result(timeout=PATIENCE_SECONDS) for task in tasks]


def gather() -> Iterator[Racers]:
    """Six processes, until the caller is done with them."""
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(RACERS)
    with ProcessPoolExecutor(RACERS, mp_context=spawn, initializer=_meet_at, initargs=(barrier,)) as pool:
        yield Racers(pool)


def _meet_at(barrier: Barrier) -> None:
    _meeting.append(barrier)


def _together(work: Callable[[str, int], T], uri: str, number: int, settings: dict[str, str]) -> T:
    os.environ.update(settings)  # noqa: TID251
    _meeting[0].wait(timeout=PATIENCE_SECONDS)
    return work(uri, number)


def create(uri: str, number: int) -> str:
    """Create one table, each with a row of its own: `won`, or the code of the error."""
    store = open_store(uri)
    try:
        create_table(store, "raced", SMALL, [small(f"from {number}")])
    except OmniGraphError as lost:
        return lost.code
    return "won"


def take_lease(uri: str, number: int) -> str:
    """Take one lease: `won`, or the purpose of whoever holds it."""
    objects = open_control_store(parse_location(uri, REAL), REAL)
    outcome = try_acquire(objects, "claim.json", purpose=f"racer {number}", seconds=60, world=REAL)
    return "won" if isinstance(outcome, Lease) else outcome.purpose


def spawn_python(code: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """A fresh interpreter that runs a few lines, with pipes to talk to it."""
    paths = json.loads(json.dumps(sys.path))
    prelude = f"import sys; sys.path[:] = {paths!r}\n"
    return subprocess.Popen(
        [sys.executable, "-c", prelude + code],
        env={**REAL.environ, **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
