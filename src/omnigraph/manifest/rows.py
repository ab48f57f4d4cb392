"""The rows of `__manifest`: a value class for each object type, and its encoding in Arrow.

Internal schema v4. Column types are strict: other readers accept Utf8 and UInt64 only.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.kernels.report import Report
from omnigraph.manifest.layout import MAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
KEY = "object_id"
PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}

SCHEMA = pa.schema(
    [
        pa.field(KEY, pa.utf8(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("object_type", pa.utf8(), nullable=False),
        pa.field("location", pa.utf8()),
        pa.field("metadata", pa.utf8()),
        pa.field("base_objects", pa.list_(pa.field("item", pa.utf8()))),
        pa.field("table_key", pa.utf8(), nullable=False),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.utf8()),
        pa.field("row_count", pa.uint64()),
    ]
)


def utc_datetime(microseconds: int) -> dt.datetime:
    """Microseconds since 1970 as an aware datetime in UTC."""
    return _EPOCH + dt.timedelta(microseconds=microseconds)


@dataclass(frozen=True)
class Registration:
    """Registers a table at a location below the root."""

    table_key: str
    location: str

    @property
    def object_id(self) -> str:
        """The primary key of the row."""
        return self.table_key


@dataclass(frozen=True)
class TableVersion:
    """A published version of a table. `branch` is the table's own branch; None is its main branch."""

    table_key: str
    version: int
    branch: str | None
    row_count: int
    manifest_path: str

    @property
    def object_id(self) -> str:
        """The primary key of the row."""
        return f"{self.table_key}${self.version:020d}"


@dataclass(frozen=True)
class Tombstone:
    """Marks a table as dropped as of this version."""

    table_key: str
    version: int

    @property
    def object_id(self) -> str:
        """The primary key of the row."""
        return f"{self.table_key}$tombstone${self.version:020d}"


@dataclass(frozen=True)
class SchemaChange:
    """The hashes of the schemas before and after a commit that changed the schema."""

    before: str
    after: str


@dataclass(frozen=True, repr=False)
class GraphCommit(Report):
    """One commit of the graph. `branch` is where it was made; `created_us` is in microseconds since 1970."""

    id: str
    branch: str
    manifest_version: int
    created_us: int
    parent: str | None = None
    merged_parent: str | None = None
    actor: str | None = None
    # An extension of ours: the caller's own name for the operation, so that repeating it finds the first commit.
    idempotency_key: str | None = None
    # Another one: which schema the rows of this commit, and of those after it, are in.
    schema: SchemaChange | None = None

    @property
    def created_at(self) -> dt.datetime:
        """When it was made, in UTC."""
        return utc_datetime(self.created_us)

    @property
    def object_id(self) -> str:
        """Its key in the manifest."""
        return self.id

    def _summary(self) -> str:
        by = "" if self.actor is None else f" by {self.actor}"
        return f"{self.id} on {self.branch}{by}, {self.created_at:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True)
class GraphHead:
    """The newest commit of a branch. Every publish replaces this row, so any two publishes conflict on it."""

    branch: str
    commit_id: str
    parent: str | None = None

    @property
    def object_id(self) -> str:
        """The primary key of the row."""
        return head_id(self.branch)


Row = Registration | TableVersion | Tombstone | GraphCommit | GraphHead


def head_id(branch: str) -> str:
    """The primary key of a branch's head row."""
    return f"graph_head:{branch}"


def encode(rows: Iterable[Row]) -> pa.Table:
    """The rows as an Arrow table, in the order given."""
    return pa.Table.from_pylist([_columns(row) for row in rows], schema=SCHEMA)


def _columns(row: Row) -> dict[str, object]:
    match row:
        case Registration(table_key, location):
            rest: dict[str, object] = {"object_type": "table", "location": location, "table_key": table_key}
        case TableVersion(table_key, version, branch, row_count, manifest_path):
            metadata = {"manifest_path": manifest_path, "manifest_size": None, "e_tag": None, "naming_scheme": "V2"}
            rest = {
                "object_type": "table_version",
                "metadata": _json(metadata),
                "table_key": table_key,
                "table_version": version,
                "table_branch": branch,
                "row_count": row_count,
            }
        case Tombstone(table_key, version):
            rest = {"object_type": "table_tombstone", "table_key": table_key, "table_version": version}
        case GraphCommit():
            rest = {
                "object_type": "graph_commit",
                "metadata": _json(_commit_metadata(row)),
                "table_key": "",
                "table_version": row.manifest_version,
                "table_branch": None if row.branch == MAIN else row.branch,
            }
        case GraphHead(_, commit_id, parent):
            head: dict[str, object] = {"head_commit_id": commit_id}
            if parent is not None:
                head["parent_commit_id"] = parent
            rest = {"object_type": "graph_head", "metadata": _json(head), "table_key": ""}
    return {KEY: row.object_id, **rest}


def decode_commit(object_id: str, metadata: str, version: int, branch: str | None) -> GraphCommit:
    """Decode a `graph_commit` row."""
    fields = json.loads(metadata)
    return GraphCommit(
        id=object_id,
        branch=branch or MAIN,
        manifest_version=version,
        created_us=int(fields["created_at"]),
        parent=fields.get("parent_commit_id"),
        merged_parent=fields.get("merged_parent_commit_id"),
        actor=fields.get("actor_id"),
        idempotency_key=fields.get("idempotency_key"),
        schema=_schema_change(fields.get("schema")),
    )


def decode_head(object_id: str, metadata: str) -> GraphHead:
    """Decode a `graph_head` row."""
    fields = json.loads(metadata)
    return GraphHead(object_id.partition(":")[2], str(fields["head_commit_id"]), fields.get("parent_commit_id"))


def _commit_metadata(commit: GraphCommit) -> dict[str, object]:
    optional = {
        "parent_commit_id": commit.parent,
        "merged_parent_commit_id": commit.merged_parent,
        "actor_id": commit.actor,
        "idempotency_key": commit.idempotency_key,
        "schema": vars(commit.schema) if commit.schema is not None else None,
    }
    return {**{key: value for key, value in optional.items() if value is not None}, "created_at": commit.created_us}


def _schema_change(fields: Mapping[str, str] | None) -> SchemaChange | None:
    return None if fields is None else SchemaChange(before=str(fields["before"]), after=str(fields["after"]))


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
