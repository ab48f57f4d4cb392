"""Upgrade from v2 to v3: deletes the staging branches `__run__…` of an abandoned write path from `__manifest`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import NotFound, ObjectExists
from omnigraph.manifest.layout import MANIFEST
from omnigraph.manifest.version_refs import branch_references
from omnigraph.storage.tables.immediate import delete_branch

if TYPE_CHECKING:
    from omnigraph.manifest.branch_manifest import BranchManifest

FROM = 2
PREFIX = "__run__"


def is_staging(branch: str) -> bool:
    """Whether a branch of a manifest up to v2 is a staging area, not a branch that a user created."""
    return branch.lstrip("/").startswith(PREFIX)


def apply(manifest: BranchManifest) -> None:
    """Delete all staging branches, children before parents, tolerating concurrent migrators."""
    main = manifest.stores.tables.open_newest(MANIFEST)
    branches = branch_references(main)
    doomed = [name for name in branches if is_staging(name)]
    for name in sorted(doomed, key=lambda each: len(branches[each]["branch_identifier"]), reverse=True):
        try:
            delete_branch(main, name)
        except NotFound:
            continue
        except ObjectExists:
            # A user's branch was created from this one: it needs the files, so the staging branch stays.
            continue
