"""Merges two branches on Spark when their changes exceed the memory budget.

    send      tasks read the changed rows of both sides and the row locations of the target, by hash partition of the id
    settle    the task of a partition merges its rows like the in-memory merge and writes changed rows as fragments
    check     rules across rows are checked with the SQL queries that DuckDB runs in the other merge backends
    stage     called by the commit protocol; tasks write deletion files for replaced and removed rows

The driver receives conflicts, fragment metadata, and four bytes for each replaced or removed row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from omnigraph.catalog.catalog import EdgeType
from omnigraph.catalog.rules import type_of, unique_rules
from omnigraph.history.merge.conflicts import ConflictList
from omnigraph.history.merge.partitioned.backend import merge_bytes
from omnigraph.history.merge.partitioned.constraints import Changed, RuleCheck
from omnigraph.history.merge.partitioned.deltas import differing_reads
from omnigraph.history.merge.partitioned.send import PACKET, RowSource, place_sources, sources
from omnigraph.history.merge.partitioned.task import RESULT, TOLD, MergeJob, TableJob, conflicts_in
from omnigraph.history.merge.reconcile import LargeChange, Reconciled, table_keys
from omnigraph.kernels.arrays import ID
from omnigraph.load.bulk.row_rewrite import Replacements, stage_merge
from omnigraph.spark.merge_relations import SparkRelations
from omnigraph.spark.runner import SparkRunner, errors_of_tasks, one_task_each
from omnigraph.spark.types import spark_schema
from omnigraph.tasks.runner import PARTITION, grouped_rows
from omnigraph.tasks.staged_rows import StagedFragment, StagedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.history.merge.merge_base import CommonState
    from omnigraph.history.merge.partitioned.deltas import SpillDirectory
    from omnigraph.history.merge.partitioned.hash_partitions import MergeBudget
    from omnigraph.history.merge.reconcile import MergeSettings, Pair
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

    @property
    def runner(self) -> SparkRunner:
        """The task runner of the session."""
        return SparkRunner(self.session)

    def takes(self, common: CommonState, pairs: Sequence[Pair]) -> bool:
        """Whether this backend handles a merge of these tables."""
        return bool(pairs) and (self.budget is None or merge_bytes(common, pairs) > self.budget.bytes)

    def reconcile(
        self, catalog: Catalog, view: ReadView, common: CommonState, pairs: Sequence[Pair], settings: MergeSettings
    ) -> Reconciled:
        """Merge all partitions in tasks, then check the rules across rows on the merged state."""
        plan = _MergePlan(catalog, view, common)
        for pair in pairs:
            plan.add(pair, self.place)
        job = plan.job(settings, writes=self.writes)
        result = self._settle(plan.sources, job, merge_bytes(common, pairs)).persist()
        try:
            told = _MergeResult(job)
            with errors_of_tasks():
                rows: Any = result.where(f"kind IN ({', '.join(map(repr, TOLD))})").toArrow()
            told.take(rows)
            large = {each.table_key: each for each in told.changes(self.runner)}
            if told.conflicts:
                return Reconciled(large=large, conflicts=tuple(told.conflicts.conflicts), more=told.conflicts.more)
            broken = self._check(catalog, view, result, told)
            return Reconciled(large=large, conflicts=tuple(broken.conflicts), more=broken.more)
        finally:
            result.unpersist()

    def _settle(self, found: Sequence[RowSource], job: MergeJob, size: int) -> DataFrame:
        wanted = max(self.runner.cores, -(-size // BYTES_PER_PART))
        parts = min(MOST_PARTS, 1 << (wanted - 1).bit_length())

        def send(group: list[RowSource]) -> Iterator[pa.RecordBatch]:
            for source in group:
                yield from source.packets(parts)

        groups = grouped_rows(self.runner, found, lambda each: each.rows)
        sent = one_task_each(self.session, groups, send, PACKET)
        return sent.repartitionById(parts, PARTITION).mapInArrow(job.run, spark_schema(RESULT))

    def _check(self, catalog: Catalog, view: ReadView, result: DataFrame, told: _MergeResult) -> ConflictList:
        listed = ConflictList()
        listed.add(told.broken.conflicts, told.broken.more)
        tables = {each.here.table_key: (number, each) for number, each in enumerate(told.job.tables)}
        relations = SparkRelations(self.session, catalog, view, result, tables, self.name)
        try:
            broken = RuleCheck(catalog, told.changed(), relations).conflicts(table_keys(view))
        finally:
            relations.close()
        listed.add(broken.conflicts, broken.more)
        return listed


@dataclass
class _MergePlan:
    """The row sources of a merge, each with the slot under which its packets arrive."""

    catalog: Catalog
    view: ReadView
    common: CommonState
    sources: list[RowSource] = field(default_factory=list)
    tables: list[TableJob] = field(default_factory=list)
    _slots: int = 0

    def add(self, pair: Pair, place: SpillDirectory) -> None:
        """Add one table. Differences that must be spilled go below `place`."""
        there, here = pair
        tables, location = self.common.tables, self.common.tables.location
        slots = []
        for base, side in self.common.pairs(there, here):
            if base is not None and base.pin == side.pin:
                continue
            before, after = differing_reads(tables, base, side, place.folder())
            slot = self._next(2)
            slots.append(((base, side), slot))
            self.sources += sources(slot, location, tables.open((base or side).pin), before)
            self.sources += sources(slot + 1, location, tables.open(side.pin), after)
        placed = self._next(1)
        self.sources += place_sources(placed, location, tables.open(here.pin))
        self.tables.append(TableJob(there, here, tuple(slots), placed, self._narrow(here.table_key)))

    def job(self, settings: MergeSettings, *, writes: bool) -> MergeJob:
        """The parameters of the merge tasks."""
        common = self.common
        return MergeJob(
            common.tables.location,
            self.catalog,
            table_keys(self.view),
            common.root,
            common.tips,
            common.reshaping,
            tuple(self.tables),
            settings.by_property,
            settings.resolver,
            writes,
        )

    def _next(self, count: int) -> int:
        self._slots += count
        return self._slots - count

    def _narrow(self, table_key: str) -> tuple[str, ...]:
        """The columns that rules across rows need."""
        ends = ("src", "dst") if isinstance(type_of(self.catalog, table_key), EdgeType) else ()
        rules = [name for rule in unique_rules(self.catalog, table_key) for name in rule.columns]
        return tuple(dict.fromkeys([ID, *ends, *rules]))


@dataclass
class _MergeResult:
    """The results of the merge tasks, by table."""

    job: MergeJob
    conflicts: ConflictList = field(default_factory=ConflictList)
    broken: ConflictList = field(default_factory=ConflictList)
    _counts: dict[int, list[dict[str, int]]] = field(default_factory=dict)
    _fragments: dict[int, list[StagedFragment]] = field(default_factory=dict)
    # Offsets of replaced and removed rows, by table and committed fragment.
    _removed: dict[int, dict[int, bytes]] = field(default_factory=dict)
    # By table: the number of replaced rows, and their lowest and highest row id.
    _replaced: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def take(self, rows: pa.Table) -> None:
        """Add result rows, dispatched by kind."""
        take: dict[str, Callable[[int, int, bytes], None]] = {
            "conflicts": lambda _, more, body: self.conflicts.add(conflicts_in(body), more),
            "broken": lambda _, more, body: self.broken.add(conflicts_in(body), more),
            "counts": lambda table, _, body: self._counts.setdefault(table, []).append(json.loads(body)),
            "fragment": self._take_fragment,
            "replaced": self._take_replaced,
            "gone": self._take_removed,
        }
        for batch in rows.to_batches():
            for each in batch.to_pylist():
                take[each["kind"]](each["number"], each["rows"], each["body"])

    def changed(self) -> dict[str, Changed]:
        """The change counts of each changed table, for the rule check."""
        found = {}
        for number, counts in self._counts.items():
            puts, deletes = (sum(each[name] for each in counts) for name in ("puts", "deletes"))
            foreign = any(each["foreign"] for each in counts)
            if puts or deletes:
                found[self.job.tables[number].here.table_key] = Changed(puts, deletes, foreign)
        return found

    def changes(self, runner: TaskRunner) -> Iterator[LargeChange]:
        """The staging of each changed table."""
        changed = self.changed()
        for number, table in enumerate(self.job.tables):
            key = table.here.table_key
            if key in changed:
                stage = partial(stage_merge, runner=runner, replacements=self._replacements(number))
                yield LargeChange(key, changed[key].puts, changed[key].deletes, stage)

    def _replacements(self, number: int) -> Replacements:
        here = self.job.tables[number].here
        kind = type_of(self.job.catalog, here.table_key)
        fragments = tuple(self._fragments.get(number, ()))
        staged = StagedRows(kind, self.job.location, here.path, here.branch, fragments)
        rows, low, high = self._replaced.get(number, (0, 0, 0))
        return Replacements(staged, self._removed.get(number, {}), rows, high - low)

    def _take_fragment(self, table: int, rows: int, body: bytes) -> None:
        held = self._fragments.setdefault(table, [])
        held.append(StagedFragment(len(held), 0, rows, body.decode()))

    def _take_replaced(self, table: int, rows: int, body: bytes) -> None:
        low, high = json.loads(body)
        held, lowest, highest = self._replaced.get(table, (0, low, high))
        self._replaced[table] = held + rows, min(lowest, low), max(highest, high)

    def _take_removed(self, table: int, fragment: int, offsets: bytes) -> None:
        held = self._removed.setdefault(table, {})
        held[fragment] = held.get(fragment, b"") + offsets
