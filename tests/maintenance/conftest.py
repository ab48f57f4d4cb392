"""Real processes for tests of upkeep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crash.zygote import Zygote

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """Makes a process for one job at a time."""
    with Zygote() as zygote:
        yield zygote
