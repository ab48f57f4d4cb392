"""Builds and caches the adjacency of an edge table, given the node tables of its endpoints.

A cached adjacency belongs to one version of each of the three tables. When one of them has a new version, the adjacency
is carried over: unchanged rows keep their neighbours under new row numbers, and only the endpoints of new edges are
looked up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from omnigraph.query.csr.adjacency import renumbering
from omnigraph.query.csr.build import complete_endpoints, looked_up, pairs, read_endpoints

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from omnigraph.cache import ReadCache
    from omnigraph.query.columns.table_columns import State, TableRows
    from omnigraph.query.csr.adjacency import Adjacency
    from omnigraph.query.csr.build import EdgeEndpoints
    from omnigraph.storage.tables.version_diff import RowRemap

    TableVersions = tuple[State, State, State]
    Remaps = tuple[RowRemap, RowRemap, RowRemap]


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
                    self._carried(direction, distinct=distinct)
                    or self.endpoints().adjacency(direction, distinct=distinct)
                ),
                lambda made: made.nbytes,
            )
            if self._is_whole():
                family = "adjacency", *self._paths, direction, distinct
                self.cache.add_version(family, ("adjacency", key), self._states)
        return found

    def _is_whole(self) -> bool:
        """Whether no edge was left out. Carrying over would miss an edge whose node is added later."""
        endpoints = cast("EdgeEndpoints | None", self.cache.find(("endpoints", self.identity)))
        return endpoints is not None and endpoints.edges is None

    def can_carry(self, direction: str, *, distinct: bool) -> bool:
        """Whether adjacency of other versions is cached to which only a few edges have to be added."""
        return self._earlier_adjacency(direction, distinct=distinct) is not None

    def endpoints(self) -> EdgeEndpoints:
        """The row numbers of the endpoints of every edge, cached."""
        found = cast("EdgeEndpoints | None", self.cache.find(("endpoints", self.identity)))
        if found is None:
            found = self.cache.get(
                "endpoints",
                self.identity,
                lambda: self._carried_endpoints() or read_endpoints(self.edges, self.sources, self.targets),
                lambda made: made.nbytes,
            )
            self.cache.add_version(("endpoints", *self._paths), ("endpoints", self.identity), self._states)
        return found

    @property
    def _paths(self) -> tuple[str, str, str]:
        return self.edges.entry.path, self.sources.entry.path, self.targets.entry.path

    @property
    def _states(self) -> TableVersions:
        return self.edges.state, self.sources.state, self.targets.state

    def _remaps(self, earlier: TableVersions) -> Remaps | None:
        edges, sources, targets = earlier
        found = self.edges.remap_from(edges), self.sources.remap_from(sources), self.targets.remap_from(targets)
        return None if any(each is None for each in found) else cast("Remaps", found)

    def _earlier_adjacency(self, direction: str, *, distinct: bool) -> tuple[Adjacency, TableVersions, Remaps] | None:
        """Cached adjacency of other versions whose edges all still exist under the same row numbers."""
        earlier = cast("TableVersions | None", self.cache.latest(("adjacency", *self._paths, direction, distinct)))
        if earlier is None:
            return None
        cached = self.cache.find(("adjacency", (*(each.identity for each in earlier), direction, distinct)))
        remaps = self._remaps(earlier) if cached is not None else None
        return (cast("Adjacency", cached), earlier, remaps) if remaps is not None and remaps[0].only_adds else None

    def _carried(self, direction: str, *, distinct: bool) -> Adjacency | None:
        earlier_adjacency = self._earlier_adjacency(direction, distinct=distinct)
        if earlier_adjacency is None:
            return None
        (cached, earlier, remaps), endpoints = earlier_adjacency, self.endpoints()
        if endpoints.edges is not None:
            return None
        if not (remaps[1].only_adds and remaps[2].only_adds):
            sources = renumbering(self.sources, earlier[1], remaps[1])
            targets = renumbering(self.targets, earlier[2], remaps[2])
            if sources is None or targets is None:
                return None
            renumbered = cached.renumbered(*((targets, sources) if direction == "in" else (sources, targets)))
            if renumbered is None:
                return None
            cached = renumbered
        starts, others, edges = pairs(endpoints.since(remaps[0].earlier_rows), direction)
        size = self.targets.size if direction == "in" else self.sources.size
        return cached.with_more(starts, others, None if distinct else edges, size)

    def _carried_endpoints(self) -> EdgeEndpoints | None:
        earlier = cast("TableVersions | None", self.cache.latest(("endpoints", *self._paths)))
        if earlier is None:
            return None
        cached = cast("EdgeEndpoints | None", self.cache.find(("endpoints", tuple(each.identity for each in earlier))))
        remaps = None if cached is None or cached.edges is not None else self._remaps(earlier)
        if cached is None or remaps is None:
            return None
        # Loading the ids keeps them cached for the next version as well.
        source_ids, target_ids = self.sources.column("id"), self.targets.column("id")
        sources = _renumbered_rows(cached.sources, self.sources, earlier[1], remaps[1])
        targets = _renumbered_rows(cached.targets, self.targets, earlier[2], remaps[2])
        if sources is None or targets is None:
            return None
        if remaps[0].is_same:
            return complete_endpoints(sources, targets, self.sources.size, self.targets.size)
        new = self.edges.table.read(["src", "dst"], fragments=remaps[0].fragments)
        src, dst = looked_up((new.column("src"), source_ids), (new.column("dst"), target_ids))
        return complete_endpoints(
            remaps[0].carry_array(sources, src),
            remaps[0].carry_array(targets, dst),
            self.sources.size,
            self.targets.size,
        )


def _renumbered_rows(
    nodes: NDArray[np.int32], rows: TableRows, earlier: State, remaps: RowRemap
) -> NDArray[np.int32] | None:
    """Map row numbers of another version to this one."""
    if remaps.only_adds:
        return nodes
    now = renumbering(rows, earlier, remaps)
    return None if now is None else now.row_numbers[nodes]
