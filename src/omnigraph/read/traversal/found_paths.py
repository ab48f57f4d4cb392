"""Paths that were found, and their values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.read.execute.table_rows import Numbers


@dataclass(frozen=True)
class Path:
    """The ids along a path: one node more than edges."""

    nodes: tuple[str, ...]
    edges: tuple[str, ...]


@dataclass
class FoundPaths:
    """The paths that a variable stands for; its keys are their numbers."""

    paths: list[Path] = field(default_factory=list)

    def add(self, path: Path) -> int:
        """The number of a new path."""
        self.paths.append(path)
        return len(self.paths) - 1

    def values(self, names: Sequence[str], keys: Numbers) -> dict[str, pa.Array[Any]]:
        """`length`, `nodes` and `edges` of some paths; a key below zero gives null."""
        chosen = [None if key < 0 else self.paths[key] for key in keys.tolist()]
        texts = pa.list_(pa.field("item", pa.string()))
        made: dict[str, pa.Array[Any]] = {
            "length": pa.array([None if each is None else len(each.edges) for each in chosen], pa.int64()),
            "nodes": pa.array([None if each is None else list(each.nodes) for each in chosen], texts),
            "edges": pa.array([None if each is None else list(each.edges) for each in chosen], texts),
        }
        return {name: made[name] for name in names}
