"""Canonical form of a column for comparison: `-0.0` becomes `0.0`, and every NaN the same NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.kernels.arrays import one_array

if TYPE_CHECKING:
    Values = pa.Array[Any] | pa.ChunkedArray[Any]


def comparable(values: Values) -> pa.Array[Any]:
    """The values in a form in which Arrow's hash functions treat the same values as equal. Nulls stay null."""
    array = one_array(values)
    kind: Any = array.type
    if pa.types.is_floating(kind):
        wide = pc.add(array.cast(pa.float64()), 0.0)
        return one_array(pc.if_else(pc.is_nan(wide), float("nan"), wide))
    if pa.types.is_date64(kind):
        return array.view(pa.int64())
    if pa.types.is_nested(kind):
        return pa.array([None if each is None else repr(_plain(each)) for each in array.to_pylist()], pa.string())
    return array


def _plain(value: Any) -> Any:
    """A nested value with its floats in canonical form."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value + 0.0 if isinstance(value, float) else value
