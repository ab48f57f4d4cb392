"""Spark's `format("omnigraph")`: reads a type or a query as a frame, and writes frames of one type into the graph.

    spark.read.format("omnigraph").option("type", "Person").load("./graph.omni")
    frame.write.format("omnigraph").option("type", "Person").option("mode", "merge").mode("append").save("./graph.omni")

Options of a read: `type`, or `query` (with `params`, `name`); `branch`, or `snapshot` (a commit id), or `timestamp`;
`columns` (comma-separated) or `.schema(...)`, because Spark does not push column selections into a Python data source;
`rowsPerTask`; `storage.<name>` for storage options. The graph is the path, or the option `graph`. Simple conditions
joined by AND are pushed down to the table if `spark.sql.python.filterPushdown.enabled` is set; `read_type` accepts any
condition and works on every session. Options of a write: `type`, `branch`, `mode` (append, merge; `.mode("overwrite")`
replaces the type), `actor`, `key`. Of a change stream: `changes`, `type`, `branch`, `since`, `maxCommitsPerBatch`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import datasource as offered
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from omnigraph.errors import InvalidInput
from omnigraph.pipeline.datasource.options import NAME, SourceOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from omnigraph.storage.filters.literals import Operator
    from omnigraph.storage.filters.model import Filter
    from omnigraph.tasks.table_scan import TableScan

_COMPARISONS: dict[type[offered.Filter], Operator] = {
    offered.EqualTo: "=",
    offered.GreaterThan: ">",
    offered.GreaterThanOrEqual: ">=",
    offered.LessThan: "<",
    offered.LessThanOrEqual: "<=",
}
_SEARCHES: dict[type[offered.Filter], Literal["starts_with", "contains"]] = {
    offered.StringStartsWith: "starts_with",
    offered.StringContains: "contains",
}


def register_spark(session: SparkSession) -> None:
    """Register `format("omnigraph")` in a session. Sessions whose workers have this package find it by themselves."""
    session.dataSource.register(OmniGraphSource)


def read_type(
    session: SparkSession,
    graph: str | os.PathLike[str],
    type_name: str,
    *,
    columns: Sequence[str] | None = None,
    where: Filter | None = None,
    branch: str = "main",
    snapshot: str | None = None,
    timestamp: str | None = None,
    rows_per_task: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read one type as a frame with projection and filter push-down, which the data source API cannot express fully."""
    from omnigraph.spark.runner import one_task_each
    from omnigraph.tasks.table_scan import ROWS_PER_TASK, read_scan, resolve_scan, tasks_of
    from omnigraph.world import REAL

    scan = resolve_scan(
        graph,
        type_name,
        world=REAL,
        branch=branch,
        snapshot=snapshot,
        timestamp=timestamp,
        columns=columns,
        where=where,
        storage_options=storage_options,
    )
    tasks = tasks_of(scan, rows_per_task=rows_per_task or ROWS_PER_TASK)
    return one_task_each(session, tasks, read_scan, scan.schema())


