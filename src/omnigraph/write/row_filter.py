"""Row filters over Arrow rows in memory, with exactly the meaning they have in Lance.

Three-valued logic: a comparison with null is unknown, and only true selects. Floats are in total order, NaN above all,
and `-0.0` equals `0.0` everywhere but inside lists. A test compares every answer with Lance's own.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidInput
from omnigraph.store.filters import All, AnyOf, Compare, Filter, HasItem, IsNull, Not, OneOf, Text
from omnigraph.write.same_value import one_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.store.filters import Operator, Value

    Column = pa.Array[Any]

_DAY = 86_400_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_OPERATORS: dict[Operator, Callable[..., Any]] = {
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
    """True, false or null for each row."""
    match row_filter:
        case Compare(column, operator, value):
            return _compare(_column(rows, column), operator, value)
        case OneOf(column, values):
            return _one_of(_column(rows, column), values)
        case IsNull(column):
            return pc.is_null(_column(rows, column))
        case Text(column, how, needle):
            search = pc.starts_with if how == "starts_with" else pc.match_substring
            return search(_column(rows, column), pattern=needle)
        case HasItem(column, value):
            return _has_item(_column(rows, column), value)
        case Not(operand):
            return pc.invert(truth(operand, rows))
        case All(operands):
            return _folded(operands, rows, pc.and_kleene, empty=True)
        case AnyOf(operands):
            return _folded(operands, rows, pc.or_kleene, empty=False)


def _folded(operands: Sequence[Filter], rows: pa.Table, join: Callable[..., Any], *, empty: bool) -> Column:
    result = _always(empty, rows.num_rows)
    for operand in operands:
        result = join(result, truth(operand, rows))
    return result


def _column(rows: pa.Table, name: str) -> Column:
    if name not in rows.column_names:
        raise InvalidInput(f"there is no column {name!r} to filter by; there are {', '.join(rows.column_names)}")
    return one_array(rows.column(name))


def _always(value: bool | None, length: int) -> Column:  # noqa: FBT001
    return pa.repeat(pa.scalar(value, pa.bool_()), length)


def _compare(column: Column, operator: Operator, value: Value) -> Column:
    if value is None:
        return _always(None, len(column))
    values, literal = _ordered(column, value)
    try:
        scalar = pa.scalar(literal, values.type)
    except (OverflowError, pa.ArrowInvalid):
        return _beyond(column, operator, above=literal > 0)
    return _OPERATORS[operator](values, scalar)


def _beyond(column: Column, operator: Operator, *, above: bool) -> Column:
    """Compare with an integer that lies outside of the column's type."""
    holds = operator == "!=" or (operator[0] == "<" if above else operator[0] == ">")
    return pc.if_else(pc.is_valid(column), holds, pa.scalar(None, pa.bool_()))


def _one_of(column: Column, values: Sequence[Value]) -> Column:
    if not values:
        return _always(False, len(column))
    found = pa.repeat(False, len(column))
    wanted = [each for each in values if each is not None]
    for kind in {type(each) for each in wanted}:
        found = pc.or_(found, _is_in(column, [each for each in wanted if type(each) is kind]))
    unknown = pc.is_null(column)
    if len(wanted) < len(values):
        unknown = pc.or_(unknown, pc.invert(found))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def _is_in(column: Column, values: Sequence[Value]) -> Column:
    ordered, literals = column, []
    for value in values:
        ordered, literal = _ordered(column, value)
        literals.append(literal)
    lowest, highest = _limits(ordered.type)
    inside = [each for each in literals if lowest is None or lowest <= each <= highest]
    return pc.is_in(ordered, value_set=pa.array(inside, ordered.type), skip_nulls=True)


def _limits(kind: pa.DataType) -> tuple[Any, Any]:
    if not pa.types.is_integer(kind):
        return None, None
    info = np.iinfo(kind.to_pandas_dtype())
    return int(info.min), int(info.max)


def _has_item(column: Column, value: Value) -> Column:
    if value is None:
        return _always(None, len(column))
    lists: Any = column
    items = one_array(pc.list_flatten(lists))
    parents = one_array(pc.list_parent_indices(lists)).to_numpy(zero_copy_only=False)
    ordered, literal = _ordered(items, value, exact_zero=True)
    hits = pc.equal(ordered, pa.scalar(literal, ordered.type)) if _fits(literal, ordered.type) else None
    found = np.zeros(len(column), dtype=bool)
    if hits is not None:
        found[parents[hits.fill_null(False).to_numpy(zero_copy_only=False)]] = True
    return pc.if_else(pc.is_valid(column), pa.array(found), pa.scalar(None, pa.bool_()))


def _fits(literal: Any, kind: pa.DataType) -> bool:
    lowest, highest = _limits(kind)
    return lowest is None or lowest <= literal <= highest


def _ordered(column: Column, value: Value, *, exact_zero: bool = False) -> tuple[Column, Any]:
    """Column and literal in one type whose order is the order of the values."""
    kind = column.type
    if pa.types.is_string(kind) and isinstance(value, str):
        return column, value
    if pa.types.is_boolean(kind) and isinstance(value, bool):
        return column.cast(pa.uint8()), int(value)
    if pa.types.is_date(kind) and isinstance(value, dt.date):
        return _milliseconds(column), _epoch_millis(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if pa.types.is_integer(kind) and isinstance(value, int):
            return column, value
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            wide = column.cast(pa.float64(), safe=False)
            return _total_order(wide, exact_zero=exact_zero), _order_of(_widened(value, kind), exact_zero=exact_zero)
    raise InvalidInput(f"a column of type {kind} cannot be compared with {value!r}")


def _widened(value: float, kind: pa.DataType) -> float:
    """A whole number takes the column's width first, as in Lance; a float is a double already."""
    if isinstance(value, int) and pa.types.is_float32(kind):
        return float(np.float32(value))
    return float(value)


def _order_of(value: float, *, exact_zero: bool) -> int:
    number: int = _total_order(pa.array([value], pa.float64()), exact_zero=exact_zero)[0].as_py()
    return number


def _total_order(column: Column, *, exact_zero: bool) -> Column:
    """Doubles as integers of the same order: negative NaN, negatives, zero, positives, NaN."""
    numbers = column.fill_null(0.0).to_numpy(zero_copy_only=False)
    bits = (numbers if exact_zero else numbers + 0.0).view(np.int64)
    order = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    return pa.array(order, mask=pc.is_null(column).to_numpy(zero_copy_only=False))


def _milliseconds(column: Column) -> Column:
    if pa.types.is_date64(column.type):
        return column.view(pa.int64())
    return pc.multiply(column.view(pa.int32()).cast(pa.int64()), _DAY)


def _epoch_millis(value: dt.date) -> int:
    if not isinstance(value, dt.datetime):
        return (value - _EPOCH.date()).days * _DAY
    aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
    return (aware - _EPOCH) // dt.timedelta(milliseconds=1)
