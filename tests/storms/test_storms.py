"""Storms: processes with mixed operations, killed, stopped beyond their leases, with clocks an hour wrong.

Everything acknowledged is there once, nothing of what was not done, and nobody was refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storms.driver import Weather
from storms.run import storm

if TYPE_CHECKING:
    from pathlib import Path

    from crash.zygote import Zygote

pytestmark = pytest.mark.crash


def test_a_storm_on_a_disk(tmp_path: Path, zygote: Zygote) -> None:
    told = storm(str(tmp_path / "graph.omni"), tmp_path / "diaries", zygote, Weather(15, seed=1))
    print(told)
    assert told["wrong"] == []
    assert told["done"] > 20


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_longer_storm_on_a_disk(tmp_path: Path, zygote: Zygote) -> None:
    told = storm(str(tmp_path / "graph.omni"), tmp_path / "diaries", zygote, Weather(60, seed=2))
    print(told)
    assert told["wrong"] == []
    assert told["done"] > 100


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.timeout(900)
def test_a_longer_storm_on_a_bucket(s3_uri: str, tmp_path: Path, zygote: Zygote) -> None:
    told = storm(s3_uri, tmp_path / "diaries", zygote, Weather(60, seed=3))
    print(told)
    assert told["wrong"] == []
    assert told["done"] > 50
