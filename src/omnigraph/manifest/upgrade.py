"""Upgrades a manifest from each internal schema version to the next, in place, branch by branch, preserving history.

A step does its work first and writes the new format version last. A step that is killed in between is run again by the
next writer with the same result; concurrent migrators converge. A new version is one more step here, one more entry in
`STEPS`, and `CURRENT` raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import CommitConflict, CommitRejected, Contention, MigrationFailed, NotFound, ObjectExists
from omnigraph.failpoints import reach
from omnigraph.manifest.commit_graph import rank, read_legacy_commits
from omnigraph.manifest.layout import (
    CURRENT,
    FORMAT_VERSION_KEY,
    MANIFEST,
    MINIMUM,
    physical_branch,
    read_format_version,
)
from omnigraph.manifest.row_versions import read_rows
from omnigraph.manifest.rows import KEY, PRIMARY_KEY, GraphHead, Row, encode
from omnigraph.manifest.version_refs import branch_references
from omnigraph.storage.tables.immediate import (
    delete_branch,
    set_field_metadata,
    set_schema_metadata,
    upsert_rows_by_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.manifest.branch_manifest import BranchManifest

ATTEMPTS = 5
STAGING_PREFIX = "__run__"
# The last version whose manifest may have staging branches.
STAGING_UNTIL = 2
_MARK = next(iter(PRIMARY_KEY)).encode()


def mark_primary_key(manifest: BranchManifest) -> None:
    """From v1 to v2: annotate `object_id` as the primary key, so that concurrent inserts of one row conflict.

    Without the key, both inserts would be committed. Lance forbids to annotate a column twice.
    """
    keys = [field.name for field in manifest.table.schema if (field.metadata or {}).get(_MARK) == b"true"]
    if keys == [KEY]:
        return
    if keys:
        raise MigrationFailed(f"{manifest.stores.uri}: __manifest has the primary key {keys}, expected none or {KEY}")
    manifest.advance_to(set_field_metadata(manifest.table, KEY, PRIMARY_KEY))


def is_staging(branch: str) -> bool:
    """Whether a branch of a manifest up to v2 is a staging area, not a branch that a user created."""
    return branch.lstrip("/").startswith(STAGING_PREFIX)


def delete_staging_branches(manifest: BranchManifest) -> None:
    """From v2 to v3: delete the branches `__run__...` of an abandoned write path from `__manifest`.

    Children go before parents; concurrent migrators are tolerated.
    """
    main = manifest.stores.tables.open_newest(MANIFEST)
    branches = branch_references(main)
    staging = [name for name in branches if is_staging(name)]
    for name in sorted(staging, key=lambda each: len(branches[each]["branch_identifier"]), reverse=True):
        try:
            delete_branch(main, name)
        except NotFound:
            continue
        except ObjectExists:
            # A user's branch was created from this one: it needs the files, so the staging branch stays.
            continue


def copy_lineage(manifest: BranchManifest) -> None:
    """From v3 to v4: write one row per commit and one head row, in one commit, unless another migrator has done so.

    The lineage was in two datasets beside the manifest. They stay; nothing reads them once the format version is 4.
    """
    if any(row[1] == "graph_commit" for row in read_rows(manifest.table)):
        return
    reach("migration.legacy_open")
    commits = read_legacy_commits(manifest.stores.tables, manifest.branch)
    if not commits:
        return
    head = max(commits, key=rank)
    rows: list[Row] = [*commits, GraphHead(manifest.branch, head.id, head.parent)]
    manifest.advance_to(upsert_rows_by_key(manifest.table, encode(rows), key=KEY))


STEPS: dict[int, Callable[[BranchManifest], None]] = {
    1: mark_primary_key,
    2: delete_staging_branches,
    3: copy_lineage,
}


def check_steps(steps: dict[int, Callable[[BranchManifest], None]]) -> None:
    """Fail when raising `MINIMUM` left a dead step behind, or when raising `CURRENT` added no step."""
    expected, found = set(range(MINIMUM, CURRENT)), set(steps)
    if found != expected:
        raise AssertionError(f"migration steps start at {sorted(found)}, but versions {sorted(expected)} need one")


check_steps(STEPS)


def bring_up_to_date(manifest: BranchManifest) -> None:
    """Migrate one branch's manifest to the current version; does nothing if it is current."""
    if manifest.format_version < CURRENT:
        manifest.refresh()
    while manifest.format_version < CURRENT:
        # Fixed before the step runs: a step that finds another migrator ahead must not mark more than its own work.
        start = manifest.format_version
        _retrying(manifest, STEPS[start])
        reach("migration.before_stamp")
        _retrying(manifest, _format_version_writer(start + 1))


def _format_version_writer(target: int) -> Callable[[BranchManifest], None]:
    def format_version(manifest: BranchManifest) -> None:
        if read_format_version(manifest.table) < target:
            manifest.advance_to(set_schema_metadata(manifest.table, {FORMAT_VERSION_KEY: str(target)}))

    return format_version


def _retrying(manifest: BranchManifest, step: Callable[[BranchManifest], None]) -> None:
    """Rerun a step that lost to another migrator: it then finds the work done, or does the rest."""
    for attempts_left in reversed(range(ATTEMPTS)):
        before = manifest.format_version
        try:
            step(manifest)
            return
        except (CommitConflict, CommitRejected, NotFound) as error:
            # NotFound: others have migrated, published and collected versions since the last read, or files are lost.
            if isinstance(error, NotFound) and not attempts_left:
                raise
            manifest.advance_to(manifest.stores.tables.open_newest(MANIFEST, physical_branch(manifest.branch)))
        if manifest.format_version != before:
            return
    raise Contention(f"migrating branch {manifest.branch!r}", attempts=ATTEMPTS)
