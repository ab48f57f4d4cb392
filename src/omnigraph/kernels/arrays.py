"""Helpers for NumPy arrays of row numbers (distinct values, positions) and for chunked Arrow columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

ID = "id"


def is_ascending(numbers: Numbers) -> bool:
    """Whether the numbers are strictly ascending, as those of a scan are."""
    return bool((numbers[1:] > numbers[:-1]).all())


def is_distinct(numbers: Numbers) -> bool:
    """Whether no number occurs twice and none is negative, which stands for a missing row."""
    if len(numbers) < 2 or is_ascending(numbers):
        return not len(numbers) or int(numbers.min()) >= 0
    return int(numbers.min()) >= 0 and len(distinct(numbers)[0]) == len(numbers)


def distinct(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """The distinct numbers, ascending, and the position of each input number among them."""
    if is_ascending(numbers):
        return numbers, np.arange(len(numbers), dtype=np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < 4 * len(numbers):
        return _by_counting(numbers, low, high)
    found, places = np.unique(numbers, return_inverse=True)
    return found, places


def _by_counting(numbers: Numbers, low: int, high: int) -> tuple[Numbers, Numbers]:
    """Numbers in a narrow range need no sorting."""
    seen = np.zeros(high - low + 1, np.bool_)
    seen[numbers - low] = True
    found = np.flatnonzero(seen)
    places = np.cumsum(seen, dtype=np.int64) - 1
    return found + low, places[numbers - low]


def one_array(values: pa.Array[Any] | pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """The values as one contiguous array; without a copy if they are contiguous already."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    one: Any = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    array: pa.Array[Any] = one
    return array
