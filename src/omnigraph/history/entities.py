"""Reads one entity by type and id: at one snapshot, or every version that it had on a branch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.catalog.catalog import resolve_table_key
from omnigraph.errors import VersionReclaimed
from omnigraph.history.delta import same_value
from omnigraph.kernels.arrays import ID
from omnigraph.kernels.report import Report
from omnigraph.kernels.row_address import UPDATED_AT
from omnigraph.query.result.result import python_rows
from omnigraph.storage.filters.model import equal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.storage.tables.table import TableStore

Entity = dict[str, Any]
_ENDPOINT_NAMES = {"src": "from", "dst": "to"}


@dataclass(frozen=True, repr=False)
class EntityVersion(Report):
    """The state of an entity from a commit on; `entity` is None when the commit removed it."""

    commit: GraphCommit
    entity: Entity | None

    def _summary(self) -> str:
        return f"{'removed' if self.entity is None else 'written'} in commit {self.commit.id}"


@dataclass(frozen=True, repr=False)
class EntityHistory(Report):
    """All versions of an entity, the newest first. Not `complete` when a cleanup has removed older ones."""

    versions: tuple[EntityVersion, ...]
    complete: bool

    def __iter__(self) -> Iterator[EntityVersion]:
        return iter(self.versions)

    def __len__(self) -> int:
        return len(self.versions)

    def _summary(self) -> str:
        return f"{len(self):,} versions" + ("" if self.complete else ", the older ones were cleaned up")


def entity_at(tables: TableStore, snapshot: Snapshot, type_name: str, row_id: str) -> Entity | None:
    """An entity by its type and id, with `from` and `to` if it is an edge; None when it does not exist."""
    entry = snapshot.tables[resolve_table_key(type_name, snapshot.tables)]
    found = _read_entity(tables, entry, row_id)
    return None if found is None else found[0]


def history_of(manifest: GraphManifest, until: Snapshot, type_name: str, row_id: str) -> EntityHistory:
    """Every state that an entity had on a branch until a snapshot; a version of several commits is read once."""
    tables, branch_manifest = manifest.stores.tables, manifest.fresh_branch(until.branch)
    key = resolve_table_key(type_name, branch_manifest.locations)
    states = branch_manifest.table_history(key, until.manifest_version)
    found: list[EntityVersion] = []
    at = 0
    try:
        while at < len(states):
            entity, since = _read_entity(tables, states[at][1], row_id) or (None, states[at][1].version)
            while at + 1 < len(states) and states[at + 1][1].version >= since:
                at += 1
            found.append(EntityVersion(states[at][0], entity))
            at += 1
    except VersionReclaimed:
        return EntityHistory(tuple(_distinct(found)), complete=False)
    return EntityHistory(tuple(_distinct(found)), complete=True)


def _read_entity(tables: TableStore, entry: TableEntry, row_id: str) -> tuple[Entity, int] | None:
    """The entity, and the table version at which it was last updated."""
    table = tables.open(entry.pin)
    rows = table.read([*table.schema.names, UPDATED_AT], equal(ID, row_id))
    if not rows.num_rows:
        return None
    row = python_rows(rows)[0]
    since = row.pop(UPDATED_AT)
    return {_ENDPOINT_NAMES.get(name, name): value for name, value in row.items()}, since


def _distinct(versions: list[EntityVersion]) -> Iterator[EntityVersion]:
    """Leave out rewrites that changed nothing, and the commits before the entity existed."""
    for at, each in enumerate(versions):
        older = versions[at + 1].entity if at + 1 < len(versions) else None
        if not _same(each.entity, older):
            yield each


def _same(one: Entity | None, other: Entity | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.keys() == other.keys() and all(same_value(value, other[name]) for name, value in one.items())
