"""Value equality of columns, for keys, uniqueness and lookups.

Values compare by type, not by their text. `-0.0` equals `0.0`, every NaN is the same NaN, and lists compare item by
item; `kernels/arrays.py` has the form in which this holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.kernels.arrays import comparable, one_array, replace_types
from omnigraph.kernels.hashing import MANY, are_among

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from omnigraph.kernels.arrays import Values


NO_VALUE = -1
_TIMESTAMPS: dict[pa.DataType, pa.DataType] = {pa.date64(): pa.timestamp("ms")}


def value_at(values: Values, row: int) -> Any:
    """One value as a Python object; date64 keeps its time of day, also in lists."""
    exact: Any = replace_types(values.type, _TIMESTAMPS)
    return values.slice(row, 1).cast(exact)[0].as_py()


def texts(values: Values) -> list[str]:
    """Ids as Python strings."""
    found: list[Any] = values.to_pylist()
    return found


def row_numbers(rows: NDArray[np.int64]) -> pa.Array[Any]:
    """Row numbers as the Arrow array that `take` expects."""
    numbers: pa.Array[Any] = pa.array(rows, pa.int64())
    return numbers


def distinct(values: Values) -> pa.Array[Any]:
    """The distinct non-null values, in `comparable` form."""
    return pc.unique(comparable(values).drop_null())


def is_among(values: Values, others: Values) -> pa.Array[Any]:
    """For each value, whether it is in `others`; false for null. Both must be in `comparable` form.

    Arrow builds a hash table of the value set, so the larger side is first reduced to the values of the smaller.
    """
    mine, theirs = one_array(values), one_array(others).drop_null()
    if pa.types.is_string(mine.type) and len(mine) + len(theirs) >= MANY:
        found = are_among(mine, theirs)
        if found is not None:
            return found
    if len(mine) < len(theirs):
        theirs = theirs.filter(pc.is_in(theirs, value_set=mine))
    return pc.is_in(mine, value_set=theirs)


def tuple_codes(columns: Sequence[Values]) -> tuple[NDArray[np.int64], int]:
    """A dense code for each row, equal for equal tuples, and the number of codes; `NO_VALUE` where a value is null."""
    codes, size = _codes(comparable(columns[0]))
    for column in columns[1:]:
        more, more_size = _codes(comparable(column))
        missing = (codes == NO_VALUE) | (more == NO_VALUE)
        codes, size = _codes(pa.array(codes * max(more_size, 1) + more, mask=missing))
    return codes, size


def first_rows(codes: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """For each code of `tuple_codes`, the first row that has it."""
    first = np.full(size, NO_VALUE, np.int64)
    rows = np.flatnonzero(codes != NO_VALUE)[::-1]
    first[codes[rows]] = rows
    return first


def _codes(values: pa.Array[Any]) -> tuple[NDArray[np.int64], int]:
    encoded: Any = values.dictionary_encode()
    codes = encoded.indices.fill_null(NO_VALUE).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, len(encoded.dictionary)
