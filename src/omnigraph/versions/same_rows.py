"""Which rows of two tables have the same id and the same values. NaN is NaN, and null is null."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.tables import ID


def same_rows(before: pa.Table, after: pa.Table) -> pa.Array[Any]:
    """The ids of rows that are in both tables with equal values. Both are sorted by id and have the same columns."""
    old = before.filter(pc.is_in(before.column(ID), value_set=after.column(ID))).combine_chunks()
    new = after.filter(pc.is_in(after.column(ID), value_set=before.column(ID))).combine_chunks()
    if not old.num_rows:
        return pa.array([], pa.string())
    equal = np.ones(old.num_rows, dtype=bool)
    for name in after.column_names:
        if name != ID:
            equal &= equal_values(old.column(name), new.column(name))
    return new.column(ID).filter(pa.array(equal)).combine_chunks()


def equal_values(left: pa.ChunkedArray[Any], right: pa.ChunkedArray[Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Row by row, whether two columns of one type have the same value."""
    kind: Any = left.type
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.fromiter((same_value(one, other) for one, other in pairs), dtype=bool, count=len(left))
    alike: Any = pc.equal(left, right).fill_null(fill_value=False)
    if pa.types.is_floating(kind):
        nowhere: Any = pc.and_(pc.is_nan(left), pc.is_nan(right))
        alike = pc.or_(alike, nowhere.fill_null(fill_value=False))
    absent: Any = pc.and_(left.is_null(), right.is_null())
    found: np.ndarray[Any, np.dtype[np.bool_]] = pc.or_(alike, absent).to_numpy()
    return found


def same_value(one: object, other: object) -> bool:
    """Whether two Python values are the same."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    return one == other or (one != one and other != other)  # true of NaN alone
