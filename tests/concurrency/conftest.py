"""Processes for this suite: as in `manifest/`, each for one job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from manifest.hands import Hands

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def hands() -> Iterator[Hands]:
    """Real processes."""
    with Hands() as hands:
        yield hands
