"""The audit of recoveries: one row per recovered operation in `_graph_commit_recoveries.lance`."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from omnigraph.errors import CommitConflict, Contention, NotFound, ObjectExists
from omnigraph.kernels.report import Report
from omnigraph.manifest.rows import utc_datetime
from omnigraph.storage.filters.model import equal
from omnigraph.storage.tables.new_tables import create_table
from omnigraph.storage.tables.staging import commit_staged, stage_append

if TYPE_CHECKING:
    import datetime as dt

    from omnigraph.manifest.layout import Storage
    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.intents.sidecar import Sidecar

PATH = "_graph_commit_recoveries.lance"
ATTEMPTS = 8

RecoveryKind = Literal["RolledForward", "RolledBack", "OrphanedBranchDiscarded"]

_TEXT = pa.utf8()
SCHEMA = (
    pa.schema([])
    .append(pa.field("graph_commit_id", _TEXT, nullable=False))
    .append(pa.field("recovery_kind", _TEXT, nullable=False))
    .append(pa.field("recovery_for_actor", _TEXT))
    .append(pa.field("operation_id", _TEXT, nullable=False))
    .append(pa.field("sidecar_writer_kind", _TEXT, nullable=False))
    .append(pa.field("per_table_outcomes_json", _TEXT, nullable=False))
    .append(pa.field("created_at", pa.timestamp("us"), nullable=False))
)


@dataclass(frozen=True)
class TableOutcome:
    """The versions of a table before and after the recovery."""

    table_key: str
    from_version: int
    to_version: int


@dataclass(frozen=True, repr=False)
class Recovery(Report):
    """One line of the audit."""

    commit_id: str
    kind: RecoveryKind
    for_actor: str | None
    operation_id: str
    writer_kind: str
    outcomes: tuple[TableOutcome, ...]
    created_us: int

    @property
    def created_at(self) -> dt.datetime:
        """When it was recovered, in UTC."""
        return utc_datetime(self.created_us)

    def _summary(self) -> str:
        return (
            f"{self.kind} {self.writer_kind} {self.operation_id}: {len(self.outcomes)} tables, commit {self.commit_id}"
        )


def record(stores: Storage, recovery: Recovery) -> None:
    """Write the audit row, once per operation: a repeated recovery finds it there."""
    for _ in range(ATTEMPTS):
        table = _open_or_create(stores)
        if table.count_rows(equal("operation_id", recovery.operation_id)):
            return
        try:
            commit_staged(stage_append(table, _rows(recovery)))
        except CommitConflict:
            continue
        return
    raise Contention("recording a recovery", attempts=ATTEMPTS)


def recoveries(stores: Storage) -> list[Recovery]:
    """The whole audit, oldest row first; empty if nothing was ever recovered."""
    try:
        table = stores.tables.open_newest(PATH)
    except NotFound:
        return []
    rows = table.read()
    at = rows.schema.get_field_index("created_at")
    rows = rows.set_column(at, "created_at", rows.column(at).cast(pa.int64()))
    return sorted((_recovery(row) for row in rows.to_pylist()), key=lambda each: each.created_us)


def recovery_of(
    sidecar: Sidecar, kind: RecoveryKind, *, commit_id: str, outcomes: tuple[TableOutcome, ...], created_at: int
) -> Recovery:
    """The audit row for a recovered sidecar."""
    return Recovery(commit_id, kind, sidecar.actor, sidecar.operation_id, sidecar.writer_kind, outcomes, created_at)


def _open_or_create(stores: Storage) -> Table:
    try:
        return stores.tables.open_newest(PATH)
    except NotFound:
        pass
    with suppress(ObjectExists):  # another process created it first
        create_table(stores.tables, PATH, SCHEMA)
    return stores.tables.open_newest(PATH)


def _rows(recovery: Recovery) -> pa.Table:
    outcomes = [vars(each) for each in recovery.outcomes]
    row = {
        "graph_commit_id": recovery.commit_id,
        "recovery_kind": recovery.kind,
        "recovery_for_actor": recovery.for_actor,
        "operation_id": recovery.operation_id,
        "sidecar_writer_kind": recovery.writer_kind,
        "per_table_outcomes_json": json.dumps(outcomes, separators=(",", ":")),
    }
    columns = {name: pa.array([value], SCHEMA.field(name).type) for name, value in row.items()}
    columns["created_at"] = pa.array([recovery.created_us], pa.int64()).cast(pa.timestamp("us"))
    return pa.table(columns, schema=SCHEMA)


def _recovery(row: dict[str, Any]) -> Recovery:
    return Recovery(
        commit_id=row["graph_commit_id"],
        kind=row["recovery_kind"],
        for_actor=row["recovery_for_actor"],
        operation_id=row["operation_id"],
        writer_kind=row["sidecar_writer_kind"],
        outcomes=tuple(TableOutcome(**each) for each in json.loads(row["per_table_outcomes_json"])),
        created_us=row["created_at"],
    )
