"""DuckDB over Arrow tables: the only module that starts instances, and the conversions of columns for it and from it.

Starting an instance takes a tenth of a second, so all queries of a process with equal limits share one.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from omnigraph.kernels.arrays import floor_milliseconds, one_array, replace_types

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Column = pa.Array[Any] | pa.ChunkedArray[Any]


@dataclass(frozen=True)
class DuckLimits:
    """Limits of an instance; None leaves DuckDB's default. `memory_limit` is a size as DuckDB writes it."""

    memory_limit: str | None = None
    threads: int | None = None
    temp_directory: str | None = None

    def config(self) -> dict[str, Any]:
        """The limits as DuckDB's settings."""
        return {name: value for name, value in vars(self).items() if value is not None}


SHARED = DuckLimits()
# For tasks: their runner decides how many run at a time.
ONE_THREAD = DuckLimits(threads=1)
# A computation over values that are valid themselves has no result.
NO_RESULT = (duckdb.OutOfRangeException, duckdb.ConversionException)

_lock = threading.Lock()
_instances: dict[DuckLimits, duckdb.DuckDBPyConnection] = {}
# DuckDB reads date64 as whole days.
_TIMESTAMPS: dict[pa.DataType, pa.DataType] = {pa.date64(): pa.timestamp("ms")}


def connect(limits: DuckLimits = SHARED) -> duckdb.DuckDBPyConnection:
    """A connection of the caller's own to the in-memory instance with these limits. The caller closes it."""
    with _lock:
        if limits not in _instances:
            _instances[limits] = duckdb.connect(":memory:", config=limits.config())
        return _instances[limits].cursor()


@contextmanager
def connection(limits: DuckLimits = SHARED) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for the block; tables registered on it are dropped with it."""
    mine = connect(limits)
    try:
        yield mine
    finally:
        mine.close()


def open_file(path: Path, limits: DuckLimits) -> duckdb.DuckDBPyConnection:
    """An instance over a database file, which may exceed memory. The caller closes it."""
    return duckdb.connect(str(path), config={**limits.config(), "preserve_insertion_order": False})


def rows_to_duckdb(rows: pa.Table) -> pa.Table:
    """Rows in types that DuckDB reads correctly, without blob columns, for which it has no type."""
    fields = [each for each in rows.schema if not pa.types.is_struct(each.type)]
    return pa.table([to_duckdb(rows.column(each.name)) for each in fields], names=[each.name for each in fields])


def to_duckdb(column: Column) -> Column:
    """The column in a type that DuckDB reads correctly: datetimes as timestamps, also inside lists and structs."""
    values: Any = column
    exact = replace_types(values.type, _TIMESTAMPS)
    converted: Column = values if exact == values.type else values.cast(exact)
    return converted


def from_duckdb(column: Column, data_type: pa.DataType) -> pa.Array[Any]:
    """Convert values from DuckDB to a stored type. Raises `ArrowInvalid` for a value that the type cannot hold.

    Arrow's cast to date64 drops the time of day, so datetimes are timestamps in milliseconds first.
    """
    values: Any = one_array(column)
    if values.type == data_type:
        return one_array(values)
    exact = replace_types(data_type, _TIMESTAMPS)
    if exact == data_type:
        return one_array(values.cast(data_type))
    return one_array(one_array(floor_milliseconds(values).cast(exact)).view(data_type))
