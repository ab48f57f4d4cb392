"""Reconciles two snapshots that have a common state: computes the changes to make on one side, or the conflicts.

Merge and revert are the same computation on different snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from omnigraph.history.merge.conflicts import ConflictList, Resolver, of_violation
from omnigraph.history.merge.incident_edges import (
    DisputedNodes,
    EdgesOfNodes,
    incident_edges,
    is_node_table,
    node_entries,
    with_restorable,
)
from omnigraph.history.merge.three_way import TableMerge, merge_table
from omnigraph.transaction.constraints.validate import violations
from omnigraph.transaction.table_writes import writes_of
from omnigraph.transaction.write_set import FastForward, TableChanges, TableWrite

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.errors.commits import Conflict
    from omnigraph.history.delta import TableDelta
    from omnigraph.history.merge.incident_edges import IncidentEdges
    from omnigraph.history.merge.merge_base import CommonState
    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.storage.tables.row_rewrite import RowLocations
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.read_view import ReadView

    # A table of the source, and the same table in the view.
    Pair = tuple[TableEntry, TableEntry]


class MergeBackend(Protocol):
    """Merges tables whose changed rows do not fit in memory."""

    def takes(self, common: CommonState, pairs: Sequence[Pair]) -> bool:
        """Whether this backend takes a merge of these tables."""
        ...

    def reconcile(
        self, catalog: Catalog, view: ReadView, common: CommonState, pairs: MergePairs, settings: MergeSettings
    ) -> Reconciled:
        """Like `reconcile` in memory: row conflicts, and, if there are none, violations of the merged state."""
        ...


@dataclass(frozen=True)
class MergePairs:
    """The tables of a merge: those that both sides have, and the keys of those that the source may have changed."""

    every: tuple[Pair, ...]
    changed: frozenset[str]

    @property
    def differing(self) -> list[Pair]:
        """The tables that the source may have changed."""
        return [pair for pair in self.every if pair[1].table_key in self.changed]

    @property
    def nodes(self) -> list[Pair]:
        """The node tables among them."""
        return [pair for pair in self.differing if is_node_table(pair[1].table_key)]

    def edges(self, catalog: Catalog, view: ReadView, disputed: DisputedNodes) -> list[Pair]:
        """The edge tables to merge once the nodes are: also unchanged ones, if edges of a node may come back."""
        found = with_restorable(catalog, disputed, self.every, self.changed)
        for _, here in found:
            view.entry(here.table_key)
        return found


@dataclass(frozen=True)
class MergeSettings:
    """How to merge what both sides changed. `by_property=False`: two changes of one entity always conflict.

    `merge_backend` is the backend for merges that do not fit in memory; without one, everything is merged in memory.
    """

    by_property: bool = True
    resolver: Resolver = None
    merge_backend: MergeBackend | None = None


@dataclass(frozen=True)
class LargeChange:
    """A change of a table whose rows are not in memory: the number of rows, and a function that stages it."""

    table_key: str
    puts: int
    deletes: int
    stage: Callable[[Table], Staged]


@dataclass(frozen=True)
class Reconciled:
    """The changes, by table, that bring one side's work to the other; or the conflicts that prevent it.

    `more`: the number of conflicts that are not listed. `resolved`: the keys of a mapping of resolutions that had one.
    """

    changes: dict[str, TableChanges] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    # Fast-forwarded tables: the target takes a later version of the table branch that both sides have them from.
    pointers: tuple[FastForward, ...] = ()
    large: dict[str, LargeChange] = field(default_factory=dict)
    more: int = 0
    # Tables with edges that the source removed and that stay: they differ from the source's version.
    restored: frozenset[str] = frozenset()
    resolved: frozenset[str] = frozenset()

    @property
    def puts(self) -> dict[str, int]:
        """The number of rows to write, by table."""
        small = {key: each.puts.num_rows for key, each in self.changes.items() if each.puts is not None}
        return {**small, **{key: each.puts for key, each in self.large.items() if each.puts}}

    @property
    def adopted(self) -> tuple[str, ...]:
        """The fast-forwarded tables, of which no row has to be written."""
        return tuple(each.to.table_key for each in self.pointers)

    @property
    def to_write(self) -> dict[str, TableChanges]:
        """The changes to tables that are not fast-forwarded."""
        return {key: each for key, each in self.changes.items() if key not in self.adopted}

    @property
    def deletes(self) -> dict[str, int]:
        """The number of rows to remove, by table."""
        small = {key: len(each.deletes) for key, each in self.changes.items() if each.deletes}
        return {**small, **{key: each.deletes for key, each in self.large.items() if each.deletes}}

    def writes(self, view: ReadView) -> list[TableWrite]:
        """The table writes for the commit protocol, without the fast-forwarded tables."""
        large = [
            TableWrite(view.entry(key), each.stage)
            for key, each in sorted(self.large.items())
            if key not in self.adopted and (each.puts or each.deletes)
        ]
        return [*writes_of(view, self.to_write), *large]


def reconcile(
    catalog: Catalog, view: ReadView, common: CommonState, theirs: Snapshot, settings: MergeSettings
) -> Reconciled:
    """Compute the changes that bring what `theirs` changed since the common state to the view.

    Conflicts between rows come first; if there are none, the rules of the schema are checked over the merged state.
    """
    pointers = _pointers(view, common, theirs) if common.conversion is None else ()
    if common.conversion is None and _is_only_behind(view, common, theirs, pointers):
        return Reconciled(pointers=pointers)
    every = _pairs(view, common, theirs)
    pairs = MergePairs(tuple(every), frozenset(each[1].table_key for each in every if _may_differ(common, *each)))
    for _, here in pairs.differing:
        view.entry(here.table_key)
    if settings.merge_backend is not None and settings.merge_backend.takes(common, pairs.differing):
        done = settings.merge_backend.reconcile(catalog, view, common, pairs, settings)
        return replace(done, pointers=_without(pointers, done.restored))
    merges = _merge_tables(catalog, view, common, pairs, settings)
    changes = {each.table_key: _changes(each) for each in merges}
    listed = conflicts_of(merges)
    resolved = all_resolved(merges)
    if listed:
        return Reconciled(changes, tuple(listed.conflicts), more=listed.more, resolved=resolved)
    types = table_keys(view)
    listed.add(of_violation(each, types) for each in violations(catalog, view, changes))
    restored = {each.table_key for each in merges if each.restored is not None and each.restored.num_rows}
    pointers = _without(pointers, restored)
    return Reconciled(changes, tuple(listed.conflicts), pointers, more=listed.more, resolved=resolved)


def _merge_tables(
    catalog: Catalog, view: ReadView, common: CommonState, pairs: MergePairs, settings: MergeSettings
) -> list[TableMerge]:
    """Merge the nodes, then the edges, which follow the decisions about their nodes."""
    nodes = [merged for pair in pairs.nodes if (merged := merge_pair(common, *pair, settings)) is not None]
    disputed, entries = DisputedNodes.of((each.table_key, each.fates) for each in nodes), node_entries(pairs.every)
    edges = []
    for pair in pairs.edges(catalog, view, disputed):
        incident = incident_edges(catalog, common.tables, disputed, entries, pair[1].table_key)
        edges.append(merge_pair(common, *pair, settings, incident))
    return [*nodes, *(each for each in edges if each is not None)]


def conflicts_of(merges: Iterable[TableMerge]) -> ConflictList:
    """The conflicts of all tables, with the edges of nodes listed with their node."""
    listed, edges = ConflictList(), EdgesOfNodes()
    for each in merges:
        listed.add(each.conflicts, each.more)
        edges.add_all(each.edges.edges, each.edges.more)
    listed.conflicts = list(edges.shown_with(listed.conflicts))
    return listed


def _without(pointers: tuple[FastForward, ...], restored: Collection[str]) -> tuple[FastForward, ...]:
    return tuple(each for each in pointers if each.to.table_key not in restored)


def all_resolved(merges: Iterable[TableMerge | None]) -> frozenset[str]:
    """The keys of a mapping of resolutions that had a conflict in one of the tables."""
    return frozenset().union(*(each.resolved for each in merges if each is not None))


def table_keys(view: ReadView) -> dict[str, str]:
    """The table keys of a view by type name."""
    return {key.partition(":")[2]: key for key in view.snapshot.tables}


def _pointers(view: ReadView, common: CommonState, theirs: Snapshot) -> tuple[FastForward, ...]:
    """The tables that the view has from the same table branch as the other side, only older, and has never changed.

    Whatever protects that table branch from deletion and cleanup today also does so after a fast-forward. A table
    branch with the other side's own changes would have to be retained for this branch: those rows are written instead.
    """
    found = []
    for key in sorted(theirs.tables.keys() & view.snapshot.tables.keys()):
        here, there = view.snapshot.tables[key], theirs.tables[key]
        same_branch = (here.path, here.branch) == (there.path, there.branch)
        if same_branch and here.version < there.version and common.has(here):
            found.append(FastForward(view.entry(key), there))
    return tuple(found)


def _is_only_behind(view: ReadView, common: CommonState, theirs: Snapshot, pointers: tuple[FastForward, ...]) -> bool:
    """Whether the view becomes exactly the other side's state, which was validated when it was committed."""
    here, taken = view.snapshot.tables, {each.to.table_key for each in pointers}
    return here.keys() == theirs.tables.keys() and all(
        common.has(here[key]) and (key in taken or here[key].pin == theirs.tables[key].pin) for key in here
    )


