"""Evaluates row filters over Arrow rows in memory, with exactly the semantics they have in Lance.

Three-valued logic: a comparison with null is unknown, and only true selects. Values are fitted into the column's type
as for Lance. Floats are in total order, NaN above all, and `-0.0` equals `0.0`. A test compares every answer with
Lance's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidInput
from omnigraph.kernels.arrays import one_array, physical_type
from omnigraph.storage.filters.literals import fit, is_text, with_gap
from omnigraph.storage.filters.model import And, Compare, Filter, HasItem, IsNull, Not, OneOf, Or, TextPredicate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.storage.filters.literals import Fitted, Operator, Value

    Column = pa.Array[Any]
    Compute = Callable[..., Any]

_OPERATORS: dict[Operator, Compute] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def matching(rows: pa.Table, row_filter: Filter | None) -> pa.Table:
    """The rows for which the filter is true."""
    return rows if row_filter is None else rows.filter(truth(row_filter, rows))


def truth(row_filter: Filter, rows: pa.Table) -> Column:
    """The filter's value for each row: true, false or null."""
    match row_filter:
        case Compare(column, operator, value):
            return _compare(_column(rows, column), operator, value)
        case OneOf(column, values):
            return _one_of(_column(rows, column), values)
        case IsNull(column):
            return pc.is_null(_column(rows, column))
        case TextPredicate(column, how, needle):
            return _search(_column(rows, column), how, needle)
        case HasItem(column, value):
            return _has_item(_column(rows, column), value)
        case Not(operand):
            return pc.invert(truth(operand, rows))
        case And(operands):
            return _combined(operands, rows, pc.and_kleene, empty=True)
        case Or(operands):
            return _combined(operands, rows, pc.or_kleene, empty=False)


def _combined(operands: Sequence[Filter], rows: pa.Table, join: Compute, *, empty: bool) -> Column:
    result = _always(empty, rows.num_rows)
    for operand in operands:
        result = join(result, truth(operand, rows))
    return result


def _column(rows: pa.Table, name: str) -> Column:
    if name not in rows.column_names:
        raise InvalidInput(f"there is no column {name!r}; the columns are {', '.join(rows.column_names)}")
    return one_array(rows.column(name))


def _compare(column: Column, operator: Operator, value: Value) -> Column:
    if value is None:
        return _always(None, len(column))
    fitted = _fitted(value, column.type)
    if fitted.gap == 0:
        return _apply(operator, column, fitted)
    if operator in ("=", "!="):
        return _unless_null(column, operator == "!=")
    return _apply(with_gap(operator, fitted.gap), column, fitted)


def _apply(operator: Operator, column: Column, fitted: Fitted) -> Column:
    literal = _ordered(pa.array([fitted.value], physical_type(column.type)))[0]
    result: Column = _OPERATORS[operator](_ordered(column), literal)
    return result


def _one_of(column: Column, values: Sequence[Value]) -> Column:
    if not values:
        return _always(False, len(column))
    fitted = [_fitted(each, column.type) for each in values if each is not None]
    held = pa.array([each.value for each in fitted if each.gap == 0], physical_type(column.type))
    found = pc.is_in(_ordered(column), value_set=_ordered(held))
    # If the list has a null, a value that is not found may still equal the unknown one.
    unknown = pc.or_(pc.is_null(column), pc.invert(found)) if None in values else pc.is_null(column)
    return _where(unknown, None, found)


def _search(column: Column, how: str, needle: str) -> Column:
    if not is_text(column.type):
        raise InvalidInput(f"a column of type {column.type} has no text to search")
    search: Compute = pc.starts_with if how == "starts_with" else pc.match_substring
    result: Column = search(column, pattern=needle)
    return result


def _has_item(column: Column, value: Value) -> Column:
    kind: Any = column.type
    if not pa.types.is_list(kind):
        raise InvalidInput(f"a column of type {kind} has no items")
    if value is None:
        return _always(None, len(column))
    fitted = _fitted(value, kind.value_type)
    lists: Any = column
    items = _ordered(one_array(pc.list_flatten(lists)))
    wanted = _ordered(pa.array([fitted.value], physical_type(kind.value_type)))[0]
    hits: Any = pc.and_(pc.equal(items, wanted), pa.scalar(fitted.gap == 0)).fill_null(False)
    found = np.zeros(len(column), dtype=bool)
    found[one_array(pc.list_parent_indices(lists)).filter(hits).to_numpy(zero_copy_only=False)] = True
    return _where(pc.is_null(column), None, pa.array(found))


def _fitted(value: Value, kind: pa.DataType) -> Fitted:
    fitted = None if value is None else fit(value, kind)
    if fitted is None:
        raise InvalidInput(f"a column of type {kind} cannot be compared with {value!r}")
    return fitted


def _ordered(values: Column) -> Column:
    """The values in a type whose native order and equality are those of the filter semantics."""
    kind = values.type
    if pa.types.is_floating(kind):
        return _total_order(values.cast(pa.float64()))
    if pa.types.is_boolean(kind):
        return values.cast(pa.uint8())
    return values.view(physical_type(kind)) if pa.types.is_date(kind) else values


def _total_order(values: Column) -> Column:
    """Doubles as integers of the same order: negative NaN, negatives, zero, positives, NaN."""
    bits = (values.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0).view(np.int64)
    order = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    ordered: Column = pa.array(order, mask=pc.is_null(values).to_numpy(zero_copy_only=False))
    return ordered


def _always(value: bool | None, length: int) -> Column:
    return pa.repeat(pa.scalar(value, pa.bool_()), length)


def _unless_null(column: Column, value: bool) -> Column:
    """The same answer for every non-null row, and null for the others."""
    return _where(pc.is_null(column), None, pa.repeat(pa.scalar(value), len(column)))


def _where(condition: Any, value: bool | None, otherwise: Any) -> Column:
    result: Column = pc.if_else(condition, pa.scalar(value, pa.bool_()), otherwise)
    return result


def columns_of(row_filter: Filter) -> frozenset[str]:
    """The columns that a filter references."""
    match row_filter:
        case Not(operand):
            return columns_of(operand)
        case And(operands) | Or(operands):
            return frozenset().union(*(columns_of(each) for each in operands))
        case Compare(column) | OneOf(column) | IsNull(column) | TextPredicate(column) | HasItem(column):
            return frozenset({column})
