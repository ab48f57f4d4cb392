"""Merges any number of rows in this process: spills changed rows by the hash of their ids, and merges group by group.

bring       spill the differing rows by hash partition: of the source and the target, before and after the change
merge       group by group, as in memory; rows to write and ids to remove are spilled again
check       value rules with each group, all other rules as queries in DuckDB, which has a memory limit
stage       when the commit protocol asks for it: one transaction for each table
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.history.merge.conflicts import ConflictList
from omnigraph.history.merge.partitioned.changes import LargeOutcome
from omnigraph.history.merge.partitioned.constraints import Changed, RuleCheck
from omnigraph.history.merge.partitioned.deltas import SpillDirectory, SpilledRows
from omnigraph.history.merge.partitioned.hash_partitions import MergeBudget, estimated_bytes, parts_for
from omnigraph.history.merge.partitioned.relations import KeyColumnTables
from omnigraph.history.merge.partitioned.row_rewrite import stage_large
from omnigraph.history.merge.reconcile import LargeChange, Reconciled, merge_pair, table_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.history.merge.merge_base import CommonState
    from omnigraph.history.merge.reconcile import MergeSettings, Pair
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table, TableStore
    from omnigraph.transaction.read_view import ReadView


@dataclass(frozen=True)
class PartitionedMerge:
    """Takes merges with more changed rows than the budget allows, and spills them below `place`."""

    place: SpillDirectory
    budget: MergeBudget = field(default_factory=MergeBudget)

    def takes(self, common: CommonState, pairs: Sequence[Pair]) -> bool:
        """Whether the changed rows of these tables exceed the budget."""
        return merge_bytes(common, pairs) > self.budget.bytes

    def reconcile(
        self, catalog: Catalog, view: ReadView, common: CommonState, pairs: Sequence[Pair], settings: MergeSettings
    ) -> Reconciled:
        """Merge all groups of all tables, then check the rules over the merged state."""
        self.place.clear()
        outcomes = [self._settle(catalog, view, common, pair, settings) for pair in pairs]
        listed = ConflictList()
        for each in outcomes:
            listed.add(each.conflicts.conflicts, each.conflicts.more)
        large = {
            each.table_key: self._change(each, common.tables) for each in outcomes if each.put_rows or each.deleted_rows
        }
        if listed:
            return Reconciled(large=large, conflicts=tuple(listed.conflicts), more=listed.more)
        changed = {each.table_key: each for each in outcomes if each.table_key in large}
        broken = self._check(catalog, view, changed)
        return Reconciled(large=large, conflicts=tuple(broken.conflicts), more=broken.more)

    def _settle(
        self, catalog: Catalog, view: ReadView, common: CommonState, pair: Pair, settings: MergeSettings
    ) -> LargeOutcome:
        there, here = pair
        states = common.pairs(there, here)
        parts = parts_for(estimated_bytes(common.tables, states), self.budget.group_bytes)
        waiting = SpilledRows(common.tables, self.place.folder(), parts)
        for base, side in states:
            waiting.bring(base, side)
        outcome = LargeOutcome(here.table_key, self.place.folder(), parts)
        types = table_keys(view)
        for group in waiting.groups(self.budget.group_bytes):
            merged = merge_pair(common.with_deltas(waiting.group(group)), there, here, settings)
            if merged is not None:
                outcome.add(merged, catalog, types)
        waiting.forget()
        return outcome

    def _check(self, catalog: Catalog, view: ReadView, outcomes: dict[str, LargeOutcome]) -> ConflictList:
        listed = ConflictList()
        for key in sorted(outcomes):
            listed.add(outcomes[key].broken.conflicts, outcomes[key].broken.more)
        tables = KeyColumnTables(catalog, view, outcomes, self.place.folder(), memory=max(self.budget.bytes, 64 << 20))
        changed = {
            key: Changed(each.put_rows, each.deleted_rows, each.has_foreign_ids) for key, each in outcomes.items()
        }
        try:
            broken = RuleCheck(catalog, changed, tables).conflicts(table_keys(view))
        finally:
            tables.close()
        listed.add(broken.conflicts, broken.more)
        return listed

    def _change(self, outcome: LargeOutcome, tables: TableStore) -> LargeChange:
        stage = partial(self._stage, outcome=outcome, tables=tables)
        return LargeChange(outcome.table_key, outcome.put_rows, outcome.deleted_rows, stage)

    def _stage(self, table: Table, outcome: LargeOutcome, tables: TableStore) -> Staged:
        return stage_large(tables, table, outcome, self.place.folder(), self.budget.group_bytes)


def merge_bytes(common: CommonState, pairs: Sequence[Pair]) -> int:
    """About how many bytes of changed rows a merge reads."""
    return sum(estimated_bytes(common.tables, common.pairs(there, here)) for there, here in pairs)
