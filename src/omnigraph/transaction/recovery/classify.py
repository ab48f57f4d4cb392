"""What became of an unfinished operation, table by table, and what to do about the whole of it.

Pure: it is told what was seen on the store, and asks nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.transaction.intents.sidecar import Sidecar, TablePin


class TableFinding(Enum):
    """What one table shows."""

    NO_MOVEMENT = "NoMovement"
    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"
    INCOMPLETE_PHASE_B = "IncompletePhaseB"
    INVARIANT_VIOLATION = "InvariantViolation"


class Decision(Enum):
    """What to do with the whole operation: all of it or none of it."""

    ABORT = "abort"
    FORWARD = "forward"
    BACK = "back"
    FINISHED = "finished"


@dataclass(frozen=True)
class Observation:
    """What the store shows of one pinned table.

    `head` is the newest version on the pin's branch, `published` what the manifest says (0: nothing). `landed` is the
    version that the planned transaction became; None when it is not there, or when no transaction was noted. `tidied`
    is the version after it in which the operation tidied the table, if it did. `restored` is the version with which an
    earlier recovery of this operation has taken the table back. `is_there`: the table has a line of its own on the
    pin's branch, and the manifest's version is on it. `ours`: operations of this program made all versions above the
    published.
    """

    pin: TablePin
    head: int
    published: int
    landed: int | None = None
    restored: int | None = None
    tidied: int | None = None
    is_there: bool = True
    ours: bool = True
    # The version that the head has the content of, when it is a restore that an earlier try of this recovery made.
    head_restores: int | None = None

    @property
    def is_ahead(self) -> bool:
        """Whether the table has versions that the manifest does not know."""
        return self.head > self.published

    @property
    def last(self) -> int | None:
        """The newest version that is the operation's; None when there is none."""
        return self.tidied if self.landed is not None and self.tidied == self.landed + 1 else self.landed


def classify(sidecar: Sidecar, seen: Observation) -> TableFinding:
    """What one table shows."""
    if sidecar.is_planned and seen.pin.transaction is None:
        # Whatever lies on the table's branch is a stale fork, or another writer's.
        return TableFinding.NO_MOVEMENT
    if seen.head < seen.published:
        return TableFinding.INVARIANT_VIOLATION
    if seen.pin.transaction is not None:
        return _by_transaction(seen)
    if seen.head == seen.published:
        return TableFinding.NO_MOVEMENT
    if sidecar.writer_kind in ("Mutation", "Load"):
        return _strict(seen)
    if sidecar.writer_kind == "BranchMerge" and sidecar.schema_version >= 2:
        return _confirmed(seen)
    return TableFinding.ROLLED_PAST_EXPECTED if _is_base(seen) else _unexpected(seen)


def decide(
    sidecar: Sidecar,
    findings: Sequence[TableFinding],
    seen: Sequence[Observation],
    *,
    published: bool = False,
    undone: bool = False,
    schema_ready: bool = False,
) -> Decision:
    """All or nothing. `published`, `undone`: its own commit, or the one that takes it back, is in the history.

    `schema_ready`: what a change of schema does beside moving tables has been done.
    """
    if published:
        return Decision.FINISHED
    if undone or sidecar.aborted:
        return Decision.BACK
    if TableFinding.INVARIANT_VIOLATION in findings:
        return Decision.ABORT
    if sidecar.schema is not None:
        landed = all(each is TableFinding.ROLLED_PAST_EXPECTED for each in findings)
        return Decision.FORWARD if schema_ready and landed else Decision.BACK
    if not sidecar.is_planned and sidecar.writer_kind == "SchemaApply" and not _went_by(findings, seen):
        # Other releases change the schema files after the publish: without it they are the old ones.
        return Decision.BACK
    if findings and all(each is TableFinding.ROLLED_PAST_EXPECTED for each in findings):
        return Decision.FORWARD
    if not sidecar.is_planned and _went_by(findings, seen):
        return Decision.FINISHED
    return Decision.BACK


def _went_by(findings: Sequence[TableFinding], seen: Sequence[Observation]) -> bool:
    """Nothing is unpublished, and a table is beyond where the operation began: it had published before it died."""
    nothing_moved = all(each is TableFinding.NO_MOVEMENT for each in findings)
    return nothing_moved and any(each.published > each.pin.expected_version for each in seen)


def _by_transaction(seen: Observation) -> TableFinding:
    """The planned transaction says exactly whether a version is this operation's."""
    if seen.landed is None:
        return TableFinding.NO_MOVEMENT
    if seen.last == seen.head and seen.landed == seen.pin.post_commit_pin and _is_base(seen):
        return TableFinding.ROLLED_PAST_EXPECTED
    return _unexpected(seen)


def _strict(seen: Observation) -> TableFinding:
    one_step = seen.head == seen.published + 1
    if one_step and _is_base(seen) and seen.pin.post_commit_pin == seen.head:
        return TableFinding.ROLLED_PAST_EXPECTED
    return _unexpected(seen)


def _confirmed(seen: Observation) -> TableFinding:
    if seen.pin.confirmed_version is None:
        return TableFinding.INCOMPLETE_PHASE_B
    if seen.pin.confirmed_version == seen.head and _is_base(seen):
        return TableFinding.ROLLED_PAST_EXPECTED
    return _unexpected(seen)


def _is_base(seen: Observation) -> bool:
    return seen.pin.expected_version == seen.published


def _unexpected(seen: Observation) -> TableFinding:
    return TableFinding.UNEXPECTED_AT_P1 if seen.head == seen.published + 1 else TableFinding.UNEXPECTED_MULTISTEP
