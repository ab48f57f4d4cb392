"""The change feed: the changes of each commit of a branch, along first parents, in pages with a durable cursor.

A cursor (`history/changes.py`) is a text that names a position. Reading from the same position returns the same changes
again, so a reader that stores the cursor together with what it derived from the changes misses nothing and repeats
nothing. A `Baseline` is a whole branch as records, with the cursor from which to keep them up to date.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, get_args

from omnigraph.catalog.catalog import resolve_table_key
from omnigraph.errors import ChangeCursorRejected, ChangeFeedGap, InvalidInput, VersionReclaimed
from omnigraph.errors.inputs import require_choice
from omnigraph.export.records import export_records
from omnigraph.history.changes import (
    EVERYTHING,
    Change,
    ChangedTable,
    ChangeOp,
    CommitPosition,
    EntityKind,
    LastDelta,
    Only,
    Position,
    changed_tables_between,
    changes_in,
    decode,
    delta_of,
    witness_of,
)
from omnigraph.kernels.report import Report
from omnigraph.world import is_ulid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.history.delta import TableDelta
    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.storage.tables.table import TableStore
    from omnigraph.transaction.schemas import Schemas


@dataclass(frozen=True)
class Baseline:
    """One state of a branch. The changes after `cursor` are exactly those that the records do not have."""

    commit_id: str
    cursor: str
    snapshot: Snapshot
    _tables: TableStore = field(repr=False)
    catalog: Catalog = field(repr=False)
    types: tuple[str, ...] | None = None

    def records(self) -> Iterator[bytes]:
        """Its nodes and edges as NDJSON, in chunks of whole lines; a load reads them."""
        return export_records(self.snapshot, self._tables, self.catalog, types=self.types)


def take_baseline(
    manifest: GraphManifest, feed: ChangeFeed, schemas: Schemas, types: Sequence[str] | None = None
) -> Baseline:
    """Pin the newest snapshot of the feed's branch, with its cursor; later commits do not change it."""
    snapshot = manifest.snapshot(feed.branch)
    assert snapshot.commit_id is not None, "every branch has a commit: the first one of the graph"
    cursor = feed.cursor_after(snapshot.commit_id)
    chosen, catalog = None if types is None else tuple(types), schemas.of(snapshot.schema).catalog
    return Baseline(snapshot.commit_id, cursor, snapshot, manifest.stores.tables, catalog, chosen)


BEGINNING = "beginning"
PAGE_CHANGES = 1_000
# A page that finds no wanted change still ends after this many commits.
PAGE_COMMITS = 512


@dataclass(frozen=True, repr=False)
class ChangePage(Report):
    """Some changes of a branch, in order. `cursor` is where the next page begins.

    `caught_up`: the page ends with the last change of the newest commit at the time of the request.
    """

    branch: str
    changes: tuple[Change, ...]
    cursor: str
    caught_up: bool

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    @property
    def blocks(self) -> list[tuple[GraphCommit, list[Change]]]:
        """The changes by commit."""
        return [(commit, list(some)) for commit, some in groupby(self.changes, key=lambda each: each.commit)]

    def _summary(self) -> str:
        more = "caught up" if self.caught_up else "more to come"
        return f"of {self.branch}: {len(self):,} changes, {more}"


