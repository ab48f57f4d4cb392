"""The layout of a graph: the names of files and directories below its root, and the internal schema version.

The internal schema version is a stamp in the schema metadata of `__manifest`. It names the shape of the manifest and
decides whether this release can open the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import CorruptStamp, FormatTooNew, FormatTooOld, InvalidInput, ManifestCorrupt

if TYPE_CHECKING:
    from omnigraph.storage.tables.table import Table

MANIFEST = "__manifest"
NODES = "nodes"
EDGES = "edges"

SCHEMA_SOURCE = "_schema.pg"
SCHEMA_IR = "_schema.ir.json"
SCHEMA_STATE = "__schema_state.json"
SCHEMA_FILES = (SCHEMA_SOURCE, SCHEMA_IR, SCHEMA_STATE)

INIT_CLAIM = "__init_claim.json"
BRANCH_CLAIM = "__branch_claim.json"
RECLAIMED = "__reclaimed.json"

LEGACY_COMMITS = "_graph_commits.lance"
LEGACY_ACTORS = "_graph_commit_actors.lance"

MAIN = "main"

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_U64 = (1 << 64) - 1


def table_path(table_key: str) -> str:
    """The directory of a type's table: `node:Person` is stored at `nodes/<hash of "Person">`."""
    kind, _, name = table_key.partition(":")
    if kind not in ("node", "edge") or not name:
        raise InvalidInput(f"{table_key!r} is not a table key; expected node:<Type> or edge:<Type>")
    return f"{NODES if kind == 'node' else EDGES}/{fnv1a64(name):016x}"


def branch_tree(path: str, branch: str | None) -> str:
    """The directory that holds a branch of a table."""
    return path if branch is None else f"{path}/tree/{branch}"


def lance_manifest_file(path: str, branch: str | None, version: int) -> str:
    """The Lance manifest file of one table version. Lance counts down, so that the newest sorts first."""
    return f"{branch_tree(path, branch)}/_versions/{_U64 - version:020d}.manifest"


def detached_manifest_file(path: str, branch: str | None, version: int) -> str:
    """The Lance manifest file of a detached version, which is in no history."""
    return f"{branch_tree(path, branch)}/_versions/d{version}.manifest"


def branch_reference_file(path: str, branch: str) -> str:
    """The reference file that makes a directory a branch."""
    return f"{path}/_refs/branches/{branch.replace('/', '%2F')}.json"


def physical_branch(branch: str) -> str | None:
    """Lance's name of a graph branch: None for main."""
    return None if branch == MAIN else branch


def fnv1a64(text: str) -> int:
    """The 64-bit FNV-1a hash of the UTF-8 bytes."""
    value = _FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _FNV_PRIME) & _U64
    return value


STAMP_KEY = "omnigraph:internal_schema_version"
CURRENT = 4
# The oldest stamp that is still migrated. Raising it means deleting the steps below it: `upgrade.py` checks that.
MINIMUM = 1
NEWER_COLUMN = "stable_table_id"


def read_stamp(table: Table) -> int:
    """The stamp of a manifest; 1 if it has none. No request: the schema metadata came with the open."""
    value = table.schema_metadata.get(STAMP_KEY)
    if value is None:
        return 1
    if not (value.isascii() and value.isdigit()):
        raise CorruptStamp(table.uri, value)
    return int(value)


def check_stamp(table: Table) -> int:
    """The stamp; raises if this release cannot open the manifest."""
    stamp = read_stamp(table)
    if stamp < CURRENT and NEWER_COLUMN in table.schema.names:
        raise ManifestCorrupt(
            table.uri,
            f"{table.uri} is stamped v{stamp} or not at all, and has the column {NEWER_COLUMN!r} of a later "
            "version: its initialisation was torn, or it was damaged. Restore it from a copy.",
        )
    if stamp > CURRENT:
        raise FormatTooNew(table.uri, stamp=stamp, supported=CURRENT)
    if stamp < MINIMUM:
        raise FormatTooOld(table.uri, stamp=stamp, minimum=MINIMUM)
    return stamp
