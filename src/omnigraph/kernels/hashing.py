"""Ids and tuples as 64-bit numbers, the same in every task: what is shuffled instead of the values themselves.

Different values with one number are told apart later, by comparing the values of the few rows that look alike. Only an
end of an edge is believed to be there when its number is: that a missing one shares the number of an id is as likely
as one in 2**64 per id.

Which of many numbers are among a few: most are ruled out by their first bits.

Questions about hundreds of thousands of texts, answered by their 64-bit numbers and then checked on the texts.

Arrow hashes strings one after the other; DuckDB numbers them several at once, and numbers are quick to sort and to
look up. Two texts with one number are rare, and never believed: the texts themselves are compared, and where they
differ Arrow answers after all.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.kernels.arrays import one_array
from omnigraph.kernels.canonical import comparable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    from numpy.typing import NDArray

    from omnigraph.kernels.canonical import Values

    Numbers = NDArray[np.uint64]
    Texts = pa.Array[Any]

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


_LEAST_BITS, _MOST_BITS = 10, 24


@dataclass(frozen=True)
class PrefixFilter:
    """The few, sorted and each once, and a mark for all first bits that one of them has."""

    few: Numbers
    marks: NDArray[np.bool_]
    shift: np.uint64


def sieve_of(numbers: Numbers) -> PrefixFilter:
    """A sieve that lets these numbers through."""
    few = np.unique(numbers)
    bits = min(_MOST_BITS, max(_LEAST_BITS, (16 * len(few)).bit_length()))
    shift = np.uint64(64 - bits)
    marks = np.zeros(1 << bits, dtype=bool)
    marks[(few >> shift).astype(np.intp)] = True
    return PrefixFilter(few, marks, shift)


def among(sieve: PrefixFilter, numbers: Numbers) -> NDArray[np.bool_]:
    """For each number, whether the sieve lets it through."""
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
    """Whether no text stands twice; none is null. `bits` of the numbers are used."""
    if len(texts) >= MANY:
        numbers = np.sort(_numbers(texts, bits))
        if (numbers[1:] != numbers[:-1]).all():
            return True
    return bool(pc.count_distinct(texts).as_py() == len(texts))


def are_among(texts: Texts, others: Texts, *, bits: int = ALL_BITS) -> Texts | None:
    """For each text, whether it is one of the others, of which none is null; None when numbers cannot tell."""
    numbers: Any = pa.array(_numbers(texts, bits))
    other_numbers: Any = pa.array(_numbers(others, bits))
    if len(texts) < len(others):
        asked_for = pc.is_in(other_numbers, value_set=numbers)
        others, other_numbers = others.filter(asked_for), other_numbers.filter(asked_for)
    places: Any = pc.index_in(numbers, value_set=other_numbers)
    same: Any = pc.equal(others.take(places), texts)
    # Null: the number is not there, or there is no text. False: another text has the number.
    return pc.is_valid(same) if pc.all(same, min_count=0).as_py() else None


def text_numbers(texts: Texts) -> NDArray[np.uint64]:
    """A number for each text, the same in every process."""
    return _numbers(texts, ALL_BITS)


def _numbers(texts: Texts, bits: int) -> NDArray[np.uint64]:
    answer: Any = (
        _shared_engine().cursor().from_arrow(pa.table({"t": texts})).query("texts", "SELECT hash(t) AS n FROM texts")
    )
    found: NDArray[np.uint64] = answer.fetchnumpy()["n"]
    return found if bits == ALL_BITS else found & np.uint64(bits)


@functools.cache
def _shared_engine() -> duckdb.DuckDBPyConnection:
    """One per process; each question has a cursor of its own, since threads share a graph."""
    import duckdb

    return duckdb.connect()
