"""Classifies the tables of an unfinished operation, and decides whether to roll the operation forward or back.

Pure functions: the caller passes in what it observed on the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.transaction.intents.sidecar import Sidecar, TablePin


class TableFinding(Enum):
    """What recovery finds for one table."""

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
    """The state of one pinned table on the store.

    `head` is the newest version on the branch, `published` the manifest's (0: none). `committed` is the version that
    the planned transaction became; None when it is not there, or when no transaction was recorded. `compacted` is the
    version after it in which the operation compacted the table, if it did. `restored` is the version with which an
    earlier recovery of this operation reverted the table. `is_there`: the table has been forked for the pin's branch,
    and the manifest's version is on that fork. `ours`: operations of this program made all versions above the published
    one.
    """

    pin: TablePin
    head: int
    published: int
    committed: int | None = None
    restored: int | None = None
    compacted: int | None = None
    is_there: bool = True
    ours: bool = True
    # The version that the head restores, when an earlier attempt of this recovery made the head.
    head_restores: int | None = None

    @property
    def is_ahead(self) -> bool:
        """Whether the table has versions above the manifest's."""
        return self.head > self.published

    @property
    def last(self) -> int | None:
        """The newest version that the operation made; None when there is none."""
        return self.compacted if self.committed is not None and self.compacted == self.committed + 1 else self.committed


def classify(sidecar: Sidecar, seen: Observation) -> TableFinding:
    """Classify one table."""
    if sidecar.is_planned and seen.pin.transaction is None:
        # Whatever is on the table's branch is a stale fork, or another writer's.
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
    """Decide for the whole operation, all or nothing.

    `published`, `undone`: its own commit, or the one that undoes it, is in the history. `schema_ready`: the parts of a
    schema change other than changed tables are complete.
    """
    if published:
        return Decision.FINISHED
    if undone or sidecar.aborted:
        return Decision.BACK
    if TableFinding.INVARIANT_VIOLATION in findings:
        return Decision.ABORT
    if sidecar.schema is not None:
        committed = all(each is TableFinding.ROLLED_PAST_EXPECTED for each in findings)
        return Decision.FORWARD if schema_ready and committed else Decision.BACK
    if not sidecar.is_planned and sidecar.writer_kind == "SchemaApply" and not _went_by(findings, seen):
        # Other releases replace the schema files after the publish: without a publish the files are the old ones.
        return Decision.BACK
    if findings and all(each is TableFinding.ROLLED_PAST_EXPECTED for each in findings):
        return Decision.FORWARD
    if not sidecar.is_planned and _went_by(findings, seen):
        return Decision.FINISHED
    return Decision.BACK


def _went_by(findings: Sequence[TableFinding], seen: Sequence[Observation]) -> bool:
    """Whether nothing is unpublished and a table is beyond the operation's start: it had published before it died."""
    nothing_moved = all(each is TableFinding.NO_MOVEMENT for each in findings)
    return nothing_moved and any(each.published > each.pin.expected_version for each in seen)


def _by_transaction(seen: Observation) -> TableFinding:
    """The planned transaction identifies exactly which version is this operation's."""
    if seen.committed is None:
        return TableFinding.NO_MOVEMENT
    if seen.last == seen.head and seen.committed == seen.pin.post_commit_pin and _is_base(seen):
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
