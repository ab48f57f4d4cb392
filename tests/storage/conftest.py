"""Processes shared by the chapters of this suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storage.racers import gather

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.racers import Racers


@pytest.fixture(scope="session")
def racers() -> Iterator[Racers]:
    """Six spawned processes that start their work at the same moment; lance is imported in them once."""
    yield from gather()
