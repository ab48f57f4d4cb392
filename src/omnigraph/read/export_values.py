"""Columns of a table as the values of released records: ISO text for dates, arrays for vectors, base64 for blobs."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidInput
from omnigraph.store.blobs import descriptions, external, is_inline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.store.tables import Table

# Between these, a number of days has a text with a four-digit year; outside, the number itself is written.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY_MS = 86_400_000
_INLINE = "base64:"


def json_values(column: pa.Array[Any], *, about: str) -> list[Any]:
    """The values of a column as JSON can carry them, None for null. `about` names the column in errors."""
    kind = column.type
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return _lists(column, about)
    if pa.types.is_floating(kind):
        return _floats(column, about)
    if pa.types.is_date32(kind):
        return _texts(column, column.cast(pa.int32()), _FIRST_DAY, _LAST_DAY)
    if pa.types.is_date64(kind):
        milliseconds = column.cast(pa.int64())
        return _texts(column, milliseconds, _FIRST_DAY * _DAY_MS, (_LAST_DAY + 1) * _DAY_MS - 1)
    values: list[Any] = column.to_pylist()
    return values


@dataclass(frozen=True)
class BlobColumn:
    """A blob property of some rows of a table, by their positions in it."""

    table: Table
    name: str
    positions: Sequence[int]

    def texts(self, column: pa.Array[Any]) -> list[str | None]:
        """`base64:…` for a managed blob, the URI for an external one, None for null."""
        described = descriptions(column)
        found: list[str | None] = [each["uri"] if each else None for each in map(external, described)]
        inline = [at for at, each in enumerate(described) if is_inline(each)]
        if inline:
            files = self.table.dataset.take_blobs(self.name, indices=[self.positions[at] for at in inline])
            for at, file in zip(inline, files, strict=True):
                found[at] = None if file is None else _INLINE + base64.b64encode(file.read()).decode()
        return found


def _floats(column: pa.Array[Any], about: str) -> list[Any]:
    """Numbers of 32 bits stay such, so that they are written with the digits they have."""
    finite = pc.is_finite(column)
    if not pc.all(finite, min_count=0).as_py():
        value = column.filter(pc.invert(finite))[0]
        raise InvalidInput(f"{about} holds {value}, which JSON cannot carry: export to Parquet.")
    if pa.types.is_float64(column.type):
        values: list[Any] = column.to_pylist()
        return values
    numbers: list[Any] = list(column.fill_null(0).to_numpy(zero_copy_only=False))
    if column.null_count:
        return [number if valid else None for number, valid in zip(numbers, column.is_valid().to_pylist(), strict=True)]
    return numbers


def _texts(column: pa.Array[Any], numbers: Any, first: int, last: int) -> list[Any]:
    values: list[Any] = numbers.to_pylist()
    readable = pc.and_(pc.greater_equal(numbers, pa.scalar(first)), pc.less_equal(numbers, pa.scalar(last)))
    within = pc.if_else(readable, numbers, None).cast(column.type)
    texts = (within.cast(pa.timestamp("ms")) if pa.types.is_date64(column.type) else within).cast(pa.string())
    if pa.types.is_date64(column.type):
        texts = pc.binary_join_element_wise(pc.replace_substring(texts, " ", "T"), "Z", "")
    return [value if text is None else text for text, value in zip(texts.to_pylist(), values, strict=True)]


def _lists(column: Any, about: str) -> list[Any]:
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_pylist()
    items: Any = _items(column.flatten(), about)
    slices = (items[start:end] for start, end in pairwise(accumulate(lengths, initial=0)))
    return [each if valid else None for each, valid in zip(slices, column.is_valid().to_pylist(), strict=True)]


def _items(flat: pa.Array[Any], about: str) -> Any:
    if pa.types.is_float32(flat.type) and not flat.null_count:
        numbers = flat.to_numpy(zero_copy_only=False)
        if np.isfinite(numbers).all():
            return numbers
    return json_values(flat, about=about)
