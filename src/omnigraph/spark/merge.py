"""Merges two branches on Spark when their changes exceed the memory budget.

    send      tasks read the changed rows of both sides and the row locations of the target, by hash partition of the id
    merge     the task of a partition merges its rows like the in-memory merge and writes changed rows as fragments
    check     rules across rows are checked with the SQL queries that DuckDB runs in the other merge backends
    stage     called by the commit protocol; tasks write deletion files for replaced and removed rows

The driver receives conflicts, fragment metadata, and four bytes for each replaced or removed row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from omnigraph.catalog.catalog import EdgeType
from omnigraph.catalog.rules import type_of, unique_rules
from omnigraph.history.merge.partitioned.backend import MergeResult, merge_bytes
from omnigraph.history.merge.partitioned.send import MergePlan, run_merge
from omnigraph.history.merge.partitioned.task import TO_DRIVER
from omnigraph.kernels.arrays import ID
from omnigraph.load.bulk.row_rewrite import Replacements, stage_merge
from omnigraph.spark.merge_relations import SparkRelations
from omnigraph.spark.runner import SparkBatches, SparkRunner, errors_of_tasks
from omnigraph.tasks.staged_rows import StagedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.history.merge.merge_base import CommonState
    from omnigraph.history.merge.partitioned.deltas import SpillDirectory
    from omnigraph.history.merge.partitioned.hash_partitions import MergeBudget
    from omnigraph.history.merge.reconcile import MergeSettings, Pair, Reconciled
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.tasks.runner import TaskRunner
    from omnigraph.transaction.read_view import ReadView

# Bytes of changed rows per hash partition; a task holds several copies of them.
BYTES_PER_PART = 32 << 20
MOST_PARTS = 4_096


@dataclass(frozen=True)
class SparkMerge:
    """Merge backend for merges that exceed the budget or, without a budget, for all merges.

    `name` prefixes the temporary views of this merge. `writes` is False for a dry run.
    """

    session: SparkSession
    place: SpillDirectory
    name: str
    budget: MergeBudget | None = None
    writes: bool = True

    def takes(self, common: CommonState, pairs: Sequence[Pair]) -> bool:
        """Whether this backend handles a merge of these tables."""
        return bool(pairs) and (self.budget is None or merge_bytes(common, pairs) > self.budget.bytes)

    def reconcile(
        self, catalog: Catalog, view: ReadView, common: CommonState, pairs: Sequence[Pair], settings: MergeSettings
    ) -> Reconciled:
        """Merge all partitions in tasks, then check the rules across rows on the merged state."""
        plan = MergePlan(catalog, view, common)
        for pair in pairs:
            plan.add(pair, self.place, key_columns(catalog, pair[1].table_key), writes=self.writes)
        job, runner = plan.job(settings, writes=self.writes), SparkRunner(self.session)
        wanted = max(runner.cores, -(-merge_bytes(common, pairs) // BYTES_PER_PART))
        parts = min(MOST_PARTS, 1 << (wanted - 1).bit_length())
        # The job runs once: the driver reads some of its rows, and the constraint checks read the others.
        merged = cast("SparkBatches", run_merge(runner, plan.sources, job, parts)).frame.persist()
        try:
            result = MergeResult(job)
            with errors_of_tasks():
                rows: Any = merged.where(f"kind IN ({', '.join(map(repr, TO_DRIVER))})").toArrow()
            result.take(each for batch in rows.to_batches() for each in batch.to_pylist())
            stage = partial(_stage, runner, catalog, result)
            tables = {each.here.table_key: (number, each) for number, each in enumerate(job.tables)}
            return result.reconciled(
                catalog, view, stage, lambda: SparkRelations(self.session, catalog, view, merged, tables, self.name)
            )
        finally:
            merged.unpersist()


def key_columns(catalog: Catalog, table_key: str) -> tuple[str, ...]:
    """The columns that rules across rows need."""
    endpoints = ("src", "dst") if isinstance(type_of(catalog, table_key), EdgeType) else ()
    rules = [name for rule in unique_rules(catalog, table_key) for name in rule.columns]
    return tuple(dict.fromkeys([ID, *endpoints, *rules]))


def _stage(runner: TaskRunner, catalog: Catalog, result: MergeResult, table_key: str) -> Callable[[Table], Staged]:
    """The staging of one table's fragments, with deletion files for its replaced and removed rows."""
    replaced = result.replaced[table_key]
    here = next(each.here for each in result.job.tables if each.here.table_key == table_key)
    kind, location = type_of(catalog, table_key), result.job.location
    staged = StagedRows(kind, location, here.path, here.branch, tuple(replaced.fragments))
    replacements = Replacements(staged, replaced.removed, replaced.rows, replaced.row_id_span)
    return partial(stage_merge, runner=runner, replacements=replacements)
