"""Branches and tags: the names that commits of a graph have. `graph.branches` and `graph.tags`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.arguments import checked_methods
from omnigraph.deprecation import renamed_keywords
from omnigraph.errors import OmniGraphError
from omnigraph.kernels.report import html_rows
from omnigraph.manifest.layout import MAIN
from omnigraph.manifest.states import create_branch_at, resolve
from omnigraph.manifest.tags import list_tags, read_tag

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.history.merge.merge import Merged
    from omnigraph.manifest.branches import Branch
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.states import State
    from omnigraph.manifest.tags import Tag


# The number of commits that a notebook shows.
_MOST = 50


class CommitLog(list["GraphCommit"]):
    """Commits of a branch, the newest first: a list that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        rows: list[tuple[object, ...]] = [
            (each.id, f"{each.created_at:%Y-%m-%d %H:%M:%S}", each.branch, each.actor or "") for each in self[:_MOST]
        ]
        more = f"<p>{len(self):,} commits</p>" if len(self) > _MOST else ""
        return html_rows(("commit", "UTC", "branch", "actor"), rows) + more


@checked_methods
class Branches:
    """The branches of a graph."""

    def __init__(self, manifest: GraphManifest) -> None:
        self._manifest = manifest

    @renamed_keywords(commit_id="from_", removed_in="0.3")
    def create(self, name: str, *, from_: State = MAIN) -> None:
        """Make a branch from the newest state of another, or from any other state: a commit, a tag, a snapshot."""
        create_branch_at(self._manifest, name, from_)

    def list(self) -> list[Branch]:
        """All branches, main first."""
        return self._manifest.branches()

    def delete(self, name: str, *, force: bool = False) -> None:
        """Remove a branch and what only it has. Refused for main, and while another branch or a tag depends on it.

        Also refused while two other branches have merged it and not each other: a merge of the two uses its commits
        as merge base. Merge them first, or delete it with `force`.
        """
        self._manifest.delete_branch(name, force=force)

    def delete_merged(self, merged: Merged) -> Merged:
        """Delete the branch that was merged. If it cannot be deleted, the merge remains, and the report says why."""
        try:
            self.delete(merged.source)
        except OmniGraphError as error:
            return replace(merged, kept_because=error.message)
        return replace(merged, source_deleted=True)

    def __contains__(self, name: object) -> bool:
        return any(each.name == name for each in self.list())


@checked_methods
class Tags:
    """The tags of a graph: names of commits, which keep them from being cleaned up."""

    def __init__(self, manifest: GraphManifest, actor: Callable[[], str | None]) -> None:
        self._manifest = manifest
        self._actor = actor

    @renamed_keywords(commit_id="at", removed_in="0.3")
    def create(
        self,
        name: str,
        at: State | None = None,
        *,
        branch: str = MAIN,
        message: str | None = None,
        actor: str | None = None,
    ) -> Tag:
        """Name the commit of a state, or the newest one of a branch. `TagExists` when the name is taken."""
        chosen = resolve(self._manifest, at, branch=branch).commit_id
        assert chosen is not None, "every branch has a commit: the first one of the graph"
        return self._manifest.create_tag(name, chosen, actor=actor or self._actor(), message=message)

    def list(self) -> list[Tag]:
        """All tags, by name."""
        return list_tags(self._manifest.stores)

    def get(self, name: str) -> Tag:
        """One tag."""
        return read_tag(self._manifest.stores, name)

    def delete(self, name: str) -> None:
        """Remove a tag. The commit stays until a cleanup removes it."""
        self._manifest.delete_tag(name)
