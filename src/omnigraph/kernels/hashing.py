"""64-bit hashes of values and tuples, the same in every process, and membership tests by hash.

Tasks shuffle hashes instead of the values themselves. Collisions are resolved later, by comparing the values of the few
rows whose hashes are equal. Only an edge's endpoint is taken to exist when its hash does: that a missing one collides
with an existing id has a probability of 2**-64 per id. `PrefixFilter` finds which of many hashes are among a few; most
are ruled out by their leading bits.

Membership and uniqueness of hundreds of thousands of strings are answered by hash too, and then verified on the
strings. Arrow hashes strings one by one; DuckDB hashes several at once, and integers are quick to sort and to look up.
On a collision, which is rare, the strings differ and Arrow computes the answer instead.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.kernels.arrays import comparable, one_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    from numpy.typing import NDArray

    from omnigraph.kernels.arrays import Values

    Numbers = NDArray[np.uint64]
    Texts = pa.Array[Any]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def numbers_of(values: Values) -> Numbers:
    """The hash of each value; the values must not be null."""
    return column_numbers([values])[0]


def second_numbers_of(values: Values) -> Numbers:
    """A second, independent hash of strings: two strings that collide in one hardly collide in both."""
    return _queried([one_array(values)], "hash(reverse({}))")[0]


def column_numbers(columns: Sequence[Values]) -> list[Numbers]:
    """The hash of each value of each column; the columns have equal length. Null has a hash as well."""
    return _queried([one_array(each) for each in columns], "hash({})")


def tuple_numbers(columns: Sequence[Values]) -> tuple[Numbers, NDArray[np.bool_]]:
    """The hashes of tuples without a null, and the mask of rows that have one."""
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
    """Combine two columns of hashes into one."""
    with np.errstate(over="ignore"):
        return (first ^ (first >> _SHIFT)) * _FACTOR + second


def _queried(columns: Sequence[pa.Array[Any]], expression: str) -> list[Numbers]:
    """Hash all columns in one query, so that the fixed cost of a query is paid once."""
    if not len(columns[0]):
        return [np.empty(0, np.uint64) for _ in columns]
    names = [f"c{number}" for number in range(len(columns))]
    asked = ", ".join(f"{expression.format(name)} AS {name}" for name in names)
    answer: Any = _engine().from_arrow(pa.table(dict(zip(names, columns, strict=True))))
    found: dict[str, Numbers] = answer.query("t", f"SELECT {asked} FROM t").fetchnumpy()  # noqa: S608
    return [found[name] for name in names]


@functools.cache
def _engine() -> duckdb.DuckDBPyConnection:
    """One instance per process, with one thread: Spark controls the parallelism."""
    import duckdb

    return duckdb.connect(config={"threads": 1})


_LEAST_BITS, _MOST_BITS = 10, 24


@dataclass(frozen=True)
class PrefixFilter:
    """The distinct hashes, sorted, and a bitmap of their leading bits."""

    few: Numbers
    marks: NDArray[np.bool_]
    shift: np.uint64


def sieve_of(numbers: Numbers) -> PrefixFilter:
    """Build the filter that accepts exactly these hashes."""
    few = np.unique(numbers)
    bits = min(_MOST_BITS, max(_LEAST_BITS, (16 * len(few)).bit_length()))
    shift = np.uint64(64 - bits)
    marks = np.zeros(1 << bits, dtype=bool)
    marks[(few >> shift).astype(np.intp)] = True
    return PrefixFilter(few, marks, shift)


def among(sieve: PrefixFilter, numbers: Numbers) -> NDArray[np.bool_]:
    """For each hash, whether the filter accepts it."""
    found: NDArray[np.bool_] = sieve.marks[(numbers >> sieve.shift).astype(np.intp)]
    if not found.any():
        return found
    places = np.flatnonzero(found)
    chosen = numbers[places]
    at = np.minimum(np.searchsorted(sieve.few, chosen), len(sieve.few) - 1)
    found[places] = sieve.few[at] == chosen
    return found


MANY = 100_000
ALL_BITS = (1 << 64) - 1


def all_differ(texts: Texts, *, bits: int = ALL_BITS) -> bool:
    """Whether no string occurs twice; none may be null. `bits` masks the hashes, for tests of collisions."""
    if len(texts) >= MANY:
        numbers = np.sort(_numbers(texts, bits))
        if (numbers[1:] != numbers[:-1]).all():
            return True
    return bool(pc.count_distinct(texts).as_py() == len(texts))


def are_among(texts: Texts, others: Texts, *, bits: int = ALL_BITS) -> Texts | None:
    """For each string, whether it is in `others`, which has no null; None when a collision prevents an answer."""
    numbers: Any = pa.array(_numbers(texts, bits))
    other_numbers: Any = pa.array(_numbers(others, bits))
    if len(texts) < len(others):
        asked_for = pc.is_in(other_numbers, value_set=numbers)
        others, other_numbers = others.filter(asked_for), other_numbers.filter(asked_for)
    places: Any = pc.index_in(numbers, value_set=other_numbers)
    same: Any = pc.equal(others.take(places), texts)
    # Null: the hash is not there, or the string is null. False: another string has the same hash.
    return pc.is_valid(same) if pc.all(same, min_count=0).as_py() else None


def text_numbers(texts: Texts) -> NDArray[np.uint64]:
    """The hash of each string, the same in every process."""
    return _numbers(texts, ALL_BITS)


def _numbers(texts: Texts, bits: int) -> NDArray[np.uint64]:
    answer: Any = (
        _shared_engine().cursor().from_arrow(pa.table({"t": texts})).query("texts", "SELECT hash(t) AS n FROM texts")
    )
    found: NDArray[np.uint64] = answer.fetchnumpy()["n"]
    return found if bits == ALL_BITS else found & np.uint64(bits)


@functools.cache
def _shared_engine() -> duckdb.DuckDBPyConnection:
    """One instance per process; each query has its own cursor, since threads share a graph."""
    import duckdb

    return duckdb.connect()
