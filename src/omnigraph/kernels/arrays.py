"""Row numbers as NumPy arrays, and Arrow columns and batches: conversions without loss, canonical values, batch sizes.

A DateTime is date64, which Arrow itself converts without the time of day: here it goes through int64 or timestamps.
In the form of `comparable`, `-0.0` is `0.0` and every NaN the same NaN, so that Arrow's hash functions agree with `=`.
Work on a table has a fixed cost per call, so `rebatch` combines small batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    RowNumbers = NDArray[np.int64]
    Values = pa.Array[Any] | pa.ChunkedArray[Any]

ID = "id"
MILLISECONDS: dict[pa.DataType, pa.DataType] = {pa.date64(): pa.int64()}
_PHYSICAL: dict[pa.DataType, pa.DataType] = {pa.date32(): pa.int32(), **MILLISECONDS}
_PER_MILLISECOND = {"us": 1_000, "ns": 1_000_000}


def is_ascending(row_numbers: RowNumbers) -> bool:
    """Whether the row numbers are strictly ascending, as those of a scan are."""
    return bool((row_numbers[1:] > row_numbers[:-1]).all())


def is_distinct(row_numbers: RowNumbers) -> bool:
    """Whether no row number occurs twice and none is negative, which stands for a missing row."""
    if len(row_numbers) < 2 or is_ascending(row_numbers):
        return not len(row_numbers) or int(row_numbers.min()) >= 0
    return int(row_numbers.min()) >= 0 and len(distinct(row_numbers)[0]) == len(row_numbers)


def distinct(row_numbers: RowNumbers) -> tuple[RowNumbers, RowNumbers]:
    """The distinct row numbers, ascending, and the position of each input among them."""
    if is_ascending(row_numbers):
        return row_numbers, np.arange(len(row_numbers), dtype=np.int64)
    low, high = int(row_numbers.min()), int(row_numbers.max())
    if high - low < 4 * len(row_numbers):
        return _by_counting(row_numbers, low, high)
    found, positions = np.unique(row_numbers, return_inverse=True)
    return found, positions


def _by_counting(row_numbers: RowNumbers, low: int, high: int) -> tuple[RowNumbers, RowNumbers]:
    """Numbers in a narrow range need no sorting."""
    seen = np.zeros(high - low + 1, np.bool_)
    seen[row_numbers - low] = True
    found = np.flatnonzero(seen)
    positions = np.cumsum(seen, dtype=np.int64) - 1
    return found + low, positions[row_numbers - low]


def one_array(values: Values) -> pa.Array[Any]:
    """The values as one contiguous array; without a copy if they are contiguous already."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    one: Any = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    array: pa.Array[Any] = one
    return array


def physical_type(data_type: pa.DataType) -> pa.DataType:
    """The type that stores the values: dates and datetimes are integers, also inside lists and structs."""
    return replace_types(data_type, _PHYSICAL)


def replace_types(data_type: pa.DataType, replacements: Mapping[pa.DataType, pa.DataType]) -> pa.DataType:
    """The type with some scalar types replaced, also inside lists and structs."""
    kind: Any = data_type
    if pa.types.is_struct(kind):
        return pa.struct([_replaced(each, replacements) for each in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_replaced(kind.value_field, replacements), int(kind.list_size))
    if pa.types.is_list(kind):
        return pa.list_(_replaced(kind.value_field, replacements))
    found: pa.DataType = replacements.get(data_type, data_type)
    return found


def _replaced(field: pa.Field[Any], replacements: Mapping[pa.DataType, pa.DataType]) -> pa.Field[Any]:
    return field.with_type(replace_types(field.type, replacements))


def python_values(column: Values) -> list[Any]:
    """Python values, with datetimes as milliseconds, also inside lists and structs."""
    values: Any = column
    plain = replace_types(values.type, MILLISECONDS)
    found: list[Any] = (values if plain == values.type else values.cast(plain)).to_pylist()
    return found


def floor_milliseconds(column: pa.Array[Any]) -> pa.Array[Any]:
    """Timestamps of any unit and zone as UTC timestamps in milliseconds, also inside lists and structs.

    Digits below a millisecond are cut towards the past. Raises `ArrowInvalid` when a value is out of range.
    """
    array: Any = column
    kind: Any = array.type
    if pa.types.is_timestamp(kind):
        return _floored(array.view(pa.timestamp(kind.unit)))
    if pa.types.is_list(kind):
        return with_items(array, floor_milliseconds(array.flatten()))
    if pa.types.is_struct(kind):
        members = [floor_milliseconds(each) for each in array.flatten()]
        fields = [field.with_type(member.type) for field, member in zip(kind, members, strict=True)]
        return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null())
    return column


def _floored(column: Any) -> pa.Array[Any]:
    milliseconds: Any = column.view(pa.int64())
    if column.type.unit == "s":
        milliseconds = pc.multiply_checked(milliseconds, 1_000)
    elif column.type.unit != "ms":
        floored: Any = pc.floor_temporal(column, unit="millisecond")
        milliseconds = pc.divide(floored.view(pa.int64()), _PER_MILLISECOND[column.type.unit])
    found: pa.Array[Any] = milliseconds.view(pa.timestamp("ms"))
    return found


def with_items(lists: Any, items: pa.Array[Any]) -> pa.Array[Any]:
    """Lists of the same lengths with other items; `items` has one for each of `lists.flatten()`."""
    lengths = pc.fill_null(lists.value_lengths(), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    kind = pa.list_(lists.type.value_field.with_type(items.type))
    return pa.ListArray.from_arrays(offsets, items, type=kind, mask=lists.is_null() if lists.null_count else None)


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
        return pa.array([None if each is None else repr(_plain(each)) for each in python_values(array)], pa.string())
    return array


def _plain(value: Any) -> Any:
    """A nested value with its floats in canonical form."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value + 0.0 if isinstance(value, float) else value


def rebatch(
    batches: Iterable[pa.RecordBatch | pa.Table], *, rows: int | None = None, nbytes: int | None = None
) -> Iterator[pa.Table]:
    """Yield the same rows in the same order, as tables of exactly `rows` rows, or of fewer that reach `nbytes`.

    The last table may be smaller; no table is empty. Nothing is copied.
    """
    buffer = RowBuffer(rows, nbytes)
    for batch in batches:
        yield from buffer.add(batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch]))
    yield from buffer.drain()


@dataclass
class RowBuffer:
    """Buffers tables until they have `rows` rows or `nbytes` bytes. `rebatch` for callers that push rows."""

    rows: int | None = None
    nbytes: int | None = None
    _tables: list[pa.Table] = field(default_factory=list)
    _row_count: int = 0
    _byte_count: int = 0

    def __bool__(self) -> bool:
        return bool(self._tables)

    def add(self, table: pa.Table) -> Iterator[pa.Table]:
        """Buffer rows; yield the tables that became full."""
        self._hold(table)
        while self.rows is not None and self._row_count >= self.rows:
            whole = self._take()
            self._hold(whole.slice(self.rows))
            yield whole.slice(0, self.rows)
        if self.nbytes is not None and self._byte_count >= self.nbytes:
            yield from self.drain()

    def drain(self) -> Iterator[pa.Table]:
        """Yield the buffered rows, if there are any."""
        if self._tables:
            yield self._take()

    def _hold(self, table: pa.Table) -> None:
        if table.num_rows:
            self._tables.append(table)
            self._row_count += table.num_rows
            self._byte_count += 0 if self.nbytes is None else table.nbytes

    def _take(self) -> pa.Table:
        tables, self._tables, self._row_count, self._byte_count = self._tables, [], 0, 0
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
