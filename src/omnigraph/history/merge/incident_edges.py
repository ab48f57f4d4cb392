"""Edges of nodes that one side of a merge removed and the other changed: they follow the decision about their node.

The side that removed such a node removed its edges with it. If the node stays, its edges stay as the other side has
them, except those whose other node is gone. If the node is a conflict, its edges are listed with it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.rules import endpoint_rules
from omnigraph.history.merge.conflicts import resolve, resolve_by_name
from omnigraph.kernels.arrays import ID
from omnigraph.storage.filters.model import one_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.catalog.rules import Endpoint
    from omnigraph.errors.commits import Conflict, Row
    from omnigraph.history.delta import TableDelta
    from omnigraph.history.merge.conflicts import Choice, Mask, Resolution, Resolver
    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.storage.tables.table import Pin, TableStore

# The side that removed an entity, and what was decided about it.
Side = Literal["source", "target"]
Fate = Literal["kept", "removed", "open"]
Fates = dict[Side, dict[str, Fate]]
SIDES: tuple[Side, ...] = ("source", "target")
# A conflict of a node lists this many of its edges, and counts the others.
MOST_EDGES = 100
_AT_ONCE = 5_000


@dataclass(frozen=True)
class DisputedNodes:
    """The nodes that one side removed and the other changed, with the decision, by removing side and node table."""

    fates: Mapping[tuple[Side, str], Mapping[str, Fate]] = field(default_factory=dict)

    @staticmethod
    def of(merged: Iterable[tuple[str, Fates]]) -> DisputedNodes:
        """Collect the decisions about the nodes of tables."""
        found: dict[tuple[Side, str], dict[str, Fate]] = defaultdict(dict)
        for table_key, fates in merged:
            for side, each in fates.items():
                found[side, table_key] |= each
        return DisputedNodes({key: each for key, each in found.items() if each})

    def tables(self, side: Side) -> frozenset[str]:
        """The node tables with such nodes that this side removed."""
        return frozenset(table_key for removed_by, table_key in self.fates if removed_by == side)


@dataclass(frozen=True)
class IncidentEdges:
    """One edge table in a merge with disputed nodes. `nodes` are the node tables of both sides."""

    rules: tuple[Endpoint, ...]
    disputed: DisputedNodes
    tables: TableStore
    nodes: Mapping[tuple[Side, str], Pin]

    def restored(self, rows: pa.Table, removed_by: Side) -> Mask:
        """Which of the edges that a side removed stay: an endpoint stays that it removed too, and none is gone."""
        stays = np.zeros(rows.num_rows, dtype=bool)
        for rule in self.rules:
            stays |= _is_in(rows.column(rule.end), self._ids(rule, removed_by, "kept"))
        for rule in self.rules if stays.any() else ():
            stays &= self._is_present(rule, rows, removed_by, stays)
        return stays

    def _is_present(self, rule: Endpoint, rows: pa.Table, removed_by: Side, wanted: Mask) -> Mask:
        """Whether an endpoint exists after the merge: it was kept, or the removing side has it."""
        exists = _is_in(rows.column(rule.end), self._ids(rule, removed_by, "kept"))
        pin = self.nodes.get((removed_by, rule.node_key))
        if pin is None:
            return np.ones(rows.num_rows, dtype=bool)
        if not (wanted & ~exists).any():
            return exists
        ids: list[Any] = pc.unique(rows.column(rule.end).filter(pa.array(wanted & ~exists))).to_pylist()
        table, found = self.tables.open(pin), set[str]()
        for start in range(0, len(ids), _AT_ONCE):
            some: list[Any] = table.read([ID], where=one_of(ID, ids[start : start + _AT_ONCE])).column(ID).to_pylist()
            found.update(some)
        return exists | _is_in(rows.column(rule.end), found)

    def _ids(self, rule: Endpoint, removed_by: Side, fate: Fate) -> set[str]:
        fates = self.disputed.fates.get((removed_by, rule.node_key), {})
        return {row_id for row_id, each in fates.items() if each == fate}

    def followed(self, removed_by: Side, row: Row) -> tuple[Fate, str] | None:
        """The decision that an edge follows, and its node; a removed node is decisive, then an open one."""
        found: list[tuple[Fate, str]] = []
        for rule in self.rules:
            fate = self.disputed.fates.get((removed_by, rule.node_key), {}).get(row[rule.end])
            found += [] if fate is None else [(fate, f"{rule.node_key}/{row[rule.end]}")]
        order: tuple[Fate, ...] = ("removed", "open", "kept")
        return min(found, key=lambda each: order.index(each[0]), default=None)

    def of_open_nodes(self, source: TableDelta, target: TableDelta) -> EdgesOfNodes:
        """The edges that were removed with a node about which nothing is decided, and that the other side has."""
        listed = EdgesOfNodes()
        for side, rows, others in (("source", source.deleted, target), ("target", target.deleted, source)):
            removed_by: Side = "source" if side == "source" else "target"
            left = rows.filter(pc.invert(pc.is_in(rows.column(ID), value_set=others.deleted.column(ID))))
            for rule in self.rules:
                wanted = _is_in(left.column(rule.end), self._ids(rule, removed_by, "open"))
                listed.add(rule, left.select([ID, rule.end]).filter(pa.array(wanted)))
        return listed


@dataclass
class EdgesOfNodes:
    """By node, the edges that were removed with it: some of them, and the number of the others."""

    edges: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    more: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, rule: Endpoint, rows: pa.Table) -> None:
        """Add edges to the nodes at one of their endpoints."""
        for row in rows.to_pylist():
            self._add(f"{rule.node_key}/{row[rule.end]}", [f"{rule.edge_key}/{row[ID]}"], 0)

    def add_all(self, edges: Mapping[str, Sequence[str]], more: Mapping[str, int]) -> None:
        """Add edges that another collection has."""
        for node, some in edges.items():
            self._add(node, some, more.get(node, 0))

    def _add(self, node: str, edges: Sequence[str], more: int) -> None:
        known = self.edges[node]
        new = [each for each in edges if each not in known]
        known += new[: max(0, MOST_EDGES - len(known))]
        self.more[node] += more + len(new) - len([each for each in new if each in known])

    def shown_with(self, conflicts: Iterable[Conflict]) -> tuple[Conflict, ...]:
        """The conflicts, those of nodes with their edges, and each edge that follows a node after it."""
        followers: dict[str, list[Conflict]] = defaultdict(list)
        leaders: list[Conflict] = []
        for each in conflicts:
            (followers[each.follows] if each.follows else leaders).append(each)
        found: list[Conflict] = []
        for each in leaders:
            edges = tuple(sorted(self.edges.get(each.name, ())))
            found += [replace(each, edges=edges, more_edges=self.more.get(each.name, 0)) if edges else each]
            found += followers.pop(each.name, [])
        return (*found, *(each for left in followers.values() for each in left))


def resolve_edge(incident: IncidentEdges | None, resolver: Resolver, conflict: Conflict) -> tuple[Conflict, Resolution]:
    """How a conflict is resolved: of an edge that was removed with its node as the node, unless the edge is named."""
    removed_by, row = _removed(conflict)
    followed = None if incident is None or removed_by is None else incident.followed(removed_by, row)
    if followed is None:
        return conflict, resolve(resolver, conflict)
    fate, node = followed
    conflict = replace(conflict, follows=node)
    named = resolve_by_name(resolver, conflict)
    if named is not None or fate == "open":
        return conflict, named
    remover: Choice = "theirs" if removed_by == "source" else "ours"
    keeper: Choice = "ours" if removed_by == "source" else "theirs"
    return conflict, keeper if fate == "kept" else remover


def fates_of(conflict: Conflict, fate: Fate) -> tuple[Side, Fate] | None:
    """The side that removed the entity of a conflict, and the decision; None if both sides have it."""
    side, _ = _removed(conflict)
    return None if side is None else (side, fate)


def _removed(conflict: Conflict) -> tuple[Side | None, Row]:
    if conflict.ours is not None and conflict.theirs is None:
        return "source", conflict.ours
    if conflict.theirs is not None and conflict.ours is None:
        return "target", conflict.theirs
    return None, {}


def incident_edges(
    catalog: Catalog,
    tables: TableStore,
    disputed: DisputedNodes,
    entries: Mapping[tuple[Side, str], TableEntry],
    table_key: str,
) -> IncidentEdges | None:
    """What the merge of an edge table has to know of nodes; None if no node of its endpoints is disputed."""
    edge = next((each for each in catalog.edges.values() if each.table_key == table_key), None)
    if edge is None:
        return None
    rules = endpoint_rules(edge)
    if not any((side, rule.node_key) in disputed.fates for side in SIDES for rule in rules):
        return None
    return IncidentEdges(rules, disputed, tables, {key: each.pin for key, each in entries.items()})


def with_restorable(
    catalog: Catalog, disputed: DisputedNodes, pairs: Sequence[tuple[TableEntry, TableEntry]], taken: frozenset[str]
) -> list[tuple[TableEntry, TableEntry]]:
    """Of all tables, the edge tables to merge: those in `taken`, and those with edges that may have to come back."""
    removed = disputed.tables("target")
    touched = {
        edge.table_key
        for edge in catalog.edges.values()
        if any(rule.node_key in removed for rule in endpoint_rules(edge))
    }
    keys = {key for key in taken if not is_node_table(key)} | touched
    return [pair for pair in pairs if pair[1].table_key in keys]


def is_node_table(table_key: str) -> bool:
    """Whether a table has nodes."""
    return table_key.startswith("node:")


def node_entries(pairs: Iterable[tuple[TableEntry, TableEntry]]) -> dict[tuple[Side, str], TableEntry]:
    """The node tables of both sides, by the table key of the target."""
    found: dict[tuple[Side, str], TableEntry] = {}
    for there, here in pairs:
        if is_node_table(here.table_key):
            found |= {("source", here.table_key): there, ("target", here.table_key): here}
    return found


def _is_in(column: pa.ChunkedArray[Any], ids: set[str]) -> Mask:
    found: Mask = pc.is_in(column, value_set=pa.array(sorted(ids), pa.string())).to_numpy()
    return found
