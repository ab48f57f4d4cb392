"""`graph.analytics`: graph algorithms on Spark over one snapshot, and writing their results back as properties.

ranks = g.analytics.page_rank(edges=["Follows"])             # a Spark frame: type, id, rank
g.analytics.write_back(ranks, {"influence": "rank"}, branch="scored", from_="main")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.arguments import checked_methods
from omnigraph.deprecation import renamed_keywords
from omnigraph.errors import InvalidInput
from omnigraph.errors.inputs import require_choice
from omnigraph.kernels.report import Report
from omnigraph.manifest.layout import MAIN
from omnigraph.manifest.states import create_branch_at, resolve
from omnigraph.spark.analytics import array_algorithms, frame_algorithms
from omnigraph.spark.analytics.arrays import Arrays, fits
from omnigraph.spark.analytics.topology import Ground, Topology, materialize
from omnigraph.spark.analytics.write_back import WriteBack, checked_types, values_of
from omnigraph.spark.runtime.session import spark_session
from omnigraph.transaction.commit.protocol import Operation, commit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.catalog.catalog import EdgeType
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.states import State
    from omnigraph.spark.analytics.frame_algorithms import Direction
    from omnigraph.transaction.schemas import Schemas


@dataclass(frozen=True, repr=False)
class WrittenBack(Report):
    """What a write-back did: nodes that got values, by type. `repeated` when its key had been used before."""

    commit: GraphCommit
    nodes: Mapping[str, int]
    repeated: bool = False

    def _summary(self) -> str:
        return f"{sum(self.nodes.values()):,} nodes, commit {self.commit.id}" + ", repeated" * self.repeated


@checked_methods
@dataclass(frozen=True)
class Analytics:
    """Algorithms over a graph. Each reads one state of it: a branch as it is now, or the state `at`.

    `edges` names the edge types to follow, all if it is None; the vertices are all nodes of the types that those join.
    Results are the same to the last bit whenever the nodes and edges are the same.
    """

    _manifest: GraphManifest = field(repr=False)
    _schemas: Schemas = field(repr=False)
    actor: str | None = None
    session: SparkSession | None = None

    def on(self, session: SparkSession) -> Analytics:
        """The same algorithms on another Spark session."""
        return Analytics(self._manifest, self._schemas, self.actor, session)

    @renamed_keywords(commit_id="at", removed_in="0.3")
    def page_rank(
        self,
        edges: Sequence[str] | None = None,
        *,
        damping: float = 0.85,
        tolerance: float = 1e-6,
        max_iterations: int = 100,
        branch: str = MAIN,
        at: State | None = None,
    ) -> DataFrame:
        """type, id and rank. Ranks add up to 1; rounds end when they change by less than `tolerance` in total."""
        settings: Any = {"damping": damping, "tolerance": tolerance, "max_iterations": max_iterations}
        arrays = self._arrays(edges, branch, at)
        if arrays is not None:
            return array_algorithms.page_rank(arrays, **settings)
        return frame_algorithms.page_rank(self._topology(edges, branch, at), **settings)

    @renamed_keywords(commit_id="at", removed_in="0.3")
    def degrees(self, edges: Sequence[str] | None = None, *, branch: str = MAIN, at: State | None = None) -> DataFrame:
        """type, id, in_degree, out_degree and degree, their sum."""
        return frame_algorithms.degrees(self._topology(edges, branch, at))

    @renamed_keywords(commit_id="at", removed_in="0.3")
    def connected_components(
        self, edges: Sequence[str] | None = None, *, branch: str = MAIN, at: State | None = None
    ) -> DataFrame:
        """type, id and component: the number of its first vertex, counted in the order of type and id. Edges count
        both ways.
        """
        arrays = self._arrays(edges, branch, at)
        if arrays is not None:
            return array_algorithms.connected_components(arrays)
        return frame_algorithms.connected_components(self._topology(edges, branch, at))

    @renamed_keywords(commit_id="at", removed_in="0.3")
    def label_propagation(
        self,
        edges: Sequence[str] | None = None,
        *,
        max_iterations: int = 20,
        branch: str = MAIN,
        at: State | None = None,
    ) -> DataFrame:
        """type, id and community. In a round each vertex takes the label that most neighbours and itself have, the
        smallest among equals; edges count both ways.
        """
        arrays = self._arrays(edges, branch, at)
        if arrays is not None:
            return array_algorithms.label_propagation(arrays, max_iterations=max_iterations)
        topology = self._topology(edges, branch, at)
        return frame_algorithms.label_propagation(topology, max_iterations=max_iterations)

    @renamed_keywords(commit_id="at", removed_in="0.3")
    def shortest_paths(
        self,
        sources: Sequence[str] | Mapping[str, Sequence[str]],
        edges: Sequence[str] | None = None,
        *,
        direction: Direction = "out",
        max_distance: int | None = None,
        branch: str = MAIN,
        at: State | None = None,
    ) -> DataFrame:
        """source_type, source, type, id and distance in edges, for every source and every vertex that it reaches.

        `sources`: ids, or ids by node type where the edges join several.
        """
        require_choice("direction", direction, ("out", "in", "both"))
        ground = self._ground(branch, at)
        starts = _by_type(sources, ground.edge_types(edges))
        return frame_algorithms.shortest_paths(
            ground.topology(edges), starts, direction=direction, max_distance=max_distance
        )

    @renamed_keywords(commit_id="at", removed_in="0.3")
    def triangle_count(
        self, edges: Sequence[str] | None = None, *, branch: str = MAIN, at: State | None = None
    ) -> DataFrame:
        """type, id and triangles. Edges count both ways, and several between two vertices count as one."""
        return frame_algorithms.triangle_count(self._topology(edges, branch, at))

    def write_back(
        self,
        scores: DataFrame,
        properties: Mapping[str, str],
        *,
        type: str | None = None,  # noqa: A002 - the name of the column that it stands for
        branch: str = MAIN,
        from_: State | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> WrittenBack:
        """Write columns of a result to properties of its nodes, as one commit; `{"influence": "rank"}` writes the
        column rank to the property influence.

        `scores` has id and type, unless `type` is given. `from_`: create the branch from this state if it is missing.
        Nodes that the branch does not have are left out; a value that the schema does not allow is an error, and so
        is a schema of the branch that is changed meanwhile (`SchemaChanged`).
        """
        branches = {each.name for each in self._manifest.branches()}
        schema = resolve(self._manifest, branch if from_ is None or branch in branches else from_).schema
        catalog = self._schemas.of(schema).catalog
        values = values_of(scores, properties, type)
        materialized = materialize(values)
        named = [row["type"] for row in materialized.select("type").distinct().collect()]
        types = checked_types(catalog, named, list(properties))
        if from_ is not None and branch not in branches:
            create_branch_at(self._manifest, branch, from_)
        work = WriteBack(catalog, self._manifest.stores.tables.location, materialized, list(properties), types)
        operation = Operation(
            "Load",
            work.prepare,
            branch=branch,
            actor=actor or self.actor,
            idempotency_key=idempotency_key,
            schema=schema,
        )
        receipt = commit(self._manifest, operation)
        assert receipt is not None, "a write-back always makes a commit"
        return WrittenBack(receipt.commit, {} if receipt.repeated else dict(work.written), repeated=receipt.repeated)

    def _topology(self, edges: Sequence[str] | None, branch: str, at: State | None) -> Topology:
        return self._ground(branch, at).topology(edges)

    def _arrays(self, edges: Sequence[str] | None, branch: str, at: State | None) -> Arrays | None:
        """The snapshot as arrays, or None if it has too many vertices."""
        ground = self._ground(branch, at)
        kinds = ground.edge_types(edges)
        return Arrays(ground, tuple(kinds)) if fits(ground, kinds) else None

    def _ground(self, branch: str, at: State | None) -> Ground:
        manifest = self._manifest
        snapshot = resolve(manifest, at, branch=branch)
        session = spark_session(session=self.session, world=manifest.world)
        return Ground(session, manifest.stores.tables.location, snapshot, self._schemas.of(snapshot.schema).catalog)


def _by_type(
    sources: Sequence[str] | Mapping[str, Sequence[str]], edges: Sequence[EdgeType]
) -> Mapping[str, Sequence[str]]:
    if isinstance(sources, Mapping):
        return sources
    if isinstance(sources, str):
        raise InvalidInput(f"sources is a list of ids: write [{sources!r}].")
    types = sorted({end for kind in edges for end in (kind.source, kind.target)})
    if len(types) > 1:
        raise InvalidInput(f"the edges join {', '.join(types)}: give the sources by type, {{{types[0]!r}: [...]}}.")
    return {types[0]: sources}
