"""Reads the result of a `.gq` query as a Spark frame; the embedded engine runs it over one snapshot, in one task.

    spark.read.format("omnigraph").option("query", GQ).option("params", '{"name": "Ada"}').load("./graph.omni")

The snapshot is pinned when the frame is loaded. The query runs once then, to determine its columns, and again whenever
Spark reads the frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql.datasource import DataSourceReader, InputPartition

from omnigraph.errors import InvalidInput
from omnigraph.language.gq.check import check_query
from omnigraph.language.gq.syntax.parse import parse_queries
from omnigraph.language.ir.params import bind_params
from omnigraph.language.ir.query import CheckedMutation
from omnigraph.query.run import PreparedQuery
from omnigraph.spark.types import to_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from omnigraph.pipeline.datasource.options import GraphReference


@dataclass(frozen=True)
class QuerySource:
    """A query, its parameters as JSON, and the commit that it reads."""

    reference: GraphReference
    text: str
    params: str
    name: str | None
    commit: str

    def rows(self) -> pa.Table:
        """Run the query."""
        manifest, schemas = self.reference.reader()
        state = manifest.snapshot_of(self.commit)
        catalog = schemas.of(state.schema).catalog
        checked = check_query(parse_queries(self.text).select(self.name), catalog)
        if isinstance(checked, CheckedMutation):
            raise InvalidInput(f"query {checked.name!r} changes the graph, so it cannot be read from.")
        values = bind_params(checked, _parameters(self.params))
        prepared = PreparedQuery(state, manifest.stores.tables, catalog, checked, values, world=manifest.world)
        return prepared.run().to_arrow()


class QueryReader(DataSourceReader):
    """Reads the result of a query in one task."""

    def __init__(self, source: QuerySource) -> None:
        self.source = source

    def partitions(self) -> Sequence[InputPartition]:
        """A single partition."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Run the query and convert its rows."""
        del partition
        rows = self.source.rows()
        for batch in rows.to_batches():
            yield to_spark(batch, rows.schema)


def _parameters(text: str) -> dict[str, Any]:
    try:
        found = orjson.loads(text or "{}")
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"the option params is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidInput("the option params is a JSON object of names and values.")
    return found
