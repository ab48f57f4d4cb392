"""Which versions of a table a cleanup may take: nothing needs them, and nobody has read them as the newest for a while.

How long ago that was is told by the store's clock alone. A version was the newest until the next one was published:
not before the file of that one was written, nor before the version of `__manifest` that shows it, where that is still
there. The clocks of writers do not matter.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.manifest.collection import list_versions, version_files
from omnigraph.manifest.layout import MAIN, MANIFEST, branch_tree, physical_branch
from omnigraph.manifest.reclaimed import TableLine
from omnigraph.manifest.references import branch_references
from omnigraph.manifest.version_ranges import NONE, VersionRanges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.reclaimed import Note
    from omnigraph.store.objects import ControlStore, ObjectInfo
    from omnigraph.store.store_clock import StoreClock
    from omnigraph.store.tables import Table
    from omnigraph.upkeep.pinned import Pinned

# Far longer than any operation takes to build an index over a preview of its table.
PREVIEW_SECONDS = 24 * 3_600.0


@dataclass(frozen=True)
class LinePlan:
    """What goes of a table on one of its branches.

    `chosen` are versions that nothing needed when it was looked, `condemned` those that an earlier cleanup has
    condemned and that are still, or again, there. `previews` are files of versions in no history that were left behind.
    """

    line: TableLine
    table: Table
    chosen: VersionRanges
    condemned: VersionRanges = NONE
    previews: tuple[str, ...] = ()


@dataclass(frozen=True)
class TablePlan:
    """What goes of a table. `forks` are its branches that no branch of the graph has."""

    table_key: str
    path: str
    forks: tuple[str, ...] = ()
    lines: tuple[LinePlan, ...] = ()


@dataclass
class Chooser:
    """Chooses what goes. `branches` are those of the graph with their incarnations, main among them."""

    manifest: GraphManifest
    branches: Mapping[str, str | None]
    pinned: Pinned
    note: Note
    grace: float
    clock: StoreClock
    _publishes: dict[str, Mapping[int, ObjectInfo]] = field(default_factory=dict)

    def plan(self, table_key: str, path: str) -> TablePlan:
        """Look at a table and choose."""
        main = self.manifest.stores.tables.open_newest(path)
        references = branch_references(main)
        orphans = sorted(each for each in references.keys() - self.branches.keys() if not self.pinned.of(path, each))
        stood_on: dict[str, set[int]] = defaultdict(set)
        for each in references.values():
            stood_on[each["parent_branch"] or MAIN].add(int(each["parent_version"]))
        lines = []
        for branch in (MAIN, *sorted(self.branches.keys() & references.keys())):
            line = TableLine(path, physical_branch(branch), self.branches[branch])
            table = main if branch == MAIN else self.manifest.stores.tables.open_newest(path, line.branch)
            lines.append(self._plan_line(table_key, line, table, stood_on[branch]))
        return TablePlan(table_key, path, tuple(orphans), tuple(lines))

    def _plan_line(self, table_key: str, line: TableLine, table: Table, stood_on: set[int]) -> LinePlan:
        listed = _list(self.manifest.stores.objects, line)
        files = version_files(listed)
        final = self.note.final(line)
        published = self._published(table_key, line, files)
        numbers = sorted(published)
        needed = self.pinned.of(line.path, line.branch)
        chosen, condemned = [], []
        for version in files.keys() - stood_on - self.pinned.held[line.path, line.branch]:
            after = bisect_right(numbers, version)
            if after == len(numbers):
                continue
            if version in final:
                condemned.append(version)
            elif version not in needed and published[numbers[after]] >= self.grace:
                chosen.append(version)
        return LinePlan(line, table, VersionRanges.of(chosen), VersionRanges.of(condemned), self._previews(listed))

    def _previews(self, listed: list[ObjectInfo]) -> tuple[str, ...]:
        detached = [each for each in listed if each.path.rpartition("/")[2].startswith("d")]
        return tuple(each.path for each in detached if self.clock.age(each) > PREVIEW_SECONDS)

    def _published(self, table_key: str, line: TableLine, files: Mapping[int, ObjectInfo]) -> dict[int, float]:
        """The published versions that are there, and at least how many seconds ago each became visible."""
        branch = line.branch or MAIN
        manifest = self.manifest.line(branch)
        with manifest.lock:
            history = {
                entry.version: manifest.state.visible_since(commit)
                for commit, entry in manifest.state.table_history(table_key)
                if entry.branch == line.branch
            }
        if branch not in self._publishes:
            self._publishes[branch] = list_versions(manifest).files
        found = {}
        for version, since in history.items():
            if version in files:
                shown = self._publishes[branch].get(since)
                found[version] = max(0.0, min(self.clock.age(each) for each in (files[version], shown) if each))
        return found


def manifest_plan(manifest: GraphManifest, branch: str) -> LinePlan:
    """What goes of `__manifest` on a branch: all but the newest versions."""
    line = TableLine(MANIFEST, physical_branch(branch))
    versions = sorted(version_files(_list(manifest.stores.objects, line)))
    table = manifest.stores.tables.open_newest(MANIFEST, line.branch)
    return LinePlan(line, table, VersionRanges.of(versions[: -manifest.upkeep.keep_versions]))


def _list(objects: ControlStore, line: TableLine) -> list[ObjectInfo]:
    return objects.list(f"{branch_tree(line.path, line.branch)}/_versions")
