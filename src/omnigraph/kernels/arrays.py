"""Arrays of row numbers: which different ones there are, and where each of the given ones is among them.

Columns as Arrow hands them out: in chunks, or as one array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

ID = "id"


def is_ascending(numbers: Numbers) -> bool:
    """Whether each is greater than the one before it, as the rows of a scan are."""
    return bool((numbers[1:] > numbers[:-1]).all())


def is_distinct(numbers: Numbers) -> bool:
    """Whether no number is there twice, and none is missing."""
    if len(numbers) < 2 or is_ascending(numbers):
        return not len(numbers) or int(numbers.min()) >= 0
    return int(numbers.min()) >= 0 and len(distinct(numbers)[0]) == len(numbers)


def distinct(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """The different numbers, ascending, and the place of each given one among them."""
    if is_ascending(numbers):
        return numbers, np.arange(len(numbers), dtype=np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < 4 * len(numbers):
        return _by_counting(numbers, low, high)
    found, places = np.unique(numbers, return_inverse=True)
    return found, places


def _by_counting(numbers: Numbers, low: int, high: int) -> tuple[Numbers, Numbers]:
    """Numbers that lie close together need no sorting."""
    seen = np.zeros(high - low + 1, np.bool_)
    seen[numbers - low] = True
    found = np.flatnonzero(seen)
    places = np.cumsum(seen, dtype=np.int64) - 1
    return found + low, places[numbers - low]


def one_array(values: pa.Array[Any] | pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """The values as one contiguous array; without a copy when they are."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    one: Any = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    array: pa.Array[Any] = one
    return array
