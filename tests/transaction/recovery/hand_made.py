"""Graphs of three plain tables, and operations on them made by hand, for tests of the commit protocol.

Every table has rows of an id and a number. What a mutation or a load would stage is staged here directly.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa

from omnigraph.manifest.create import NewGraph
from omnigraph.manifest.graph_manifest import GraphManifest, create_manifest
from omnigraph.manifest.layout import MAIN, physical_branch
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.staging import commit_staged, stage_append, stage_overwrite, stage_restore
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.intents.sidecar import PREFIX
from omnigraph.transaction.write_set import TableWrite, WriteSet
from omnigraph.world import REAL, World
from storage.joined_changes import stage_delete_ids, stage_upsert

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.commit.protocol import Receipt
    from omnigraph.transaction.read_view import ReadView

CITY, KNOWS, PERSON = "node:City", "edge:Knows", "node:Person"
TABLES = (KNOWS, CITY, PERSON)
SCHEMA = pa.schema([]).append(pa.field("id", pa.utf8(), nullable=False)).append(pa.field("v", pa.int64()))
FILES = {"_schema.pg": b"node Person { name: String @key }\n", "_schema.ir.json": b"{}", "__schema_state.json": b"{}"}
BLUEPRINT = NewGraph(FILES, dict.fromkeys(TABLES, SCHEMA))

Content = dict[str, dict[str, int]]
_numbers = itertools.count()


def create(uri: str, world: World = REAL) -> GraphManifest:
    """A new graph of three empty tables."""
    return create_manifest(parse_location(uri, REAL), BLUEPRINT, world)


def reopen(uri: str, *, read_only: bool = False, world: World = REAL) -> GraphManifest:
    """The graph with nothing warm; nothing is recovered by this."""
    return GraphManifest(parse_location(uri, REAL), read_only=read_only, world=world)


def values_of(rows: pa.Table) -> dict[str, int]:
    """Rows as a number for each id."""
    return {row["id"]: row["v"] for row in rows.to_pylist()}


def rows_of(values: dict[str, int]) -> pa.Table:
    return pa.table({"id": list(values), "v": list(values.values())}, schema=SCHEMA)


def operation(
    stage: Callable[[Table], Staged], tables: Sequence[str] = (PERSON,), *, reads: Sequence[str] = (), **conditions: Any
) -> Operation:
    """The same change to each of some tables; `reads` are looked at and not changed."""

    def prepare(view: ReadView) -> WriteSet:
        for table_key in reads:
            view.entry(table_key)
        return WriteSet([TableWrite(view.entry(table_key), stage) for table_key in tables])

    return Operation("Mutation", prepare, **{"actor": "act-ada", **conditions})


def insert(row_id: str, tables: Sequence[str] = (PERSON,), *, value: int = 0, **more: Any) -> Operation:
    """Add one row to each of some tables."""
    return operation(lambda table: stage_append(table, rows_of({row_id: value})), tables, **more)


def upsert(row_id: str, value: int, tables: Sequence[str] = (PERSON,), **more: Any) -> Operation:
    """Set one row in each of some tables; not repeatable unless said."""
    stage = lambda table: stage_upsert(table, rows_of({row_id: value}))  # noqa: E731
    return operation(stage, tables, **{"repeatable": False, **more})


def delete(row_id: str, tables: Sequence[str] = (PERSON,), **more: Any) -> Operation:
    """Remove one row from each of some tables."""

    def stage(table: Table) -> Staged:
        staged = stage_delete_ids(table, [row_id])
        assert staged is not None
        return staged

    return operation(stage, tables, **{"repeatable": False, **more})


def overwrite(values: dict[str, int], tables: Sequence[str] = (PERSON,), **more: Any) -> Operation:
    """Replace the whole content of some tables."""
    return operation(lambda table: stage_overwrite(table, rows_of(values)), tables, **more)


def add(graph: GraphManifest, *tables: str, branch: str = MAIN, **more: Any) -> Receipt:
    """Commit one new row to each of some tables."""
    receipt = commit(graph, insert(f"row-{next(_numbers)}", tables or (PERSON,), branch=branch, **more))
    assert receipt is not None
    return receipt


def content(graph: GraphManifest, branch: str = MAIN) -> Content:
    """Everything a reader of the branch sees. Two rows of one id, or a wrong count, fail here."""
    found: Content = {}
    for entry in graph.snapshot(branch):
        rows = graph.stores.tables.open(entry.pin).read()
        values = values_of(rows)
        assert len(values) == rows.num_rows == entry.row_count, f"{entry.table_key} repeats rows or counts them wrongly"
        found[entry.table_key] = values
    return found


def foreign_append(graph: GraphManifest, row_id: str, table_key: str = PERSON, branch: str = MAIN) -> int:
    """Another program commits to a table behind the graph's back; the version it made."""
    entry = graph.snapshot(branch)[table_key]
    uri = graph.stores.tables.uri(entry.path, entry.branch)
    options = graph.stores.tables.location.storage_options
    lance.write_dataset(rows_of({row_id: -1}), uri, mode="append", storage_options=dict(options) if options else None)
    return newest(graph, table_key, branch)


def late_append(graph: GraphManifest, row_id: str, table_key: str = PERSON) -> None:
    """A writer of this program that slept commits to a table, and dies before it can take that back."""
    entry = graph.snapshot()[table_key]
    table = graph.stores.tables.open_newest(entry.path, entry.branch)
    commit_staged(stage_append(table, rows_of({row_id: -1})), operation_id=REAL.ulid())


def late_restore(graph: GraphManifest, table_key: str, *, version: int) -> None:
    """The same, by a recovery that slept."""
    entry = graph.snapshot()[table_key]
    table = graph.stores.tables.open_newest(entry.path, entry.branch)
    commit_staged(stage_restore(table, version), operation_id=REAL.ulid())


def newest(graph: GraphManifest, table_key: str, branch: str = MAIN) -> int:
    """The newest version of a table on the line that the branch reads."""
    entry = graph.snapshot(branch)[table_key]
    return graph.stores.tables.open_newest(entry.path, entry.branch).version


def sidecars(graph: GraphManifest) -> list[str]:
    """The names of the sidecars that stand."""
    return graph.stores.objects.list_names(PREFIX)


def chain(graph: GraphManifest, branch: str = MAIN) -> list[str]:
    """Commit ids from the head back; fails when the history is not one line through every commit."""
    lineage = graph.lineage(branch)
    walked = [commit.id for commit in lineage.first_parents()]
    assert sorted(walked) == sorted(lineage.commits), "the history is not one line"
    return walked


def require_settled(graph: GraphManifest, branch: str = MAIN) -> None:
    """No sidecar, one line of history, and every table is at the version that the graph says."""
    assert sidecars(graph) == []
    chain(graph, branch)
    for entry in graph.snapshot(branch):
        if entry.branch == physical_branch(branch):
            head = graph.stores.tables.open_newest(entry.path, entry.branch).version
            assert head == entry.version, f"{entry.table_key}: the graph says {entry.version}, the table is at {head}"
