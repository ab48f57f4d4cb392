"""The commit graph of a branch, projected from its manifest rows: ancestors and merge bases.

Internal schemas v1 to v3 stored lineage in two datasets beside the manifest, only the first of which was branched;
`read_legacy_commits` reads them.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from omnigraph.errors import MigrationFailed, NotFound
from omnigraph.manifest.layout import LEGACY_ACTORS, LEGACY_COMMITS, MAIN, physical_branch
from omnigraph.manifest.rows import GraphCommit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.storage.tables.table import Table, TableStore


def read_legacy_commits(tables: TableStore, branch: str) -> list[GraphCommit]:
    """The commits of a branch in the legacy datasets, sorted by id.

    A missing dataset means no commits, or no actors. Any other failure is raised: a migration that mistook a transient
    failure for absence would orphan the history for good.
    """
    try:
        main = tables.open_newest(LEGACY_COMMITS)
    except NotFound:
        return []
    actors = _actors(tables)
    rows = _on_branch(tables, main, branch).read().to_pylist()
    try:
        return sorted((_commit(row, actors) for row in rows), key=lambda commit: commit.id)
    except (KeyError, ValueError, TypeError) as error:
        raise MigrationFailed(
            f"{LEGACY_COMMITS} is not as internal schemas v1 to v3 keep it ({error!r}). Restore it from a copy."
        ) from error


def _on_branch(tables: TableStore, main: Table, branch: str) -> Table:
    if branch == MAIN:
        return main
    try:
        return tables.open_newest(LEGACY_COMMITS, physical_branch(branch))
    except NotFound as error:
        raise MigrationFailed(
            f"the history of branch {branch!r} is not where internal schema v3 keeps it: "
            f"{LEGACY_COMMITS} has no branch of that name. Restore it, or delete the branch."
        ) from error


def _actors(tables: TableStore) -> dict[str, str]:
    try:
        actors = tables.open_newest(LEGACY_ACTORS)
    except NotFound:
        return {}
    rows = actors.read(["graph_commit_id", "actor_id"]).to_pylist()
    return {str(row["graph_commit_id"]): str(row["actor_id"]) for row in rows}


def _commit(row: dict[str, object], actors: dict[str, str]) -> GraphCommit:
    commit_id = str(row["graph_commit_id"])
    return GraphCommit(
        id=commit_id,
        branch=str(row["manifest_branch"] or MAIN),
        manifest_version=int(str(row["manifest_version"])),
        created_us=_microseconds(row["created_at"]),
        parent=_text(row["parent_commit_id"]),
        merged_parent=_text(row["merged_parent_commit_id"]),
        actor=actors.get(commit_id),
    )


def _microseconds(created_at: object) -> int:
    if not isinstance(created_at, dt.datetime):
        raise TypeError(f"created_at is {type(created_at).__name__}")
    return (created_at - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)  # noqa: DTZ001 - stored without a zone


def _text(value: object) -> str | None:
    return None if value is None else str(value)


@dataclass(frozen=True)
class Lineage:
    """The commits that are visible from one branch, by id."""

    branch: str
    commits: Mapping[str, GraphCommit]

    @property
    def head(self) -> GraphCommit | None:
        """The newest commit: the greatest by manifest version, then time, then id."""
        return max(self.commits.values(), key=rank, default=None)

    def __getitem__(self, commit_id: str) -> GraphCommit:
        try:
            return self.commits[commit_id]
        except KeyError:
            raise NotFound(f"branch {self.branch!r} has no commit {commit_id!r}") from None

    def newest_first(self) -> list[GraphCommit]:
        """All commits, the newest first."""
        return sorted(self.commits.values(), key=rank, reverse=True)

    def first_parents(self) -> Iterator[GraphCommit]:
        """From the head back along first parents; ends where a parent is not visible from this branch."""
        commit = self.head
        while commit is not None:
            yield commit
            commit = self.commits.get(commit.parent) if commit.parent else None

    def parents(self, commit_id: str) -> list[str]:
        """The parents of a commit, first parent first; none for a commit that is not visible from this branch."""
        commit = self.commits.get(commit_id)
        return [each for each in (commit.parent, commit.merged_parent) if each] if commit else []

    def ancestors(self, commit_id: str) -> set[str]:
        """A commit and its ancestors over both parents, as far as they are visible from this branch."""
        found = {commit_id}
        queue = [commit_id]
        while queue:
            for parent in self.parents(queue.pop()):
                if parent not in found and parent in self.commits:
                    found.add(parent)
                    queue.append(parent)
        return found


@dataclass(frozen=True)
class MergeBases:
    """The last common ancestors of two heads (`tips`), and a common ancestor of all tips (`root`).

    Usually there is one tip, which is the root as well. Criss-cross merges leave several tips, none an ancestor of
    another.
    """

    tips: tuple[GraphCommit, ...]
    root: GraphCommit | None


def merge_bases(source: Lineage, target: Lineage, elsewhere: Mapping[str, GraphCommit] | None = None) -> MergeBases:
    """The last common ancestors of two heads, the newest first.

    `elsewhere` are commits of other branches, which merges may have made ancestors of both heads.
    """
    if source.head is None or target.head is None:
        return MergeBases((), None)
    everything = Lineage(target.branch, {**(elsewhere or {}), **source.commits, **target.commits})
    tips = _last(everything, everything.ancestors(source.head.id) & everything.ancestors(target.head.id))
    roots = tips
    while len(roots) > 1:
        shared = set.intersection(*(everything.ancestors(each.id) for each in roots))
        roots = _last(everything, shared)
    return MergeBases(tuple(tips), roots[0] if roots else None)


def _last(lineage: Lineage, shared: set[str]) -> list[GraphCommit]:
    """Of a set of commits closed under ancestry, those that are not an ancestor of another, the newest first."""
    older = {parent for each in shared for parent in lineage.parents(each)}
    last = [lineage.commits[each] for each in shared - older]
    return sorted(last, key=lambda each: (each.created_us, each.id), reverse=True)


def unknown_ancestors(source: Lineage, target: Lineage) -> set[str]:
    """Ancestors of either head that are visible from neither branch: they were made on other branches and merged."""
    if source.head is None or target.head is None:
        return set()
    everything = Lineage(target.branch, {**source.commits, **target.commits})
    reached = everything.ancestors(source.head.id) | everything.ancestors(target.head.id)
    parents = {parent for each in reached for parent in everything.parents(each)}
    return parents - everything.commits.keys()


def branches_needing(deleted: Lineage, others: Sequence[Lineage]) -> tuple[str, str] | None:
    """Two branches whose merge base depends on commits of `deleted`, which is to be deleted; None if there are none.

    Both have merged it, and not each other since. Without its commits, what both took from it would count as changed by
    both, and what one of them has deleted since could reappear.
    """
    everything = {name: each for lineage in (deleted, *others) for name, each in lineage.commits.items()}
    own = {name for name, each in deleted.commits.items() if each.branch == deleted.branch}
    whole = Lineage(deleted.branch, everything)
    heads = [(lineage, lineage.head) for lineage in others]
    concerned = [lineage for lineage, head in heads if head is not None and own & whole.ancestors(head.id)]
    left = {name: each for name, each in everything.items() if name not in own}
    for one, other in combinations(concerned, 2):
        if merge_bases(one, other, everything).tips != merge_bases(one, other, left).tips:
            return one.branch, other.branch
    return None


def rank(commit: GraphCommit) -> tuple[int, int, str]:
    """The sort key of commits on one branch, ascending from oldest to newest."""
    return commit.manifest_version, commit.created_us, commit.id
