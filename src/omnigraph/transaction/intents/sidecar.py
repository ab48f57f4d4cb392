"""The sidecar is the write-ahead record of an operation: which tables it is about to change, and from which versions.

It is the object `__recovery/<operation id>.json`, in the format of releases 0.7.1 to 0.8.1 with fields of our own
beside theirs: the owner's lease, the transaction planned for each table, the tables that the operation was computed
from, and the commit that it is to become. A sidecar is also a queue entry: while it exists, nobody else changes the
same tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal
from uuid import NAMESPACE_OID, uuid5

from omnigraph.errors import OperationTakenOver
from omnigraph.manifest.layout import table_path
from omnigraph.manifest.publisher import NewVersion
from omnigraph.manifest.rows import SchemaChange
from omnigraph.storage.objects.lease import DEFAULT_SECONDS, Owner, lease_seconds
from omnigraph.world import encode_ulid

if TYPE_CHECKING:
    from collections.abc import Set

    from omnigraph.world import World

PREFIX = "__recovery"
SCHEMA_VERSION = 2

WriterKind = Literal["Mutation", "Load", "SchemaApply", "BranchMerge", "EnsureIndices", "Optimize"]
# `waiting`: behind another queue entry, without effects. `running`: effects may exist. None: written by a release
# without phases.
Phase = Literal["waiting", "running"]
# A table on one of its Lance branches, by table key; None is the table's main branch.
TableBranch = tuple[str, str | None]


@dataclass(frozen=True)
class TablePin:
    """One table that the operation changes. `transaction` is the uuid of its staged change, once there is one."""

    table_key: str
    table_path: str
    expected_version: int
    post_commit_pin: int
    confirmed_version: int | None = None
    table_branch: str | None = None
    transaction: str | None = None

    @property
    def table_ref(self) -> TableBranch:
        """The unit of mutual exclusion between operations: a table on one of its branches."""
        return self.table_key, self.table_branch

    def compaction_uuid(self, operation_id: str) -> str:
        """The uuid, derived from the operation, of the transaction that may follow the change to compact the table."""
        return str(uuid5(NAMESPACE_OID, f"tidy {operation_id} {self.table_key} {self.table_branch or ''}"))


@dataclass(frozen=True)
class AddedTable:
    """A table that the operation creates. Its path is relative to the root.

    `version` and `row_count` are those it will have once `transaction` is committed.
    """

    table_key: str
    table_path: str
    table_branch: str | None = None
    version: int = 1
    row_count: int = 0
    transaction: str | None = None


@dataclass(frozen=True)
class DroppedTable:
    """A table that the operation drops."""

    table_key: str
    tombstone_version: int


@dataclass(frozen=True)
class FastForwardedTable:
    """A table that the operation sets to a version that exists already; nothing is written to it before the publish.

    `expected_version` is the branch's version of it before; 0 when the table is new to the branch.
    """

    table_key: str
    expected_version: int
    version: int
    row_count: int
    table_branch: str | None = None


@dataclass(frozen=True)
class PlannedCommit:
    """The graph commit that the operation is to become: a roll-forward publishes it under the same id."""

    commit_id: str
    created_at: int
    merged_parent: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True)
class PlannedSchema:
    """The schema change that the operation makes on its branch: the hashes before and after.

    `branches` follow main; earlier versions of the tables at `purge` are deleted with the change. `confirmed` once
    every table is committed and the new schema files are staged: only then may others finish the operation.
    """

    before: str
    after: str
    branches: tuple[str, ...] = ()
    purge: tuple[str, ...] = ()
    confirmed: bool = False


@dataclass(frozen=True)
class Sidecar:
    """One unfinished operation. `branch` is None for main; `actor` is None when no actor was given."""

    operation_id: str
    started_at: int
    writer_kind: WriterKind
    branch: str | None = None
    actor: str | None = None
    tables: tuple[TablePin, ...] = ()
    merge_source_commit_id: str | None = None
    added: tuple[AddedTable, ...] = ()
    dropped: tuple[DroppedTable, ...] = ()
    schema_version: int = SCHEMA_VERSION
    owner: Owner | None = None
    # By the owner's wall clock, for people and for earlier releases; 0 when the owner has released the operation.
    expires_at: int | None = None
    # How long the owner may go without renewing. Each renewal is numbered, so that it changes the object.
    lease_seconds: float = DEFAULT_SECONDS
    renewals: int = 0
    phase: Phase | None = None
    # Its owner has aborted it: it must be rolled back, even if it could be rolled forward.
    aborted: bool = False
    # Former owners that may still be alive: a late write of theirs must run into a fence.
    former: tuple[Owner, ...] = ()
    commit: PlannedCommit | None = None
    # Tables that the operation was computed from and does not change.
    reads: tuple[str, ...] = ()
    # Distinguishes the branch from an earlier or later one of the same name; None for main.
    incarnation: str | None = None
    schema: PlannedSchema | None = None
    fast_forwarded: tuple[FastForwardedTable, ...] = ()
    # Fields of a later release, beside ours and inside our object, preserved when the sidecar is rewritten.
    unknown: dict[str, Any] = field(default_factory=dict, compare=False)
    unknown_own: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def path(self) -> str:
        """The path of the object, relative to the root."""
        return f"{PREFIX}/{self.operation_id}.json"

    @property
    def table_refs(self) -> frozenset[TableBranch]:
        """The tables that it changes, each with its branch."""
        return frozenset(pin.table_ref for pin in self.tables) | {
            (each.table_key, self.branch) for each in self.fast_forwarded
        }

    @property
    def read_table_refs(self) -> frozenset[TableBranch]:
        """The tables that it was computed from and does not change; no other operation may change them meanwhile."""
        return frozenset((table_key, self.branch) for table_key in self.reads)

    def covers(self, changed: Set[TableBranch], read: Set[TableBranch]) -> bool:
        """Whether other operations wait for this one before they change what it changes, or was computed from."""
        return changed <= self.table_refs and read <= self.table_refs | self.read_table_refs

    @property
    def changes_schema(self) -> bool:
        """Whether it changes the schema of its branch: then no other operation may have effects at the same time."""
        return self.writer_kind == "SchemaApply" or self.schema is not None

    @property
    def is_planned(self) -> bool:
        """Whether a writer of this program wrote it: then every transaction is recorded here before it is committed."""
        return self.commit is not None

    def is_ownerless(self, world: World) -> bool:
        """Whether its owner certainly does nothing more for it: the owner is dead, or has released the operation."""
        return self.owner is not None and (self.expires_at == 0 or self.owner.is_dead(world))

    def taken_over(self, owner: Owner, world: World) -> Sidecar:
        """The same, taken over from an owner whose lease has expired.

        A waiting owner is not added to the former owners: it has no effects, and must rewrite its sidecar before it may
        have any, which then fails.
        """
        may_be_alive = self.phase != "waiting" and not self.is_ownerless(world)
        former = (*self.former, self.owner) if may_be_alive and self.owner is not None else self.former
        return replace(self, former=former).leased(owner, world)

    def taken_from_here(self) -> OperationTakenOver:
        """The error to raise in the process whose operation was taken over."""
        commit_id = self.commit.commit_id if self.commit is not None else None
        return OperationTakenOver(self.operation_id, branch=self.branch, commit_id=commit_id)

    def has_live_former_owner(self, world: World) -> bool:
        """Whether a former owner may still be alive and resume in the middle of the operation."""
        return any(not each.is_dead(world) for each in self.former)

    def leased(self, owner: Owner, world: World) -> Sidecar:
        """The same, leased by `owner` for another term."""
        seconds = lease_seconds(world)
        expires_at = world.now_us() + int(seconds * 1_000_000)
        return replace(self, owner=owner, expires_at=expires_at, lease_seconds=seconds, renewals=self.renewals + 1)

    def derived_commit_id(self, what: str) -> str:
        """A commit id derived from the operation's id: whoever repeats this step of the operation finds its commit."""
        digest = sha256(f"{what} {self.operation_id}".encode()).digest()
        return encode_ulid(self.started_at // 1_000, int.from_bytes(digest[:10]))

    def added_versions(self) -> list[NewVersion]:
        """The tables that the operation adds to the graph, as they are published."""
        return [
            NewVersion(each.table_key, each.version, each.row_count, each.table_branch, each.table_path)
            for each in self.added
        ]

    def fast_forwarded_versions(self) -> list[NewVersion]:
        """The tables that the operation fast-forwards, as they are published."""
        return [
            NewVersion(each.table_key, each.version, each.row_count, each.table_branch, table_path(each.table_key))
            for each in self.fast_forwarded
        ]

    def schema_change(self) -> SchemaChange | None:
        """The schema change that the operation's commit records."""
        planned = self.schema
        return None if planned is None else SchemaChange(planned.before, planned.after)