def _pairs(view: ReadView, common: CommonState, theirs: Snapshot) -> list[tuple[TableEntry, TableEntry]]:
    """Each table of the other side with its counterpart in the view."""
    here = view.snapshot.tables
    if common.conversion is None:
        return [(theirs.tables[key], here[key]) for key in sorted(theirs.tables.keys() & here.keys())]
    found = {each.table_key: common.conversion.new_key(each.table_key) for each in theirs}
    return [(theirs[key], here[now]) for key, now in sorted(found.items()) if now is not None and now in here]


def _may_differ(common: CommonState, there: TableEntry, here: TableEntry) -> bool:
    """Whether the other side may have changes that the view lacks; otherwise the table is not even opened."""
    return there.pin != here.pin and not common.has(there)


def merge_pair(
    common: CommonState,
    there: TableEntry,
    here: TableEntry,
    settings: MergeSettings,
    incident: IncidentEdges | None = None,
) -> TableMerge | None:
    """Merge one table; None when the source has nothing that the view lacks."""
    source = common.delta_of_source(there, here)
    if source.is_empty and incident is None:
        return None
    target = common.delta(here)
    merged = merge_table(
        source,
        target,
        by_property=settings.by_property,
        resolver=settings.resolver,
        undecided=common.undecided(here.table_key),
        incident=incident,
    )
    return replace(merged, locations=_locations(source, target))


def _locations(source: TableDelta, target: TableDelta) -> RowLocations | None:
    """The locations on the target of all rows that the source has changed and the target has; None when not known.

    A row that the target has not moved since is where the common state had it, which the delta of the source knows.
    """
    if source.left is None or target.left is None or target.came is None:
        return None
    return source.left.excluding(target.left.addresses).and_(target.came)


def _changes(merge: TableMerge) -> TableChanges:
    puts = merge.puts if merge.puts.num_rows else None
    return TableChanges(merge.table_key, puts, merge.deletes, locations=merge.locations)
