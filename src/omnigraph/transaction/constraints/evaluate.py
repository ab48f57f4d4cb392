"""What violates a rule: pure functions on Arrow tables, the one definition of the rules of `catalog/rules.py`.

Drivers choose the rows to compare and call these functions: `validate.py` for a change in memory, `exchange/` for bulk
loads, `ddl/data_checks.py` for a new rule over existing rows. `history/merge/partitioned/constraints.py` is the same
definition in SQL, for merges whose rows DuckDB or Spark must spill.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.rules import Allowed, Dimensions, RegexRule, Required, Within
from omnigraph.errors import InvalidInput
from omnigraph.kernels.arrays import ID, comparable, one_array
from omnigraph.kernels.equality import NO_VALUE, first_rows, is_among, tuple_codes, value_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from omnigraph.catalog.rules import EdgeCount, Endpoint, Unique, ValueRule
    from omnigraph.errors import CardinalityViolation, OrphanEdge, UniqueViolation, ValueViolation

    Column = pa.Array[Any]
    Ids = pa.Array[Any]
    Positions = NDArray[np.int64]

SOURCE = "src"
Error = TypeVar("Error")


def value_violations(rules: Sequence[ValueRule], rows: pa.Table) -> Iterator[ValueViolation]:
    """Yield every violation of a rule on single values, in row order, and in rule order within a row."""
    found = [_wrong_values(rule, rows) for rule in rules]
    return (error for _, error in in_row_order(*found))


def _wrong_values(rule: ValueRule, rows: pa.Table) -> Iterator[tuple[int, ValueViolation]]:
    column = one_array(rows.column(rule.property))
    for row in np.flatnonzero(_breaks(rule, column)):
        yield int(row), rule.violation(rows.column(ID)[int(row)].as_py(), column[int(row)].as_py())


def unique_violations(
    rule: Unique, put: pa.Table, committed: pa.Table, compared: NDArray[np.bool_] | None = None
) -> Iterator[tuple[int, UniqueViolation]]:
    """Yield each row of `put` whose tuple another row holds, with its position, in row order.

    `committed` are rows that stay. The reported holder is one of them, else the first row put. `compared` masks the
    rows to compare with them, by default all. A tuple with a null is exempt.
    """
    codes, size = tuple_codes([put.column(name) for name in rule.columns])
    chosen = codes != NO_VALUE if compared is None else compared & (codes != NO_VALUE)
    earlier, held = _earlier(codes, size), _held(rule, put, committed, chosen)
    ids = put.column(ID)
    for row in np.flatnonzero((earlier != NO_VALUE) | (held != NO_VALUE)):
        at = int(row)
        holder: Any = committed.column(ID)[int(held[at])] if held[at] != NO_VALUE else ids[int(earlier[at])]
        values = tuple(value_at(put.column(name), at) for name in rule.columns)
        yield at, rule.violation(ids[at].as_py(), values, holder.as_py())


def endpoint_violations(rule: Endpoint, edges: pa.Table, is_present: pa.Array[Any]) -> Iterator[tuple[int, OrphanEdge]]:
    """Yield each edge whose node is not present, with its position, in row order.

    A null endpoint is exempt here: the rule that requires it reports it.
    """
    endpoints = one_array(edges.column(rule.end))
    absent = pc.and_(pc.is_valid(endpoints), pc.invert(is_present))
    for row in np.flatnonzero(absent.to_numpy(zero_copy_only=False)):
        yield int(row), rule.violation(edges.column(ID)[int(row)].as_py(), endpoints[int(row)].as_py())


def count_violations(
    rule: EdgeCount, sources: Ids, put: pa.Table, unchanged: pa.Table
) -> Iterator[CardinalityViolation]:
    """Yield the sources, in their order, that have a forbidden number of edges among those put and those unchanged."""
    counts = _counts(sources, put) + _counts(sources, unchanged)
    for place in np.flatnonzero(is_forbidden(rule, counts)):
        yield rule.violation(sources[int(place)].as_py(), int(counts[place]))


def is_forbidden(rule: EdgeCount, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which numbers of edges the rule forbids."""
    below: NDArray[np.bool_] = counts < rule.minimum
    return below if rule.maximum is None else below | (counts > rule.maximum)


