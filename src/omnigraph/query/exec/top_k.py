"""Finds the best matches of a ranking in a large table: fetch the top few, match the pattern, widen until sure.

The top rows suffice when as many matches as are wanted rank strictly better than the last row that was fetched, because
every row that was not fetched ranks no better than that one.

Also computes reciprocal rank fusion, which combines two rankings of the matched nodes into one score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.indexes import metric_of
from omnigraph.language.ir.expressions import Bm25, Nearest, Rrf, is_given
from omnigraph.query.columns.table_columns import SMALL_TABLE
from omnigraph.query.exec.bindings import Bindings, joined
from omnigraph.query.plan.conditions import first_ranking
from omnigraph.query.search.text import index_for_text, score_text
from omnigraph.query.search.vectors import nearest_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from omnigraph.language.ir.query import CheckedQuery
    from omnigraph.query.columns.table_columns import Int64Array
    from omnigraph.query.exec.bindings import VariableTables
    from omnigraph.query.exec.scope import Scope
    from omnigraph.storage.filters.model import Filter

_FIRST, _TIMES = 64, 8


@dataclass(frozen=True)
class TopK:
    """Finds the best matches of a ranking. `match` yields all matches of the keys that are chosen at the moment."""

    scope: Scope
    checked: CheckedQuery
    pushed: Callable[[str], Filter | None]
    match: Callable[[], Iterator[Bindings]]

    def matches(self, wanted: int) -> Iterator[Bindings] | None:
        """Matches that include the best `wanted`; None when matching everything and sorting is the better way."""
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

    def _bound(self, arm: Nearest | Bm25) -> VariableTables:
        return self.scope.read.bound(self.scope.variables[arm.field.variable])

    def _best(self, arm: Nearest | Bm25, wanted: int, *, nodes: bool) -> Bindings:
        """Matches that include the best `wanted` rows, or with `nodes` the best nodes, of one ranking."""
        read, name, most = self.scope.read, arm.field.variable, max(_FIRST, 2 * wanted)
        while True:
            read.deadline.check()
            fetched = self._fetch(arm, most)
            read.chosen[name] = np.sort(fetched)
            batches = list(self.match())
            rows = (
                joined(batches)
                if batches
                else Bindings(0, {key: np.zeros(0, np.int64) for key in self.scope.variables})
            )
            if len(fetched) < most or self._certain(arm, rows, fetched, nodes=nodes) >= wanted:
                return rows
            most *= _TIMES

    def _fetch(self, arm: Nearest | Bm25, most: int) -> Int64Array:
        bound, where = self._bound(arm), self.pushed(arm.field.variable)
        table = bound.tables[0]
        self.scope.read.profile.note(f"{table.name}.{arm.field.property}: the best {most}")
        if isinstance(arm, Bm25):
            hits = score_text(
                self.scope.read, table, arm.field.property, self.scope.searches.text(arm), most=most, where=where
            )
            self.scope.searches.cache_hits(arm, table.name, hits)
            return hits.rows
        vector = self.scope.searches.vector(arm, bound)
        assert vector is not None
        metric = metric_of(self.scope.searches.declared(arm, bound))
        exact = self.scope.read.options.exact_search
        rows, found = nearest_rows(table, arm.field.property, metric, vector, most, where, exact=exact)
        self.scope.searches.cache_nearest(arm, rows, found)
        return rows

    def _certain(self, arm: Nearest | Bm25, rows: Bindings, fetched: Int64Array, *, nodes: bool) -> int:
        """How many matches rank strictly better than every row that was not fetched."""
        if not rows.count or not len(fetched):
            return 0
        keys, bound = rows.keys[arm.field.variable], self._bound(arm)
        values = self.scope.searches.values(arm, bound, keys).to_numpy(zero_copy_only=False)
        bounds = self.scope.searches.values(arm, bound, fetched).to_numpy(zero_copy_only=False)
        better = values < np.nanmax(bounds) if isinstance(arm, Nearest) else values > np.nanmin(bounds)
        if nodes:
            return len(np.unique(keys[better]))
        return int(better.sum()) if rows.weight is None else int(rows.weight[better].sum())


def fused_scores(scope: Scope, fusion: Rrf, rows: Bindings, most: int) -> pa.Array[Any]:
    """The fused score of each row's node; null when neither ranking has it among its first `most`."""
    keys = rows.keys[fusion.first.field.variable]
    nodes, inverse = np.unique(keys, return_inverse=True)
    order = _order_of_ids(scope, fusion.first.field.variable, nodes)
    total = np.zeros(len(nodes))
    for arm in (fusion.first, fusion.second):
        ranked = _ranked(_best(scope, arm, rows, inverse, len(nodes)), order, most)
        total[ranked] += 1.0 / (fusion.k + np.arange(len(ranked)) + 1)
    scores: pa.Array[Any] = pa.array(total[inverse], mask=(total[inverse] == 0) | (keys < 0))
    return scores


def _best(scope: Scope, arm: Nearest | Bm25, rows: Bindings, inverse: Int64Array, size: int) -> NDArray[np.float64]:
    """The best value of each node in one ranking, negated for scores so that smaller is better; infinity for none."""
    values: Any = scope.ranked(arm, rows)
    missing = np.inf if isinstance(arm, Nearest) else -np.inf
    numbers = values.fill_null(missing).to_numpy(zero_copy_only=False)
    best = np.full(size, np.inf)
    np.minimum.at(best, inverse, numbers if isinstance(arm, Nearest) else -numbers)
    return best


def _ranked(best: NDArray[np.float64], order: Int64Array, most: int) -> Int64Array:
    ranked: Int64Array = np.lexsort((order, best))
    return ranked[np.isfinite(best[ranked])][:most]


def _order_of_ids(scope: Scope, variable: str, keys: Int64Array) -> Int64Array:
    ids = scope.values(variable, ["id"], keys)["id"]
    order: Any = pc.rank(ids, sort_keys="ascending", tiebreaker="first")
    numbers: Int64Array = order.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
