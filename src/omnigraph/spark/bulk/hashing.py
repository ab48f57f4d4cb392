"""Ids and tuples as 64-bit numbers, the same in every task: what is shuffled instead of the values themselves.

Different values with one number are told apart later, by comparing the values of the few rows that look alike. Only an
end of an edge is believed to be there when its number is: that a missing one shares the number of an id is as likely
as one in 2**64 per id.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.write.same_value import comparable, one_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    from numpy.typing import NDArray

    from omnigraph.write.same_value import Values

    Numbers = NDArray[np.uint64]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def numbers_of(values: Values) -> Numbers:
    """A number for each value, none of which is null."""
    return _queried("SELECT hash(v) AS h FROM t", one_array(values))


def second_numbers_of(values: Values) -> Numbers:
    """Other numbers for texts: two texts that share one hardly share both."""
    return _queried("SELECT hash(reverse(v)) AS h FROM t", one_array(values))


def tuple_numbers(columns: Sequence[Values]) -> tuple[Numbers, NDArray[np.bool_]]:
    """A number for each tuple of values, and which rows have one: a tuple with a null has none."""
    plain = [comparable(each) for each in columns]
    valid = np.ones(len(plain[0]), dtype=bool)
    for each in plain:
        if each.null_count:
            valid &= each.is_valid().to_numpy(zero_copy_only=False)
    if not valid.all():
        plain = [each.filter(pa.array(valid)) for each in plain]
    found = numbers_of(plain[0])
    for each in plain[1:]:
        found = joined(found, numbers_of(each))
    return found, valid


def joined(first: Numbers, second: Numbers) -> Numbers:
    """One number for each pair of numbers."""
    with np.errstate(over="ignore"):
        return (first ^ (first >> _SHIFT)) * _FACTOR + second


def _queried(query: str, values: pa.Array[Any]) -> Numbers:
    if not len(values):
        return np.empty(0, np.uint64)
    answer: Any = _engine().from_arrow(pa.table({"v": values})).query("t", query)
    found: Numbers = answer.fetchnumpy()["h"]
    return found


@functools.cache
def _engine() -> duckdb.DuckDBPyConnection:
    """One per process, with one thread: Spark decides how much runs at once."""
    import duckdb

    return duckdb.connect(config={"threads": 1})
