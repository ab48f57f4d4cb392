"""Every operation, stopped past its lease at each durable step while a rival works, with wrong clocks, lost answers.

Whatever was acknowledged is there once, whatever was not done is not, nobody needs an operator, and every branch and
tag can be read and written afterwards. The slow tier plays all cases, the fast one a drawn sample.
"""

from __future__ import annotations

import random  # noqa: TID251
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

import pytest

from crash.suspension.operations import OPERATIONS
from crash.suspension.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from crash.suspension.cases import Case, Tally
    from crash.zygote import Zygote

pytestmark = pytest.mark.crash

SEED = 20_251
# The same cases in every run; each waits for a lease.
ON_DISK, ON_BUCKET = 60, 32
HOUR = 3_600


def drawn(stage: Stage, count: int) -> list[Case]:
    """A sample in which every operation has its turn."""
    choice = random.Random(SEED)
    by_operation = [choice.sample(cases, len(cases)) for cases in map(stage.cases, OPERATIONS)]
    return [case for case in chain.from_iterable(zip_longest(*by_operation)) if case is not None][:count]


def require_none_wrong(tally: Tally) -> None:
    print(tally)
    assert not tally.violations, "\n".join(tally.violations)
    assert tally.reached > 0


@pytest.mark.timeout(600)
def test_a_drawn_sample_on_a_disk(tmp_path: Path, zygote: Zygote) -> None:
    stage = Stage(str(tmp_path / "graph.omni"), tmp_path, zygote)
    require_none_wrong(stage.play(drawn(stage, ON_DISK)))


@pytest.mark.s3
@pytest.mark.timeout(600)
def test_a_drawn_sample_on_a_bucket(s3_uri: str, tmp_path: Path, zygote: Zygote) -> None:
    stage = Stage(s3_uri, tmp_path, zygote)
    require_none_wrong(stage.play(drawn(stage, ON_BUCKET)))


@pytest.mark.slow
@pytest.mark.timeout(2 * HOUR)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_all_cases_on_a_disk(tmp_path: Path, zygote: Zygote, operation: str) -> None:
    stage = Stage(str(tmp_path / "graph.omni"), tmp_path, zygote)
    require_none_wrong(stage.play(stage.cases(operation)))


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.timeout(3 * HOUR)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_all_cases_on_a_bucket(s3_uri: str, tmp_path: Path, zygote: Zygote, operation: str) -> None:
    stage = Stage(s3_uri, tmp_path, zygote)
    require_none_wrong(stage.play(stage.cases(operation)))
