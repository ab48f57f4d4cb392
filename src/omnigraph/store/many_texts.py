"""Questions about hundreds of thousands of texts, answered by their 64-bit numbers and then checked on the texts.

Arrow hashes strings one after the other; DuckDB numbers them several at once, and numbers are quick to sort and to
look up. Two texts with one number are rare, and never believed: the texts themselves are compared, and where they
differ Arrow answers after all.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

    Texts = pa.Array[Any]

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
    answer: Any = _engine().cursor().from_arrow(pa.table({"t": texts})).query("texts", "SELECT hash(t) AS n FROM texts")
    found: NDArray[np.uint64] = answer.fetchnumpy()["n"]
    return found if bits == ALL_BITS else found & np.uint64(bits)


@functools.cache
def _engine() -> duckdb.DuckDBPyConnection:
    """One per process; each question has a cursor of its own, since threads share a graph."""
    import duckdb

    return duckdb.connect()
