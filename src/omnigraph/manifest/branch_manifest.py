"""`BranchManifest` caches the manifest of one branch: a table handle, the folded rows, and the head row's fragment."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import (
    BranchNotFound,
    BranchReplaced,
    ManifestCorrupt,
    NotAGraph,
    NotFound,
    ObjectNotFound,
    StoreError,
)
from omnigraph.manifest.active_fragment import ActiveFragment, OwnFragments, WrittenFragment, tail_of
from omnigraph.manifest.commit_graph import read_legacy_commits
from omnigraph.manifest.layout import (
    BRANCH_CLAIM,
    CURRENT,
    MAIN,
    MANIFEST,
    branch_reference_file,
    check_stamp,
    physical_branch,
)
from omnigraph.manifest.row_versions import aged_rows, just_written, read_fragments
from omnigraph.manifest.rows import KEY, SCHEMA, head_id
from omnigraph.manifest.state import ManifestState
from omnigraph.manifest.version_refs import NamedFiles, ReferredVersions
from omnigraph.storage.filters.model import equal
from omnigraph.storage.objects.lease import read_claim

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from lance import FragmentMetadata

    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.storage.objects.store import ObjectStore
    from omnigraph.storage.tables.table import Table, TableStore


@dataclass(frozen=True)
class Storage:
    """The tables and the control objects of one graph, below one root."""

    tables: TableStore
    objects: ObjectStore

    @property
    def uri(self) -> str:
        """The root URI, for messages."""
        return self.tables.location.uri


@dataclass(frozen=True)
class StagedPublish:
    """The rows that a publish adds, its head row, and the active fragment that holds them."""

    rows: pa.Table
    head: pa.Table
    tail: WrittenFragment


class BranchManifest:
    """The cached manifest of one branch. `refresh` costs one probe, and reads only fragments that are new."""

    def __init__(self, stores: Storage, branch: str) -> None:
        self.stores = stores
        self.branch = branch
        self.lock = threading.RLock()
        self.incarnation = branch_incarnation(stores, branch)
        if branch != MAIN and unfinished_branch(stores) == branch:
            raise no_such_branch(branch)
        self.table = open_manifest(stores, branch)
        self.stamp = check_stamp(self.table)
        self.state = ManifestState(stores.uri)
        self._seen: frozenset[int] = frozenset()
        # The fragment with the head row as last read or written, by its data file; None: no publish can replace it as a
        # whole.
        self._tail: tuple[str, ActiveFragment | None] | None = None
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

    def refresh(self) -> ManifestState:
        """Catch up with what other processes have published."""
        with self.lock:
            self.require_same_incarnation()
            if self.table.latest_version() != self.table.version:
                self.adopt(self.stores.tables.open_newest(MANIFEST, physical_branch(self.branch)))
            return self.state

    def adopt(self, table: Table) -> None:
        """Switch to a newer version of the manifest and fold in the rows that are new."""
        with self.lock:
            if check_stamp(table) != self.stamp:
                self._load(table)
                return
            self._fold(table, sorted(frozenset(table.fragment_ids()) - self._seen))
            self._move(table)

    def advance(self, table: Table, staged: StagedPublish) -> None:
        """Switch to the version that this process has just published, without reading its rows back."""
        with self.lock:
            for rows in (staged.rows, staged.head):
                self.state.fold(just_written(rows, version=table.version), manifest_version=table.version)
            self._move(table, is_own=True)
            self._settle(staged.tail)

    def rewritten(self, table: Table, tail: WrittenFragment) -> None:
        """Switch to the version that this process has just compacted: other fragments, the same rows."""
        with self.lock:
            self.state.manifest_version = table.version
            self._move(table)
            self._settle(tail)

    def tail(self) -> ActiveFragment | None:
        """The active fragment, or None if no publish can replace it; read only when another process wrote it."""
        with self.lock:
            if self.branch not in self.state.heads:
                return None
            known = self.state.head_fragments.get(self.branch)
            number = known if known in self._seen else self._find_head()
            if number is None:
                return None
            file = _first_file(self.table.fragment(number))
            if self._tail is None or self._tail[0] != file:
                for _, rows in read_fragments(self.table, [number]):
                    self._hold(self.table, number, rows)
            return None if self._tail is None else self._tail[1]

    def require_same_incarnation(self) -> None:
        """Raise `BranchReplaced` if the branch was deleted and created again since this object read it."""
        if self.branch != MAIN and branch_incarnation(self.stores, self.branch) != self.incarnation:
            raise BranchReplaced(
                self.branch, f"branch {self.branch!r} was deleted and made anew: open it again to use the new one."
            )

    def _fold(self, table: Table, fragments: Sequence[int] | None = None) -> None:
        for number, rows in read_fragments(table, fragments):
            self.state.fold(aged_rows(table, number, rows), manifest_version=table.version)
            if self.state.head_fragments.get(self.branch) == number:
                self._hold(table, number, rows)
        self.state.manifest_version = table.version

    def _hold(self, table: Table, number: int, rows: pa.Table) -> None:
        file = _first_file(table.fragment(number))
        self._tail = file, tail_of(table, number, rows, head_id(self.branch))

    def _settle(self, written: WrittenFragment) -> None:
        """Record the fragment id that an active fragment written by this process got at its commit."""
        file = _first_file(written.fragment)
        fragments = map(self.table.fragment, reversed(self.table.fragment_ids()))
        fragment = next(each for each in fragments if _first_file(each) == file)
        self._tail = file, written.under(fragment)
        self.state.head_fragments[self.branch] = fragment.id

    def _move(self, table: Table, *, is_own: bool = False) -> None:
        if is_own:
            self.names.note(table)
        else:
            self.names.see(table)
        if self.own:
            self.own.keep_only(self.names.of(table.version) or frozenset())
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
        self.stamp = check_stamp(table)
        _require_columns(self.stores, table)
        self.state = ManifestState(self.stores.uri)
        try:
            self._fold(table)
        except NotFound as error:
            raise damaged(self.stores, error) from error
        self._move(table)
        if self.stamp < CURRENT and not self.state.commits:
            for commit in read_legacy_commits(self.stores.tables, self.branch):
                self.state.add_commit(commit, created=commit.manifest_version)


def _first_file(fragment: FragmentMetadata) -> str:
    return str(fragment.files[0].path)


def unfinished_branch(stores: Storage) -> str | None:
    """The name of a branch whose creation has not finished, if any: no reader may see it."""
    found = read_claim(stores.objects, BRANCH_CLAIM)
    return None if found is None else found[0].unfinished


def branch_incarnation(stores: Storage, branch: str) -> str | None:
    """What distinguishes a branch from an earlier one of the same name; None for main, which is never deleted."""
    if branch == MAIN:
        return None
    try:
        reference = json.loads(stores.objects.read(branch_reference_file(MANIFEST, branch)))
    except ObjectNotFound as error:
        raise no_such_branch(branch) from error
    return json.dumps(reference["identifier"], sort_keys=True)


def no_such_branch(branch: str) -> BranchNotFound:
    """The error for a branch that does not exist."""
    return BranchNotFound(branch, f"there is no branch {branch!r}; `branches.list()` tells which there are.")


def open_manifest(stores: Storage, branch: str) -> Table:
    """Open the newest manifest of a branch; the error tells a missing branch, a missing graph and damage apart."""
    try:
        return stores.tables.open_newest(MANIFEST, physical_branch(branch))
    except NotFound as error:
        if branch != MAIN:
            raise no_such_branch(branch) from error
        raise NotAGraph(
            stores.uri, f"there is no graph at {stores.uri}: make one with init, or check the location."
        ) from error
    except StoreError as error:
        if type(error) is not StoreError:
            raise
        raise damaged(stores, error) from error


def damaged(stores: Storage, error: Exception) -> ManifestCorrupt:
    """The error for a manifest that exists and cannot be read."""
    return ManifestCorrupt(
        stores.uri, f"{stores.uri}: {MANIFEST} is there but cannot be read ({error}). Restore it from a copy."
    )


def _require_columns(stores: Storage, table: Table) -> None:
    missing = [name for name in SCHEMA.names if name not in table.schema.names]
    if missing:
        raise NotAGraph(
            stores.uri,
            f"{stores.uri} has a table {MANIFEST} that is another program's: it has no column {', '.join(missing)}.",
        )
