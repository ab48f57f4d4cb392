"""DuckDB over Arrow tables. Starting an instance costs a tenth of a second, so all queries of a process share one."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

_lock = threading.Lock()
_instance: list[duckdb.DuckDBPyConnection] = []


@contextmanager
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of one's own to the shared in-memory instance; what is registered on it goes with it."""
    with _lock:
        if not _instance:
            _instance.append(duckdb.connect())
        mine = _instance[0].cursor()
    try:
        yield mine
    finally:
        mine.close()


def as_duckdb_takes_it(rows: pa.Table) -> pa.Table:
    """Moments as timestamps, because DuckDB reads date64 as whole days; without blobs, which it has no type for."""
    fields = [each for each in rows.schema if not pa.types.is_struct(each.type)]
    columns = [
        rows.column(each.name).cast(pa.timestamp("ms")) if pa.types.is_date64(each.type) else rows.column(each.name)
        for each in fields
    ]
    return pa.table(columns, names=[each.name for each in fields])
