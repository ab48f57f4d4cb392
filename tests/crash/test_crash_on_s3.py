"""The same on a bucket, where nothing is renamed and every step is a request: all of an operation is there, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crash.sweeping import Scene, sweep_all
from crash.workloads import EVERY

if TYPE_CHECKING:
    from crash.zygote import Zygote

pytestmark = [pytest.mark.crash, pytest.mark.s3]


@pytest.fixture
def scene(s3_uri: str) -> Scene:
    return Scene(s3_uri)


def test_a_write_to_two_tables_killed_at_every_step(scene: Scene, zygote: Zygote) -> None:
    sweep_all(scene, zygote, [("delete",)])


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_every_operation_killed_at_every_step(scene: Scene, zygote: Zygote) -> None:
    sweep_all(scene, zygote, [(each,) for each in EVERY if each != "repair"])


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("failpoint", ["table.committed=lost", "store.write=raise"])
def test_every_operation_with_other_faults(scene: Scene, zygote: Zygote, failpoint: str) -> None:
    sweep_all(scene, zygote, [(each,) for each in EVERY if each != "repair"], failpoint)
