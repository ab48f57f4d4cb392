"""What violates a rule over several rows: pure functions on Arrow tables, the one definition of these rules.

Drivers choose the rows to compare and call these functions: `validate.py` for a change in memory, `exchange/` for bulk
loads, `ddl/data_checks.py` for a new rule over existing rows. `history/merge/partitioned/constraints.py` is the same
definition in SQL, for merges whose rows DuckDB or Spark must spill.

`has_own_id` tells which rows need no check of their key: two rows with the id that the key determines are one row.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import FLOATS, EdgeType
from omnigraph.catalog.key_ids import edge_id, node_id
from omnigraph.errors import ConstraintViolation
from omnigraph.kernels.arrays import ID, comparable, one_array
from omnigraph.kernels.equality import NO_VALUE, first_rows, is_among, tuple_codes, value_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from omnigraph.catalog.catalog import NodeType
    from omnigraph.catalog.rules import EdgeCount, Endpoint, Unique
    from omnigraph.errors import CardinalityViolation, OrphanEdge, UniqueViolation

    Ids = pa.Array[Any]
    Positions = NDArray[np.int64]

SOURCE = "src"
Error = TypeVar("Error")


def unique_violations(
    rule: Unique, put: pa.Table, committed: pa.Table, compared: NDArray[np.bool_] | None = None
) -> Iterator[tuple[int, UniqueViolation]]:
    """Yield each row of `put` whose tuple another row holds, with its position, in row order.

    `committed` are rows that stay. The reported holder is one of them, else the first row put. `compared` masks the
    rows to compare with them, by default all. A tuple with a null is exempt.
    """
    codes, size = tuple_codes([put.column(name) for name in rule.columns])
    asked = codes != NO_VALUE if compared is None else compared & (codes != NO_VALUE)
    earlier, held = _earlier(codes, size), _held(rule, put, committed, asked)
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


def _held(rule: Unique, put: pa.Table, committed: pa.Table, asked: NDArray[np.bool_]) -> Positions:
    """For each row in `asked`, a committed row with the same tuple."""
    held = np.full(put.num_rows, NO_VALUE, np.int64)
    if not committed.num_rows or not put.num_rows:
        return held
    possible = asked & _shares_values(put, committed, rule.columns)
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
    places: Any = pc.index_in(one_array(edges.column(SOURCE)), value_set=sources).drop_null()
    return np.bincount(places.to_numpy(zero_copy_only=False), minlength=len(sources))


# Characters that JSON escapes.
_ESCAPED = r'[\x00-\x1f"\\]'


def has_own_id(kind: NodeType | EdgeType, rows: pa.Table) -> NDArray[np.bool_]:
    """For each row, whether its id is the canonical text of its key."""
    texts = _texts(kind, rows)
    if texts is None:
        return _one_by_one(kind, rows)
    own: NDArray[np.bool_] = pc.equal(rows.column(ID), texts).fill_null(False).to_numpy()
    return own


def _texts(kind: NodeType | EdgeType, rows: pa.Table) -> pa.Array[Any] | None:
    """The canonical ids, or None when they must be built row by row: for floats, and for texts that JSON escapes."""
    floats = {name for name, each in kind.properties.items() if each.type.scalar in FLOATS}
    if floats & set(kind.rules.key):
        return None
    texts = [_text(one_array(rows.column(each))) for each in kind.rules.key]
    if len(texts) == 1:
        return texts[0]
    if any(pc.any(pc.match_substring_regex(each, pattern=_ESCAPED)).as_py() for each in texts):
        return None
    join: Any = pc.binary_join_element_wise
    composite: pa.Array[Any] = join('["', join(*texts, '","'), '"]', "")
    return composite


def _text(column: pa.Array[Any]) -> pa.Array[Any]:
    """Integers in decimal, dates as days and datetimes as milliseconds since the epoch, booleans as true and false."""
    if pa.types.is_date64(column.type):
        column = column.view(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    return column.cast(pa.string())


def _one_by_one(kind: NodeType | EdgeType, rows: pa.Table) -> NDArray[np.bool_]:
    # Arrow converts a date64 to Python without its time of day; the key needs the milliseconds.
    columns = {name: one_array(rows.column(name)) for name in kind.rules.key}
    values = {
        name: (each.view(pa.int64()) if pa.types.is_date64(each.type) else each).to_pylist()
        for name, each in columns.items()
    }
    ids = rows.column(ID).to_pylist()
    own = [
        _own_id(kind, {name: column[row] for name, column in values.items()}) == row_id
        for row, row_id in enumerate(ids)
    ]
    return np.array(own, dtype=bool)


def _own_id(kind: NodeType | EdgeType, values: dict[str, object]) -> str | None:
    try:
        return edge_id(kind, values) if isinstance(kind, EdgeType) else node_id(kind, values)
    except ConstraintViolation:
        return None  # a key without a canonical text, such as NaN, makes no id
