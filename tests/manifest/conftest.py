"""Processes and graphs shared by the chapters of this suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from manifest.graphs import create
from manifest.hands import Hands

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.manifest.graph_manifest import GraphManifest


@pytest.fixture(scope="session")
def hands() -> Iterator[Hands]:
    """Real processes, each for one job."""
    with Hands() as hands:
        yield hands


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Where a graph on the disk is, or will be."""
    return str(tmp_path / "g")


@pytest.fixture
def graph(uri: str) -> GraphManifest:
    """A new one there."""
    return create(uri)
