"""A storm: processes on one graph, some with wrong clocks, killed and stopped at random moments."""

from __future__ import annotations

import heapq
import random  # noqa: TID251
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crash.suspension.work import visit
from crash.zygote_process import HOST
from omnigraph.world import CLOCK_SKEW, REAL
from storms import worker

if TYPE_CHECKING:
    from pathlib import Path

    from crash.zygote import Child, Zygote

LEASE = "OMNIGRAPH_LEASE_SECONDS"
# How much longer than its time a process may take: it may be waiting for the leases of several that were killed.
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Weather:
    """How a storm is. Every `pause` seconds on average something happens to somebody."""

    seconds: float
    seed: int = 1
    processes: int = 7
    lease: float = 2.0
    pause: float = 0.7
    kills: bool = True
    stops: bool = True
    skews: bool = True


@dataclass
class Storm:
    """A storm that is going on, and what it has done."""

    uri: str
    folder: Path
    zygote: Zygote
    weather: Weather
    kills: int = 0
    stops: int = 0
    operations: int = 0
    hanging: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._choice = random.Random(self.weather.seed)
        self._began = 0
        self._working: dict[str, Child] = {}
        self._stopped: list[tuple[float, str]] = []
        self._end = 0.0

    def run(self) -> None:
        """Let it rage, and wait until everybody has ended."""
        self._end = REAL.monotonic() + self.weather.seconds
        for slot in range(self.weather.processes):
            self._begin(slot)
        while REAL.monotonic() < self._end:
            REAL.sleep(self._choice.uniform(0.0, 2 * self.weather.pause))
            self._wake(REAL.monotonic())
            self._strike()
        self._wake(float("inf"))
        self._wait()
        self._visit()

    def _begin(self, slot: int) -> None:
        """Two in five have a clock that is an hour wrong; every second one is on a machine of its own."""
        name = f"w{slot}-{self._began}"
        self._began += 1
        environment = {LEASE: str(self.weather.lease), HOST: self._choice.choice(["one-host", f"host-{slot}"])}
        skew = self._choice.choice(["", "", "", "3600", "-3600"])
        if skew and self.weather.skews:
            environment[CLOCK_SKEW] = skew
        left = max(0.5, self._end - REAL.monotonic())
        seed = self._choice.randrange(1 << 30)
        # Two that change the schema at once would each take the other's property out again.
        arguments = (self.uri, str(self.folder), name, seed, left, slot == 0)
        self._working[name] = self.zygote.start(worker.work, *arguments, environment=environment)

    def _strike(self) -> None:
        asleep = {name for _, name in self._stopped}
        name = self._choice.choice(sorted(self._working))
        if self.weather.kills and self._choice.random() < 0.25:
            self._kill(name)
        elif self.weather.stops and name not in asleep and len(asleep) < self.weather.processes // 2:
            self._working[name].freeze()
            self.stops += 1
            until = REAL.monotonic() + self.weather.lease * self._choice.uniform(0.3, 3.0)
            heapq.heappush(self._stopped, (until, name))

    def _kill(self, name: str) -> None:
        child = self._working.pop(name)
        child.kill()
        child.outcome()
        self.kills += 1
        self._stopped = [each for each in self._stopped if each[1] != name]
        heapq.heapify(self._stopped)
        self._begin(int(name[1:].partition("-")[0]))

    def _wake(self, now: float) -> None:
        while self._stopped and self._stopped[0][0] <= now:
            _, name = heapq.heappop(self._stopped)
            self._working[name].thaw()

    def _visit(self) -> None:
        """Open the graph once more on every machine: unfinished files of dead processes are removed on their own."""
        for host in ("one-host", *(f"host-{slot}" for slot in range(self.weather.processes))):
            self.zygote.run(visit, self.uri, environment={LEASE: str(self.weather.lease), HOST: host})

    def _wait(self) -> None:
        for name, child in self._working.items():
            try:
                outcome = child.outcome(PATIENCE_SECONDS)
            except TimeoutError:
                self.hanging.append(name)
                child.kill()
                continue
            if outcome.killed:
                self.hanging.append(f"{name} died by itself")
            else:
                self.operations += outcome.value