@dataclass(frozen=True)
class CommitChanges:
    """What one commit did. Rows are read when they are iterated over."""

    commit: GraphCommit
    changed_tables: tuple[ChangedTable, ...]
    _tables: TableStore = field(repr=False)
    only: Only = EVERYTHING

    def __iter__(self) -> Iterator[Change]:
        return self._after(None)

    def _after(self, position: CommitPosition | None) -> Iterator[Change]:
        """The changes after a position."""
        try:
            yield from changes_in(list(self.changed_tables), self._tables, self.only, position)
        except VersionReclaimed as error:
            raise ChangeFeedGap(self.commit.branch, self.commit.id) from error

    def page(self, limit: int, token: str | None = None) -> tuple[list[Change], str | None]:
        """At most `limit` changes after the page that gave the token, and the token of the next page if any."""
        if limit < 1:
            raise InvalidInput("a page has at least one change: give a limit above 0.")
        found: list[Change] = []
        for change in self._after(self._position_of(token)):
            if len(found) == limit:
                last = found[-1]
                return found, self._token((last.table_key, last.id))
            found.append(change)
        return found, None

    def _token(self, inside: tuple[str, str]) -> str:
        return Position(self.commit.id, self.commit.branch, None, self.commit.parent, inside).encode()

    def _position_of(self, token: str | None) -> CommitPosition | None:
        if token is None:
            return None
        position = decode(token)
        if position.graph != self.commit.id or position.inside is None:
            raise ChangeCursorRejected(f"it is not the token of a page of commit {self.commit.id}.")
        return CommitPosition(*position.inside)

    def deltas(self) -> Iterator[TableDelta]:
        """The changed rows of each table, as Arrow."""
        for changed in self.changed_tables:
            delta = delta_of(changed, self._tables)
            if not delta.is_empty:
                yield delta


class ChangeFeed:
    """The changes of one branch."""

    def __init__(self, manifest: GraphManifest, branch: str) -> None:
        self._manifest = manifest
        self.branch = branch
        self._last = LastDelta()
        self._graph: str | None = None

    def now(self) -> str:
        """The position after the newest commit."""
        branch_manifest = self._manifest.fresh_branch(self.branch)
        return self._at(branch_manifest, branch_manifest.head_id).encode()

    def beginning(self) -> str:
        """The position before the first commit."""
        return self._at(self._manifest.fresh_branch(self.branch), None).encode()

    def cursor_after(self, commit_id: str) -> str:
        """The position after a commit of the branch's first-parent chain."""
        branch_manifest = self._manifest.fresh_branch(self.branch)
        _chain(branch_manifest, commit_id)
        return self._at(branch_manifest, commit_id).encode()

    def commits(self, since: str | None, until: str | None = None, limit: int | None = None) -> list[GraphCommit]:
        """The commits after one position and up to another (else the newest), the oldest first."""
        branch_manifest = self._manifest.fresh_branch(self.branch)
        chain = _chain(branch_manifest, self._position(branch_manifest, since).after)
        if until is not None:
            last = self._position(branch_manifest, until).after
            ids = [each.id for each in chain]
            chain = chain[: ids.index(last) + 1] if last in ids else []
        return chain[:limit]

    def changed_tables(self, commit: GraphCommit, only: Only = EVERYTHING) -> list[ChangedTable]:
        """The tables that a commit changed, each as a value that can be sent to another process."""
        return changed_tables_of(self._manifest.branch(self.branch), commit, only)

    def page(self, since: str | None, *, limit: int = PAGE_CHANGES, only: Only = EVERYTHING) -> ChangePage:
        """The next changes after a position: a cursor, a commit id, `beginning`, or None for now."""
        if limit < 1:
            raise InvalidInput("a page has at least one change: give a limit above 0.")
        branch_manifest = self._manifest.fresh_branch(self.branch)
        position = self._position(branch_manifest, since)
        chain = _chain(branch_manifest, position.after)
        changes: list[Change] = []
        for commit in chain[:PAGE_COMMITS]:
            inside = CommitPosition(*position.inside) if position.inside is not None else None
            for change in self._changes(branch_manifest, commit, only, inside):
                if len(changes) == limit:
                    return self._page(changes, self._inside(position, changes[-1], commit), caught_up=False)
                changes.append(change)
            position = self._at(branch_manifest, commit.id)
        return self._page(changes, position, caught_up=len(chain) <= PAGE_COMMITS)

    def only(
        self, types: Sequence[str] | None, kinds: Sequence[EntityKind] | None, ops: Sequence[ChangeOp] | None
    ) -> Only:
        """Which changes are wanted, with types named as in a load; a type that never existed is an error."""
        table_keys = self._manifest.fresh_branch(self.branch).locations
        return wanted(table_keys, types, kinds, ops)

    def _changes(
        self, branch_manifest: BranchManifest, commit: GraphCommit, only: Only, inside: CommitPosition | None
    ) -> Iterator[Change]:
        try:
            changed_tables = changed_tables_of(branch_manifest, commit, only)
            yield from changes_in(changed_tables, self._manifest.stores.tables, only, inside, self._last)
        except VersionReclaimed as error:
            raise ChangeFeedGap(self.branch, commit.id) from error

    def _page(self, changes: list[Change], position: Position, *, caught_up: bool) -> ChangePage:
        return ChangePage(self.branch, tuple(changes), position.encode(), caught_up)

    def _inside(self, position: Position, last: Change, commit: GraphCommit) -> Position:
        """A position inside a commit, or before it when none of its changes was returned."""
        inside = (last.table_key, last.id) if last.commit.id == commit.id else position.inside
        return replace(position, inside=inside)

    def _position(self, branch_manifest: BranchManifest, since: str | None) -> Position:
        if since is None:
            return self._at(branch_manifest, branch_manifest.head_id)
        if since == BEGINNING:
            return self._at(branch_manifest, None)
        if is_ulid(since):
            return self._at(branch_manifest, since)
        position = decode(since)
        position.require(self._graph_id(), self.branch, branch_manifest.incarnation)
        return position

    def _at(self, branch_manifest: BranchManifest, commit_id: str | None) -> Position:
        return Position(self._graph_id(), self.branch, witness_of(branch_manifest.incarnation), commit_id)

    def _graph_id(self) -> str:
        """The identity of the graph: the id of its first commit."""
        if self._graph is None:
            commits = self._manifest.branch().lineage().commits.values()
            self._graph = min((each for each in commits if each.parent is None), key=lambda each: each.created_us).id
        return self._graph


