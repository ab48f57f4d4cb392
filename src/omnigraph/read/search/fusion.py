"""Reciprocal rank fusion: two rankings of the matched nodes become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.query.expressions import Nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omnigraph.language.query.expressions import Bm25, Rrf
    from omnigraph.read.execute.rows import Rows
    from omnigraph.read.execute.scope import Scope
    from omnigraph.read.execute.table_rows import Numbers


def fused_scores(scope: Scope, fusion: Rrf, rows: Rows, most: int) -> pa.Array[Any]:
    """The score of each row's node; null when neither ranking has it among its first `most`."""
    keys = rows.keys[fusion.first.field.variable]
    nodes, places = np.unique(keys, return_inverse=True)
    order = _order_of_ids(scope, fusion.first.field.variable, nodes)
    total = np.zeros(len(nodes))
    for arm in (fusion.first, fusion.second):
        ranked = _ranked(_best(scope, arm, rows, places, len(nodes)), order, most)
        total[ranked] += 1.0 / (fusion.k + np.arange(len(ranked)) + 1)
    scores: pa.Array[Any] = pa.array(total[places], mask=(total[places] == 0) | (keys < 0))
    return scores


def _best(scope: Scope, arm: Nearest | Bm25, rows: Rows, places: Numbers, size: int) -> NDArray[np.float64]:
    """For each node its best value of one ranking, smaller being better; infinity when it has none."""
    values: Any = scope.ranked(arm, rows)
    missing = np.inf if isinstance(arm, Nearest) else -np.inf
    numbers = values.fill_null(missing).to_numpy(zero_copy_only=False)
    best = np.full(size, np.inf)
    np.minimum.at(best, places, numbers if isinstance(arm, Nearest) else -numbers)
    return best


def _ranked(best: NDArray[np.float64], order: Numbers, most: int) -> Numbers:
    ranked: Numbers = np.lexsort((order, best))
    return ranked[np.isfinite(best[ranked])][:most]


def _order_of_ids(scope: Scope, variable: str, keys: Numbers) -> Numbers:
    ids = scope.values(variable, ["id"], keys)["id"]
    order: Any = pc.rank(ids, sort_keys="ascending", tiebreaker="first")
    numbers: Numbers = order.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
