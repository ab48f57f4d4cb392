"""Builds and caches the adjacency of an edge table, given the node tables at its two ends.

A cached adjacency belongs to one version of each of the three tables. When one of them has a new version, the adjacency
is carried over: unchanged rows keep their neighbours under new row numbers, and only the endpoints of new edges are
looked up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from omnigraph.query.csr.adjacency import renumbering
from omnigraph.query.csr.build import looked_up, pairs, read_ends, whole_ends

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from omnigraph.cache import ReadCache
    from omnigraph.query.columns.table_columns import State, TableRows
    from omnigraph.query.csr.adjacency import Adjacency
    from omnigraph.query.csr.build import Ends
    from omnigraph.storage.tables.version_diff import RowRemap

    Three = tuple[State, State, State]
    Moves = tuple[RowRemap, RowRemap, RowRemap]


@dataclass(frozen=True)
class EdgeTables:
    """An edge table and the node tables of its sources and targets."""

    edges: TableRows
    sources: TableRows
    targets: TableRows
    cache: ReadCache

    @property
    def identity(self) -> tuple[object, ...]:
        """The versions of the three tables."""
        return self.edges.identity, self.sources.identity, self.targets.identity

    def key(self, direction: str, *, distinct: bool) -> tuple[object, ...]:
        """The cache key of an adjacency."""
        return *self.identity, direction, distinct

    def built(self, direction: str, *, distinct: bool) -> Adjacency | None:
        """The adjacency, if it is cached for these versions."""
        return cast("Adjacency | None", self.cache.find(("adjacency", self.key(direction, distinct=distinct))))

    def adjacency(self, direction: str, *, distinct: bool) -> Adjacency:
        """All neighbours in a direction: cached, carried over from other versions, or built."""
        found, key = self.built(direction, distinct=distinct), self.key(direction, distinct=distinct)
        if found is None:
            found = self.cache.get(
                "adjacency",
                key,
                lambda: (
                    self._carried(direction, distinct=distinct) or self.ends().adjacency(direction, distinct=distinct)
                ),
                lambda made: made.nbytes,
            )
            if self._is_whole():
                family = "adjacency", *self._paths, direction, distinct
                self.cache.add_version(family, ("adjacency", key), self._states)
        return found

    def _is_whole(self) -> bool:
        """Whether no edge was left out. Carrying over would miss an edge whose node is added later."""
        ends = cast("Ends | None", self.cache.find(("ends", self.identity)))
        return ends is not None and ends.edges is None

    def can_carry(self, direction: str, *, distinct: bool) -> bool:
        """Whether adjacency of other versions is cached to which only a few edges have to be added."""
        return self._kept(direction, distinct=distinct) is not None

    def ends(self) -> Ends:
        """The row numbers at both ends of every edge, cached."""
        found = cast("Ends | None", self.cache.find(("ends", self.identity)))
        if found is None:
            found = self.cache.get(
                "ends",
                self.identity,
                lambda: self._carried_ends() or read_ends(self.edges, self.sources, self.targets),
                lambda made: made.nbytes,
            )
            self.cache.add_version(("ends", *self._paths), ("ends", self.identity), self._states)
        return found

    @property
    def _paths(self) -> tuple[str, str, str]:
        return self.edges.entry.path, self.sources.entry.path, self.targets.entry.path

    @property
    def _states(self) -> Three:
        return self.edges.state, self.sources.state, self.targets.state

    def _moves(self, earlier: Three) -> Moves | None:
        edges, sources, targets = earlier
        found = self.edges.moves_from(edges), self.sources.moves_from(sources), self.targets.moves_from(targets)
        return None if any(each is None for each in found) else cast("Moves", found)

    def _kept(self, direction: str, *, distinct: bool) -> tuple[Adjacency, Three, Moves] | None:
        """Cached adjacency of other versions whose edges all still exist under the same row numbers."""
        earlier = cast("Three | None", self.cache.latest(("adjacency", *self._paths, direction, distinct)))
        if earlier is None:
            return None
        known = self.cache.find(("adjacency", (*(each.identity for each in earlier), direction, distinct)))
        moves = self._moves(earlier) if known is not None else None
        return (cast("Adjacency", known), earlier, moves) if moves is not None and moves[0].only_adds else None

    def _carried(self, direction: str, *, distinct: bool) -> Adjacency | None:
        kept = self._kept(direction, distinct=distinct)
        if kept is None:
            return None
        (known, earlier, moves), ends = kept, self.ends()
        if ends.edges is not None:
            return None
        if not (moves[1].only_adds and moves[2].only_adds):
            sources = renumbering(self.sources, earlier[1], moves[1])
            targets = renumbering(self.targets, earlier[2], moves[2])
            if sources is None or targets is None:
                return None
            renumbered = known.renumbered(*((targets, sources) if direction == "in" else (sources, targets)))
            if renumbered is None:
                return None
            known = renumbered
        starts, others, edges = pairs(ends.since(moves[0].earlier_rows), direction)
        size = self.targets.size if direction == "in" else self.sources.size
        return known.with_more(starts, others, None if distinct else edges, size)

    def _carried_ends(self) -> Ends | None:
        earlier = cast("Three | None", self.cache.latest(("ends", *self._paths)))
        if earlier is None:
            return None
        known = cast("Ends | None", self.cache.find(("ends", tuple(each.identity for each in earlier))))
        moves = None if known is None or known.edges is not None else self._moves(earlier)
        if known is None or moves is None:
            return None
        # Loading the ids keeps them cached for the next version as well.
        source_ids, target_ids = self.sources.column("id"), self.targets.column("id")
        sources = _numbers_now(known.sources, self.sources, earlier[1], moves[1])
        targets = _numbers_now(known.targets, self.targets, earlier[2], moves[2])
        if sources is None or targets is None:
            return None
        if moves[0].is_same:
            return whole_ends(sources, targets, self.sources.size, self.targets.size)
        new = self.edges.table.read(["src", "dst"], fragments=moves[0].fragments)
        src, dst = looked_up((new.column("src"), source_ids), (new.column("dst"), target_ids))
        return whole_ends(
            moves[0].carry_array(sources, src),
            moves[0].carry_array(targets, dst),
            self.sources.size,
            self.targets.size,
        )


def _numbers_now(
    nodes: NDArray[np.int32], rows: TableRows, earlier: State, moves: RowRemap
) -> NDArray[np.int32] | None:
    """Map row numbers of another version to this one."""
    if moves.only_adds:
        return nodes
    now = renumbering(rows, earlier, moves)
    return None if now is None else now.numbers[nodes]
