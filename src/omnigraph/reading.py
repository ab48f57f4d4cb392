"""A read that `Graph` is asked for: one state of the graph, and a query checked against its schema."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.errors import InvalidInput
from omnigraph.language.query import CheckedMutation, bind_params
from omnigraph.read.query import PreparedQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.embeddings.embeddings import Embeddings
    from omnigraph.language.query.kept import KeptQueries
    from omnigraph.language.schema.catalog import Property
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.read.explain import Explanation
    from omnigraph.read.options import ReadOptions
    from omnigraph.read.result import Result
    from omnigraph.schema_contract import Schemas


@dataclass(frozen=True)
class ReadRequest:
    """What is asked of which state. `name` picks one of several queries of the source."""

    source: str
    params: Mapping[str, object] | None
    name: str | None
    state: Snapshot
    options: ReadOptions


@dataclass(frozen=True)
class Reading:
    """Reads of an open graph. `embeddings` makes vectors of texts that are looked for."""

    manifest: GraphManifest
    schemas: Schemas
    queries: KeptQueries
    embeddings: Callable[[], Embeddings]

    def run(self, request: ReadRequest) -> Result:
        """The rows."""
        return self.prepared(request).run()

    def stream(self, request: ReadRequest) -> pa.RecordBatchReader:
        """The rows as batches, which are made as they are taken."""
        return self.prepared(request).stream()

    def explain(self, request: ReadRequest) -> Explanation:
        """How it would run."""
        return self.prepared(request).explain()

    def analyze(self, request: ReadRequest) -> tuple[Result, Explanation]:
        """The rows, and how it ran."""
        return self.prepared(request).analyze()

    def on_spark(self, request: ReadRequest, spark: SparkSession | None) -> DataFrame:
        """The rows as a frame of Spark, which runs the query when it is asked for them."""
        from omnigraph.spark.installed import require_spark

        require_spark("a query with engine='spark'")
        from omnigraph.spark.query.run import run_on_spark
        from omnigraph.spark.session import spark_session

        return run_on_spark(spark_session(session=spark, world=self.manifest.world), self.prepared(request))

    def prepared(self, request: ReadRequest) -> PreparedQuery:
        """A query that was checked, with its values, and the one state of the graph that it is asked of."""
        catalog = self.schemas.of(request.state.schema).catalog
        checked = self.queries.checked(request.source, request.name, catalog)
        if isinstance(checked, CheckedMutation):
            raise InvalidInput(f"query {checked.name!r} changes the graph: run it with mutate().")
        params, options = bind_params(checked, request.params), self._options(request)
        tables, world = self.manifest.stores.tables, self.manifest.world
        return PreparedQuery(request.state, tables, catalog, checked, params, options, world=world)

    def _options(self, request: ReadRequest) -> ReadOptions:
        options = request.options
        return options if options.embed is not None else replace(options, embed=self._embedded)

    def _embedded(self, text: str, declared: Property) -> Sequence[float]:
        """The vector of a text that is looked for."""
        found = self.embeddings().of_property([text], declared, purpose="query", world=self.manifest.world)
        vector: list[float] = found[0].tolist()
        return vector
