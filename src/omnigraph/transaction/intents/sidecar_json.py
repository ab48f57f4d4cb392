"""Encodes sidecars as JSON in the format of releases 0.7.1 to 0.8.1, with one object of our own beside their fields.

Fields that are not known survive a rewrite: those of a later release beside ours, and those inside our object.
"""

from __future__ import annotations

import json
import logging
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from omnigraph.errors import InvalidInput, RecoveryRequired
from omnigraph.manifest.layout import table_path
from omnigraph.storage.objects.lease import DEFAULT_SECONDS, Owner
from omnigraph.transaction.intents.sidecar import (
    SCHEMA_VERSION,
    AddedTable,
    DroppedTable,
    FastForwardedTable,
    PlannedCommit,
    PlannedSchema,
    Sidecar,
    TablePin,
    WriterKind,
)


def encode(sidecar: Sidecar) -> bytes:
    """The content of the object."""
    return json.dumps(_fields(sidecar), indent=2, ensure_ascii=False).encode()


def _fields(sidecar: Sidecar) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "schema_version": sidecar.schema_version,
        "operation_id": sidecar.operation_id,
        "started_at": str(sidecar.started_at),
        "branch": sidecar.branch,
        "actor_id": sidecar.actor,
        "writer_kind": sidecar.writer_kind,
        "tables": [_pin_fields(pin) for pin in sidecar.tables],
    }
    if sidecar.merge_source_commit_id is not None:
        fields["merge_source_commit_id"] = sidecar.merge_source_commit_id
    if sidecar.added:
        fields["additional_registrations"] = [_registration(each) for each in sidecar.added]
    if sidecar.dropped:
        fields["tombstones"] = [vars(each) for each in sidecar.dropped]
    return {**fields, **sidecar.unknown, **_own_fields(sidecar)}


log = logging.getLogger(__name__)

# What parsing a document of another shape raises, with deep nesting and numbers that are out of range.
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, InvalidInput)


def decode(data: bytes, *, path: str) -> Sidecar:
    """Parse a sidecar. One that is unreadable, or was written by a later release, raises and stays on the store."""
    operation_id = path.rpartition("/")[2].removesuffix(".json")
    fields: Any = None
    try:
        fields = json.loads(data)
        version = int(fields["schema_version"])
        if version > SCHEMA_VERSION:
            raise RecoveryRequired(
                f"{path} was written by a later release (sidecar version {version}). Upgrade omnigraph. Until then "
                "all writers of this graph are refused; reading works.",
                operation_id=operation_id,
            )
        sidecar = _from_fields(fields)
        _check(sidecar, operation_id)
        return sidecar
    except _MALFORMED as error:
        table_keys = _table_keys(fields)
        raise RecoveryRequired(
            f"{path} cannot be read ({type(error).__name__}: {error}). It is kept: look at it, and remove it once you "
            f"know what it was. Until then {_refused_writers(table_keys)}; reading works.",
            operation_id=operation_id,
            table_keys=table_keys,
        ) from error


def _refused_writers(table_keys: tuple[str, ...] | None) -> str:
    if table_keys is None:
        return "all writers of this graph are refused, because the tables that it names cannot be determined"
    return f"writers of {', '.join(table_keys)} and changes of the schema are refused"


def _check(sidecar: Sidecar, operation_id: str) -> None:
    """Raise unless every field has its declared type, every text is valid Unicode and every table key names a table."""
    if sidecar.operation_id != operation_id:
        raise ValueError(f"it is about operation {sidecar.operation_id}")
    mistyped = _mistyped_field(sidecar)
    if mistyped is not None:
        raise TypeError(f"the type of {mistyped}")
    encode(sidecar)
    new = (*(each.table_key for each in sidecar.added), *(each.table_key for each in sidecar.dropped))
    for table_key in (*new, *(key for key, _ in sidecar.table_refs | sidecar.read_table_refs)):
        table_path(table_key)


def _table_keys(fields: Any) -> tuple[str, ...] | None:
    """The tables that a damaged sidecar names; None unless it certainly names them all and leaves the schema alone."""
    try:
        own = fields.get(_OWN, {})
        if _writer_kind(fields["writer_kind"]) == "SchemaApply" or "schema" in own:
            return None
        records = (
            *fields["tables"],
            *fields.get("additional_registrations", ()),
            *fields.get("tombstones", ()),
            *own.get("pointed", ()),
        )
        named = {*(each["table_key"] for each in records), *own.get("reads", ())}
        for table_key in named:
            table_path(table_key)
    except _MALFORMED:
        return None
    return tuple(sorted(named)) or None


def refuse(error: RecoveryRequired) -> None:
    """Raise the error of a sidecar that cannot be read: for operations that concern every table."""
    raise error


def report_unreadable(error: RecoveryRequired) -> None:
    """Log a sidecar that cannot be read: for operations that it does not concern."""
    log.warning("%s", error)


@cache
def _hints(record: Any) -> dict[str, Any]:
    return get_type_hints(record)


def _mistyped_field(record: Any) -> str | None:
    """The first field of a record whose value does not have its declared type."""
    hints = _hints(type(record))  # type: ignore[arg-type]
    names = (each.name for each in dataclass_fields(record))
    return next((name for name in names if not _has_type(getattr(record, name), hints[name])), None)


def _has_type(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_has_type(value, each) for each in arguments)
    if origin is Literal:
        return any(value == each for each in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and all(_has_type(each, arguments[0]) for each in value)
    if is_dataclass(hint):
        return isinstance(value, hint) and _mistyped_field(value) is None  # type: ignore[arg-type]
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, origin or (int | float if hint is float else hint))


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
    if sidecar.fast_forwarded:
        own["pointed"] = [_without_none(vars(each)) for each in sidecar.fast_forwarded]
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
        fast_forwarded=tuple(FastForwardedTable(**each) for each in own.get("pointed", ())),
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
