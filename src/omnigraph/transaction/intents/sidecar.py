"""The sidecar is the write-ahead record of an operation: which tables it is about to change, and from which versions.

It is the object `__recovery/<operation id>.json`, in the format of releases 0.7.1 to 0.8.1 with fields of our own
beside theirs: the owner's lease, the transaction planned for each table, the tables that the operation was computed
from, and the commit that it is to become. A sidecar is also a queue entry: while it exists, nobody else changes the
same tables.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args
from uuid import NAMESPACE_OID, uuid5

from omnigraph.errors import OperationTakenOver, RecoveryRequired
from omnigraph.storage.objects.lease import DEFAULT_SECONDS, Owner, lease_seconds

if TYPE_CHECKING:
    from omnigraph.world import World

PREFIX = "__recovery"
SCHEMA_VERSION = 2

WriterKind = Literal["Mutation", "Load", "SchemaApply", "BranchMerge", "EnsureIndices", "Optimize"]
# `waiting`: behind another queue entry, without effects. `running`: effects may exist. None: written by a release
# without phases.
Phase = Literal["waiting", "running"]


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
    def line(self) -> tuple[str, str | None]:
        """The unit of mutual exclusion between operations: a table on one of its branches."""
        return self.table_key, self.table_branch

    def tidying(self, operation_id: str) -> str:
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
    pointed: tuple[FastForwardedTable, ...] = ()
    # Fields of a later release, beside ours and inside our object, preserved when the sidecar is rewritten.
    unknown: dict[str, Any] = field(default_factory=dict, compare=False)
    unknown_own: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def path(self) -> str:
        """The path of the object, relative to the root."""
        return f"{PREFIX}/{self.operation_id}.json"

    @property
    def lines(self) -> frozenset[tuple[str, str | None]]:
        """The tables that it changes, each with its branch."""
        return frozenset(pin.line for pin in self.tables) | {(each.table_key, self.branch) for each in self.pointed}

    @property
    def read_lines(self) -> frozenset[tuple[str, str | None]]:
        """The tables that it was computed from and does not change; no other operation may change them meanwhile."""
        return frozenset((table_key, self.branch) for table_key in self.reads)

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
        return self.owner is not None and (self.expires_at == 0 or self.owner.is_gone(world))

    def taken_over(self, owner: Owner, world: World) -> Sidecar:
        """The same, taken over from an owner whose lease has expired.

        A waiting owner is not added to the former owners: it has no effects, and must rewrite its sidecar before it may
        have any, which then fails.
        """
        suspect = self.phase != "waiting" and not self.is_ownerless(world)
        former = (*self.former, self.owner) if suspect and self.owner is not None else self.former
        return replace(self, former=former).leased(owner, world)

    def taken_from_here(self) -> OperationTakenOver:
        """The error to raise in the process whose operation was taken over."""
        commit_id = self.commit.commit_id if self.commit is not None else None
        return OperationTakenOver(self.operation_id, branch=self.branch, commit_id=commit_id)

    def has_suspects(self, world: World) -> bool:
        """Whether a former owner may still be alive and resume in the middle of the operation."""
        return any(not each.is_gone(world) for each in self.former)

    def leased(self, owner: Owner, world: World) -> Sidecar:
        """The same, leased by `owner` for another term."""
        seconds = lease_seconds(world)
        expires_at = world.now_us() + int(seconds * 1_000_000)
        return replace(self, owner=owner, expires_at=expires_at, lease_seconds=seconds, renewals=self.renewals + 1)

    def encode(self) -> bytes:
        """The content of the object."""
        return json.dumps(self._fields(), indent=2, ensure_ascii=False).encode()

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "schema_version": self.schema_version,
            "operation_id": self.operation_id,
            "started_at": str(self.started_at),
            "branch": self.branch,
            "actor_id": self.actor,
            "writer_kind": self.writer_kind,
            "tables": [_pin_fields(pin) for pin in self.tables],
        }
        if self.merge_source_commit_id is not None:
            fields["merge_source_commit_id"] = self.merge_source_commit_id
        if self.added:
            fields["additional_registrations"] = [_registration(each) for each in self.added]
        if self.dropped:
            fields["tombstones"] = [vars(each) for each in self.dropped]
        return {**fields, **self.unknown, **_own_fields(self)}


def decode(data: bytes, *, path: str) -> Sidecar:
    """Parse a sidecar. One that is unreadable, or was written by a later release, raises and stays on the store."""
    operation_id = path.rpartition("/")[2].removesuffix(".json")
    try:
        fields = json.loads(data)
        version = int(fields["schema_version"])
        if version > SCHEMA_VERSION:
            raise RecoveryRequired(
                f"{path} was written by a later release (sidecar version {version}). Upgrade omnigraph, then open the "
                "graph read-write; read-only opens still work.",
                operation_id=operation_id,
            )
        sidecar = _from_fields(fields)
        if sidecar.operation_id != operation_id:
            raise ValueError(f"it is about operation {sidecar.operation_id}")
        return sidecar
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecoveryRequired(
            f"{path} cannot be read ({error}). It is kept: look at it, and remove it once you know what it was.",
            operation_id=operation_id,
        ) from error


_OWN = "omnigraph_python"
_KNOWN = frozenset(
    {
        "schema_version",
        "operation_id",
        "started_at",
        "branch",
        "actor_id",
        "writer_kind",
        "tables",
        "merge_source_commit_id",
        "additional_registrations",
        "tombstones",
        _OWN,
    }
)
_KNOWN_OWN = frozenset(
    {
        "lease",
        "phase",
        "transactions",
        "aborted",
        "former",
        "commit",
        "reads",
        "incarnation",
        "added",
        "schema",
        "pointed",
    }
)


def _own_fields(sidecar: Sidecar) -> dict[str, Any]:
    if sidecar.owner is None:
        return {_OWN: sidecar.unknown_own} if sidecar.unknown_own else {}
    own: dict[str, Any] = {
        **sidecar.unknown_own,
        "lease": {
            "owner": sidecar.owner.to_json(),
            "expires_at": sidecar.expires_at,
            "seconds": sidecar.lease_seconds,
            "renewals": sidecar.renewals,
        },
        "phase": sidecar.phase,
        "transactions": {pin.table_key: pin.transaction for pin in sidecar.tables if pin.transaction is not None},
    }
    if sidecar.aborted:
        own["aborted"] = True
    if sidecar.former:
        own["former"] = [each.to_json() for each in sidecar.former]
    if sidecar.commit is not None:
        own["commit"] = _without_none(vars(sidecar.commit))
    if sidecar.reads:
        own["reads"] = list(sidecar.reads)
    if sidecar.incarnation is not None:
        own["incarnation"] = sidecar.incarnation
    if sidecar.added:
        own["added"] = {each.table_key: _planned_table(each) for each in sidecar.added}
    if sidecar.schema is not None:
        own["schema"] = vars(sidecar.schema)
    if sidecar.pointed:
        own["pointed"] = [_without_none(vars(each)) for each in sidecar.pointed]
    return {_OWN: own}


def _registration(added: AddedTable) -> dict[str, Any]:
    """The fields that other releases write for an added table."""
    fields = {"table_key": added.table_key, "table_path": added.table_path, "table_branch": added.table_branch}
    return _without_none(fields)


def _planned_table(added: AddedTable) -> dict[str, Any]:
    return {"version": added.version, "row_count": added.row_count, "transaction": added.transaction}


def _pin_fields(pin: TablePin) -> dict[str, Any]:
    return _without_none({key: value for key, value in vars(pin).items() if key != "transaction"})


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _from_fields(fields: dict[str, Any]) -> Sidecar:
    own = fields.get(_OWN, {})
    lease = own.get("lease")
    transactions = own.get("transactions", {})
    return Sidecar(
        operation_id=str(fields["operation_id"]),
        started_at=int(fields["started_at"]),
        writer_kind=_writer_kind(fields["writer_kind"]),
        branch=fields.get("branch"),
        actor=fields.get("actor_id"),
        tables=tuple(_pin(each, transactions) for each in fields["tables"]),
        merge_source_commit_id=fields.get("merge_source_commit_id"),
        added=tuple(
            AddedTable(
                each["table_key"],
                each["table_path"],
                each.get("table_branch"),
                **own.get("added", {}).get(each["table_key"], {}),
            )
            for each in fields.get("additional_registrations", [])
        ),
        dropped=tuple(
            DroppedTable(each["table_key"], int(each["tombstone_version"])) for each in fields.get("tombstones", [])
        ),
        schema_version=int(fields["schema_version"]),
        owner=Owner.from_json(lease["owner"]) if lease is not None else None,
        expires_at=int(lease["expires_at"]) if lease is not None else None,
        lease_seconds=float(lease.get("seconds", DEFAULT_SECONDS)) if lease is not None else DEFAULT_SECONDS,
        renewals=int(lease.get("renewals", 0)) if lease is not None else 0,
        phase=own.get("phase"),
        aborted=bool(own.get("aborted", False)),
        former=tuple(Owner.from_json(each) for each in own.get("former", ())),
        commit=_planned(own["commit"]) if "commit" in own else None,
        reads=tuple(own.get("reads", ())),
        incarnation=own.get("incarnation"),
        schema=_planned_schema(own["schema"]) if "schema" in own else None,
        pointed=tuple(FastForwardedTable(**each) for each in own.get("pointed", ())),
        unknown={key: value for key, value in fields.items() if key not in _KNOWN},
        unknown_own={key: value for key, value in own.items() if key not in _KNOWN_OWN},
    )


def _writer_kind(name: str) -> WriterKind:
    if name not in get_args(WriterKind):
        raise ValueError(f"no writer is called {name!r}")
    return name  # type: ignore[return-value]


def _planned(fields: dict[str, Any]) -> PlannedCommit:
    return PlannedCommit(
        commit_id=str(fields["commit_id"]),
        created_at=int(fields["created_at"]),
        merged_parent=fields.get("merged_parent"),
        idempotency_key=fields.get("idempotency_key"),
    )


def _planned_schema(fields: dict[str, Any]) -> PlannedSchema:
    return PlannedSchema(
        before=str(fields["before"]),
        after=str(fields["after"]),
        branches=tuple(fields["branches"]),
        purge=tuple(fields["purge"]),
        confirmed=bool(fields["confirmed"]),
    )


def _pin(fields: dict[str, Any], transactions: dict[str, str]) -> TablePin:
    return TablePin(
        table_key=str(fields["table_key"]),
        table_path=str(fields["table_path"]),
        expected_version=int(fields["expected_version"]),
        post_commit_pin=int(fields["post_commit_pin"]),
        confirmed_version=fields.get("confirmed_version"),
        table_branch=fields.get("table_branch"),
        transaction=transactions.get(str(fields["table_key"])),
    )
