"""`BranchManifest` caches the manifest of one branch: table handle, state, and the fragment of the head row."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import BranchReplaced, NotFound
from omnigraph.manifest.active_fragment import ActiveFragment, OwnFragments, WrittenFragment, active_fragment_of
from omnigraph.manifest.commit_graph import Lineage, read_legacy_commits
from omnigraph.manifest.layout import (
    CURRENT,
    MAIN,
    MANIFEST,
    branch_incarnation,
    check_format_version,
    damaged,
    no_such_branch,
    open_manifest,
    physical_branch,
    require_columns,
    unfinished_branch,
)
from omnigraph.manifest.row_versions import just_written, read_fragments, versioned_rows
from omnigraph.manifest.rows import KEY, SCHEMA, head_id
from omnigraph.manifest.state import ManifestState
from omnigraph.manifest.version_refs import NamedFiles, ReferredVersions
from omnigraph.storage.filters.model import equal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from lance import FragmentMetadata

    from omnigraph.manifest.layout import Storage
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.storage.tables.table import Table


@dataclass(frozen=True)
class StagedPublish:
    """The rows that a publish adds, its head row, and the active fragment that holds them."""

    rows: pa.Table
    head: pa.Table
    active: WrittenFragment


class BranchManifest:
    """The cached manifest of one branch. `refresh` costs one probe, and reads only fragments that are new.

    Every read answers from memory with a value that never changes. `state` and `lock` are for this package alone.
    """

    def __init__(self, stores: Storage, branch: str) -> None:
        self.stores = stores
        self.branch = branch
        self.lock = threading.RLock()
        self.incarnation = branch_incarnation(stores, branch)
        if branch != MAIN and unfinished_branch(stores) == branch:
            raise no_such_branch(branch)
        self.table = open_manifest(stores, branch)
        self.format_version = check_format_version(self.table)
        self.state = ManifestState(stores.uri)
        self._seen: frozenset[int] = frozenset()
        # The fragment with the head row as last read or written, by its data file; None: no publish can replace it as a
        # whole.
        self._active: tuple[str, ActiveFragment | None] | None = None
        self.own = OwnFragments()
        # State for garbage collection of old versions, and the version from which on the next collection is due.
        self.names = NamedFiles()
        self.referred = ReferredVersions(branch, self.incarnation)
        self.collect_from = 0
        self._load(self.table)

    def snapshot(self) -> Snapshot:
        """The newest snapshot that this object has read; it does not check for a newer one."""
        with self.lock:
            return self.state.current(self.branch)

    def snapshot_of(self, commit: GraphCommit) -> Snapshot:
        """The snapshot that a commit published."""
        with self.lock:
            return self.state.at(self.branch, commit)

    def lineage(self) -> Lineage:
        """The commits that are visible from the branch."""
        with self.lock:
            return Lineage(self.branch, dict(self.state.commits))

    @property
    def head(self) -> GraphCommit | None:
        """The newest commit."""
        with self.lock:
            return self.state.head

    @property
    def head_id(self) -> str | None:
        """The id of the newest commit."""
        head = self.head
        return None if head is None else head.id

    @property
    def schema(self) -> str | None:
        """The hash of the newest schema; None when no commit has changed the schema."""
        with self.lock:
            return self.state.schema

    @property
    def schema_commits(self) -> tuple[GraphCommit, ...]:
        """The commits that changed the schema, the oldest first."""
        with self.lock:
            return tuple(self.state.schema_commits)

    @property
    def manifest_version(self) -> int:
        """The version of `__manifest` that was read last."""
        with self.lock:
            return self.state.manifest_version

    @property
    def locations(self) -> Mapping[str, str]:
        """The path of every table that the branch has had, by table key."""
        with self.lock:
            return dict(self.state.locations)

    def commit(self, commit_id: str) -> GraphCommit | None:
        """A commit that is visible from the branch."""
        with self.lock:
            return self.state.commits.get(commit_id)

    def commit_by_key(self, idempotency_key: str) -> GraphCommit | None:
        """The first commit that was made under an idempotency key."""
        with self.lock:
            return self.state.by_key.get(idempotency_key)

    def current_version(self, table_key: str) -> int | None:
        """The newest published version of a table; None when it does not exist or was dropped."""
        with self.lock:
            return self.state.current_version(table_key)

    def current_entry(self, table_key: str) -> TableEntry | None:
        """The newest published state of a table; None when it does not exist or was dropped."""
        with self.lock:
            return self.state.current_entry(table_key)

    def table_history(self, table_key: str, until: int | None = None) -> Sequence[tuple[GraphCommit, TableEntry]]:
        """Every state of a table up to a manifest version with the commit that published it, the newest first."""
        with self.lock:
            return self.state.table_history(table_key, until)

    def first_visible(self, table_key: str) -> Mapping[int, int]:
        """The version of `__manifest` that first showed each version of a table that this branch itself wrote."""
        with self.lock:
            return self.state.first_visible(table_key, physical_branch(self.branch))

    def entries_of(self, commits: Iterable[GraphCommit]) -> frozenset[TableEntry]:
        """The table versions that make up the snapshots of these commits."""
        with self.lock:
            return self.state.entries_of(commits)

    def last_tombstone(self, table_key: str) -> int:
        """The version as of which a table was last dropped; 0 if it never was."""
        with self.lock:
            return self.state.last_tombstone(table_key)

    def next_tombstone(self, table_key: str) -> int:
        """The version of a new tombstone: one above the last published version."""
        with self.lock:
            return self.state.next_tombstone(table_key)

    def last_version(self, table_key: str) -> int:
        """The highest version that a table was ever published or dropped at; 0 if there never was one."""
        with self.lock:
            return self.state.last_version(table_key)

    def has_forked(self, table_key: str) -> bool:
        """Whether the branch has published versions of its own of a table, on a fork or on main."""
        with self.lock:
            return self.state.has_versions_on(table_key, physical_branch(self.branch))

    def refresh(self) -> None:
        """Catch up with what other processes have published."""
        with self.lock:
            self.require_same_incarnation()
            if self.table.latest_version() != self.table.version:
                self.advance_to(self.stores.tables.open_newest(MANIFEST, physical_branch(self.branch)))

    def advance_to(self, table: Table) -> None:
        """Switch to a newer version of the manifest and apply the rows that are new."""
        with self.lock:
            if check_format_version(table) != self.format_version:
                self._load(table)
                return
            self._apply_fragments(table, sorted(frozenset(table.fragment_ids()) - self._seen))
            self._move(table)

    def advance(self, table: Table, staged: StagedPublish) -> None:
        """Switch to the version that this process has just published, without reading its rows back."""
        with self.lock:
            for rows in (staged.rows, staged.head):
                self.state.apply_rows(just_written(rows, version=table.version), manifest_version=table.version)
            self._move(table, is_own=True)
            self._record_fragment(staged.active)

    def rewritten(self, table: Table, active: WrittenFragment) -> None:
        """Switch to the version that this process has just compacted: other fragments, the same rows."""
        with self.lock:
            self.state.manifest_version = table.version
            self._move(table)
            self._record_fragment(active)

    def active_fragment(self) -> ActiveFragment | None:
        """The active fragment, or None if no publish can replace it; read only when another process wrote it."""
        with self.lock:
            if self.branch not in self.state.heads:
                return None
            last_seen = self.state.head_fragments.get(self.branch)
            fragment_id = last_seen if last_seen in self._seen else self._find_head()
            if fragment_id is None:
                return None
            file = _first_file(self.table.fragment(fragment_id))
            if self._active is None or self._active[0] != file:
                for _, rows in read_fragments(self.table, [fragment_id]):
                    self._cache_fragment(self.table, fragment_id, rows)
            return None if self._active is None else self._active[1]

    def require_same_incarnation(self) -> None:
        """Raise `BranchReplaced` if the branch was deleted and created again since this object read it."""
        if self.branch != MAIN and branch_incarnation(self.stores, self.branch) != self.incarnation:
            raise BranchReplaced(
                self.branch, f"branch {self.branch!r} was deleted and made anew: open it again to use the new one."
            )

    def _apply_fragments(self, table: Table, fragments: Sequence[int] | None = None) -> None:
        for fragment_id, rows in read_fragments(table, fragments):
            self.state.apply_rows(versioned_rows(table, fragment_id, rows), manifest_version=table.version)
            if self.state.head_fragments.get(self.branch) == fragment_id:
                self._cache_fragment(table, fragment_id, rows)
        self.state.manifest_version = table.version

    def _cache_fragment(self, table: Table, fragment_id: int, rows: pa.Table) -> None:
        file = _first_file(table.fragment(fragment_id))
        self._active = file, active_fragment_of(table, fragment_id, rows, head_id(self.branch))

    def _record_fragment(self, written: WrittenFragment) -> None:
        """Record the fragment id that an active fragment written by this process got at its commit."""
        file = _first_file(written.fragment)
        fragments = map(self.table.fragment, reversed(self.table.fragment_ids()))
        fragment = next(each for each in fragments if _first_file(each) == file)
        self._active = file, written.under(fragment)
        self.state.head_fragments[self.branch] = fragment.id

    def _move(self, table: Table, *, is_own: bool = False) -> None:
        if is_own:
            self.names.record(table)
        else:
            self.names.see(table)
        if self.own:
            self.own.evict_others(self.names.of(table.version) or frozenset())
        self.table, self._seen = table, frozenset(table.fragment_ids())

    def _find_head(self) -> int | None:
        mine = equal(KEY, head_id(self.branch))
        for fragment in reversed(self.table.fragment_ids()):
            if any(batch.num_rows for batch in self.table.scan([KEY], mine, fragments=[fragment])):
                self.state.head_fragments[self.branch] = fragment
                return fragment
        return None

    def _load(self, table: Table) -> None:
        self.table = table
        self.format_version = check_format_version(table)
        require_columns(self.stores, table, SCHEMA.names)
        self.state = ManifestState(self.stores.uri)
        try:
            self._apply_fragments(table)
        except NotFound as error:
            raise damaged(self.stores, error) from error
        self._move(table)
        if self.format_version < CURRENT and not self.state.commits:
            for commit in read_legacy_commits(self.stores.tables, self.branch):
                self.state.add_commit(commit, created=commit.manifest_version)


def _first_file(fragment: FragmentMetadata) -> str:
    return str(fragment.files[0].path)
