"""Commits that failed. Conflict, rejected and unknown are three different things."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.errors.root import OmniGraphError

if TYPE_CHECKING:
    from collections.abc import Sequence

ConflictKind = Literal[
    "DivergentInsert",
    "DivergentUpdate",
    "DeleteVsUpdate",
    "OrphanEdge",
    "UniqueViolation",
    "CardinalityViolation",
    "ValueConstraintViolation",
]
Row = dict[str, Any]


class CommitFailed(OmniGraphError):
    """Nothing became visible."""

    code = "commit_failed"


class CommitConflict(CommitFailed):
    """Somebody else was first: read again, try again."""

    code = "conflict"
    retryable = True


class ExpectedVersionMismatch(CommitConflict):
    """A table has a newer version than the caller expected."""

    code = "expected_version_mismatch"

    def __init__(self, table_key: str, *, expected: int, actual: int | None) -> None:
        now = "gone" if actual is None else f"at version {actual}"
        super().__init__(f"{table_key} was expected at version {expected} and is {now}: read it again, then retry.")
        self.table_key = table_key
        self.expected = expected
        self.actual = actual


class HeadMismatch(CommitConflict):
    """The branch head is not the one the caller required."""

    code = "head_mismatch"

    def __init__(self, branch: str, *, expected: str | None, actual: str | None) -> None:
        super().__init__(
            f"branch {branch!r} was expected at commit {expected} and is at {actual}: read it again, then decide."
        )
        self.branch = branch
        self.expected = expected
        self.actual = actual


class ReadSetChanged(CommitConflict):
    """A table that an operation has read got a newer version before the operation was published."""

    code = "read_set_changed"

    def __init__(self, branch: str, tables: Sequence[str]) -> None:
        super().__init__(f"branch {branch!r} has newer versions of {', '.join(tables)}: nothing was changed; retry.")
        self.branch = branch
        self.tables = tuple(tables)


class SchemaChanged(CommitConflict):
    """The schema was changed while an operation under the old one was on its way."""

    code = "schema_changed"

    def __init__(self, branch: str) -> None:
        super().__init__(
            f"the schema of branch {branch!r} was changed in the meantime: nothing was written. Read the "
            "new schema and retry."
        )
        self.branch = branch


class TableAhead(CommitConflict):
    """A table has versions of suspended writers whose leases have expired; rolling back this operation removes them."""

    code = "table_ahead"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} has versions of unfinished operations, which are rolled back: retry.")
        self.path = path


class DecidedOtherwise(CommitConflict):
    """Another process has recovered the operation, and published the opposite of what was to be published."""

    code = "decided_otherwise"

    def __init__(self, commit_id: str) -> None:
        super().__init__(f"commit {commit_id} was decided otherwise: another process has recovered its operation.")
        self.commit_id = commit_id


class Contention(CommitConflict):
    """Other writers won every attempt of the retry budget."""

    code = "contention"

    def __init__(self, what: str, *, attempts: int) -> None:
        super().__init__(f"{what}: other writers were first {attempts} times; try again.")
        self.attempts = attempts


class LeaseLost(CommitFailed):
    """This process did not renew its lease, and another may have taken its operation over and rolled it back."""

    code = "lease_lost"
    retryable = True


class OperationTakenOver(LeaseLost):
    """The same for an operation with a sidecar. Once that is deleted, `commit_id` is in the branch's history or not."""

    code = "operation_taken_over"

    def __init__(self, operation_id: str, *, branch: str | None, commit_id: str | None) -> None:
        super().__init__(
            f"operation {operation_id} did not renew its lease in time, and another process has taken it over."
        )
        self.operation_id = operation_id
        self.branch = branch
        self.commit_id = commit_id


class CommitNotDone(CommitFailed):
    """The store failed during an operation, which was rolled back, or will be by the next writer."""

    code = "not_done"
    retryable = True

    def __init__(self, reason: str, *, operation_id: str | None = None) -> None:
        super().__init__(f"nothing was changed, because the store failed: {reason}")
        self.operation_id = operation_id


