"""What the writers of this suite do: commit to a real table, then publish it, and begin again when another was first.

This is the least that a safe writer does. The product's own is the commit protocol of `transaction/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from lance import LanceOperation

from manifest.graphs import at, request, version
from omnigraph.errors import CommitConflict, CommitFailed
from omnigraph.manifest.graph_manifest import GraphManifest
from omnigraph.storage.tables.staging import commit_staged, stage_append, stage_restore
from omnigraph.world import REAL

if TYPE_CHECKING:
    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.storage.tables.table import Table

# As long as a living writer may take between its commit and its publish.
GRACE_SECONDS = 1.5


def publish_many(
    uri: str, table_key: str, writer: int, times: int, patience: float
) -> tuple[list[str], dict[str, int]]:
    """Add `times` rows, each by a commit to the table and a publish; the commit ids, and how often which error came."""
    graph = GraphManifest(at(uri), world=REAL)
    published: list[str] = []
    met: dict[str, int] = {}
    deadline = REAL.monotonic() + patience
    while len(published) < times:
        try:
            published.append(_add_row(graph, table_key, f"{writer}-{len(published)}"))
        except CommitFailed as lost:
            met[type(lost).__name__] = met.get(type(lost).__name__, 0) + 1
            assert REAL.monotonic() < deadline, met
            REAL.sleep(REAL.random_bits(8) / 256 * 0.02)
    return published, met


def _add_row(graph: GraphManifest, table_key: str, row_id: str) -> str:
    """One row on top of what a fresh snapshot says."""
    entry = graph.snapshot()[table_key]
    base = _base(graph, entry)
    rows = pa.table({"id": [row_id], "doi": [row_id]}, schema=base.schema)
    landed = commit_staged(stage_append(base, rows))
    if not landed.contiguous:
        _withdraw(graph, entry, landed.table)
        raise CommitConflict("another writer's commit lies below this one")
    what = request(
        version(table_key, landed.version, rows=landed.table.count_rows()),
        expected_versions={table_key: entry.version},
        actor=row_id,
    )
    return graph.publish(what).commit.id


def _base(graph: GraphManifest, entry: TableEntry) -> Table:
    """The table as published, at its newest version. Beyond that lies a living writer's commit, or a dead one's."""
    patience = REAL.monotonic() + GRACE_SECONDS
    while True:
        newest = graph.stores.tables.open_newest(entry.path)
        if _holds(newest, entry.version):
            return newest
        if graph.snapshot()[entry.table_key].version != entry.version:
            raise CommitConflict("another writer has published")
        if REAL.monotonic() > patience:
            return commit_staged(stage_restore(newest, entry.version)).table
        REAL.sleep(0.005)


def _holds(table: Table, published: int) -> bool:
    if table.version == published:
        return True
    operation = table.handle.read_transaction(table.version).operation
    return isinstance(operation, LanceOperation.Restore) and operation.version == published


def _withdraw(graph: GraphManifest, entry: TableEntry, mine: Table) -> None:
    """Take back a commit that landed on top of another's, once that one has published, unless more came on top."""
    patience = REAL.monotonic() + GRACE_SECONDS
    while graph.snapshot()[entry.table_key].version == entry.version:
        if REAL.monotonic() > patience:
            return
        REAL.sleep(0.005)
    if graph.stores.tables.open_newest(entry.path).version == mine.version:
        commit_staged(stage_restore(mine, graph.snapshot()[entry.table_key].version))
