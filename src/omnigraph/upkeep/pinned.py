"""Which versions of tables something may still want to read. A cleanup takes none of them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from omnigraph.manifest.layout import MAIN, table_path
from omnigraph.manifest.tags import tagged_commits
from omnigraph.write.tickets import list_sidecars

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.lineage import Lineage
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.manifest.state import ManifestState

# A table on one of its branches: its path, and the branch; None is its main line.
Line = tuple[str, str | None]
Pinned = dict[Line, set[int]]


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


def protected_versions(manifest: GraphManifest, retention: Retention) -> Pinned:
    """By table: what heads, kept commits, tags, the beginnings of branches and living operations stand on.

    Call it while holding the claim of `branches.claim_branches`: no branch or tag comes while it is held.
    """
    pinned: Pinned = defaultdict(set)
    branches = [each.name for each in manifest.branches()]
    named = {*tagged_commits(manifest), *_meeting_points(manifest, branches)}
    for branch in branches:
        kept = retention.kept(manifest.lineage(branch))
        line = manifest.line(branch)
        with line.lock:
            commits = line.state.commits
            wanted = {each.id: each for each in (*kept, *(commits[name] for name in named if name in commits))}
            _pin_states(line.state, wanted.values(), pinned)
            for entry in line.state.current(branch):
                pinned[entry.path, entry.branch].add(entry.version)
    for found in list_sidecars(manifest.stores.objects):
        for pin in found.sidecar.tables:
            pinned[table_path(pin.table_key), pin.table_branch].add(pin.expected_version)
        for pointed in found.sidecar.pointed:
            pinned[table_path(pointed.table_key), pointed.table_branch].add(pointed.version)
        for added in found.sidecar.added:
            # A line that comes into a branch begins at the version before its own, on the table's main line.
            pinned[added.table_path, None].add(added.version - 1)
    return pinned


def _pin_states(state: ManifestState, commits: Iterable[GraphCommit], pinned: Pinned) -> None:
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


def _meeting_points(manifest: GraphManifest, branches: list[str]) -> set[str]:
    """Where each branch began and where it last met main: a merge compares with these states."""
    found: set[str] = set()
    for branch in branches:
        if branch == MAIN:
            continue
        bases = manifest.merge_bases(branch, MAIN)
        found.update(each.id for each in (*bases.tips, *((bases.root,) if bases.root else ())))
        began = next((each for each in manifest.lineage(branch).first_parents() if each.branch != branch), None)
        if began is not None:
            found.add(began.id)
    return found
