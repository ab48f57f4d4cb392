"""Checks uniqueness: no two rows share a tuple, within the change and against the committed rows it leaves untouched.

`has_own_id` tells whether rows of a keyed type have the id derived from their key, vectorized where possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import FLOATS, EdgeType
from omnigraph.catalog.key_ids import edge_id, node_id
from omnigraph.errors import ConstraintViolation
from omnigraph.kernels.arrays import ID, comparable, one_array
from omnigraph.kernels.equality import NO_VALUE, first_rows, is_among, row_numbers, tuple_codes, value_at
from omnigraph.transaction.constraints.values import in_row_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from omnigraph.catalog.catalog import NodeType
    from omnigraph.catalog.rules import Unique
    from omnigraph.transaction.buffered_table import BufferedTable

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


def unique_violations(
    rules: Sequence[Unique], kind: NodeType | EdgeType, rows: pa.Table, table: BufferedTable
) -> Iterator[ConstraintViolation]:
    """Yield every violation in row order. The reported holder of a tuple is a committed row, else the first row put."""
    searches = [_Search(rule, kind, rows, table) for rule in rules]
    for row, search in in_row_order([(each.rows_in_conflict, each) for each in searches]):
        yield search.violation(row)


class _Search:
    """The rows that violate one rule, and the rows that hold their tuples."""

    def __init__(self, rule: Unique, kind: NodeType | EdgeType, rows: pa.Table, table: BufferedTable) -> None:
        self._rule = rule
        self._rows = rows
        self._committed_ids: Any = pa.array([], pa.string())
        self.rows_in_conflict: NDArray[np.int64] = np.array([], np.int64)
        # Ids derived from the key repeat when the key does, and no id repeats within a change.
        asked = ~has_own_id(kind, rows) if rule.is_key else np.ones(rows.num_rows, dtype=bool)
        if asked.any():
            self._search(table, asked)

    def violation(self, row: int) -> ConstraintViolation:
        """The error for one of the rows in conflict."""
        committed = int(self._committed[row])
        earlier = self._rows.column(ID)[int(self._earlier[row])]
        holder = self._committed_ids[committed] if committed != NO_VALUE else earlier
        values = tuple(value_at(self._rows.column(each), row) for each in self._rule.columns)
        return self._rule.violation(self._rows.column(ID)[row].as_py(), values, holder.as_py())

    def _search(self, table: BufferedTable, asked: NDArray[np.bool_]) -> None:
        codes, size = tuple_codes([self._rows.column(each) for each in self._rule.columns])
        self._earlier = _earlier(codes, size)
        self._committed = self._held(table, asked & (codes != NO_VALUE))
        self.rows_in_conflict = np.flatnonzero((self._earlier != NO_VALUE) | (self._committed != NO_VALUE))

    def _held(self, table: BufferedTable, asked: NDArray[np.bool_]) -> NDArray[np.int64]:
        """For each row in `asked`, the committed row that holds its tuple."""
        held = np.full(self._rows.num_rows, NO_VALUE, np.int64)
        places = np.flatnonzero(asked)
        if not len(places):
            return held
        mine = self._rows if len(places) == len(held) else self._rows.take(row_numbers(places))
        wanted = {each: mine.column(each) for each in self._rule.columns}
        found = table.unchanged_matching(wanted, [*self._rule.columns, ID]).rows
        if found.num_rows:
            self._committed_ids = one_array(found.column(ID))
            held[places] = _matches(mine, found, self._rule.columns)
        return held


def _earlier(codes: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """For each row, the first row with the same tuple, unless that is the row itself."""
    rows = np.arange(len(codes))
    if size == len(codes):
        return np.full(len(codes), NO_VALUE, np.int64)
    first = np.append(first_rows(codes, size), NO_VALUE)[codes]
    return np.where(first == rows, NO_VALUE, first)


def _matches(mine: pa.Table, found: pa.Table, columns: Sequence[str]) -> NDArray[np.int64]:
    """For each row of `mine`, a row of `found` with the same tuple."""
    possible = np.ones(mine.num_rows, dtype=bool)
    for each in columns:
        possible &= is_among(comparable(mine.column(each)), comparable(found.column(each))).to_numpy(
            zero_copy_only=False
        )
    few = mine.filter(pa.array(possible))
    both = [pa.concat_arrays([one_array(few.column(each)), _like(found, mine, each)]) for each in columns]
    codes, size = tuple_codes(both)
    theirs = first_rows(codes[few.num_rows :], size)
    matches = np.full(mine.num_rows, NO_VALUE, np.int64)
    matches[possible] = np.append(theirs, NO_VALUE)[codes[: few.num_rows]]
    return matches


def _like(found: pa.Table, mine: pa.Table, column: str) -> pa.Array[Any]:
    kind: Any = mine.schema.field(column).type
    return one_array(pc.cast(found.column(column), kind))
