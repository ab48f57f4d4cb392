"""Lineage as internal schemas v1 to v3 kept it: two datasets beside the manifest, only the first of them branched."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from omnigraph.errors import MigrationFailed, NotFound
from omnigraph.manifest.layout import LEGACY_ACTORS, LEGACY_COMMITS, MAIN, physical_branch
from omnigraph.manifest.rows import GraphCommit

if TYPE_CHECKING:
    from omnigraph.store.tables import Table, TableStore


def read_legacy_commits(tables: TableStore, branch: str) -> list[GraphCommit]:
    """The commits of a branch, by id.

    A dataset that is not there means no commits, or no actors. Any other trouble is raised: a migration that took a
    passing failure for absence would orphan the history for good.
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
        created_at=_microseconds(row["created_at"]),
        parent=_text(row["parent_commit_id"]),
        merged_parent=_text(row["merged_parent_commit_id"]),
        actor=actors.get(commit_id),
    )


def _microseconds(moment: object) -> int:
    if not isinstance(moment, dt.datetime):
        raise TypeError(f"created_at is {type(moment).__name__}")
    return (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)  # noqa: DTZ001 - stored without a zone


def _text(value: object) -> str | None:
    return None if value is None else str(value)
