"""Steps from each internal schema version to the next, applied in place, branch by branch, keeping history.

A step does its work first and is stamped last. Killed anywhere between, it is run again by the next writer and ends the
same; several at once converge. A new version is one more file here, one more entry in `STEPS`, and `CURRENT` raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import CommitConflict, CommitRejected, Contention, NotFound
from omnigraph.failpoints import reach
from omnigraph.manifest.layout import MANIFEST, physical_branch
from omnigraph.manifest.migrations import step_1_to_2, step_2_to_3, step_3_to_4
from omnigraph.manifest.stamp import CURRENT, MINIMUM, STAMP_KEY, read_stamp
from omnigraph.store.residual import set_schema_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.manifest.line import ManifestLine

STEPS: dict[int, Callable[[ManifestLine], None]] = {
    1: step_1_to_2.apply,
    2: step_2_to_3.apply,
    3: step_3_to_4.apply,
}
ATTEMPTS = 5


def check_steps(steps: dict[int, Callable[[ManifestLine], None]]) -> None:
    """Fail when a raised floor left a dead step behind, or a raised version has none."""
    expected, found = set(range(MINIMUM, CURRENT)), set(steps)
    if found != expected:
        raise AssertionError(f"migration steps start at {sorted(found)}, but versions {sorted(expected)} need one")


check_steps(STEPS)


def bring_up_to_date(line: ManifestLine) -> None:
    """Migrate one branch's manifest to the current version; nothing to do for one that is there already."""
    if line.stamp < CURRENT:
        line.refresh()
    while line.stamp < CURRENT:
        # Fixed before the step runs: a step that finds another migrator further on must not stamp past its own work.
        start = line.stamp
        _retrying(line, STEPS[start])
        reach("migration.before_stamp")
        _retrying(line, _stamper(start + 1))


def _stamper(target: int) -> Callable[[ManifestLine], None]:
    def stamp(line: ManifestLine) -> None:
        if read_stamp(line.table) < target:
            line.adopt(set_schema_metadata(line.table, {STAMP_KEY: str(target)}))

    return stamp


def _retrying(line: ManifestLine, step: Callable[[ManifestLine], None]) -> None:
    """Run a step again after losing to another migrator: it then finds the work done, or does what is left."""
    for left in reversed(range(ATTEMPTS)):
        before = line.stamp
        try:
            step(line)
            return
        except (CommitConflict, CommitRejected, NotFound) as error:
            # NotFound: others have migrated, published and collected since this line was read, or files are lost.
            if isinstance(error, NotFound) and not left:
                raise
            line.adopt(line.stores.tables.open_newest(MANIFEST, physical_branch(line.branch)))
        if line.stamp != before:
            return
    raise Contention(f"migrating branch {line.branch!r}", attempts=ATTEMPTS)
