"""Past states of a branch: as of a moment, a manifest version, a commit or a tag."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from omnigraph.errors import InvalidInput, NotFound
from omnigraph.manifest.tags import find_tag

if TYPE_CHECKING:
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.line import ManifestLine
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def snapshot_at(manifest: GraphManifest, branch: str, moment: dt.datetime) -> Snapshot:
    """The state of a branch at a moment: that of its last commit until then."""
    if moment.tzinfo is None:
        raise InvalidInput(f"{moment.isoformat()} has no time zone: say which, such as datetime.UTC.")
    limit = (moment - _EPOCH) // _MICROSECOND
    line = manifest.fresh_line(branch)
    with line.lock:
        commit, oldest = line.state.head, None
        while commit is not None and commit.created_at > limit:
            oldest = commit
            commit = line.state.commits.get(commit.parent) if commit.parent else None
        if commit is None:
            raise NotFound(_before_all(branch, moment, oldest))
        return line.state.at(branch, commit)


def snapshot_at_version(manifest: GraphManifest, branch: str, version: int) -> Snapshot:
    """The state that a manifest version of a branch shows."""
    line = manifest.fresh_line(branch)
    with line.lock:
        commit = line.state.commit_at(version)
        newest = line.state.manifest_version
        if commit is None or version > newest:
            first = _first_version(line)
            raise NotFound(f"branch {branch!r} has no manifest version {version}: it has {first} to {newest}.")
        return line.state.at(branch, commit)


def snapshot_named(manifest: GraphManifest, name: str) -> Snapshot:
    """The state of a commit, by its id or by a tag."""
    tag = find_tag(manifest.stores, name) if name not in manifest.line().state.commits else None
    return manifest.snapshot_of(name if tag is None else tag.commit_id)


def _before_all(branch: str, moment: dt.datetime, oldest: GraphCommit | None) -> str:
    if oldest is None:
        return f"branch {branch!r} has no commits."
    first = (_EPOCH + oldest.created_at * _MICROSECOND).isoformat()
    return f"branch {branch!r} has no commit until {moment.isoformat()}: its first is of {first}."


def _first_version(line: ManifestLine) -> int:
    return min((each.manifest_version for each in line.state.commits.values()), default=0)
