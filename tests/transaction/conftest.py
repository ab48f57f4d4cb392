"""A graph made by hand below the graph's own surface, and processes for jobs that are to be killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crash.zygote import Zygote
from transaction.recovery.hand_made import create

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.manifest.graph_manifest import GraphManifest


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """Makes a process for one job at a time."""
    with Zygote() as zygote:
        yield zygote


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A place for one graph on the disk."""
    return str(tmp_path / "graph.omni")


@pytest.fixture
def graph(uri: str) -> GraphManifest:
    """A graph of three empty tables on the disk."""
    return create(uri)
