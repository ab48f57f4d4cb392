"""The commit graph of a branch, projected from its manifest rows."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.manifest.rows import GraphCommit


@dataclass(frozen=True)
class Lineage:
    """The commits that one branch can see, by id."""

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
        """The parents of a commit, the first parent first; none for a commit this branch cannot see."""
        commit = self.commits.get(commit_id)
        return [each for each in (commit.parent, commit.merged_parent) if each] if commit else []

    def distances(self, commit_id: str) -> dict[str, int]:
        """How many steps each ancestor is away, over both parents."""
        found = {commit_id: 0}
        queue = deque([commit_id])
        while queue:
            current = queue.popleft()
            for parent in self.parents(current):
                if parent not in found:
                    found[parent] = found[current] + 1
                    queue.append(parent)
        return found


def merge_base(
    source: Lineage, target: Lineage, elsewhere: Mapping[str, GraphCommit] | None = None
) -> GraphCommit | None:
    """The common ancestor of two heads with the fewest steps in all; of equals, the one published later.

    `elsewhere` are commits of other branches, which merges may have made ancestors of both.
    """
    if source.head is None or target.head is None:
        return None
    everything = Lineage(target.branch, {**(elsewhere or {}), **source.commits, **target.commits})
    from_source, from_target = everything.distances(source.head.id), everything.distances(target.head.id)
    shared = [
        everything.commits[each] for each in from_source.keys() & from_target.keys() if each in everything.commits
    ]
    return min(
        shared,
        key=lambda commit: (
            from_source[commit.id] + from_target[commit.id],
            *(-each for each in rank(commit)[:2]),
            commit.id,
        ),
        default=None,
    )


def unknown_ancestors(source: Lineage, target: Lineage) -> set[str]:
    """Ancestors of either head that neither branch can see: they were made on branches that were merged."""
    if source.head is None or target.head is None:
        return set()
    everything = Lineage(target.branch, {**source.commits, **target.commits})
    reached = everything.distances(source.head.id).keys() | everything.distances(target.head.id).keys()
    return {each for each in reached if each not in everything.commits}


def rank(commit: GraphCommit) -> tuple[int, int, str]:
    """The order of commits on one branch."""
    return commit.manifest_version, commit.created_at, commit.id