def changes_of(manifest: GraphManifest, commit_id: str, only: Only = EVERYTHING) -> CommitChanges:
    """The changes of one commit, on whichever branch it was made; the first commit is compared with an empty graph."""
    branch_manifest, commit = manifest.find(commit_id)
    return CommitChanges(commit, tuple(changed_tables_of(branch_manifest, commit, only)), manifest.stores.tables, only)


def changed_tables_of(branch_manifest: BranchManifest, commit: GraphCommit, only: Only) -> list[ChangedTable]:
    """The tables that a commit changed, compared with its first parent."""
    parent = _parent(branch_manifest, commit)
    before = None if parent is None else branch_manifest.snapshot_of(parent)
    return changed_tables_between(before, branch_manifest.snapshot_of(commit), commit, only)


def wanted(
    table_keys: Iterable[str],
    types: Sequence[str] | None,
    kinds: Sequence[EntityKind] | None,
    ops: Sequence[ChangeOp] | None,
) -> Only:
    """The filter for these types, kinds and operations; types are named as in a load, and unknown ones refused."""
    for kind in kinds or ():
        require_choice("kind", kind, get_args(EntityKind))
    for op in ops or ():
        require_choice("operation", op, get_args(ChangeOp))
    keys = list(table_keys)
    named = None if types is None else {resolve_table_key(name, keys) for name in types}
    if named is None and kinds is None:
        return Only(None, None if ops is None else frozenset(ops))
    chosen = (
        key for key in keys if (named is None or key in named) and (kinds is None or key.partition(":")[0] in kinds)
    )
    return Only(frozenset(chosen), None if ops is None else frozenset(ops))


def _chain(branch_manifest: BranchManifest, after: str | None) -> list[GraphCommit]:
    """The commits of the first-parent chain after a commit, oldest first."""
    found: list[GraphCommit] = []
    commit = branch_manifest.head
    while commit is not None and commit.id != after:
        found.append(commit)
        commit = _parent(branch_manifest, commit)
    if commit is None and after is not None:
        raise ChangeCursorRejected(
            f"commit {after} is not in the history of branch {branch_manifest.branch!r} by first parents."
        )
    return found[::-1]


def _parent(branch_manifest: BranchManifest, commit: GraphCommit) -> GraphCommit | None:
    if commit.parent is None:
        return None
    found = branch_manifest.commit(commit.parent)
    if found is None:
        raise ChangeFeedGap(branch_manifest.branch, commit.id)
    return found
