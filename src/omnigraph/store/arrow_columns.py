"""Columns as Arrow hands them out: in chunks, or as one array."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def one_array(values: pa.Array[Any] | pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """The values as one contiguous array; without a copy when they are."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    one: Any = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    array: pa.Array[Any] = one
    return array
