"""A load on Spark whose driver is stopped past its lease at each step, has a wrong clock, or loses an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crash.graph_copies import neighbour
from crash.suspension.cases import SKEW, Case, Tally
from crash.suspension.operations import NOBODY, SPARK_LOAD, VICTIM
from crash.suspension.play import LEASE, LEASE_SECONDS, LONG_LEASE_SECONDS, Play
from crash.suspension.scene import Lane, Serial
from crash.suspension.spark_driver import SparkDriver
from omnigraph.world import CLOCK_SKEW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crash.suspension.cases import Fault
    from crash.suspension.spark_driver import Load
    from crash.zygote import Zygote

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3_600)]

RIVALS = (NOBODY, "insert", "update", "optimize", "change_schema", "cleanup")
FEW_RIVALS = (NOBODY, "insert")
# The environment of the driver, what happens to it, and beside whom.
DRIVERS: tuple[tuple[dict[str, str], tuple[Fault, ...], tuple[str, ...]], ...] = (
    ({LEASE: str(LEASE_SECONDS)}, ("stopped", "zombie"), RIVALS),
    ({LEASE: str(LEASE_SECONDS), CLOCK_SKEW: SKEW["ahead"]}, ("stopped_ahead",), FEW_RIVALS),
    ({LEASE: str(LEASE_SECONDS), CLOCK_SKEW: SKEW["behind"]}, ("stopped_behind",), FEW_RIVALS),
    ({LEASE: str(LONG_LEASE_SECONDS)}, ("lost",), FEW_RIVALS),
)


class SparkPlay(Play):
    """A case whose victim is a Spark driver."""

    driver: SparkDriver

    def _begin_victim(self, _lease: float, failpoints: str, **_: str) -> Load:  # type: ignore[override]
        return self.driver.load(self.lane.uri, failpoints)

    def _lose(self) -> bool:
        load = self.driver.load(self.lane.uri, "", lose=self.case.step)
        self.answers[VICTIM] = load.outcome().value
        if self.case.rival != NOBODY:
            self._end_rival(self._begin_rival(LONG_LEASE_SECONDS))
        return True


def play_all(uri: str, folder: Path, zygote: Zygote) -> Tally:
    tally = Tally()
    lane, serial = Lane(f"{neighbour(uri, 'lane')}/graph.omni"), Serial(Lane(str(folder / "serial" / "graph.omni")))
    for environment, faults, rivals in DRIVERS:
        with SparkDriver(environment) as driver:
            lane.reset()
            for case in _cases(driver.steps(lane.uri), faults, rivals):
                played = SparkPlay(case, lane, serial, zygote)
                played.driver = driver
                tally.verdicts.append(played.run())
    return tally


def _cases(steps: int, faults: tuple[Fault, ...], rivals: tuple[str, ...]) -> Iterator[Case]:
    assert steps > 2
    for step in range(1, steps + 1):
        for rival in rivals:
            yield from (Case(SPARK_LOAD, step, fault, rival) for fault in faults)


def test_a_load_on_spark_on_a_disk(tmp_path: Path, zygote: Zygote) -> None:
    tally = play_all(str(tmp_path / "graph.omni"), tmp_path, zygote)
    print(tally)
    assert tally.violations == []


@pytest.mark.s3
def test_a_load_on_spark_on_a_bucket(s3_uri: str, tmp_path: Path, zygote: Zygote) -> None:
    tally = play_all(s3_uri, tmp_path, zygote)
    print(tally)
    assert tally.violations == []
