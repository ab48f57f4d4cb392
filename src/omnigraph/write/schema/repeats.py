"""Rows of a whole table that have the same values, without holding the table: eight bytes a row, then a closer look.

Each tuple of values becomes a 64-bit number. Rows whose number stands more than once are read again, some at a time,
for the caller to compare their values: two different tuples may share a number.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.store.comparable_values import comparable
from omnigraph.store.many_texts import text_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.uint64]
    Places = NDArray[np.int64]
    # The rows of the table, always in the same order.
    Read = Callable[[], Iterator[pa.Table]]

_ROWS = 100_000
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


def suspicious_rows(read: Read, columns: Sequence[str], *, at_once: int = 1_000) -> Iterator[pa.Table]:
    """Rows that may repeat an earlier one in these columns, each time with the earlier ones, in the table's order.

    `at_once` of them are looked at together: who looks mostly needs the first few.
    """
    numbers, places = _numbered(read, columns)
    order = np.sort(numbers)
    if (order[1:] != order[:-1]).all():
        return
    _, first, group = np.unique(numbers, return_index=True, return_inverse=True)
    later = np.flatnonzero(first[group] != np.arange(len(numbers)))
    for start in range(0, len(later), at_once):
        some = later[start : start + at_once]
        yield _rows_at(read, np.union1d(places[some], places[first[group[some]]]))


def _numbered(read: Read, columns: Sequence[str]) -> tuple[Numbers, Places]:
    """The numbers of all tuples without a null, and the places of their rows."""
    numbers, places = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    seen = 0
    for rows in _gathered(read()):
        plain = [comparable(rows.column(name)) for name in columns]
        valid = np.logical_and.reduce([each.is_valid().to_numpy(zero_copy_only=False) for each in plain])
        numbers.append(reduce(_joined, map(text_numbers, plain))[valid])
        places.append(np.flatnonzero(valid) + seen)
        seen += rows.num_rows
    return np.concatenate(numbers), np.concatenate(places)


def _gathered(pieces: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in larger pieces: a question has a price of its own."""
    held: list[pa.Table] = []
    for piece in pieces:
        held.append(piece)
        if sum(each.num_rows for each in held) >= _ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _joined(first: Numbers, second: Numbers) -> Numbers:
    with np.errstate(over="ignore"):
        return (first ^ (first >> _SHIFT)) * _FACTOR + second


def _rows_at(read: Read, places: Places) -> pa.Table:
    """The rows at these places, which are in order; nothing is read beyond the last of them."""
    found: list[pa.Table] = []
    seen = 0
    for rows in read():
        here = places[(places >= seen) & (places < seen + rows.num_rows)] - seen
        chosen: Any = pa.array(here)
        found.append(rows.take(chosen))
        seen += rows.num_rows
        if seen > places[-1]:
            break
    return pa.concat_tables(found)
