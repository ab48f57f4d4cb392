"""Tables and processes shared by the chapters of this suite."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import pytest

from conformance.conflict_matrix import StagedOperations, stage_all
from conformance.writers import Crew, meet_at

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def staged_operations(tmp_path_factory: pytest.TempPathFactory) -> StagedOperations:
    """Every operation of the conflict matrix, staged once."""
    return stage_all(tmp_path_factory.mktemp("matrix") / "base")


@pytest.fixture(scope="session")
def crew() -> Iterator[Crew]:
    """Three spawned processes that start their work at the same moment; lance is imported in them once."""
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(Crew.SIZE)
    with ProcessPoolExecutor(Crew.SIZE, mp_context=spawn, initializer=meet_at, initargs=(barrier,)) as pool:
        yield Crew(pool)
