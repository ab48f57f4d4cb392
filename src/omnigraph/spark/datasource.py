"""`spark.read.format("omnigraph")`: one type of the graph as a Spark frame, pinned when it is loaded.

    spark.read.format("omnigraph").option("type", "Person").load("./graph.omni")

Options: `type`; `branch`, or `snapshot` (a commit id), or `timestamp`; `columns` (comma-separated) or `.schema(...)`,
because Spark does not tell a Python source which columns a query needs; `rowsPerTask`; `storage.<name>` for settings of
the object store. Simple conditions joined by AND are applied by the table itself where
`spark.sql.python.filterPushdown.enabled` is set; `read_type` takes any condition and works on every session.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import datasource as offered
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from omnigraph.spark.table_scan import TableScan
    from omnigraph.store.filters import Filter
    from omnigraph.store.literals import Operator

NAME = "omnigraph"
_STORAGE = "storage."
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
    """Make `format("omnigraph")` known to a session. Sessions whose workers have this package find it unasked."""
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
    """One type as a frame, with only these columns and rows read: what the data source API cannot be told."""
    from omnigraph.spark.table_scan import ROWS_PER_TASK, read_scan, resolve_scan, tasks_of
    from omnigraph.spark.tasks import one_task_each

    scan = resolve_scan(
        graph,
        type_name,
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
    """Made when a frame is loaded, and sent with it: what it resolves then is what every use of the frame reads."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.scan = _scan_of(options)
        self.rows_per_task = int(options.get("rowsPerTask", "0"))

    @classmethod
    def name(cls) -> str:
        """The name after `format`."""
        return NAME

    def schema(self) -> StructType:
        """The table's columns in Spark's types."""
        from omnigraph.spark.types import spark_schema

        return spark_schema(self.scan.schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns that `schema` has, which may be fewer than the table's."""
        from dataclasses import replace

        scan = replace(self.scan, columns=tuple(schema.fieldNames()))
        _require_same_types(scan, schema)
        return OmniGraphReader(scan, schema, self.rows_per_task)


class OmniGraphReader(DataSourceReader):
    """Reads a pinned scan, one task per group of fragments."""

    def __init__(self, scan: TableScan, wanted: StructType, rows_per_task: int) -> None:
        self.scan = scan
        self.nullable = [field.nullable for field in wanted.fields]
        self.rows_per_task = rows_per_task
        self.pushFilters = _Pushdown(self)  # type: ignore[method-assign]

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
        from omnigraph.spark.table_scan import ROWS_PER_TASK, tasks_of

        return [InputPartition(each) for each in tasks_of(self.scan, rows_per_task=self.rows_per_task or ROWS_PER_TASK)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Spark makes up an empty one when there is none."""
        import pyarrow as pa

        from omnigraph.spark.table_scan import read_scan
        from omnigraph.spark.types import to_spark

        if partition.value is None:
            return
        # A schema that the user gave allows nulls everywhere, and Spark compares to the letter.
        fields = zip(self.scan.schema(), self.nullable, strict=True)
        schema = pa.schema([field.with_nullable(nullable) for field, nullable in fields])
        for batch in read_scan(partition.value):
            yield to_spark(batch, schema)

    def take(self, filters: Iterable[offered.Filter]) -> Iterator[offered.Filter]:
        """Take over the conditions that the table can apply, give back the others."""
        from dataclasses import replace

        from omnigraph.store.filters import All

        taken, schema = [], self.scan.table().schema
        for each in filters:
            condition = _condition(schema, each)
            if condition is None:
                yield each
            else:
                taken.append(condition)
        if taken:
            self.scan = replace(self.scan, where=All(tuple(taken)))


class _Pushdown:
    """Filters are taken when Spark offers them. Spark refuses a reader that would take filters while it has that
    switched off, which is its default; it looks at `__func__` to find out, and here finds its own.
    """

    def __init__(self, reader: OmniGraphReader) -> None:
        self.reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[offered.Filter]) -> Iterable[offered.Filter]:
        return list(self.reader.take(filters))


def _scan_of(options: MutableMapping[str, str]) -> TableScan:
    from omnigraph.spark.table_scan import resolve_scan

    for needed in ("path", "type"):
        if not options.get(needed):
            where = '.load("./graph.omni")' if needed == "path" else '.option("type", "Person")'
            raise InvalidInput(f"format({NAME!r}) needs the {needed}: {where}")
    columns = options.get("columns")
    return resolve_scan(
        options["path"],
        options["type"],
        branch=options.get("branch") or "main",
        snapshot=options.get("snapshot"),
        timestamp=options.get("timestamp"),
        columns=None if columns is None else [each.strip() for each in columns.split(",")],
        storage_options={
            key[len(_STORAGE) :]: value for key, value in options.items() if key.lower().startswith(_STORAGE)
        },
    )


def _require_same_types(scan: TableScan, wanted: StructType) -> None:
    from omnigraph.spark.types import spark_schema

    for there, asked in zip(spark_schema(scan.schema()).fields, wanted.fields, strict=True):
        if there.dataType != asked.dataType:
            message = f"column {asked.name!r} is {there.dataType.simpleString()}, not {asked.dataType.simpleString()}"
            raise InvalidInput(f"{message}: read it as it is and cast it in the query.")


def _condition(schema: pa.Schema, asked: offered.Filter) -> Filter | None:
    """Spark's condition as ours; None when the table cannot apply it exactly."""
    from omnigraph.store import filters

    if isinstance(asked, offered.Not):
        inner = None if isinstance(asked.child, offered.EqualNullSafe) else _condition(schema, asked.child)
        return None if inner is None else filters.Not(inner)
    condition = _leaf(asked)
    try:
        if condition is not None:
            filters.render(condition, schema)
    except InvalidInput:
        return None
    return condition


def _leaf(asked: Any) -> Filter | None:
    from omnigraph.store.filters import Compare, IsNull, Not, OneOf, Text

    if len(asked.attribute) != 1:
        return None
    column, kind = asked.attribute[0], type(asked)
    if kind is offered.IsNull:
        return IsNull(column)
    if kind is offered.IsNotNull:
        return Not(IsNull(column))
    if kind is offered.In:
        return OneOf(column, tuple(map(_value, asked.value)))
    if kind in _SEARCHES:
        return Text(column, _SEARCHES[kind], asked.value)
    if kind is offered.EqualNullSafe:
        return IsNull(column) if asked.value is None else Compare(column, "=", _value(asked.value))
    return Compare(column, _COMPARISONS[kind], _value(asked.value)) if kind in _COMPARISONS else None


def _value(value: Any) -> Any:
    """U64 is a decimal in Spark and an integer in the table."""
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value
