"""Runs a call of `Graph.mutate`: checks the text against the schema of its branch and commits it through the protocol.

`MutationOperation` is the checked mutation as an operation of the commit protocol.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import InvalidInput
from omnigraph.expressions.pushdown import RequestValues
from omnigraph.kernels.report import Report
from omnigraph.language.ir.params import bind_params
from omnigraph.language.ir.query import CheckedMutation, Insert, Upsert
from omnigraph.manifest.publisher import ANY_HEAD
from omnigraph.mutation.statements import Affected, Executor
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.constraints.validate import validate
from omnigraph.transaction.write_buffer import WriteBuffer
from omnigraph.transaction.write_set import WriteSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.language.gq.compile import QueryCache
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.transaction.read_view import ReadView
    from omnigraph.transaction.schemas import Schemas
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
        buffer = WriteBuffer(view, self.catalog)
        executor = Executor(self.catalog, buffer, self.request, self.world, self.affected)
        for statement in self.checked.statements:
            executor.run(statement)
        changes = buffer.changes()
        if not changes:
            return None
        validate(self.catalog, view, changes)
        return WriteSet(buffer.writes())


@dataclass(frozen=True, repr=False)
class Mutated(Report):
    """What a mutation did. `commit` is None when nothing matched; `repeated` when its key had been used before."""

    commit: GraphCommit | None
    affected_nodes: int
    affected_edges: int
    repeated: bool = False

    def _summary(self) -> str:
        made = "no commit" if self.commit is None else f"commit {self.commit.id} on {self.commit.branch}"
        return f"{self.affected_nodes:,} nodes, {self.affected_edges:,} edges, {made}" + ", repeated" * self.repeated


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
    now = dt.datetime.fromtimestamp(world.now_ms() / 1_000, dt.UTC)
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
