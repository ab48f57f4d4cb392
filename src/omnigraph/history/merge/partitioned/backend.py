"""Merges any number of rows in this process, and collects the results of merge tasks for every engine.

send        read the differing rows of both sides, and spill them by the hash partition of their ids
merge       group of partitions by group, as in memory; rows to write and ids to remove are spilled again
check       value rules with each group, all other rules as queries in DuckDB, which has a memory limit
stage       when the commit protocol asks for it: one transaction for each table
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from omnigraph.history.merge.conflicts import ConflictList
from omnigraph.history.merge.incident_edges import DisputedNodes, EdgesOfNodes, node_entries
from omnigraph.history.merge.partitioned.constraints import Changed, Relations, RuleCheck
from omnigraph.history.merge.partitioned.hash_partitions import MergeBudget, estimated_bytes, partitions_for
from omnigraph.history.merge.partitioned.relations import KeyColumnTables
from omnigraph.history.merge.partitioned.row_rewrite import SpilledChange, stage_large
from omnigraph.history.merge.partitioned.send import MergePlan, run_merge
from omnigraph.history.merge.partitioned.task import conflicts_in
from omnigraph.history.merge.reconcile import LargeChange, Reconciled, table_keys
from omnigraph.tasks.local_runner import LocalBatches, LocalRunner
from omnigraph.tasks.runner import unpack
from omnigraph.tasks.staged_rows import StagedFragment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.history.merge.incident_edges import Fates
    from omnigraph.history.merge.merge_base import CommonState
    from omnigraph.history.merge.partitioned.deltas import SpillDirectory
    from omnigraph.history.merge.partitioned.task import Kind, MergeJob
    from omnigraph.history.merge.reconcile import MergePairs, MergeSettings, Pair
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.read_view import ReadView

    Stage = Callable[[Table], Staged]


_NOTHING: Mapping[str, SpilledChange] = {}


@dataclass(frozen=True)
class PartitionedMerge:
    """Takes merges with more changed rows than the budget allows, and spills them to a temporary directory."""

    spill: SpillDirectory
    budget: MergeBudget = field(default_factory=MergeBudget)

    def takes(self, common: CommonState, pairs: Sequence[Pair]) -> bool:
        """Whether the changed rows of these tables exceed the budget."""
        return merge_bytes(common, pairs) > self.budget.bytes

    def reconcile(
        self, catalog: Catalog, view: ReadView, common: CommonState, pairs: MergePairs, settings: MergeSettings
    ) -> Reconciled:
        """Merge all groups of partitions, nodes before edges, then check the rules over the merged state."""
        self.spill.clear()
        plan = MergePlan(catalog, view, common)
        runner = LocalRunner(group_bytes=self.budget.group_bytes)
        spilled: dict[str, SpilledChange] = {}

        def run(some: Sequence[Pair], job: MergeJob) -> Iterable[dict[str, Any]]:
            partitions = partitions_for(merge_bytes(common, some), self.budget.group_bytes)
            folders = {each.here.table_key: self.spill.folder() for each in job.tables[job.first :]}
            spilled.update({key: SpilledChange(folder, partitions) for key, folder in folders.items()})
            batches = cast("LocalBatches", run_merge(runner, plan.sources, job, partitions)).stream()
            return (each for batch in batches for each in batch.to_pylist())

        result = MergeResult(plan.job(settings, writes=False))
        for some in result.phases(plan, pairs, lambda pair: plan.add(pair, self.spill, None, writes=False)):
            result.take(run(some, result.job), spilled)

        def stage(key: str) -> Stage:
            return partial(
                stage_large,
                tables=common.tables,
                change=spilled[key],
                spill=self.spill,
                group_bytes=self.budget.group_bytes,
            )

        memory = max(self.budget.bytes, 64 << 20)
        return result.reconciled(
            catalog, view, stage, lambda: KeyColumnTables(catalog, view, spilled, self.spill.folder(), memory=memory)
        )


def merge_bytes(common: CommonState, pairs: Sequence[Pair]) -> int:
    """About how many bytes of changed rows a merge reads."""
    return sum(estimated_bytes(common.tables, common.pairs(there, here)) for there, here in pairs)


class ClosableRelations(Relations, Protocol):
    """Relations for the constraint checks of one merge."""

    def close(self) -> None:
        """Drop the relations."""
        ...


@dataclass
class Replaced:
    """The rows of a table that tasks have replaced: fragments, removed offsets by old fragment, and row ids."""

    fragments: list[StagedFragment] = field(default_factory=list)
    removed: dict[int, bytes] = field(default_factory=dict)
    rows: int = 0
    row_ids: list[int] = field(default_factory=list)

    def add(self, kind: Kind, rows: int, body: bytes) -> None:
        """Add a row of `RESULT` of one of these kinds."""
        if kind == "fragment":
            self.fragments.append(StagedFragment(len(self.fragments), 0, rows, body.decode()))
        elif kind == "replaced":
            self.rows += rows
            self.row_ids += json.loads(body)
        else:
            self.removed[rows] = self.removed.get(rows, b"") + body

    @property
    def row_id_span(self) -> int:
        """The difference between the highest and the lowest row id of replaced rows."""
        return max(self.row_ids) - min(self.row_ids) if self.row_ids else 0


@dataclass
class MergeResult:
    """The results of the merge tasks, by table."""

    job: MergeJob
    conflicts: ConflictList = field(default_factory=ConflictList)
    broken: ConflictList = field(default_factory=ConflictList)
    changed: dict[str, Changed] = field(default_factory=dict)
    replaced: dict[str, Replaced] = field(default_factory=dict)
    fates: list[tuple[str, Fates]] = field(default_factory=list)
    edges: EdgesOfNodes = field(default_factory=EdgesOfNodes)
    restored: set[str] = field(default_factory=set)
    resolved: set[str] = field(default_factory=set)

    def phases(self, plan: MergePlan, pairs: MergePairs, add: Callable[[Pair], None]) -> Iterator[Sequence[Pair]]:
        """Yield the tables to merge at a time, nodes before edges; the caller runs `job` and takes its result."""
        some: Sequence[Pair] = pairs.nodes
        for is_last in (False, True):
            disputed = DisputedNodes.of(self.fates)
            if is_last:
                some = pairs.edges(plan.catalog, plan.view, disputed)
            first = len(plan.tables)
            plan.sources.clear()
            for pair in some:
                add(pair)
            entries = node_entries(pairs.every)
            self.job = replace(
                self.job, tables=tuple(plan.tables), first=first, disputed=disputed, entries=entries if is_last else {}
            )
            if some:
                yield some

    def take(self, rows: Iterable[dict[str, Any]], spilled: Mapping[str, SpilledChange] = _NOTHING) -> None:
        """Add rows of `RESULT`. `spilled` takes the rows to write and the ids to remove."""
        for each in rows:
            key = self.job.tables[each["number"]].here.table_key
            self._take(key, each["kind"], each["rows"], each["body"], spilled)

    def _take(self, key: str, kind: Kind, rows: int, body: bytes, spilled: Mapping[str, SpilledChange]) -> None:
        match kind:
            case "conflicts":
                self.conflicts.add(conflicts_in(body), rows)
            case "broken":
                self.broken.add(conflicts_in(body), rows)
            case "fates":
                self.fates.append((key, json.loads(body)))
            case "edges":
                self.edges.add_all(*json.loads(body))
            case "counts":
                self._count(key, **json.loads(body))
            case "puts":
                spilled[key].put(unpack(body))
            case "deletes":
                spilled[key].delete(unpack(body))
            case _:
                self.replaced.setdefault(key, Replaced()).add(kind, rows, body)

    def _count(self, key: str, puts: int, deletes: int, *, foreign: bool, restored: int, resolved: list[str]) -> None:
        self.resolved.update(resolved)
        if restored:
            self.restored.add(key)
        before = self.changed.get(key, Changed(0, 0, has_foreign_ids=False))
        if puts or deletes or key in self.changed:
            self.changed[key] = Changed(
                before.puts + puts, before.deletes + deletes, has_foreign_ids=before.has_foreign_ids or foreign
            )

    def reconciled(
        self, catalog: Catalog, view: ReadView, stage: Callable[[str], Stage], open_: Callable[[], ClosableRelations]
    ) -> Reconciled:
        """The changes with their row conflicts; if there are none, with the violations of the merged state."""
        large = {
            key: LargeChange(key, each.puts, each.deletes, stage(key)) for key, each in sorted(self.changed.items())
        }
        found = self.conflicts or self._violations(catalog, view, open_)
        return Reconciled(
            large=large,
            conflicts=self.edges.shown_with(found.conflicts),
            more=found.more,
            restored=frozenset(self.restored),
            resolved=frozenset(self.resolved),
        )

    def _violations(self, catalog: Catalog, view: ReadView, open_: Callable[[], ClosableRelations]) -> ConflictList:
        relations = open_()
        try:
            broken = RuleCheck(catalog, self.changed, relations).conflicts(table_keys(view))
        finally:
            relations.close()
        self.broken.add(broken.conflicts, broken.more)
        return self.broken
