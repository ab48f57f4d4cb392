"""Every operation on S3 while requests that change something fail before or after their effect, once or from there on.

Whatever a caller is told is true: done, not done, or not known; never an error of the store's inner workings.
Afterwards every branch and tag can be read and written. The slow tier plays all cases, the fast one a drawn sample.
"""

from __future__ import annotations

import random  # noqa: TID251
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

import pytest

from crash.suspension.operations import OPERATIONS
from crash.wire.stage import WireStage

if TYPE_CHECKING:
    from pathlib import Path

    from crash.suspension.cases import Case, Tally
    from crash.zygote import Zygote
    from servers.seaweed import Seaweed

pytestmark = [pytest.mark.crash, pytest.mark.s3]

SEED = 20_261
# The same cases in every run.
SAMPLE = 36
# Of these a sample is drawn; counting the requests of all of them takes a while.
SAMPLED = ("insert", "load", "merge", "change_schema", "create_branch", "delete_branch", "tag", "optimize", "cleanup")


def require_none_wrong(tally: Tally) -> None:
    print(tally)
    assert not tally.violations, "\n".join(tally.violations)
    assert tally.reached > 0


@pytest.fixture
def stage(s3_uri: str, s3_server: Seaweed, tmp_path: Path, zygote: Zygote) -> WireStage:
    return WireStage(s3_uri, tmp_path, zygote, s3_server.endpoint)


@pytest.mark.timeout(600)
def test_a_drawn_sample(stage: WireStage) -> None:
    choice = random.Random(SEED)
    each = [choice.sample(cases, len(cases)) for cases in map(stage.cases, SAMPLED)]
    drawn: list[Case] = [case for case in chain.from_iterable(zip_longest(*each)) if case is not None]
    require_none_wrong(stage.play(drawn[:SAMPLE]))


@pytest.mark.slow
@pytest.mark.timeout(3 * 3_600)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_all_cases(stage: WireStage, operation: str) -> None:
    require_none_wrong(stage.play(stage.cases(operation)))
