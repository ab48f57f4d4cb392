"""Temporary Spark views of the columns that the merge constraint queries of `history/merge/partitioned` read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.merge.partitioned.relations import key_columns, put_keys, values_of
from omnigraph.kernels.arrays import ID
from omnigraph.spark.runner import errors_of_tasks, one_task_each
from omnigraph.spark.types import from_spark, spark_schema, to_spark
from omnigraph.tasks.runner import unpack
from omnigraph.tasks.table_scan import TableScan, tasks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.history.merge.partitioned.task import TableJob
    from omnigraph.transaction.read_view import ReadView

_BATCH = 65_536


@dataclass
class SparkRelations:
    """Views over the result of a merge's tasks, and over committed tables. `close` drops them."""

    session: SparkSession
    catalog: Catalog
    view: ReadView
    result: DataFrame
    tables: Mapping[str, tuple[int, TableJob]]
    prefix: str
    _made: dict[tuple[object, ...], str] = field(default_factory=dict)

    def puts(self, table_key: str, columns: tuple[str, ...]) -> str:
        """The view of inserted and updated rows."""
        work = partial(put_keys, self.catalog, table_key, columns=columns)
        return self._view(("puts", table_key, columns), lambda: self._of_result("puts", table_key, work))

    def deletes(self, table_key: str) -> str:
        """The view of the ids of deleted rows."""
        work = partial(key_columns, columns=())
        return self._view(("deletes", table_key), lambda: self._of_result("deletes", table_key, work))

    def committed(self, table_key: str, columns: tuple[str, ...]) -> str:
        """The view of committed rows of the target before the merge."""
        return self._view(("committed", table_key, columns), lambda: self._of_table(table_key, columns))

    def query(self, sql: str, most: int) -> tuple[list[tuple[Any, ...]], int]:
        """The first `most` rows of a query, and the number of further rows."""
        with errors_of_tasks():
            rows: Any = self.session.sql(sql).limit(most + 1).toArrow()
            more = self.session.sql(sql).count() - most if rows.num_rows > most else 0
        columns: list[list[Any]] = [each.to_pylist() for each in rows.slice(0, most).columns]
        return list(zip(*columns, strict=True)), more

    def values(self, table_key: str, ids: Sequence[str], columns: tuple[str, ...]) -> dict[str, tuple[object, ...]]:
        """Column values of some inserted or updated rows, by id."""
        number, job = self.tables[table_key]
        wanted, schema = pa.array(ids, pa.string()), self._key_schema(job)

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for rows in _rows_in(batches):
                found = rows.filter(pc.is_in(rows.column(ID), value_set=wanted))
                yield from (to_spark(each, schema) for each in found.cast(schema).to_batches())

        kept = self.result.where(f"kind = 'puts' AND number = {number}")
        with errors_of_tasks():
            results: Any = kept.mapInArrow(work, spark_schema(schema)).toArrow()
        stored = pa.Table.from_batches([from_spark(each, schema) for each in results.to_batches()], schema=schema)
        return values_of(stored, wanted, columns)

    def close(self) -> None:
        """Drop the views."""
        for name in self._made.values():
            self.session.catalog.dropTempView(name)

    def _of_result(self, kind: str, table_key: str, work: Callable[[pa.Table], pa.Table]) -> DataFrame:
        number, job = self.tables[table_key]
        empty = self._key_schema(job) if kind == "puts" else pa.schema([pa.field(ID, pa.string())])
        schema = work(empty.empty_table()).schema

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for rows in _rows_in(batches):
                yield from (to_spark(each, schema) for each in work(rows).cast(schema).to_batches())

        kept = self.result.where(f"kind = '{kind}' AND number = {number}")
        return kept.mapInArrow(task, spark_schema(schema))

    def _of_table(self, table_key: str, columns: tuple[str, ...]) -> DataFrame:
        scan = TableScan(self.view.tables.location, self.view.entry(table_key).pin)
        names = list(dict.fromkeys([ID, *columns]))
        schema = key_columns(self.view.table(table_key).schema_of(names).empty_table(), columns).schema

        def work(task: TableScan) -> Iterator[pa.RecordBatch]:
            for batch in task.table().scan(names, fragments=task.fragments, batch_size=_BATCH):
                yield from key_columns(pa.Table.from_batches([batch]), columns).cast(schema).to_batches()

        return one_task_each(self.session, tasks_of(scan), work, schema)

    def _key_schema(self, job: TableJob) -> pa.Schema:
        return self.view.table(job.here.table_key).schema_of(job.columns)

    def _view(self, key: tuple[object, ...], frame: Callable[[], DataFrame]) -> str:
        if key not in self._made:
            name = f"{self.prefix}_{len(self._made)}"
            frame().createOrReplaceTempView(name)
            self._made[key] = name
        return self._made[key]


def _rows_in(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    for batch in batches:
        for body in batch.column("body"):
            yield unpack(body.as_buffer())
