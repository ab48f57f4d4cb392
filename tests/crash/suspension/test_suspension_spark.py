"""A load on Spark whose driver is stopped past its lease at each of its durable steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crash.graph_copies import neighbour
from crash.suspension.cases import Case, Tally
from crash.suspension.operations import NOBODY, SPARK_LOAD
from crash.suspension.play import LEASE, LEASE_SECONDS, Play
from crash.suspension.scene import Lane, Serial
from crash.suspension.spark_driver import SparkDriver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crash.suspension.spark_driver import Load
    from crash.zygote import Zygote

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3_600)]

RIVALS = (NOBODY, "insert", "update", "optimize", "change_schema", "cleanup")


class SparkPlay(Play):
    """A case whose victim is a Spark driver."""

    driver: SparkDriver

    def _begin_victim(self, _lease: float, failpoints: str, **_: str) -> Load:  # type: ignore[override]
        return self.driver.load(self.lane.uri, failpoints)


def play_all(uri: str, folder: Path, zygote: Zygote) -> Tally:
    tally = Tally()
    lane, serial = Lane(f"{neighbour(uri, 'lane')}/graph.omni"), Serial(Lane(str(folder / "serial" / "graph.omni")))
    with SparkDriver({LEASE: str(LEASE_SECONDS)}) as driver:
        for case in _cases(driver.steps(lane.uri)):
            played = SparkPlay(case, lane, serial, zygote)
            played.driver = driver
            tally.verdicts.append(played.run())
    return tally


def _cases(steps: int) -> Iterator[Case]:
    assert steps > 2
    for step in range(1, steps + 1):
        for rival in RIVALS:
            yield Case(SPARK_LOAD, step, "stopped", rival)
            yield Case(SPARK_LOAD, step, "zombie", rival)


def test_a_load_on_spark_on_a_disk(tmp_path: Path, zygote: Zygote) -> None:
    tally = play_all(str(tmp_path / "graph.omni"), tmp_path, zygote)
    print(tally)
    assert tally.violations == []


@pytest.mark.s3
def test_a_load_on_spark_on_a_bucket(s3_uri: str, tmp_path: Path, zygote: Zygote) -> None:
    tally = play_all(s3_uri, tmp_path, zygote)
    print(tally)
    assert tally.violations == []
