"""Resolves the name of a state of the graph to a snapshot, the same way wherever a state is named.

A name is a commit id, a branch, a tag, or the beginning of one commit id; `name~2` is two first parents before it.
A text that is no name and reads as a date or a datetime is a moment, in UTC unless it has an offset.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, TypeAlias

from omnigraph.errors import InvalidInput, NotFound
from omnigraph.manifest.layout import MAIN
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.tags import find_tag

if TYPE_CHECKING:
    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.graph_manifest import GraphManifest

# What names a state: itself, its commit, a name as above, or a time on a branch.
State: TypeAlias = Snapshot | GraphCommit | str | dt.datetime

SHORTEST_PREFIX = 6
_MOST_LISTED = 5
_ANCESTOR = re.compile(r"(.+)~(\d{1,9})")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ].+)?", re.ASCII)
_MICROSECOND = dt.timedelta(microseconds=1)


def resolve(manifest: GraphManifest, at: State | None = None, *, branch: str = MAIN) -> Snapshot:
    """The snapshot that `at` names; without it the newest of the branch. A datetime is a time on the branch."""
    if at is None:
        return manifest.snapshot(branch)
    time_of_state = at if isinstance(at, dt.datetime) else _timestamp_named(manifest, at)
    if time_of_state is not None:
        return snapshot_at(manifest, branch, time_of_state)
    if branch != MAIN:
        raise InvalidInput(f"branch={branch!r} and at={at!r} name two states: give one of them.")
    if isinstance(at, Snapshot):
        return at
    if isinstance(at, GraphCommit):
        return manifest.snapshot_of(at.id)
    if not isinstance(at, str):
        raise InvalidInput(f"a state is a Snapshot, a commit, its id, a branch, a tag or a datetime, not {at!r}.")
    if manifest.branch().commit(at) is None and _is_branch(manifest, at):
        return manifest.snapshot(at)
    return manifest.snapshot_of(commit_named(manifest, at).id)


def _timestamp_named(manifest: GraphManifest, at: object) -> dt.datetime | None:
    """The moment that a text such as 2026-11-16 or 2026-11-16T12:30Z is, unless a branch or tag has that name."""
    if not isinstance(at, str) or not _DATE.fullmatch(at):
        return None
    if _is_branch(manifest, at) or find_tag(manifest.stores, at) is not None:
        return None
    return parse_timestamp(at)


def branch_or_commit(manifest: GraphManifest, at: State) -> tuple[str, str | None]:
    """A state as the source of a new branch: a branch, and None for its newest commit, else the id of a commit."""
    if isinstance(at, str) and _is_branch(manifest, at):
        return at, None
    found = resolve(manifest, at)
    return found.branch, found.commit_id


def create_branch_at(manifest: GraphManifest, name: str, at: State) -> None:
    """Create a branch from a state; from a branch, it is the newest when the branch is made."""
    source, commit_id = branch_or_commit(manifest, at)
    manifest.create_branch(name, source=source, commit_id=commit_id)


def commit_named(manifest: GraphManifest, name: str) -> GraphCommit:
    """The commit that a name stands for; `NotFound` says what the name was looked for among."""
    if not isinstance(name, str):
        raise InvalidInput(f"a commit is named by a text, not by {name!r}.")
    on_main = manifest.branch().commit(name)
    if on_main is not None:
        # A commit never changes and main is never deleted: an id that main knows costs no request.
        return on_main
    found = _by_ref(manifest, name) or _ancestor(manifest, name) or _by_id(manifest, name)
    if found is None:
        raise NotFound(
            f"there is no state {name!r}: it is no branch, no tag, no commit id, and no commit id begins with it "
            f"(at least {SHORTEST_PREFIX} characters)."
        )
    return found


def _by_ref(manifest: GraphManifest, name: str) -> GraphCommit | None:
    if _is_branch(manifest, name):
        return manifest.fresh_branch(name).head
    tag = find_tag(manifest.stores, name)
    return None if tag is None else manifest.commit(tag.commit_id)


def _ancestor(manifest: GraphManifest, name: str) -> GraphCommit | None:
    found = _ANCESTOR.fullmatch(name)
    if found is None:
        return None
    commit, steps = commit_named(manifest, found[1]), int(found[2])
    for before in range(steps):
        if commit.parent is None:
            raise NotFound(f"there is no state {name!r}: {found[1]!r} has {before} commits before it.")
        commit = manifest.commit(commit.parent)
    return commit


def _by_id(manifest: GraphManifest, name: str) -> GraphCommit | None:
    """A commit of any branch by its id, or by the beginning of its id."""
    begin = (name, name.upper())
    matching: dict[str, GraphCommit] = {}
    for branch in manifest.branches():
        commits = manifest.lineage(branch.name).commits
        matching |= {key: each for key, each in commits.items() if key.startswith(begin)}
    if name in matching:
        return matching[name]
    if len(name) < SHORTEST_PREFIX or not matching:
        return None
    if len(matching) > 1:
        listed = ", ".join(sorted(matching)[:_MOST_LISTED]) + (", …" if len(matching) > _MOST_LISTED else "")
        raise InvalidInput(f"{name!r} begins {len(matching)} commit ids ({listed}): give more of it.")
    return next(iter(matching.values()))


def _is_branch(manifest: GraphManifest, name: str) -> bool:
    """Whether a branch has the name. One that a tag has as well, which another program can make, is refused."""
    if name == MAIN:
        return True
    if not any(each.name == name for each in manifest.branches()):
        return False
    tag = find_tag(manifest.stores, name)
    if tag is not None:
        raise InvalidInput(f"{name!r} is a branch and a tag: name the state by its commit id, {tag.commit_id}.")
    return True


def snapshot_at(manifest: GraphManifest, branch: str, timestamp: dt.datetime) -> Snapshot:
    """The state of a branch at a time: that of its last commit at or before it, along first parents."""
    if timestamp.tzinfo is None:
        raise InvalidInput(f"{timestamp.isoformat()} has no time zone: say which, such as datetime.UTC.")
    limit = (timestamp - _EPOCH) // _MICROSECOND
    branch_manifest = manifest.fresh_branch(branch)
    commit, oldest = branch_manifest.head, None
    while commit is not None and commit.created_us > limit:
        oldest = commit
        commit = branch_manifest.commit(commit.parent) if commit.parent else None
    if commit is None:
        raise NotFound(_before_all(branch, timestamp, oldest))
    return branch_manifest.snapshot_of(commit)


def snapshot_at_version(manifest: GraphManifest, branch: str, version: int) -> Snapshot:
    """The state that a manifest version of a branch shows."""
    branch_manifest = manifest.fresh_branch(branch)
    with branch_manifest.lock:
        commit = branch_manifest.state.commit_at(version)
        newest = branch_manifest.state.manifest_version
        if commit is None or version > newest:
            first = _first_version(branch_manifest)
            raise NotFound(f"branch {branch!r} has no manifest version {version}: it has {first} to {newest}.")
        return branch_manifest.state.at(branch, commit)


def named_state(snapshot: str | None, timestamp: str | None) -> str | dt.datetime | None:
    """The state that the options of a Spark source name; a timestamp without a time zone is in UTC."""
    if timestamp is None:
        return snapshot
    if snapshot is not None:
        raise InvalidInput("give either a snapshot or a timestamp, not both.")
    return parse_timestamp(timestamp)


def parse_timestamp(text: str) -> dt.datetime:
    """A timestamp in ISO 8601; without an offset it is in UTC."""
    try:
        time_of_state = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"{text!r} is not a timestamp: write 2026-06-28T12:30:00Z") from error
    return time_of_state if time_of_state.tzinfo else time_of_state.replace(tzinfo=dt.UTC)


def _before_all(branch: str, timestamp: dt.datetime, oldest: GraphCommit | None) -> str:
    if oldest is None:
        return f"branch {branch!r} has no commits."
    first = oldest.created_at.isoformat()
    return f"branch {branch!r} has no commit until {timestamp.isoformat()}: its first is of {first}."


def _first_version(branch_manifest: BranchManifest) -> int:
    return min((each.manifest_version for each in branch_manifest.state.commits.values()), default=0)