class MergeConflicts(CommitFailed):
    """Two branches disagree; nothing was written. `conflicts` has them, and `more` counts those it leaves out."""

    code = "merge_conflicts"

    def __init__(self, source: str, target: str, conflicts: Sequence[Conflict], more: int = 0) -> None:
        super().__init__(f"{source!r} cannot be merged into {target!r}: {_conflict_text(conflicts, more)}")
        self.more = more
        self.source = source
        self.target = target
        self.conflicts = tuple(conflicts)


class RevertConflicts(CommitFailed):
    """Later changes conflict with the revert of a commit; nothing was written.

    `conflicts` has them, and `more` counts those it leaves out. In each, `base` is the entity as the commit left it,
    `ours` as it is now, `theirs` as it was before the commit.
    """

    code = "revert_conflicts"

    def __init__(self, commit_id: str, branch: str, conflicts: Sequence[Conflict], more: int = 0) -> None:
        super().__init__(
            f"commit {commit_id} cannot be reverted on branch {branch!r}: {_conflict_text(conflicts, more)}"
        )
        self.more = more
        self.commit_id = commit_id
        self.branch = branch
        self.conflicts = tuple(conflicts)


def _conflict_text(conflicts: Sequence[Conflict], more: int) -> str:
    """How many they are, and the first of them, a line each."""
    count = len(conflicts) + more
    noun = "conflict" if count == 1 else "conflicts"
    listed = "".join(f"\n  {each.kind} {each.table_key} {each.row_id!r}: {each.message}" for each in conflicts[:20])
    rest = f"\n  and {count - 20} more" if count > 20 else ""
    return f"{count} {noun}, nothing was written.{listed}{rest}"


class CommitRejected(CommitFailed):
    """Trying again cannot help."""

    code = "rejected"


class CommitOutcomeUnknown(OmniGraphError):
    """The outcome of the commit is unknown. Look for its transaction before you retry.

    `transaction` is the id of the graph commit, or of a table's transaction; `operation_id` names the sidecar that
    records it, until the next writer has finished or undone it.
    """

    code = "outcome_unknown"

    def __init__(self, message: str, *, transaction: str | None = None, operation_id: str | None = None) -> None:
        super().__init__(message)
        self.transaction = transaction
        self.operation_id = operation_id


class RecoveryRequired(OmniGraphError):
    """An unfinished operation is in the way of the writers of `table_keys`; of all writers when that is None."""

    code = "recovery_required"

    def __init__(
        self,
        message: str,
        *,
        operation_id: str,
        branch: str | None = None,
        table_keys: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(message)
        self.operation_id = operation_id
        self.branch = branch
        self.table_keys = table_keys

    def concerns(self, *table_keys: str) -> bool:
        """Whether a writer of these tables is refused."""
        return self.table_keys is None or any(each in self.table_keys for each in table_keys)


class MigrationFailed(OmniGraphError):
    """A migration step stopped; the graph is as readable as before and the step can run again."""

    code = "migration_failed"


class ResourceLimitExceeded(OmniGraphError):
    """More than this program agreed to hold or do at once."""

    code = "resource_limit"

    def __init__(self, message: str, *, resource: str, limit: int, actual: int) -> None:
        super().__init__(message)
        self.resource = resource
        self.limit = limit
        self.actual = actual


@dataclass(frozen=True)
class Conflict:
    """One entity that both sides changed, or that breaks a rule once both changes are in.

    `base`, `ours` and `theirs` are the entity before both, on the target and on the source; None where it is not there.
    `properties` are those that both sides changed, each in its own way.

    `edges`, as `table_key/id`, are those that one side removed together with this node: they stay if the node stays. At
    most 100 are listed, `more_edges` counts the others. `follows` is the node that one side removed this edge with: the
    edge is resolved as the node, unless it is resolved by its own name.
    """

    kind: ConflictKind
    table_key: str
    row_id: str
    message: str
    base: Row | None = None
    ours: Row | None = None
    theirs: Row | None = None
    properties: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()
    more_edges: int = 0
    follows: str | None = None

    @property
    def name(self) -> str:
        """The entity as a mapping of resolutions names it: `table_key/id`."""
        return f"{self.table_key}/{self.row_id}"

    @property
    def is_about_rows(self) -> bool:
        """Whether choosing a side, or a row, resolves it. The others are resolved by changing the data."""
        return self.kind in ("DivergentInsert", "DivergentUpdate", "DeleteVsUpdate")
