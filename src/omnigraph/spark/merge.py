"""Merges two branches on Spark when their changes exceed the memory budget.

    send      tasks read the changed rows of both sides and the row locations of the target, by hash partition of the id
    merge     the task of a partition merges its rows like the in-memory merge and writes changed rows as fragments
    check     rules across rows are checked with the SQL queries that DuckDB runs in the other merge backends
    stage     called by the commit protocol; tasks write deletion files for replaced and removed rows

The driver receives conflicts, fragment metadata, and four bytes for each replaced or removed row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType
from omnigraph.catalog.rules import type_of, unique_rules
from omnigraph.history.merge.partitioned.backend import MergeResult, Replaced, merge_bytes
from omnigraph.history.merge.partitioned.relations import key_columns, put_keys, values_of
from omnigraph.history.merge.partitioned.send import MergePlan, run_merge
from omnigraph.history.merge.partitioned.task import TO_DRIVER
from omnigraph.kernels.arrays import ID
from omnigraph.load.bulk.row_rewrite import Replacements, stage_merge
from omnigraph.spark.runner import SparkBatches, SparkRunner, errors_of_tasks, one_task_each, telling_errors
from omnigraph.spark.types import from_spark, spark_schema, to_spark
from omnigraph.tasks.runner import unpack
from omnigraph.tasks.staged_rows import StagedRows
from omnigraph.tasks.table_scan import TableScan, tasks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.history.merge.merge_base import CommonState
    from omnigraph.history.merge.partitioned.deltas import SpillDirectory
    from omnigraph.history.merge.partitioned.hash_partitions import MergeBudget
    from omnigraph.history.merge.partitioned.task import TableJob
    from omnigraph.history.merge.reconcile import MergePairs, MergeSettings, Pair, Reconciled
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.tasks.runner import TaskRunner
    from omnigraph.transaction.read_view import ReadView
    from omnigraph.world import World

# Bytes of changed rows per hash partition; a task holds several copies of them.
BYTES_PER_PARTITION = 32 << 20
MOST_PARTITIONS = 4_096
_BATCH = 65_536


@dataclass(frozen=True)
class SparkMerge:
    """Merge backend for merges that exceed the budget or, without a budget, for all merges.

    `name` prefixes the temporary views of this merge. `writes` is False for a dry run.
    """

    session: SparkSession
    spill: SpillDirectory
    name: str
    budget: MergeBudget | None = None
    writes: bool = True

    def takes(self, common: CommonState, pairs: Sequence[Pair]) -> bool:
        """Whether this backend handles a merge of these tables."""
        return bool(pairs) and (self.budget is None or merge_bytes(common, pairs) > self.budget.bytes)

    def reconcile(
        self, catalog: Catalog, view: ReadView, common: CommonState, pairs: MergePairs, settings: MergeSettings
    ) -> Reconciled:
        """Merge all partitions in tasks, nodes before edges, then check the rules across rows on the merged state."""
        plan, runner = MergePlan(catalog, view, common), SparkRunner(self.session)
        result = MergeResult(plan.job(settings, writes=self.writes))
        merged: list[DataFrame] = []

        def add(pair: Pair) -> None:
            plan.add(pair, self.spill, rule_columns(catalog, pair[1].table_key), writes=self.writes)

        try:
            for some in result.phases(plan, pairs, add):
                partitions = _partitions(runner, merge_bytes(common, some))
                # A job runs once: the driver reads some of its rows, and the constraint checks read the others.
                done = cast(
                    "SparkBatches", run_merge(runner, list(plan.sources), result.job, partitions)
                ).frame.persist()
                merged.append(done)
                with errors_of_tasks():
                    rows: Any = done.where(f"kind IN ({', '.join(map(repr, TO_DRIVER))})").toArrow()
                result.take(each for batch in rows.to_batches() for each in batch.to_pylist())
            stage = partial(_stage, runner, common.tables.world, catalog, result)
            tables = {each.here.table_key: (number, each) for number, each in enumerate(result.job.tables)}
            frame = reduce(lambda one, other: one.union(other), merged)
            return result.reconciled(
                catalog, view, stage, lambda: SparkRelations(self.session, catalog, view, frame, tables, self.name)
            )
        finally:
            for each in merged:
                each.unpersist()


def _partitions(runner: SparkRunner, size: int) -> int:
    wanted = max(runner.cores, -(-size // BYTES_PER_PARTITION))
    return min(MOST_PARTITIONS, 1 << (wanted - 1).bit_length())


def rule_columns(catalog: Catalog, table_key: str) -> tuple[str, ...]:
    """The columns that rules across rows need."""
    endpoints = ("src", "dst") if isinstance(type_of(catalog, table_key), EdgeType) else ()
    rules = [name for rule in unique_rules(catalog, table_key) for name in rule.columns]
    return tuple(dict.fromkeys([ID, *endpoints, *rules]))


def _stage(
    runner: TaskRunner, world: World, catalog: Catalog, result: MergeResult, table_key: str
) -> Callable[[Table], Staged]:
    """The staging of one table's fragments, with deletion files for its replaced and removed rows."""
    replaced = result.replaced.get(table_key, Replaced())
    here = next(each.here for each in result.job.tables if each.here.table_key == table_key)
    kind, location = type_of(catalog, table_key), result.job.location
    staged = StagedRows(kind, location, here.path, here.branch, tuple(replaced.fragments))
    replacements = Replacements(staged, replaced.removed, replaced.rows, replaced.row_id_span)

    def stage(table: Table) -> Staged:
        return stage_merge(table, runner, replacements, world)

    return stage


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

        selected = self.result.where(f"kind = 'puts' AND number = {number}")
        with errors_of_tasks():
            results: Any = selected.mapInArrow(telling_errors(work), spark_schema(schema)).toArrow()
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

        selected = self.result.where(f"kind = '{kind}' AND number = {number}")
        return selected.mapInArrow(telling_errors(task), spark_schema(schema))

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
