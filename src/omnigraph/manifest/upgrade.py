"""Upgrades a manifest from each internal schema version to the next, in place, branch by branch, keeping history.

A step does its work first and writes the new format version last. A step that is killed in between is run again by the
next writer with the same result; concurrent migrators converge. A new version is one more module beside this one, one
more entry in `STEPS`, and `CURRENT` raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import CommitConflict, CommitRejected, Contention, NotFound
from omnigraph.failpoints import reach
from omnigraph.manifest import upgrade_v1, upgrade_v2, upgrade_v3
from omnigraph.manifest.layout import CURRENT, MANIFEST, MINIMUM, STAMP_KEY, physical_branch, read_stamp
from omnigraph.storage.tables.immediate import set_schema_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.manifest.branch_manifest import BranchManifest

STEPS: dict[int, Callable[[BranchManifest], None]] = {
    1: upgrade_v1.apply,
    2: upgrade_v2.apply,
    3: upgrade_v3.apply,
}
ATTEMPTS = 5


def check_steps(steps: dict[int, Callable[[BranchManifest], None]]) -> None:
    """Fail when raising `MINIMUM` left a dead step behind, or when raising `CURRENT` added no step."""
    expected, found = set(range(MINIMUM, CURRENT)), set(steps)
    if found != expected:
        raise AssertionError(f"migration steps start at {sorted(found)}, but versions {sorted(expected)} need one")


check_steps(STEPS)


def bring_up_to_date(manifest: BranchManifest) -> None:
    """Migrate one branch's manifest to the current version; does nothing if it is current."""
    if manifest.stamp < CURRENT:
        manifest.refresh()
    while manifest.stamp < CURRENT:
        # Fixed before the step runs: a step that finds another migrator ahead must not stamp beyond its own work.
        start = manifest.stamp
        _retrying(manifest, STEPS[start])
        reach("migration.before_stamp")
        _retrying(manifest, _stamper(start + 1))


def _stamper(target: int) -> Callable[[BranchManifest], None]:
    def stamp(manifest: BranchManifest) -> None:
        if read_stamp(manifest.table) < target:
            manifest.adopt(set_schema_metadata(manifest.table, {STAMP_KEY: str(target)}))

    return stamp


def _retrying(manifest: BranchManifest, step: Callable[[BranchManifest], None]) -> None:
    """Rerun a step that lost to another migrator: it then finds the work done, or does the rest."""
    for left in reversed(range(ATTEMPTS)):
        before = manifest.stamp
        try:
            step(manifest)
            return
        except (CommitConflict, CommitRejected, NotFound) as error:
            # NotFound: others have migrated, published and collected versions since the last read, or files are lost.
            if isinstance(error, NotFound) and not left:
                raise
            manifest.adopt(manifest.stores.tables.open_newest(MANIFEST, physical_branch(manifest.branch)))
        if manifest.stamp != before:
            return
    raise Contention(f"migrating branch {manifest.branch!r}", attempts=ATTEMPTS)
