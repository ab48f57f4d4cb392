"""Tags: names that users give to commits. A cleanup keeps what a tagged commit needs, and its branch cannot be deleted.

A tag is one control object below `__tags/`. Other programs ignore it, and it needs no old version of `__manifest`: the
newest rows contain the state of every commit.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.errors import InvalidInput, NotFound, ObjectExists, ObjectNotFound, TagExists
from omnigraph.kernels.report import Report
from omnigraph.manifest.rows import utc_datetime
from omnigraph.world import is_ulid

if TYPE_CHECKING:
    import datetime as dt

    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.layout import Storage

PREFIX = "__tags"
LONGEST_NAME = 200
_NAME = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


@dataclass(frozen=True, repr=False)
class Tag(Report):
    """A name of a commit. `branch` is where the commit was made; `created_us` is in microseconds since 1970."""

    name: str
    commit_id: str
    branch: str
    created_us: int
    actor: str | None = None
    message: str | None = None

    @property
    def created_at(self) -> dt.datetime:
        """When it was made, in UTC."""
        return utc_datetime(self.created_us)

    def _summary(self) -> str:
        return f"{self.name} of commit {self.commit_id}, {self.created_at:%Y-%m-%d %H:%M:%S} UTC"


# Tags by the path and ETag of their objects; an unchanged ETag means an unchanged tag.
TagCache = dict[tuple[str, str | None], Tag]


def check_tag_name(name: str) -> str:
    """Return the name if it is valid for a tag. The form of a commit id is refused, as it would be ambiguous."""
    if not _NAME.fullmatch(name) or any(part in (".", "..") for part in name.split("/")) or len(name) > LONGEST_NAME:
        raise InvalidInput(
            f"{name!r} cannot name a tag: use letters, digits, '.', '_' and '-' in parts joined by '/', at most "
            f"{LONGEST_NAME} characters."
        )
    if is_ulid(name):
        raise InvalidInput(f"{name!r} cannot name a tag: it reads like a commit id.")
    return name


def list_tags(stores: Storage, cached: TagCache | None = None) -> list[Tag]:
    """Every tag, sorted by name. Tags in `cached` with an unchanged ETag are not read again; `cached` is updated."""
    cached = {} if cached is None else cached
    found = []
    for each in stores.objects.list(PREFIX):
        key = each.path, each.e_tag
        tag = cached.get(key) if each.e_tag is not None else None
        tag = tag or _read(stores, each.path)
        if tag is not None:
            cached[key] = tag
            found.append(tag)
    return sorted(found, key=lambda each: each.name)


def read_tag(stores: Storage, name: str) -> Tag:
    """One tag; raises `NotFound`."""
    found = find_tag(stores, name)
    if found is None:
        raise NotFound(f"there is no tag {name!r}; list the tags to see which exist.")
    return found


def find_tag(stores: Storage, name: str) -> Tag | None:
    """One tag, or None if it does not exist."""
    return _read(stores, _path(name)) if _NAME.fullmatch(name) else None


def write_tag(stores: Storage, tag: Tag) -> None:
    """Create a tag; `TagExists` when the name is taken. Of several concurrent creators, one succeeds."""
    fields = {
        "version": 1,
        "name": tag.name,
        "graph_commit_id": tag.commit_id,
        "graph_branch": tag.branch,
        "created_at": tag.created_us,
        "actor_id": tag.actor,
        "message": tag.message,
    }
    try:
        stores.objects.create(_path(tag.name), json.dumps(fields, indent=2, ensure_ascii=False).encode())
    except ObjectExists as error:
        raise TagExists(tag.name) from error


def remove_tag(stores: Storage, name: str) -> None:
    """Delete a tag; the commit stays until a cleanup finds that nothing needs it."""
    read_tag(stores, name)
    take_back_tag(stores, name)


def take_back_tag(stores: Storage, name: str) -> None:
    """Delete a tag that was just created and not yet reported to the caller."""
    stores.objects.delete(_path(name))


def tagged_commits(manifest: GraphManifest, cached: TagCache | None = None) -> dict[str, tuple[str, ...]]:
    """The ids of tagged commits, with their tags' names. A cleanup keeps every table version of their snapshots."""
    found: dict[str, tuple[str, ...]] = {}
    for tag in list_tags(manifest.stores, cached):
        found[tag.commit_id] = (*found.get(tag.commit_id, ()), tag.name)
    return found


def _path(name: str) -> str:
    return f"{PREFIX}/{name.replace('/', '%2F')}.json"


def _read(stores: Storage, path: str) -> Tag | None:
    """None when the tag has been deleted since it was listed."""
    try:
        data = stores.objects.read(path)
    except ObjectNotFound:
        return None
    try:
        fields: dict[str, Any] = json.loads(data)
        return Tag(
            str(fields["name"]),
            str(fields["graph_commit_id"]),
            str(fields["graph_branch"]),
            int(fields["created_at"]),
            fields.get("actor_id"),
            fields.get("message"),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        # Ignoring it would let a cleanup delete what somebody wanted to keep.
        raise InvalidInput(f"{path} is not a tag ({error!r}): look at it, and remove it if nobody needs it.") from error