class OmniGraphSource(DataSource):
    """The data source. Created when a frame is loaded and pickled with it, so every use reads the same snapshot."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.source_options = SourceOptions.of(options)
        self.query = self.source_options.query()
        self.scan = None if self.query is not None else self.source_options.scan()
        self.rows_per_task = int(options.get("rowsPerTask", "0"))

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return NAME

    def schema(self) -> StructType:
        """The Spark schema of the table, of the query result or of the change stream."""
        from omnigraph.spark.types import spark_schema

        if self.source_options.wants_changes:
            return spark_schema(self.source_options.change_schema())
        return spark_schema(self.query.rows().schema if self.query is not None else self._scan.schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns in `schema`, which may be a subset of the table's."""
        from dataclasses import replace

        if self.source_options.wants_changes:
            raise InvalidInput("changes are a stream: read them with spark.readStream.")
        if self.query is not None:
            from omnigraph.pipeline.datasource.query_reader import QueryReader

            return QueryReader(self.query)
        scan = replace(self._scan, columns=tuple(schema.fieldNames()))
        _require_same_types(scan, schema)
        return OmniGraphReader(scan, schema, self.rows_per_task)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch writer, which makes one commit."""
        from omnigraph.pipeline.datasource.writer import TypeWriter

        return TypeWriter(self.source_options.target(overwrite=overwrite), schema.fieldNames())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's own
        """A reader of the change stream."""
        if not self.source_options.wants_changes:
            raise InvalidInput('a stream reads changes: add .option("changes", "true").')
        return self.source_options.changes()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """A stream writer, which makes one commit per micro-batch."""
        from omnigraph.pipeline.datasource.writer import TypeStreamWriter

        return TypeStreamWriter(self.source_options.stream_target(overwrite=overwrite), schema.fieldNames())

    @property
    def _scan(self) -> TableScan:
        assert self.scan is not None
        return self.scan


class OmniGraphReader(DataSourceReader):
    """Reads a pinned scan, one task per group of fragments."""

    def __init__(self, scan: TableScan, wanted: StructType, rows_per_task: int) -> None:
        self.scan = scan
        self.nullable = [field.nullable for field in wanted.fields]
        self.rows_per_task = rows_per_task
        self.pushFilters = _Pushdown(self)  # type: ignore[method-assign]

    def partitions(self) -> Sequence[InputPartition]:
        """One partition per scan task."""
        from omnigraph.tasks.table_scan import ROWS_PER_TASK, tasks_of

        return [InputPartition(each) for each in tasks_of(self.scan, rows_per_task=self.rows_per_task or ROWS_PER_TASK)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one partition. Spark passes an empty one if there are none."""
        import pyarrow as pa

        from omnigraph.spark.types import to_spark
        from omnigraph.tasks.table_scan import read_scan

        if partition.value is None:
            return
        # A user-given schema is nullable throughout, and Spark requires the same nullability.
        fields = zip(self.scan.schema(), self.nullable, strict=True)
        schema = pa.schema([field.with_nullable(nullable) for field, nullable in fields])
        for batch in read_scan(partition.value):
            yield to_spark(batch, schema)

    def take(self, filters: Iterable[offered.Filter]) -> Iterator[offered.Filter]:
        """Push down the filters that the table can apply. Yields those that Spark must apply."""
        from dataclasses import replace

        from omnigraph.storage.filters.model import And

        taken, schema = [], self.scan.table().schema
        for each in filters:
            condition = _condition(schema, each)
            if condition is None:
                yield each
            else:
                taken.append(condition)
        if taken:
            self.scan = replace(self.scan, where=And(tuple(taken)))


class _Pushdown:
    """Accepts filters if Spark offers them. With filter push-down switched off, the default, Spark refuses a reader
    that overrides `pushFilters`; it detects this by `__func__`, which here is Spark's own method.
    """

    def __init__(self, reader: OmniGraphReader) -> None:
        self.reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[offered.Filter]) -> Iterable[offered.Filter]:
        return list(self.reader.take(filters))


def _require_same_types(scan: TableScan, wanted: StructType) -> None:
    from omnigraph.spark.types import spark_schema

    for there, field in zip(spark_schema(scan.schema()).fields, wanted.fields, strict=True):
        if there.dataType != field.dataType:
            message = f"column {field.name!r} is {there.dataType.simpleString()}, not {field.dataType.simpleString()}"
            raise InvalidInput(f"{message}: read it as it is and cast it in the query.")


def _condition(schema: pa.Schema, predicate: offered.Filter) -> Filter | None:
    """Translate a Spark filter; None if the table cannot apply it exactly."""
    from omnigraph.storage.filters import model as filters

    if isinstance(predicate, offered.Not):
        inner = None if isinstance(predicate.child, offered.EqualNullSafe) else _condition(schema, predicate.child)
        return None if inner is None else filters.Not(inner)
    condition = _leaf(predicate)
    try:
        if condition is not None:
            filters.render(condition, schema)
    except InvalidInput:
        return None
    return condition


def _leaf(predicate: Any) -> Filter | None:
    from omnigraph.storage.filters.model import Compare, IsNull, Not, OneOf, TextPredicate

    if len(predicate.attribute) != 1:
        return None
    column, kind = predicate.attribute[0], type(predicate)
    if kind is offered.IsNull:
        return IsNull(column)
    if kind is offered.IsNotNull:
        return Not(IsNull(column))
    if kind is offered.In:
        return OneOf(column, tuple(map(_value, predicate.value)))
    if kind in _SEARCHES:
        return TextPredicate(column, _SEARCHES[kind], predicate.value)
    if kind is offered.EqualNullSafe:
        return IsNull(column) if predicate.value is None else Compare(column, "=", _value(predicate.value))
    return Compare(column, _COMPARISONS[kind], _value(predicate.value)) if kind in _COMPARISONS else None


def _value(value: Any) -> Any:
    """Convert integral decimals to int: U64 is a decimal in Spark and an integer in the table."""
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value
