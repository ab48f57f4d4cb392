"""Streams the change feed of a graph to Spark: the changes of each commit to the rows of one type.

    changes = spark.readStream.format("omnigraph").option("changes", "true").option("type", "Person")
    changes.option("since", "now").load("./graph.omni")

Offsets are cursors of the feed, which point after a commit: a restarted query continues after the last commit that it
processed. Rows have the type's columns, `_op` (insert, update or delete; a deleted row has its last values) and
`_commit`. Blobs are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from omnigraph.catalog.arrow import edge_arrow_schema, is_blob, node_arrow_schema, stored_schema
from omnigraph.catalog.catalog import EdgeType
from omnigraph.history.change_feed import BEGINNING, ChangeFeed
from omnigraph.history.changes import delta_of
from omnigraph.spark.types import to_spark
from omnigraph.storage.tables.table import TableStore
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.history.changes import ChangedTable
    from omnigraph.history.delta import TableDelta
    from omnigraph.pipeline.datasource.options import GraphReference

_TEXT: pa.DataType = pa.string()
_OPERATION = pa.field("_op", _TEXT, nullable=False)
_COMMIT = pa.field("_commit", _TEXT, nullable=False)
_CURSOR, _AFTER = "cursor", "commit"


def change_schema(catalog: Catalog, type_name: str) -> pa.Schema:
    """The Arrow schema of a change stream, in stored types."""
    kind = catalog.resolve_type(type_name)
    schema = edge_arrow_schema(kind) if isinstance(kind, EdgeType) else node_arrow_schema(kind)
    fields = [each.with_nullable(True) for each in stored_schema(schema) if not is_blob(each)]
    return pa.schema([*fields, _OPERATION, _COMMIT])


class ChangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes of one type, a few commits at a time."""

    def __init__(
        self, reference: GraphReference, type_name: str, branch: str, schema: pa.Schema, since: str, most_commits: int
    ) -> None:
        self.reference = reference
        self.type_name = type_name
        self.branch = branch
        self.schema = schema
        self.since = since
        self.most_commits = most_commits
        self._feed: ChangeFeed | None = None
        self._last: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_feed": None}

    @property
    def feed(self) -> ChangeFeed:
        """The feed, opened for reading in this process."""
        if self._feed is None:
            self._feed = ChangeFeed(self.reference.reader()[0], self.branch)
        return self._feed

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The offset at which a new query begins."""
        if self.since == BEGINNING:
            return {_CURSOR: self.feed.beginning()}
        return {_CURSOR: self.feed.now() if self.since == "now" else self.feed.cursor_after(self.since)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """`maxCommitsPerBatch` as Spark's limit of files."""
        return ReadMaxFiles(self.most_commits) if self.most_commits else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of the run: later commits are read by the next run."""
        self._last = self.feed.now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The offset after the newest commit, or after as many commits as one batch may have."""
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        ahead = self.feed.commits(start[_CURSOR], self._last, most)
        if not ahead:
            return start
        return {_CURSOR: self.feed.cursor_after(ahead[-1].id), _AFTER: ahead[-1].id}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One partition for each commit between the offsets that changed the type."""
        return [
            InputPartition(changed)
            for commit in self.feed.commits(start[_CURSOR], end[_CURSOR])
            for changed in self.feed.changed_tables(commit)
            if changed.table_key == self.table_key
        ]

    @property
    def table_key(self) -> str:
        """The table key of the type."""
        manifest, schemas = self.reference.reader()
        return schemas.of(manifest.branch(self.branch).schema).catalog.resolve_type(self.type_name).table_key

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the changed rows of one partition."""
        changed: ChangedTable = partition.value
        delta = delta_of(changed, TableStore(self.reference.location, REAL))
        for operation, rows in _by_operation(delta):
            for batch in _converted(rows, operation, changed.commit.id, self.schema).to_batches():
                yield to_spark(batch, self.schema)


def _by_operation(delta: TableDelta) -> Iterator[tuple[str, pa.Table]]:
    yield "insert", delta.inserted
    yield "update", delta.updated[1]
    yield "delete", delta.deleted


def _converted(rows: pa.Table, operation: str, commit: str, schema: pa.Schema) -> pa.Table:
    """Convert rows to the stream's schema; a property that the commit's schema lacks is null."""
    count = rows.num_rows
    held = {_OPERATION.name: pa.array([operation] * count, _TEXT), _COMMIT.name: pa.array([commit] * count, _TEXT)}
    columns = [
        held[each.name]
        if each.name in held
        else (rows.column(each.name).cast(each.type) if each.name in rows.column_names else pa.nulls(count, each.type))
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
