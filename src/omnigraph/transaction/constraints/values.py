"""Checks the rules on single values over the rows that are put: required, enum, range, check, vector."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.rules import Allowed, Dimensions, RegexRule, Required, Within
from omnigraph.errors import InvalidInput
from omnigraph.kernels.arrays import ID, one_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from omnigraph.catalog.rules import ValueRule
    from omnigraph.errors import ConstraintViolation

    Column = pa.Array[Any]


def value_violations(rules: Sequence[ValueRule], rows: pa.Table) -> Iterator[ConstraintViolation]:
    """Yield every violation in row order, and in rule order within a row."""
    broken = [(np.flatnonzero(_breaks(rule, _column(rows, rule))), rule) for rule in rules]
    for row, rule in in_row_order(broken):
        yield rule.violation(rows.column(ID)[row].as_py(), rows.column(rule.property)[row].as_py())


def in_row_order(found: Sequence[tuple[NDArray[Any], Any]]) -> Iterator[tuple[int, Any]]:
    """Merge row numbers with what was found there: by row, then in the order given."""
    found = [(rows, what) for rows, what in found if len(rows)]
    if not found:
        return
    rows = np.concatenate([each for each, _ in found])
    which = np.repeat(np.arange(len(found)), [len(each) for each, _ in found])
    for place in np.lexsort((which, rows)):
        yield int(rows[place]), found[which[place]][1]


def _column(rows: pa.Table, rule: ValueRule) -> Column:
    return one_array(rows.column(rule.property))


def _breaks(rule: ValueRule, column: Column) -> NDArray[np.bool_]:
    """Which rows break the rule."""
    match rule:
        case Required():
            return _flags(pc.is_null(column)) if column.null_count else np.zeros(len(column), bool)
        case Allowed():
            return _flags(pc.invert(pc.is_in(column, value_set=pa.array([*rule.values, None], pa.string()))))
        case Within():
            return _outside(rule, column)
        case RegexRule():
            return _flags(pc.invert(_found(rule, column)))
        case Dimensions():
            return _misshapen(rule, column)


def _flags(truth: Any) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = truth.fill_null(False).to_numpy(zero_copy_only=False)
    return flags


def _outside(rule: Within, column: Column) -> NDArray[np.bool_]:
    kind: Any = column.type
    bounds = _whole_bounds if pa.types.is_integer(kind) else _float_bounds
    minimum, maximum = bounds(rule, kind)
    below = pc.less(column, pa.scalar(minimum, kind))
    above = pc.greater(column, pa.scalar(maximum, kind))
    outside = pc.or_(below, above)
    if pa.types.is_floating(kind):
        return _flags(pc.or_(outside, pc.is_nan(column)))
    return _flags(outside)


def _whole_bounds(rule: Within, kind: pa.DataType) -> tuple[int, int]:
    """The bounds in the column's own type, without rounding; bounds that exclude the whole type come back reversed."""
    width: Any = kind.to_pandas_dtype()
    info = np.iinfo(width)
    lowest, highest = int(info.min), int(info.max)
    minimum = lowest if rule.minimum is None else math.ceil(rule.minimum)
    maximum = highest if rule.maximum is None else math.floor(rule.maximum)
    if minimum > highest or maximum < lowest:
        return highest, lowest
    return max(minimum, lowest), min(maximum, highest)


def _float_bounds(rule: Within, kind: pa.DataType) -> tuple[float, float]:
    """The bounds in the column's width: a value written like the bound is inside it, in 32 bits as in 64."""
    width: Any = kind.to_pandas_dtype()
    minimum = -math.inf if rule.minimum is None else float(width(rule.minimum))
    maximum = math.inf if rule.maximum is None else float(width(rule.maximum))
    return minimum, maximum


def _found(rule: RegexRule, column: Column) -> Any:
    try:
        return pc.match_substring_regex(column, pattern=rule.pattern)
    except pa.ArrowInvalid as error:
        raise InvalidInput(
            f"@check on {rule.type_name}.{rule.property} cannot be evaluated: {error}. Change the schema first."
        ) from error


def _misshapen(rule: Dimensions, column: Column) -> NDArray[np.bool_]:
    wrong = _flags(pc.not_equal(pc.list_value_length(column), pa.scalar(rule.dimensions)))
    lists: Any = column
    items = one_array(pc.list_flatten(lists))
    if items.null_count:
        parents = one_array(pc.list_parent_indices(lists)).to_numpy(zero_copy_only=False)
        wrong[parents[_flags(pc.is_null(items))]] = True
    return wrong & _flags(pc.is_valid(column))
