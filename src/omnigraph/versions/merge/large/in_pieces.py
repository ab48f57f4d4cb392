"""A merge of any size in this process: changed rows are laid down by the part of their ids, and settled in pieces.

bring       rows that differ go to disk, by part: of the source, of the target, as they were and as they are
settle      piece by piece, as in memory; what is to be put or removed goes to disk again
check       values with each piece, the other rules as questions to DuckDB, which has its memory limited
stage       when the commit protocol says so: one transaction for each table
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.versions.merge.conflicts import Listed
from omnigraph.versions.merge.large.budget import MergeBudget, estimated_bytes
from omnigraph.versions.merge.large.narrow import NarrowTables
from omnigraph.versions.merge.large.outcome import LargeOutcome
from omnigraph.versions.merge.large.parted import parts_for
from omnigraph.versions.merge.large.rules import Changed, RuleCheck
from omnigraph.versions.merge.large.staging import stage_large
from omnigraph.versions.merge.large.waiting import Place, WaitingRows
from omnigraph.versions.merge.reconcile import LargeChange, Reconciled, merge_pair, table_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.language.schema.catalog import Catalog
    from omnigraph.store.staging import Staged
    from omnigraph.store.tables import Table, TableStore
    from omnigraph.versions.merge.bases import CommonState
    from omnigraph.versions.merge.reconcile import Pair, Settings
    from omnigraph.write.view import View


@dataclass(frozen=True)
class InPieces:
    """Takes merges of more changed rows than the budget allows, and works on them below `place`."""

    place: Place
    budget: MergeBudget = field(default_factory=MergeBudget)

    def takes(self, common: CommonState, pairs: Sequence[Pair]) -> bool:
        """Whether these tables have more changed rows than are held in memory."""
        return merge_bytes(common, pairs) > self.budget.bytes

    def reconcile(
        self, catalog: Catalog, view: View, common: CommonState, pairs: Sequence[Pair], settings: Settings
    ) -> Reconciled:
        """Settle all pieces of all tables, then ask whether the merged whole keeps the rules."""
        self.place.clear()
        outcomes = [self._settle(catalog, view, common, pair, settings) for pair in pairs]
        listed = Listed()
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
        self, catalog: Catalog, view: View, common: CommonState, pair: Pair, settings: Settings
    ) -> LargeOutcome:
        there, here = pair
        states = common.pairs(there, here)
        parts = parts_for(estimated_bytes(common.tables, states), self.budget.piece)
        waiting = WaitingRows(common.tables, self.place.folder(), parts)
        for base, side in states:
            waiting.bring(base, side)
        outcome = LargeOutcome(here.table_key, self.place.folder(), parts)
        types = table_keys(view)
        for piece in waiting.pieces(self.budget.piece):
            merged = merge_pair(common.with_deltas(waiting.piece(piece)), there, here, settings)
            if merged is not None:
                outcome.add(merged, catalog, types)
        waiting.forget()
        return outcome

    def _check(self, catalog: Catalog, view: View, outcomes: dict[str, LargeOutcome]) -> Listed:
        listed = Listed()
        for key in sorted(outcomes):
            listed.add(outcomes[key].broken.conflicts, outcomes[key].broken.more)
        tables = NarrowTables(catalog, view, outcomes, self.place.folder(), memory=max(self.budget.bytes, 64 << 20))
        changed = {
            key: Changed(each.put_rows, each.deleted_rows, each.has_foreign_ids) for key, each in outcomes.items()
        }
        try:
            broken = RuleCheck(catalog, changed, tables).broken(table_keys(view))
        finally:
            tables.close()
        listed.add(broken.conflicts, broken.more)
        return listed

    def _change(self, outcome: LargeOutcome, tables: TableStore) -> LargeChange:
        stage = partial(self._stage, outcome=outcome, tables=tables)
        return LargeChange(outcome.table_key, outcome.put_rows, outcome.deleted_rows, stage)

    def _stage(self, table: Table, outcome: LargeOutcome, tables: TableStore) -> Staged:
        return stage_large(tables, table, outcome, self.place.folder(), self.budget.piece)


def merge_bytes(common: CommonState, pairs: Sequence[Pair]) -> int:
    """About how many bytes of changed rows a merge has to do with."""
    return sum(estimated_bytes(common.tables, common.pairs(there, here)) for there, here in pairs)
