"""Which versions of tables something may still want to read. A cleanup takes none of them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from omnigraph.errors import BranchNotFound
from omnigraph.manifest.layout import MAIN, table_path
from omnigraph.manifest.lineage import Lineage, merge_bases, unknown_ancestors
from omnigraph.manifest.tags import tagged_commits
from omnigraph.write.tickets import list_sidecars

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.line import ManifestLine
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.manifest.state import ManifestState
    from omnigraph.manifest.tags import KnownTags
    from omnigraph.write.recovery.sidecar import Sidecar

# Versions by the table and the branch that they are on: its path, and the branch; None is its main line.
Versions = dict[tuple[str, str | None], set[int]]


@dataclass(frozen=True)
class Pinned:
    """Versions that stay: those that somebody has (`held`), and those of commits that the caller wants to keep."""

    held: Versions = field(default_factory=lambda: defaultdict(set))
    kept: Versions = field(default_factory=lambda: defaultdict(set))

    def of(self, path: str, branch: str | None) -> set[int]:
        """All that stay of a table on a branch."""
        return self.held[path, branch] | self.kept[path, branch]


@dataclass(frozen=True)
class Retention:
    """Which commits of each branch stay readable: the newest `keep`, and all since a moment, in microseconds."""

    keep: int | None = None
    since: int | None = None

    def kept(self, lineage: Lineage) -> list[GraphCommit]:
        """The commits to keep, always with the newest."""
        commits = lineage.newest_first()
        newest = commits[: max(1, self.keep or 0)]
        return newest if self.since is None else [*newest, *(each for each in commits if each.created_at >= self.since)]


@dataclass
class Pins:
    """What heads, tags, the beginnings of branches, living operations and kept commits stand on."""

    manifest: GraphManifest
    retention: Retention
    # The branches that the last look has found, with their incarnations.
    branches: dict[str, str | None] = field(default_factory=dict)
    _tags: KnownTags = field(default_factory=dict)

    def read(self) -> Pinned:
        """By table, as the store has it now.

        Sidecars come first: one that is gone by then has been published, and the heads, which come last, show it.
        """
        pinned = Pinned()
        for found in list_sidecars(self.manifest.stores.objects):
            _pin_operation(found.sidecar, pinned.held)
        tagged = tagged_commits(self.manifest, self._tags)
        lines = self._lines()
        self.branches = {name: line.incarnation for name, line in lines.items()}
        lineages = {name: _lineage(line) for name, line in lines.items()}
        named = {*tagged, *_meeting_points(lineages)}
        for name, line in lines.items():
            with line.lock:
                commits = line.state.commits
                _pin_states(line.state, [commits[each] for each in named if each in commits], pinned.held)
                _pin_states(line.state, self.retention.kept(lineages[name]), pinned.kept)
                for entry in line.state.current(name):
                    pinned.held[entry.path, entry.branch].add(entry.version)
        return pinned

    def _lines(self) -> dict[str, ManifestLine]:
        found = {}
        for branch in self.manifest.branches():
            try:
                found[branch.name] = self.manifest.fresh_line(branch.name)
            except BranchNotFound:
                continue  # it was deleted a moment ago
        return found


def _pin_operation(sidecar: Sidecar, pinned: Versions) -> None:
    """Add what an operation that has not ended was computed from, and what it takes as it is."""
    for pin in sidecar.tables:
        pinned[table_path(pin.table_key), pin.table_branch].add(pin.expected_version)
    for pointed in sidecar.pointed:
        pinned[table_path(pointed.table_key), pointed.table_branch].add(pointed.version)
    for added in sidecar.added:
        # A line that comes into a branch begins at the version before its own, on the table's main line.
        pinned[added.table_path, None].add(added.version - 1)


def _pin_states(state: ManifestState, commits: Iterable[GraphCommit], pinned: Versions) -> None:
    """Add the table versions that make up the state of each commit."""
    moments = [state.visible_since(each) for each in commits]
    for key in state.versions:
        history = state.table_history(key)[::-1]
        shown = [state.visible_since(commit) for commit, _ in history]
        entries = [entry for _, entry in history]
        newest = list(accumulate(entries, _newer))
        for moment in moments:
            at = bisect_right(shown, moment)
            if at:
                pinned[newest[at - 1].path, newest[at - 1].branch].add(newest[at - 1].version)


def _newer(one: TableEntry, other: TableEntry) -> TableEntry:
    return one if one.version > other.version else other


def _lineage(line: ManifestLine) -> Lineage:
    with line.lock:
        return Lineage(line.branch, dict(line.state.commits))


def _meeting_points(lineages: Mapping[str, Lineage]) -> set[str]:
    """Where each branch began and where it last met main: a merge compares with these states."""
    found: set[str] = set()
    main = lineages[MAIN]
    for branch, lineage in lineages.items():
        if branch == MAIN:
            continue
        elsewhere: dict[str, GraphCommit] = {}
        if unknown_ancestors(lineage, main):
            for other in lineages.values():
                elsewhere.update(other.commits)
        bases = merge_bases(lineage, main, elsewhere)
        found.update(each.id for each in (*bases.tips, *((bases.root,) if bases.root else ())))
        began = next((each for each in lineage.first_parents() if each.branch != branch), None)
        if began is not None:
            found.add(began.id)
    return found
