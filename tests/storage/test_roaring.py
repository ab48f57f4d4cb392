"""Long lists of removed rows: read as Lance writes them, written as Lance reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import StoreError
from omnigraph.storage.lance import deletion_vectors

if TYPE_CHECKING:
    from pathlib import Path


def _set(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.array(numbers, np.uint32)


@given(st.sets(st.integers(0, 300_000), max_size=200), st.integers(0, 70_000), st.integers(0, 9_000))
def test_a_set_comes_back_as_it_was(few: set[int], first: int, many: int) -> None:
    numbers = _set(*sorted(few | set(range(first, first + many))))
    np.testing.assert_array_equal(deletion_vectors.decode(deletion_vectors.encode(numbers)), numbers)


@pytest.mark.parametrize("predicate", ["n % 7 = 0", "n < 6000", "n >= 60000", "n % 3 = 1 or n > 90000"])
def test_the_bytes_are_the_ones_that_lance_writes(tmp_path: Path, predicate: str) -> None:
    table = lance.write_dataset(pa.table({"n": pa.array(range(100_000), pa.int64())}), tmp_path / "t")
    there = table.to_table(columns=["n"], filter=predicate).column("n").to_numpy().astype(np.uint32)
    fragment = table.get_fragments()[0].delete(predicate)
    data = (tmp_path / "t" / fragment.deletion_file.path(0)).read_bytes()
    np.testing.assert_array_equal(deletion_vectors.decode(data), there)
    assert deletion_vectors.encode(there) == data


def test_runs_are_read() -> None:
    """Two containers, the first of which has the runs 5 to 8 and 100 to 100, the second the numbers 1 and 2."""
    header = np.array([12347 | (1 << 16)], "<u4").tobytes() + b"\x01"
    described = np.array([0, 4, 3, 1], "<u2").tobytes()
    bodies = np.array([2, 5, 3, 100, 0], "<u2").tobytes() + np.array([1, 2], "<u2").tobytes()
    found = deletion_vectors.decode(header + described + bodies)
    assert found.tolist() == [5, 6, 7, 8, 100, 3 * 65_536 + 1, 3 * 65_536 + 2]


@pytest.mark.parametrize("data", [b"", b"\x01\x02\x03\x04", deletion_vectors.encode(_set(*range(5_000)))[:-1]])
def test_what_is_no_set_is_an_error(data: bytes) -> None:
    with pytest.raises(StoreError, match="a set of removed rows cannot be read"):
        deletion_vectors.decode(data)