def altered_sources(put: pa.Table, before: pa.Table) -> Ids:
    """The sources that gain an edge, in row order, then those that only lose edges, by id.

    `before` are the committed edges that are replaced or deleted. An edge whose source is unchanged alters no count.
    """
    gained, lost = edges_only_in(put, before), edges_only_in(before, put)
    lost_sources = one_array(lost.column(SOURCE))
    ordered = lost_sources.take(pc.sort_indices(lost_sources))
    return pc.unique(pa.concat_arrays([one_array(gained.column(SOURCE)), ordered]).drop_null())


def edges_only_in(edges: pa.Table, others: pa.Table) -> pa.Table:
    """The edges whose pair of id and source is not among `others`."""
    if not others.num_rows or not edges.num_rows:
        return edges
    pairs = [stacked(edges, others, name) for name in (ID, SOURCE)]
    codes, size = tuple_codes(pairs)
    seen = np.zeros(size + 1, dtype=bool)
    seen[codes[edges.num_rows :]] = True
    return edges.filter(pa.array(~seen[codes[: edges.num_rows]]))


def in_row_order(*found: Iterator[tuple[int, Error]]) -> Iterator[tuple[int, Error]]:
    """Merge what several rules found: by row, then in the order given."""
    return heapq.merge(*found, key=lambda each: each[0])


def stacked(first: pa.Table, second: pa.Table, name: str) -> pa.Array[Any]:
    """A column of both tables, in the type that the first one has."""
    mine, other = first.column(name), second.column(name)
    return one_array(pa.chunked_array([*mine.chunks, *other.cast(mine.type).chunks], mine.type))


def _earlier(codes: Positions, size: int) -> Positions:
    """For each row, the first row with the same tuple, unless that is the row itself."""
    if size == len(codes):
        return np.full(len(codes), NO_VALUE, np.int64)
    first = np.append(first_rows(codes, size), NO_VALUE)[codes]
    return np.where(first == np.arange(len(codes)), NO_VALUE, first)


def _held(rule: Unique, put: pa.Table, committed: pa.Table, chosen: NDArray[np.bool_]) -> Positions:
    """For each chosen row, a committed row with the same tuple."""
    held = np.full(put.num_rows, NO_VALUE, np.int64)
    if not committed.num_rows or not put.num_rows:
        return held
    possible = chosen & _shares_values(put, committed, rule.columns)
    mine = put.filter(pa.array(possible))
    codes, size = tuple_codes([stacked(mine, committed, name) for name in rule.columns])
    theirs = np.append(first_rows(codes[mine.num_rows :], size), NO_VALUE)
    held[possible] = theirs[codes[: mine.num_rows]]
    return held


def _shares_values(put: pa.Table, committed: pa.Table, columns: Sequence[str]) -> NDArray[np.bool_]:
    """Which rows have every value in common with some committed row; few do, and only those need codes of tuples."""
    possible = np.ones(put.num_rows, dtype=bool)
    for name in columns:
        shared = is_among(comparable(put.column(name)), comparable(committed.column(name)))
        possible &= shared.to_numpy(zero_copy_only=False)
    return possible


def _counts(sources: Ids, edges: pa.Table) -> Positions:
    """For each source, the number of its edges."""
    if not edges.num_rows:
        return np.zeros(len(sources), np.int64)
    indices: Any = pc.index_in(one_array(edges.column(SOURCE)), value_set=sources).drop_null()
    return np.bincount(indices.to_numpy(zero_copy_only=False), minlength=len(sources))


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
