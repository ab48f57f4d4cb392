"""Creates and deletes graph branches: native Lance branches of `__manifest`, one operation at a time under a lease.

A new branch copies nothing: it shares the tables of its parent until its first write to a table forks that table.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import (
    BranchExists,
    BranchInUse,
    InvalidBranchName,
    LeaseLost,
    NotFound,
    StoreError,
)
from omnigraph.failpoints import reach
from omnigraph.kernels.report import Report
from omnigraph.manifest.branch_lease import acquire_branch_lease, drop_fork, run_checked_step
from omnigraph.manifest.commit_graph import Lineage, branches_needing
from omnigraph.manifest.layout import (
    CURRENT,
    MAIN,
    MANIFEST,
    Storage,
    check_format_version,
    no_such_branch,
    physical_branch,
    read_format_version,
    unfinished_branch,
)
from omnigraph.manifest.reclaimed import require_retained, require_still_retained, superseded
from omnigraph.manifest.row_versions import read_rows
from omnigraph.manifest.rows import KEY
from omnigraph.manifest.state import ManifestState
from omnigraph.manifest.tags import find_tag, list_tags
from omnigraph.manifest.upgrade import STAGING_UNTIL, is_staging
from omnigraph.manifest.version_refs import branch_references
from omnigraph.storage.filters.model import one_of
from omnigraph.storage.lance.paths import table_dir
from omnigraph.storage.tables.immediate import create_branch, delete_branch
from omnigraph.storage.tables.staging import commit_staged, stage_delete
from omnigraph.storage.tables.table import Pin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.manifest.version_refs import References
    from omnigraph.storage.objects.lease import Lease
    from omnigraph.storage.tables.table import Table
    from omnigraph.world import World

log = logging.getLogger(__name__)

SCHEMA_LOCK = "__schema_apply_lock__"
LONGEST_NAME = 200
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, repr=False)
class Branch(Report):
    """A branch, and where it was made from. `incarnation` tells it from an earlier branch of the same name."""

    name: str
    parent: str | None
    parent_version: int | None
    incarnation: str | None

    def _summary(self) -> str:
        return self.name if self.parent is None else f"{self.name} from {self.parent} at version {self.parent_version}"


def check_branch_name(name: str) -> str:
    """Return the name if it is valid for a branch, else raise `InvalidBranchName`."""
    if not name.strip() or name != name.strip():
        raise InvalidBranchName(name, "it is empty, or begins or ends with white space")
    if name in (MAIN, SCHEMA_LOCK):
        raise InvalidBranchName(name, "the name is reserved")
    if len(name) > LONGEST_NAME:
        raise InvalidBranchName(name, f"it is longer than {LONGEST_NAME} characters")
    for segment in name.split("/"):
        if not _SEGMENT.fullmatch(segment) or ".." in segment or segment.endswith(".lock") or segment == ".":
            raise InvalidBranchName(
                name, "use letters, digits, '.', '_' and '-' in parts joined by '/'; no '..', no part ending in .lock"
            )
    return name


def list_branches(stores: Storage) -> list[Branch]:
    """All branches that users created, after main."""
    hidden = {SCHEMA_LOCK, unfinished_branch(stores)}
    found = [Branch(MAIN, None, None, None)]
    main = _main(stores)
    swept = check_format_version(main) > STAGING_UNTIL
    for name, details in sorted(branch_references(main).items()):
        if name not in hidden and (swept or not is_staging(name)):
            parent, version = details["parent_branch"] or MAIN, details["parent_version"]
            found.append(Branch(name, parent, version, str(details["branch_identifier"])))
    return found


def make_branch(
    stores: Storage, name: str, *, source: BranchManifest, commit: GraphCommit | None, recent: int, world: World
) -> None:
    """Create a branch from the newest state of `source`, or from one of its commits.

    The newest `recent` versions of the manifest are not collected while this runs.
    """
    check_branch_name(name)
    with acquire_branch_lease(stores, f"creating branch {name!r}", world) as lease:
        _require_free(name, branch_references(_main(stores)))
        _require_no_tag(stores, name)
        _reclaim_orphan(stores, name)
        with source.lock:
            source.refresh()
            state = source.snapshot() if commit is None else source.snapshot_of(commit)
            old = superseded(source, state)
            require_retained(stores, old)
            start = _handle_of(stores, source, commit, recent)
            _about_to_change(lease)
            if old:
                lease.mark_unfinished(name)
            if start is None or not _made_from(stores, start, name, lease):
                if not old:
                    lease.mark_unfinished(name)
                _about_to_change(lease)
                _create(stores, source.table, name, lease)
                _forget_later_rows(stores, name, source, commit)
            require_still_retained(
                stores,
                lease,
                old,
                now=lambda: _tables_of(stores, name),
                take_back=lambda: _take_back(stores, name, lease),
            )
            if lease.record.unfinished is not None:
                # From here on the branch is visible; a process that takes the lease over before this point deletes the
                # branch.
                lease.mark_unfinished(None)


def remove_branch(stores: Storage, name: str, *, world: World, force: bool = False) -> None:
    """Delete a branch and its own table forks. Refused while another branch or a tag depends on it.

    Also refused, unless `force`, while its commits are the merge base of two other branches.
    """
    if name == MAIN:
        raise BranchInUse(MAIN, "main cannot be deleted.")
    check_branch_name(name)
    with acquire_branch_lease(stores, f"deleting branch {name!r}", world) as lease:
        main = _main(stores)
        references = branch_references(main)
        if name not in references:
            raise no_such_branch(name)
        _require_unused(stores, name, references)
        states = {each: _state_of(stores, each) for each in (MAIN, *references) if each != SCHEMA_LOCK}
        _require_unread(name, states)
        if not force:
            _require_unneeded(name, states)
        forks = [entry.path for entry in states[name].current(name) if entry.branch == name]
        _about_to_change(lease)
        run_checked_step(
            lease.record.purpose,
            lambda: delete_branch(main, name),
            lambda: name not in branch_references(_main(stores)),
        )
        stores.tables.forget(MANIFEST, name)
        _drop_forks(stores, forks, name)


def _drop_forks(stores: Storage, paths: Sequence[str], branch: str) -> None:
    """Delete the table forks of a deleted branch. Failures are logged: a later cleanup removes the leftovers."""
    try:
        for path in paths:
            drop_fork(stores, path, branch)
    except (LeaseLost, StoreError) as error:
        log.warning("branch %r is deleted; files of its tables stay for the next cleanup: %s", branch, error)


def _main(stores: Storage) -> Table:
    return stores.tables.open_newest(MANIFEST)


def _about_to_change(lease: Lease) -> None:
    reach("branch.before_reference")
    lease.require()


def _tables_of(stores: Storage, name: str) -> list[TableEntry]:
    """The newest tables of a branch; none when the branch does not exist."""
    try:
        return list(_state_of(stores, name).current(name))
    except NotFound:
        return []


def _take_back(stores: Storage, name: str, lease: Lease) -> None:
    """Delete a branch that was just created and not yet reported to the caller."""
    drop_fork(stores, MANIFEST, name)
    if lease.record.unfinished is not None:
        with suppress(LeaseLost):
            lease.mark_unfinished(None)


def _require_free(name: str, taken: References) -> None:
    if name in taken:
        raise BranchExists(name, f"branch {name!r} exists already.")
    for other in taken:
        if other.startswith(f"{name}/") or name.startswith(f"{other}/"):
            raise BranchExists(name, f"branch {name!r} cannot stand beside {other!r}: one is a path below the other.")


def _require_no_tag(stores: Storage, name: str) -> None:
    if find_tag(stores, name) is not None:
        raise BranchExists(name, f"there is a tag {name!r}: a branch of that name could not be told from it.")


def _reclaim_orphan(stores: Storage, name: str) -> None:
    """Delete the files of a branch whose creator died before writing its reference: Lance can do nothing with them."""
    if stores.objects.exists(table_dir(MANIFEST, name)):
        stores.objects.delete_prefix(table_dir(MANIFEST, name))
        stores.tables.forget(MANIFEST, name)


def _handle_of(stores: Storage, source: BranchManifest, commit: GraphCommit | None, recent: int) -> Table | None:
    """Open the manifest at a commit, or at the newest state.

    None when that version has been collected or may be while the branch is created (its version file can outlive its
    data, where an earlier branch was created from it), and when it has an older format: a migration copied the commit,
    and its history is not in that version's rows.
    """
    if commit is None:
        return source.table
    version = source.snapshot_of(commit).manifest_version
    if source.table.version - version > recent:
        return None
    try:
        start = stores.tables.open(Pin(MANIFEST, version, physical_branch(source.branch)))
    except NotFound:
        return None
    return start if read_format_version(start) == CURRENT else None


def _made_from(stores: Storage, start: Table, name: str, lease: Lease) -> bool:
    """Create the branch; false when the version of the handle has been collected since it was opened."""
    try:
        _create(stores, start, name, lease)
    except NotFound:
        return False
    return True


def _create(stores: Storage, start: Table, name: str, lease: Lease) -> None:
    """Create the branch. Under the lease nobody else creates one: if it exists afterwards, this call created it."""
    run_checked_step(
        lease.record.purpose,
        lambda: create_branch(start, name),
        lambda: name in branch_references(_main(stores)),
    )


def _forget_later_rows(stores: Storage, name: str, source: BranchManifest, commit: GraphCommit | None) -> None:
    """Reset a fresh branch to a commit by deleting the rows that came after it."""
    if commit is None:
        return
    later = source.state.object_ids_after(commit)
    staged = stage_delete(stores.tables.open_newest(MANIFEST, name), one_of(KEY, later))
    if staged is not None:
        commit_staged(staged)


def _require_unused(stores: Storage, name: str, references: References) -> None:
    below = sorted(each for each in references if each.startswith(f"{name}/"))
    children = sorted(each for each, details in references.items() if details["parent_branch"] == name)
    if below or children:
        raise BranchInUse(
            name, f"branch {name!r} has the branches {', '.join(sorted({*below, *children}))} on it: delete them first."
        )
    tags = [tag.name for tag in list_tags(stores) if tag.branch == name]
    if tags:
        raise BranchInUse(
            name, f"branch {name!r} has commits that the tags {', '.join(tags)} keep: delete the tags first."
        )


def _require_unread(name: str, states: Mapping[str, ManifestState]) -> None:
    for other, state in states.items():
        pinned = [entry.table_key for entry in state.current(other) if entry.branch == name]
        if pinned and other != name:
            raise BranchInUse(name, f"branch {other!r} still reads {', '.join(pinned)} from branch {name!r}.")


def _require_unneeded(name: str, states: Mapping[str, ManifestState]) -> None:
    lineages = {branch: Lineage(branch, state.commits) for branch, state in states.items()}
    needing = branches_needing(lineages.pop(name), list(lineages.values()))
    if needing is not None:
        one, other = needing
        raise BranchInUse(
            name,
            f"{one!r} and {other!r} have both merged {name!r}, and not each other since: without its commits a merge "
            f"of the two could bring back what one has removed. Merge {one!r} and {other!r} first, or force it.",
        )


def _state_of(stores: Storage, branch: str) -> ManifestState:
    """The state of a branch from its manifest rows, without its legacy history, which may be unreadable."""
    table = stores.tables.open_newest(MANIFEST, physical_branch(branch))
    check_format_version(table)
    state = ManifestState(stores.uri)
    state.apply_rows(read_rows(table), manifest_version=table.version)
    return state
