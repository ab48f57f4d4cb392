"""A call of `Graph.mutate`: the text checked against the schema of its branch, then handed to the commit protocol."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import InvalidInput
from omnigraph.language.query import bind_params
from omnigraph.language.query.checked import CheckedMutation
from omnigraph.manifest.publisher import ANY_HEAD
from omnigraph.relational.request import RequestValues
from omnigraph.write.commit import Operation, commit
from omnigraph.write.mutation.mutate import Mutation
from omnigraph.write.mutation.statements import Affected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.language.query.kept import KeptQueries
    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.schema_contract import Schemas
    from omnigraph.world import World


@dataclass(frozen=True)
class Mutated:
    """What a mutation did. `commit` is None when nothing matched; `repeated` when its key had been used before."""

    commit: GraphCommit | None
    affected_nodes: int
    affected_edges: int
    repeated: bool = False


@dataclass(frozen=True)
class MutationRequest:
    """What is asked for."""

    source: str
    name: str | None
    params: Mapping[str, object] | None
    branch: str
    actor: str | None
    if_commit: str | None
    idempotency_key: str | None


def run_mutation(manifest: GraphManifest, schemas: Schemas, queries: KeptQueries, request: MutationRequest) -> Mutated:
    """Carry it out under the schema of its branch; again, should that change meanwhile."""

    def attempt(schema: str | None) -> Mutated:
        mutation = _mutation(queries, schemas.of(schema).catalog, request, manifest.world)
        return _commit(manifest, mutation, schema, request)

    return schemas.attempt(request.branch, attempt)


def _mutation(queries: KeptQueries, catalog: Catalog, request: MutationRequest, world: World) -> Mutation:
    checked = queries.checked(request.source, request.name, catalog)
    if not isinstance(checked, CheckedMutation):
        raise InvalidInput(f"query {checked.name!r} reads: run it with query().")
    now = dt.datetime.fromtimestamp(world.now_us() // 1_000 / 1_000, dt.UTC)
    return Mutation(catalog, checked, RequestValues(bind_params(checked, request.params), now), world, Affected())


def _commit(manifest: GraphManifest, mutation: Mutation, schema: str | None, request: MutationRequest) -> Mutated:
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
