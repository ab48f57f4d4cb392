"""The best of a ranking in a large table: ask the table for a few, match the rest of the pattern, ask for more.

A few of the nearest are enough when so many matches as are wanted lie nearer than the farthest of them: whatever was
not asked for is farther still.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.language.query.expressions import Bm25, Nearest, Rrf, is_given
from omnigraph.language.schema.indexes import metric_of
from omnigraph.read.execute.rows import Rows, joined
from omnigraph.read.execute.table_rows import SMALL_TABLE
from omnigraph.read.plan.sorting import first_ranking
from omnigraph.read.search.text import index_for_text, score_text
from omnigraph.read.search.vectors import nearest_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.language.query.checked import CheckedQuery
    from omnigraph.read.execute.bound import Bound
    from omnigraph.read.execute.scope import Scope
    from omnigraph.read.execute.table_rows import Numbers
    from omnigraph.store.filters import Filter

_FIRST, _TIMES = 64, 8


@dataclass(frozen=True)
class Deepening:
    """Finds the matches that are ranked best. `match` gives all matches for the rows that are chosen at the moment."""

    scope: Scope
    checked: CheckedQuery
    pushed: Callable[[str], Filter | None]
    match: Callable[[], Iterator[Rows]]

    def matches(self, wanted: int) -> Iterator[Rows] | None:
        """Matches among which the best `wanted` are; None when asking for all of them at once is the better way."""
        ranking = first_ranking(self.checked)
        if ranking is None or not wanted or self.checked.aggregated or self.checked.distinct:
            return None
        if isinstance(ranking, Bm25) and not self.checked.order[0].descending:
            return None
        arms = (ranking.first, ranking.second) if isinstance(ranking, Rrf) else (ranking,)
        if len({arm.field.variable for arm in arms}) > 1 or not all(self._pays(arm) for arm in arms):
            return None
        found = [self._best(arm, wanted, nodes=isinstance(ranking, Rrf)) for arm in arms]
        if len(arms) == 1:
            return iter((found[0],))
        name = arms[0].field.variable
        self.scope.read.chosen[name] = np.unique(np.concatenate([each.keys[name] for each in found]))
        return self.match()

    def _pays(self, arm: Nearest | Bm25) -> bool:
        variable = self.scope.variables[arm.field.variable]
        introduced = {each.name for each in self.checked.pattern.variables}
        if not is_given(arm) or variable.name not in introduced or len(variable.types) != 1:
            return False
        table = self._bound(arm).tables[0]
        if table.size <= SMALL_TABLE:
            return False
        if isinstance(arm, Nearest):
            return self.scope.searches.vector(arm, self._bound(arm)) is not None
        return index_for_text(self.scope.read, table, arm.field.property)

    def _bound(self, arm: Nearest | Bm25) -> Bound:
        return self.scope.read.bound(self.scope.variables[arm.field.variable])

    def _best(self, arm: Nearest | Bm25, wanted: int, *, nodes: bool) -> Rows:
        """Matches among which are the best rows, or with `nodes` the best nodes, of one ranking."""
        read, name, most = self.scope.read, arm.field.variable, max(_FIRST, 2 * wanted)
        while True:
            read.deadline.check()
            asked = self._asked(arm, most)
            read.chosen[name] = np.sort(asked)
            batches = list(self.match())
            rows = joined(batches) if batches else Rows(0, {key: np.zeros(0, np.int64) for key in self.scope.variables})
            if len(asked) < most or self._surely(arm, rows, asked, nodes=nodes) >= wanted:
                return rows
            most *= _TIMES

    def _asked(self, arm: Nearest | Bm25, most: int) -> Numbers:
        bound, where = self._bound(arm), self.pushed(arm.field.variable)
        table = bound.tables[0]
        self.scope.read.profile.note(f"{table.name}.{arm.field.property}: the best {most}")
        if isinstance(arm, Bm25):
            hits = score_text(
                self.scope.read, table, arm.field.property, self.scope.searches.text(arm), most=most, where=where
            )
            self.scope.searches.remember(arm, table.name, hits)
            return hits.rows
        vector = self.scope.searches.vector(arm, bound)
        assert vector is not None
        metric = metric_of(self.scope.searches.declared(arm, bound))
        exact = self.scope.read.options.exact_search
        rows, found = nearest_rows(table, arm.field.property, metric, vector, most, where, exact=exact)
        self.scope.searches.remember_nearest(arm, rows, found)
        return rows

    def _surely(self, arm: Nearest | Bm25, rows: Rows, asked: Numbers, *, nodes: bool) -> int:
        """How many matches are better than everything that was not asked for."""
        if not rows.count or not len(asked):
            return 0
        keys, bound = rows.keys[arm.field.variable], self._bound(arm)
        values = self.scope.searches.values(arm, bound, keys).to_numpy(zero_copy_only=False)
        edge = self.scope.searches.values(arm, bound, asked).to_numpy(zero_copy_only=False)
        better = values < np.nanmax(edge) if isinstance(arm, Nearest) else values > np.nanmin(edge)
        if nodes:
            return len(np.unique(keys[better]))
        return int(better.sum()) if rows.weight is None else int(rows.weight[better].sum())
