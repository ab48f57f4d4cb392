"""The layout of a graph: the names of files and directories below its root, its stores, the internal schema version.

The internal schema version is the format version of the manifest. It stands in the schema metadata of `__manifest`
and decides whether this release can open the graph.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.catalog.canonical import hash64
from omnigraph.errors import (
    BranchNotFound,
    CorruptStamp,
    FormatTooNew,
    FormatTooOld,
    InvalidInput,
    ManifestCorrupt,
    NotAGraph,
    NotFound,
    ObjectNotFound,
    StoreError,
)
from omnigraph.storage.lance.paths import branch_reference_file
from omnigraph.storage.objects.lease import read_lease_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.storage.objects.store import ObjectStore
    from omnigraph.storage.tables.table import Table, TableStore

MANIFEST = "__manifest"
NODES = "nodes"
EDGES = "edges"

SCHEMA_SOURCE = "_schema.pg"
SCHEMA_IR = "_schema.ir.json"
SCHEMA_STATE = "__schema_state.json"
SCHEMA_FILES = (SCHEMA_SOURCE, SCHEMA_IR, SCHEMA_STATE)

INIT_LEASE = "__init_claim.json"
BRANCH_LEASE = "__branch_claim.json"
RECLAIMED = "__reclaimed.json"

LEGACY_COMMITS = "_graph_commits.lance"
LEGACY_ACTORS = "_graph_commit_actors.lance"

MAIN = "main"


def table_path(table_key: str) -> str:
    """The directory of a type's table: `node:Person` is stored at `nodes/<hash of "Person">`."""
    kind, _, name = table_key.partition(":")
    if kind not in ("node", "edge") or not name:
        raise InvalidInput(f"{table_key!r} is not a table key; expected node:<Type> or edge:<Type>")
    return f"{NODES if kind == 'node' else EDGES}/{hash64(name):016x}"


def physical_branch(branch: str) -> str | None:
    """Lance's name of a graph branch: None for main."""
    return None if branch == MAIN else branch


FORMAT_VERSION_KEY = "omnigraph:internal_schema_version"
CURRENT = 4
# The oldest version that is still migrated. Raising it means deleting the steps below it: `upgrade.py` checks that.
MINIMUM = 1
NEWER_COLUMN = "stable_table_id"


def read_format_version(table: Table) -> int:
    """The format version of a manifest; 1 if it has none. No request: the schema metadata came with the open."""
    value = table.schema_metadata.get(FORMAT_VERSION_KEY)
    if value is None:
        return 1
    if not (value.isascii() and value.isdigit()):
        raise CorruptStamp(table.uri, value)
    return int(value)


def check_format_version(table: Table) -> int:
    """The format version; raises if this release cannot open the manifest."""
    format_version = read_format_version(table)
    if format_version < CURRENT and NEWER_COLUMN in table.schema.names:
        raise ManifestCorrupt(
            table.uri,
            f"{table.uri} is stamped v{format_version} or not at all, and has the column {NEWER_COLUMN!r} of a later "
            "version: its initialisation was torn, or it was damaged. Restore it from a copy.",
        )
    if format_version > CURRENT:
        raise FormatTooNew(table.uri, stamp=format_version, supported=CURRENT)
    if format_version < MINIMUM:
        raise FormatTooOld(table.uri, stamp=format_version, minimum=MINIMUM)
    return format_version


@dataclass(frozen=True)
class Storage:
    """The tables and the control objects of one graph, below one root."""

    tables: TableStore
    objects: ObjectStore

    @property
    def uri(self) -> str:
        """The root URI, for messages."""
        return self.tables.location.uri


def unfinished_branch(stores: Storage) -> str | None:
    """The name of a branch whose creation has not finished, if any: no reader may see it."""
    found = read_lease_record(stores.objects, BRANCH_LEASE)
    return None if found is None else found[0].unfinished


def branch_incarnation(stores: Storage, branch: str) -> str | None:
    """What distinguishes a branch from an earlier one of the same name; None for main, which is never deleted."""
    if branch == MAIN:
        return None
    try:
        reference = json.loads(stores.objects.read(branch_reference_file(MANIFEST, branch)))
    except ObjectNotFound as error:
        raise no_such_branch(branch) from error
    return json.dumps(reference["identifier"], sort_keys=True)


def no_such_branch(branch: str) -> BranchNotFound:
    """The error for a branch that does not exist."""
    return BranchNotFound(branch, f"there is no branch {branch!r}; list the branches to see which exist.")


def open_manifest(stores: Storage, branch: str) -> Table:
    """Open the newest manifest of a branch; the error tells a missing branch, a missing graph and damage apart."""
    try:
        return stores.tables.open_newest(MANIFEST, physical_branch(branch))
    except NotFound as error:
        if branch != MAIN:
            raise no_such_branch(branch) from error
        raise NotAGraph(
            stores.uri, f"there is no graph at {stores.uri}: make one with init, or check the location."
        ) from error
    except StoreError as error:
        if type(error) is not StoreError:
            raise
        raise damaged(stores, error) from error


def damaged(stores: Storage, error: Exception) -> ManifestCorrupt:
    """The error for a manifest that exists and cannot be read."""
    return ManifestCorrupt(
        stores.uri, f"{stores.uri}: {MANIFEST} is there but cannot be read ({error}). Restore it from a copy."
    )


def require_columns(stores: Storage, table: Table, names: Sequence[str]) -> None:
    """Raise `NotAGraph` if the manifest lacks a column of the format."""
    missing = [name for name in names if name not in table.schema.names]
    if missing:
        raise NotAGraph(
            stores.uri,
            f"{stores.uri} has a table {MANIFEST} that is another program's: it has no column {', '.join(missing)}.",
        )
