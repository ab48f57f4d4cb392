"""DuckDB over Arrow tables. Starting an instance takes a tenth of a second, so all queries of a process share one."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from omnigraph.kernels.arrays import one_array

if TYPE_CHECKING:
    from collections.abc import Iterator

_lock = threading.Lock()
_instance: list[duckdb.DuckDBPyConnection] = []


@contextmanager
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A separate connection to the shared in-memory instance; tables registered on it are dropped with it."""
    with _lock:
        if not _instance:
            _instance.append(duckdb.connect())
        mine = _instance[0].cursor()
    try:
        yield mine
    finally:
        mine.close()


def as_duckdb_takes_it(rows: pa.Table) -> pa.Table:
    """Rows in types that DuckDB reads correctly, without blob columns, for which it has no type."""
    fields = [each for each in rows.schema if not pa.types.is_struct(each.type)]
    return pa.table([for_duckdb(rows.column(each.name)) for each in fields], names=[each.name for each in fields])


def for_duckdb(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> pa.Array[Any] | pa.ChunkedArray[Any]:
    """Convert date64, also in lists, to timestamps: DuckDB reads date64 as whole days."""
    if pa.types.is_date64(column.type):
        return column.cast(pa.timestamp("ms"))
    kind: Any = column.type
    if pa.types.is_list(kind) and pa.types.is_date64(kind.value_type):
        return column.cast(pa.list_(pa.timestamp("ms")))
    return column


def from_duckdb(values: pa.Array[Any] | pa.ChunkedArray[Any], data_type: pa.DataType) -> pa.Array[Any]:
    """Convert values from DuckDB to a stored type; date64 keeps the time of day only when made from an integer.

    Raises `ArrowInvalid` for a value that the type cannot hold.
    """
    if values.type == data_type:
        return one_array(values)
    stored: Any = data_type
    if pa.types.is_date64(stored):
        return one_array(one_array(values.cast(pa.timestamp("ms")).cast(pa.int64())).view(stored))
    if pa.types.is_list(stored) and pa.types.is_date64(stored.value_type):
        return one_array(one_array(values.cast(pa.list_(pa.timestamp("ms"))).cast(pa.list_(pa.int64()))).view(stored))
    if pa.types.is_fixed_size_list(stored):
        return one_array(values.cast(pa.list_(pa.float32(), stored.list_size)).cast(stored))
    return one_array(values.cast(stored))
