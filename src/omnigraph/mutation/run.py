"""Runs a call of `Graph.mutate`: checks the text against the schema of its branch and commits it through the protocol.

`MutationOperation` is the checked mutation as an operation of the commit protocol.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.errors import InvalidInput
from omnigraph.expressions.pushdown import RequestValues
from omnigraph.kernels.arrays import ID
from omnigraph.language.ir.params import bind_params
from omnigraph.language.ir.query import CheckedMutation, Insert, Upsert
from omnigraph.manifest.publisher import ANY_HEAD
from omnigraph.mutation.statements import Affected, Executor
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.constraints.validate import validate
from omnigraph.transaction.read_view import LISTED_VALUES, remember
from omnigraph.transaction.table_writes import writes_of
from omnigraph.transaction.write_buffer import WriteBuffer
from omnigraph.transaction.write_set import WriteSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.language.gq.compile import QueryCache
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.read_view import ReadView
    from omnigraph.transaction.schemas import Schemas
    from omnigraph.transaction.write_set import TableChanges, TableWrite
    from omnigraph.world import World


@dataclass
class MutationOperation:
    """Prepares a mutation from a read view; `affected` counts what the last preparation would change."""

    catalog: Catalog
    checked: CheckedMutation
    request: RequestValues
    world: World
    affected: Affected

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be prepared again after other commits: inserts and upserts may, updates and deletes not."""
        return all(isinstance(each, Insert | Upsert) for each in self.checked.statements)

    def prepare(self, view: ReadView) -> WriteSet | None:
        """Run the statements on a write buffer, validate the result once, and return the writes to stage."""
        self.affected = Affected()
        pending = WriteBuffer(view, self.catalog)
        executor = Executor(self.catalog, pending, self.request, self.world, self.affected)
        for statement in self.checked.statements:
            executor.run(statement)
        changes = {key: change for key, change in pending.changes().items() if not change.is_empty}
        if not changes:
            return None
        validate(self.catalog, view, changes)
        changes = {key: _placed(view, change) for key, change in changes.items()}
        return WriteSet([_remembered(view, changes[each.entry.table_key], each) for each in writes_of(view, changes)])


def _placed(view: ReadView, change: TableChanges) -> TableChanges:
    """The change with the row locations of rows that it replaces or deletes, which the read view may have cached."""
    if change.overwrite or (change.only_new and not change.deletes):
        return change
    puts = [] if change.puts is None else change.puts.column(ID).chunks
    touched = pa.concat_arrays([pa.array(sorted(change.deletes), pa.string()), *puts])
    return change if len(touched) > LISTED_VALUES else replace(change, places=view.places(change.table_key, touched))


def _remembered(view: ReadView, change: TableChanges, write: TableWrite) -> TableWrite:
    """The write, whose rows are cached once they are staged: the next mutation need not read them."""
    rows = change.puts
    if rows is None:
        return write

    def stage(table: Table) -> Staged:
        staged = write.stage(table)
        remember(view.tables, staged, rows)
        return staged

    return replace(write, stage=stage)


@dataclass(frozen=True)
class Mutated:
    """What a mutation did. `commit` is None when nothing matched; `repeated` when its key had been used before."""

    commit: GraphCommit | None
    affected_nodes: int
    affected_edges: int
    repeated: bool = False


@dataclass(frozen=True)
class MutationRequest:
    """The arguments of one mutation call."""

    source: str
    name: str | None
    params: Mapping[str, object] | None
    branch: str
    actor: str | None
    if_commit: str | None
    idempotency_key: str | None


def run_mutation(manifest: GraphManifest, schemas: Schemas, queries: QueryCache, request: MutationRequest) -> Mutated:
    """Run the mutation under the schema of its branch; retry if that schema changes meanwhile."""

    def attempt(schema: str | None) -> Mutated:
        mutation = _mutation(queries, schemas.of(schema).catalog, request, manifest.world)
        return _commit(manifest, mutation, schema, request)

    return schemas.attempt(request.branch, attempt)


def _mutation(queries: QueryCache, catalog: Catalog, request: MutationRequest, world: World) -> MutationOperation:
    checked = queries.checked(request.source, request.name, catalog)
    if not isinstance(checked, CheckedMutation):
        raise InvalidInput(f"query {checked.name!r} reads: run it with query().")
    now = dt.datetime.fromtimestamp(world.now_us() // 1_000 / 1_000, dt.UTC)
    return MutationOperation(
        catalog, checked, RequestValues(bind_params(checked, request.params), now), world, Affected()
    )


def _commit(
    manifest: GraphManifest, mutation: MutationOperation, schema: str | None, request: MutationRequest
) -> Mutated:
    operation = Operation(
        "Mutation",
        mutation.prepare,
        branch=request.branch,
        actor=request.actor,
        repeatable=mutation.is_repeatable,
        expected_head=request.if_commit if request.if_commit is not None else ANY_HEAD,
        idempotency_key=request.idempotency_key,
        schema=schema,
    )
    receipt = commit(manifest, operation)
    if receipt is None or receipt.repeated:
        return Mutated(receipt.commit if receipt else None, 0, 0, repeated=receipt is not None)
    return Mutated(receipt.commit, mutation.affected.nodes, mutation.affected.edges)
