"""What Lance does with a commit, as far as the protocol depends on it.

A change that was computed from version r lands after the newest one, rebased over what is between, unless one of those
is a Restore or an Overwrite. An Overwrite lands as r + 1 or not at all. A Restore is never refused while the version
that it restores is there. Versions that were deleted do not count for conflicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from model.state import Version

if TYPE_CHECKING:
    from model.state import Kind

Versions = tuple[Version, ...]


def change(versions: Versions, read: int, kind: Kind | Literal["tidy"], ticket: int) -> Versions | None:
    """The table after the commit of a staged change; None when Lance refuses it."""
    if kind == "overwrite" and len(versions) != read:
        return None
    if any(each.there and each.kind in ("restore", "overwrite") for each in versions[read:]):
        return None
    return (*versions, Version(kind, ticket, changed(versions[-1].content, kind, ticket)))  # type: ignore[arg-type]


def changed(content: int, kind: Kind | Literal["tidy"], ticket: int) -> int:
    """What a change makes of a content."""
    if kind == "overwrite":
        return 1 << ticket
    return content if kind in ("index", "tidy") else content | 1 << ticket


def restore(versions: Versions, target: int, ticket: int) -> Versions | None:
    """The table after a Restore; None when the version to restore is gone."""
    if not versions[target - 1].there:
        return None
    return (*versions, Version("restore", ticket, versions[target - 1].content, of=target))


def tidied(versions: Versions, ticket: int, landed: int | None) -> int | None:
    """The version in which a ticket's operation has tidied what it landed."""
    if landed is None or landed == len(versions):
        return None
    after = versions[landed]
    return landed + 1 if after.there and after.by == ticket and after.kind == "tidy" else None


def find(versions: Versions, ticket: int, *, after: int, restored: bool = False) -> int | None:
    """The first version after `after` that a ticket's change, or its undoing, has become."""
    for number in range(after, len(versions)):
        each = versions[number]
        if each.there and each.by == ticket and (each.kind == "restore") is restored:
            return number + 1
    return None
