"""Lookups by index or adjacency in memory: whichever touches fewer edges. The answer is the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.read.options import ReadOptions
    from omnigraph.store.tables import Table

Mode = Literal["indexed", "csr"]
# Building adjacency reads every edge and sorts it; carrying it over from another version only copies it.
_BUILD_COST = 1.5
_CARRY_COST = 0.1
# So few edges are in memory sooner than an index has answered once.
_SMALL = 20_000


@dataclass(frozen=True)
class Walk:
    """What is known before a walk: how many starts, how many hops, how many edges and nodes there are."""

    frontier: int
    hops: int
    edges: int
    nodes: int


def choose_mode(
    walk: Walk,
    options: ReadOptions,
    *,
    is_built: bool,
    is_covered: Callable[[], bool],
    is_popular: Callable[[], bool] = lambda: False,
    can_carry: Callable[[], bool] = lambda: False,
) -> Mode:
    """The mode for one walk.

    `is_covered` and `can_carry` open the edge table, and `is_popular` counts how often it is asked, so they are called
    only when the answer can matter. Edges that are looked up again and again are worth having in memory.
    """
    if options.traversal != "auto":
        return options.traversal
    if is_built or walk.edges <= _SMALL or walk.frontier > options.indexed_frontier or walk.hops > options.indexed_hops:
        return "csr"
    built = (_CARRY_COST if can_carry() else _BUILD_COST) * walk.edges
    if walk.hops * walk.frontier * (walk.edges / max(walk.nodes, 1)) >= built:
        return "csr"
    if not is_covered() and walk.hops * walk.edges >= built:
        return "csr"
    return "csr" if is_popular() else "indexed"


def index_covers(table: Table, column: str) -> bool:
    """Whether an ordered index of a column knows every row."""
    pieces = set(table.fragment_ids())
    for index in table.dataset.describe_indices():
        if index.field_names == [column] and index.index_type.upper() == "BTREE":
            known = {each for segment in index.segments for each in segment.fragment_ids}
            return pieces <= known
    return not pieces
