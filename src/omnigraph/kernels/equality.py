"""Value equality of columns, for keys, uniqueness and lookups, and the positions of ids among distinct ids.

Values compare by type, not by their text. `-0.0` equals `0.0`, every NaN is the same NaN, and lists compare item by
item; `kernels/arrays.py` has the form in which this holds. Ids of a type with an integer key are decimal integers:
comparing them as integers takes a quarter of the time.
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

    Positions = NDArray[np.int32]
    Texts = pa.Array[Any] | pa.ChunkedArray[Any]

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
    integers: pa.Array[Any] = pa.array(rows, pa.int64())
    return integers


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


# With fewer ids, checking that they are integers costs more than it saves.
_WORTH_A_LOOK = 10_000
# With this many times more ids in the table, scanning them for the few is cheaper than hashing them all.
_FEW = 8
# Integers whose range is at most this many times their count are looked up in a direct-address table.
_DENSE = 8


def id_positions(ids: Texts, among: pa.Array[Any]) -> Positions:
    """The position of each id in `among`, whose ids are distinct; -1 where it is absent."""
    if len(ids) * _FEW <= len(among):
        return _positions_of_few(ids, among)
    if len(ids) >= _WORTH_A_LOOK and (integers := _canonical_integers(among)) is not None:
        found = _by_integer(ids, among, integers)
        if found is not None:
            return found
    return _index_in(ids, among)


def _positions_of_few(ids: Texts, among: pa.Array[Any]) -> Positions:
    """Look each of the many table ids up among the few."""
    if not len(ids):
        return np.zeros(0, np.int32)
    wanted = one_array(pc.unique(ids))
    hits = _index_in(among, wanted)
    rows = np.flatnonzero(hits >= 0)
    positions = np.full(len(wanted), -1, np.int32)
    positions[hits[rows]] = rows
    found: Positions = positions[_index_in(ids, wanted)]
    return found


def _canonical_integers(ids: pa.Array[Any]) -> pa.Array[Any] | None:
    """The ids as integers, if each is in canonical decimal form; else None."""
    integers = _as_integers(ids)
    if integers is None or not len(integers) or integers.null_count:
        return None
    return integers if integers.cast(pa.string()).equals(ids) else None


def _as_integers(texts: Any) -> Any:
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def _by_integer(ids: Texts, among: pa.Array[Any], integers: pa.Array[Any]) -> Positions | None:
    wanted = _as_integers(ids)
    if wanted is None or wanted.null_count:
        return None
    positions = _dense_positions(wanted.to_numpy(), integers.to_numpy())
    if positions is None:
        positions = _index_in(wanted, integers)
    # `07` is the integer 7 but not the id `7`: of all texts of one integer, only the canonical one has its length.
    same = (positions >= 0) & (_lengths(among)[positions] == _lengths(ids))
    return positions if same.all() else np.where(same, positions, np.int32(-1))


def _lengths(texts: Any) -> Positions:
    found: Any = pc.binary_length(texts)
    lengths: Positions = found.to_numpy()
    return lengths


def _dense_positions(wanted: NDArray[np.int64], integers: NDArray[np.int64]) -> Positions | None:
    low, high = int(integers.min()), int(integers.max())
    if high - low > _DENSE * len(integers) or int(wanted.min()) < low or int(wanted.max()) > high:
        return None
    positions = np.full(high - low + 1, -1, np.int32)
    positions[integers - low] = np.arange(len(integers), dtype=np.int32)
    found: Positions = positions[wanted - low]
    return found


def _index_in(values: Any, among: pa.Array[Any]) -> Positions:
    found: Any = pc.index_in(values, value_set=among)
    positions: Positions = found.fill_null(-1).to_numpy(**({} if isinstance(found, pa.ChunkedArray) else _COPIED))
    return positions


_COPIED = {"zero_copy_only": False}
