"""`ManifestState`: the state that the rows of one branch's manifest add up to, updated incrementally.

Rows other than head rows are never removed from a manifest, and each row has the manifest version that created it. So
the newest version contains every earlier state of the graph: time travel opens no old manifest version.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from omnigraph.errors import ManifestCorrupt
from omnigraph.kernels.row_address import fragment_of
from omnigraph.manifest.rows import GraphCommit, GraphHead, TableVersion, Tombstone, decode_commit, decode_head
from omnigraph.manifest.snapshot import Snapshot, TableEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from omnigraph.manifest.row_versions import VersionedRow

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Published:
    """A table version or a tombstone, with the manifest version that made it visible."""

    version: int
    since: int
    branch: str | None = None
    row_count: int = 0


@dataclass
class ManifestState:
    """The state that the rows of a branch's manifest add up to. `apply_rows` changes it; the owner must lock."""

    uri: str
    manifest_version: int = 0
    locations: dict[str, str] = field(default_factory=dict)
    versions: dict[str, dict[int, _Published]] = field(default_factory=dict)
    tombstones: dict[str, dict[int, _Published]] = field(default_factory=dict)
    commits: dict[str, GraphCommit] = field(default_factory=dict)
    heads: dict[str, GraphHead] = field(default_factory=dict)
    # The fragment in which each head row was last seen; a compaction by another process may have moved it since.
    head_fragments: dict[str, int] = field(default_factory=dict)
    # The first commit made under each idempotency key.
    by_key: dict[str, GraphCommit] = field(default_factory=dict)
    newest: dict[str, _Published] = field(default_factory=dict)
    head: GraphCommit | None = None
    # The commits that changed the schema, the oldest first.
    schema_commits: list[GraphCommit] = field(default_factory=list)
    # The manifest version that created each commit's row, and how many commit rows that version created.
    _created: dict[str, int] = field(default_factory=dict)
    _created_together: dict[int, int] = field(default_factory=dict)

    def apply_rows(self, rows: Iterable[VersionedRow], *, manifest_version: int) -> None:
        """Add rows; a row that exists already is replaced."""
        for row in rows:
            self._add(*row)
        self.manifest_version = manifest_version

    def current(self, branch: str) -> Snapshot:
        """The newest snapshot."""
        tables = {key: self._entry(key, self.newest[key]) for key in sorted(self.newest) if not self._is_dropped(key)}
        return Snapshot(branch, self.manifest_version, self.head.id if self.head else None, tables, self.schema)

    @property
    def schema(self) -> str | None:
        """The hash of the newest schema; None when no commit has changed the schema."""
        newest = self.schema_commits[-1].schema if self.schema_commits else None
        return newest.after if newest is not None else None

    def at(self, branch: str, commit: GraphCommit) -> Snapshot:
        """The snapshot that a commit published."""
        version = self.visible_since(commit)
        tables = {}
        for key in sorted(self.versions):
            seen = [each for each in self.versions[key].values() if each.since <= version]
            dead = [each.version for each in self.tombstones.get(key, {}).values() if each.since <= version]
            if seen and max(each.version for each in seen) > max(dead, default=-1):
                tables[key] = self._entry(key, max(seen, key=lambda each: each.version))
        return Snapshot(branch, version, commit.id, tables, self._schema_at(version))

    def _schema_at(self, version: int) -> str | None:
        """The schema as of a manifest version: the last change's result, or what the first change replaced."""
        changes = [each for each in self.schema_commits if self.visible_since(each) <= version]
        if changes and changes[-1].schema is not None:
            return changes[-1].schema.after
        first = self.schema_commits[0].schema if self.schema_commits else None
        return first.before if first is not None else None

    def object_ids_after(self, commit: GraphCommit) -> list[str]:
        """The keys of rows that are not in a commit's snapshot: later versions, tombstones and commits."""
        limit = self.visible_since(commit)
        versions = (
            TableVersion(key, each.version, None, 0, "").object_id
            for key, published in self.versions.items()
            for each in published.values()
            if each.since > limit
        )
        tombstones = (
            Tombstone(key, each.version).object_id
            for key, dead in self.tombstones.items()
            for each in dead.values()
            if each.since > limit
        )
        commits = (each.id for each in self.commits.values() if self.visible_since(each) > limit)
        return [*versions, *tombstones, *commits]

    def commit_at(self, version: int) -> GraphCommit | None:
        """The newest commit that is visible at a manifest version."""
        visible_from = (each for each in self.commits.values() if self.visible_since(each) <= version)
        return max(visible_from, key=_rank, default=None)

    def table_history(self, table_key: str, until: int | None = None) -> list[tuple[GraphCommit, TableEntry]]:
        """Every state of a table up to a manifest version with the commit that published it, the newest first."""
        commits = sorted(self.commits.values(), key=self.visible_since)
        since = [self.visible_since(each) for each in commits]
        published = sorted(self.versions.get(table_key, {}).values(), key=lambda each: each.since, reverse=True)
        return [
            (commits[at], self._entry(table_key, each))
            for each in published
            if (until is None or each.since <= until) and (at := bisect_left(since, each.since)) < len(commits)
        ]

    def current_version(self, table_key: str) -> int | None:
        """The newest published version of a table; None when it does not exist or was dropped."""
        newest = self.newest.get(table_key)
        return None if newest is None or self._is_dropped(table_key) else newest.version

    def current_entry(self, table_key: str) -> TableEntry | None:
        """The newest published state of a table; None when it does not exist or was dropped."""
        newest = self.newest.get(table_key)
        return None if newest is None or self._is_dropped(table_key) else self._entry(table_key, newest)

    def first_visible(self, table_key: str, branch: str | None) -> dict[int, int]:
        """The manifest version that first showed each version of a table on a table branch."""
        return {
            entry.version: self.visible_since(commit)
            for commit, entry in self.table_history(table_key)
            if entry.branch == branch
        }

    def entries_of(self, commits: Iterable[GraphCommit]) -> frozenset[TableEntry]:
        """The table versions that make up the snapshots of these commits."""
        versions = [self.visible_since(each) for each in commits]
        entries: set[TableEntry] = set()
        for key in self.versions:
            history = self.table_history(key)[::-1]
            visible_from = [self.visible_since(commit) for commit, _ in history]
            newest = list(accumulate((entry for _, entry in history), _later))
            entries.update(newest[at - 1] for version in versions if (at := bisect_right(visible_from, version)))
        return frozenset(entries)

    def last_tombstone(self, table_key: str) -> int:
        """The version as of which a table was last dropped; 0 if it never was."""
        return max(self.tombstones.get(table_key, ()), default=0)

    def last_version(self, table_key: str) -> int:
        """The highest version that a table was ever published or dropped at; 0 if there never was one."""
        return max(*self.versions.get(table_key, ()), self.last_tombstone(table_key), 0)

    def has_versions_on(self, table_key: str, branch: str | None) -> bool:
        """Whether a version of a table was ever published on a table branch."""
        return any(each.branch == branch for each in self.versions.get(table_key, {}).values())

    def next_tombstone(self, table_key: str) -> int:
        """The version of a new tombstone: one above the last published version."""
        return max(self.versions.get(table_key, {0: None})) + 1

    def _add(
        self,
        object_id: str,
        object_type: str,
        location: str | None,
        metadata: str | None,
        table_key: str,
        version: int | None,
        branch: str | None,
        row_count: int | None,
        created: int,
        address: int | None,
    ) -> None:
        match object_type:
            case "table":
                self.locations[table_key] = self._required(location, object_id)
            case "table_version":
                published = _Published(self._required(version, object_id), created, branch, row_count or 0)
                self.versions.setdefault(table_key, {})[published.version] = published
                if table_key not in self.newest or published.version >= self.newest[table_key].version:
                    self.newest[table_key] = published
            case "table_tombstone":
                published = _Published(self._required(version, object_id), created)
                self.tombstones.setdefault(table_key, {})[published.version] = published
            case "graph_commit":
                text, expected = self._required(metadata, object_id), self._required(version, object_id)
                commit = self._decoded(object_id, lambda: decode_commit(object_id, text, expected, branch))
                self.add_commit(commit, created=created)
            case "graph_head":
                text = self._required(metadata, object_id)
                head = self._decoded(object_id, lambda: decode_head(object_id, text))
                self.heads[head.branch] = head
                if address is not None:
                    self.head_fragments[head.branch] = fragment_of(address)
            case _:
                pass  # rows of a later release; the format requires readers to skip them

    def add_commit(self, commit: GraphCommit, *, created: int) -> None:
        """Add a commit whose row was created by the manifest version `created`."""
        if commit.id not in self.commits:
            self._created[commit.id] = created
            self._created_together[created] = self._created_together.get(created, 0) + 1
            if commit.schema is not None:
                self.schema_commits = sorted([*self.schema_commits, commit], key=_rank)
        self.commits[commit.id] = commit
        if commit.idempotency_key is not None:
            self.by_key.setdefault(commit.idempotency_key, commit)
        if self.head is None or _rank(commit) > _rank(self.head):
            self.head = commit

    def visible_since(self, commit: GraphCommit) -> int:
        """The manifest version at which a commit became visible.

        A commit row holds the version that the publish expected to become. It is too low when Lance rebased the publish
        over a metadata commit; then the row's own creation version is right. Commits that a migration copied
        share one creation version, and their own version is right.
        """
        created = self._created.get(commit.id, 0)
        alone = self._created_together.get(created) == 1
        return max(created, commit.manifest_version) if alone else commit.manifest_version

    def _is_dropped(self, table_key: str) -> bool:
        dead = self.tombstones.get(table_key)
        return dead is not None and max(dead) >= self.newest[table_key].version

    def _entry(self, table_key: str, published: _Published) -> TableEntry:
        if table_key not in self.locations:
            raise ManifestCorrupt(
                self.uri, f"{self.uri}: {table_key} has versions but no `table` row saying where it is."
            )
        return TableEntry(
            table_key, self.locations[table_key], published.version, published.branch, published.row_count
        )

    def _decoded(self, object_id: str, decode: Callable[[], _T]) -> _T:
        try:
            return decode()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ManifestCorrupt(
                self.uri, f"{self.uri}: the metadata of row {object_id!r} is not what the format says ({error!r})."
            ) from error

    def _required(self, value: _T | None, object_id: str) -> _T:
        if value is None:
            raise ManifestCorrupt(self.uri, f"{self.uri}: the row {object_id!r} misses a value the format requires.")
        return value


def _rank(commit: GraphCommit) -> tuple[int, int, str]:
    return commit.manifest_version, commit.created_us, commit.id


def _later(one: TableEntry, other: TableEntry) -> TableEntry:
    return one if one.version > other.version else other
