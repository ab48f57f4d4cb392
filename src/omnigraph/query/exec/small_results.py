"""Builds results of a few rows that only select and order existing values, which is faster here than in DuckDB.

The order must be exactly the one that DuckDB would produce.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.kernels.arrays import one_array
from omnigraph.language.ir.expressions import Bm25, ColumnValue, EntityValue, Expression, Nearest, PropertyValue, Rrf
from omnigraph.query.plan.conditions import is_sure_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.expressions.result_query import LimitOffset
    from omnigraph.language.ir.query import CheckedQuery

FEW = 1_000
_PICKED = PropertyValue | EntityValue | Nearest | Bm25 | Rrf


def is_picked(checked: CheckedQuery, *, alone: bool) -> bool:
    """Whether the result only selects properties, entities and rankings, and computes nothing.

    When every match is a group by itself (`alone`), the weight of the match is its count.
    """
    if checked.distinct or checked.having or (checked.aggregated and not alone):
        return False
    values = [*(each.value for each in checked.columns), *(source(checked, each.value) for each in checked.order)]
    if not checked.aggregated:
        return all(isinstance(each, _PICKED) for each in values)
    sure = frozenset(each.name for each in checked.pattern.variables)
    return all(is_sure_count(each, sure) or _is_scalar(each) for each in values)


def _is_scalar(value: Expression) -> bool:
    """Whether Python orders the values as DuckDB does."""
    if isinstance(value, EntityValue):
        return True
    return isinstance(value, PropertyValue) and not value.type.is_list and value.type.scalar != "Vector"


def source(checked: CheckedQuery, value: Expression) -> Expression:
    """The expression that a column alias stands for."""
    return checked.columns[value.index].value if isinstance(value, ColumnValue) else value


def picked(
    checked: CheckedQuery,
    table: pa.Table,
    name_of: Callable[[Expression], str],
    identifying: Callable[[str], Sequence[Expression]],
    ties: Sequence[Expression],
    required: Sequence[Expression],
    bounds: LimitOffset,
) -> pa.Table:
    """Select and order rows of the matches exactly as DuckDB would, within limit and offset."""
    rows = list(range(table.num_rows))
    for each in required:
        values = table.column(name_of(each)).to_pylist()
        rows = [row for row in rows if values[row] is not None]
    keys: list[tuple[Expression, bool]] = []
    for key in checked.order:
        value = source(checked, key.value)
        sort_values = identifying(value.variable) if isinstance(value, EntityValue) else [value]
        keys += [(sort_value, key.descending) for sort_value in sort_values or [value]]
    if checked.order or checked.aggregated:
        keys += [(each, False) for each in ties]
    for value, descending in reversed(keys):
        ranks = [_rank(each) for each in table.column(name_of(value)).to_pylist()]
        rows.sort(key=ranks.__getitem__, reverse=descending)
    end = None if bounds.limit is None else bounds.offset + bounds.limit
    wanted: Any = pa.array(rows[bounds.offset : end], pa.int64())
    columns = [one_array(table.column(name_of(column.value))).take(wanted) for column in checked.columns]
    return pa.table(columns, names=[f"c{index}" for index in range(len(columns))])


def _rank(value: Any) -> tuple[int, Any]:
    """Sort key: null first, NaN last."""
    if value is None:
        return (0, 0)
    return (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)
