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

from omnigraph.store.arrow_columns import one_array
from omnigraph.store.comparable_values import comparable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    from numpy.typing import NDArray

    from omnigraph.store.comparable_values import Values

    Numbers = NDArray[np.uint64]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def numbers_of(values: Values) -> Numbers:
    """A number for each value, none of which is null."""
    return column_numbers([values])[0]


def second_numbers_of(values: Values) -> Numbers:
    """Other numbers for texts: two texts that share one hardly share both."""
    return _queried([one_array(values)], "hash(reverse({}))")[0]


def column_numbers(columns: Sequence[Values]) -> list[Numbers]:
    """A number for each value of each column, which are of one length. Null has one as well."""
    return _queried([one_array(each) for each in columns], "hash({})")


def tuple_numbers(columns: Sequence[Values]) -> tuple[Numbers, NDArray[np.bool_]]:
    """A number for each tuple of values, and which rows have one: a tuple with a null has none."""
    plain = [comparable(each) for each in columns]
    valid = np.logical_and.reduce([is_there(each) for each in plain])
    found = functools.reduce(joined, column_numbers(plain))
    return found if valid.all() else found[valid], valid


def is_there(values: pa.Array[Any]) -> NDArray[np.bool_]:
    """Which values are not null."""
    if not values.null_count:
        return np.ones(len(values), dtype=bool)
    return values.is_valid().to_numpy(zero_copy_only=False)


def joined(first: Numbers, second: Numbers) -> Numbers:
    """One number for each pair of numbers."""
    with np.errstate(over="ignore"):
        return (first ^ (first >> _SHIFT)) * _FACTOR + second


def _queried(columns: Sequence[pa.Array[Any]], expression: str) -> list[Numbers]:
    """All columns in one query: what a query takes by itself is paid once."""
    if not len(columns[0]):
        return [np.empty(0, np.uint64) for _ in columns]
    names = [f"c{number}" for number in range(len(columns))]
    asked = ", ".join(f"{expression.format(name)} AS {name}" for name in names)
    answer: Any = _engine().from_arrow(pa.table(dict(zip(names, columns, strict=True))))
    found: dict[str, Numbers] = answer.query("t", f"SELECT {asked} FROM t").fetchnumpy()  # noqa: S608
    return [found[name] for name in names]


@functools.cache
def _engine() -> duckdb.DuckDBPyConnection:
    """One per process, with one thread: Spark decides how much runs at once."""
    import duckdb

    return duckdb.connect(config={"threads": 1})
