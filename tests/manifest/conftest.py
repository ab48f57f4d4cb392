"""Processes shared by the chapters of this suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from manifest.hands import Hands

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def hands() -> Iterator[Hands]:
    """Real processes, each for one job."""
    with Hands() as hands:
        yield hands
