"""Hashes agree with value equality, and the wider ones with the narrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as some

from omnigraph.kernels.hashing import PrefixFilter, hash_column, hash_rows, prefixes

FLOATS = some.floats(allow_nan=True)
ROWS = some.lists(
    some.tuples(some.none() | some.text(max_size=3), some.none() | some.integers(0, 3), FLOATS), max_size=30
)


@given(rows=ROWS)
def test_rows_are_equal_when_their_hashes_are(rows: list[tuple[str | None, int | None, float]]) -> None:
    columns = [
        pa.array([row[at] for row in rows], kind) for at, kind in enumerate((pa.string(), pa.int32(), pa.float64()))
    ]
    hashes, valid = hash_rows(columns)
    wide, same_valid = hash_rows(columns, width=2)
    whole = [row for row in rows if None not in row]
    keys = [(text, number, "nan" if value != value else value + 0.0) for text, number, value in whole]
    assert valid.tolist() == same_valid.tolist() == [None not in row for row in rows]
    assert len(set(hashes.tolist())) == len(set(keys)) == len(set(map(tuple, wide.tolist())))
    assert wide[:, 0].tolist() == hashes.tolist() if len(wide) else not len(hashes)


@given(few=some.sets(some.integers(0, 500), max_size=40), bits=some.integers(0, 24))
def test_a_filter_accepts_the_few_and_prefixes_are_the_leading_bits(few: set[int], bits: int) -> None:
    texts = pa.array([str(each) for each in range(501)])
    hashes = hash_column(texts)
    chosen = hashes[sorted(few)] if few else hashes[:0]
    assert PrefixFilter.of(chosen).accepts(hashes).tolist() == [each in few for each in range(501)]
    assert prefixes(hashes, bits).tolist() == [int(each) >> (64 - bits) for each in hashes]


def test_a_hash_is_the_same_in_every_process() -> None:
    np.testing.assert_array_equal(hash_column(pa.array(["a", "b"])), hash_column(pa.chunked_array([["a"], ["b"]])))
    assert hash_column(pa.array([], pa.string())).tolist() == []
