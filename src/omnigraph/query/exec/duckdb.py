"""Runs DuckDB over Arrow tables for one read, within its limits of time and memory.

Reads with equal settings share one DuckDB instance; each read has its own connection.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from omnigraph.errors import InvalidInput, QueryTooLarge
from omnigraph.kernels.duckdb_pool import NO_RESULT, DuckLimits, connect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.query.exec.limits import Deadline, ReadOptions

# An answer of at most this many rows is faster as Python values than as Arrow.
SMALL_RESULT = 1_000


class Engine:
    """Runs SQL over Arrow tables. Reads with equal limits share the instance; the connection belongs to one read."""

    def __init__(self, options: ReadOptions, deadline: Deadline) -> None:
        self._limits = _limits(options)
        self._deadline = deadline
        self._connection: duckdb.DuckDBPyConnection | None = None

    def select(self, sql: str, matches: pa.Table | None, *, most: int | None = None) -> pa.Table:  # noqa: ARG002
        """The rows of a generated query over `matches`. `most` is an upper bound on their number, if one is known.

        DuckDB finds the table by the name of the argument (a replacement scan), which takes a third of the time of
        registering it. When `matches` is None, that name is the view of what was `collected`.
        """
        with self._guarded() as connection:
            if most is not None and most <= SMALL_RESULT:
                return _small_result(connection.execute(sql))
            relation: Any = connection.sql(sql)
            rows: pa.Table = relation.to_arrow_table()
        return rows

    def stream(self, sql: str, rows: int) -> Iterator[pa.Table]:
        """The rows of a generated query over what was `collected`, in batches of `rows`."""
        with self._guarded() as connection:
            relation: Any = connection.sql(sql)
            reader: pa.RecordBatchReader = relation.to_arrow_reader(rows)
        while True:
            with self._guarded(), _stream_errors(self._deadline):
                batch = next(reader, None)
            if batch is None:
                return
            yield pa.Table.from_batches([batch])

    def run(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The rows of a generated query over several tables."""
        with self._guarded() as connection, _registered(connection, tables):
            relation: Any = connection.sql(sql)
            rows: pa.Table = relation.to_arrow_table()
        return rows

    def _execute(self, sql: str, batch: pa.Table) -> None:  # noqa: ARG002 - found by its name
        with self._guarded() as connection:
            connection.execute(sql)

    @contextmanager
    def _guarded(self) -> Iterator[duckdb.DuckDBPyConnection]:
        self._deadline.check()
        connection = self._connected()
        try:
            with _duckdb_errors(), self._deadline.watching(connection.interrupt):
                yield connection
        except duckdb.InterruptException:
            self._deadline.check()
            raise

    @contextmanager
    def collected(self, name: str, batches: Iterator[pa.Table]) -> Iterator[None]:
        """While the block runs, the view `name` holds all batches in a temporary table, which can spill to disk."""
        # Computing the batches runs queries over `matches` as well, so the view is created only when all are there.
        collected_table = f"{name}_collected"
        try:
            for ordinal, batch in enumerate(batches):
                verb = f"insert into {collected_table}" if ordinal else f"create temp table {collected_table} as"
                self._execute(f"{verb} from batch", batch)
            self._connected().execute(f"create temp view {name} as from {collected_table}")
            yield
        finally:
            self._connected().execute(f"drop view if exists {name}; drop table if exists {collected_table}")

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._connection = connect(self._limits)
        return self._connection


@contextmanager
def _registered(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> Iterator[None]:
    for name, table in tables.items():
        connection.register(name, table)
    try:
        yield
    finally:
        for name in tables:
            connection.unregister(name)


@contextmanager
def _duckdb_errors() -> Iterator[None]:
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise QueryTooLarge(f"the query needs more memory than it may use: {error}") from error
    except NO_RESULT as error:
        raise InvalidInput(f"a value of the query cannot be computed: {error}") from error


@contextmanager
def _stream_errors(deadline: Deadline) -> Iterator[None]:
    """DuckDB errors that cross an Arrow stream become an OSError; only its text tells which one it was."""
    try:
        yield
    except OSError as error:
        deadline.check()
        if "Out of Memory Error" in str(error):
            raise QueryTooLarge(f"the query needs more memory than it may use: {error}") from error
        if "Conversion Error" in str(error) or "Out of Range Error" in str(error):
            raise InvalidInput(f"a value of the query cannot be computed: {error}") from error
        raise


def _small_result(answer: duckdb.DuckDBPyConnection) -> pa.Table:
    """Fetch a small answer as Python values, which takes half the time; the caller casts to the types it wants."""
    names = [each[0] for each in answer.description or ()]
    columns: list[Any] = list(zip(*answer.fetchall(), strict=True)) or [()] * len(names)
    return pa.table([pa.array(values) for values in columns], names=names)


def _limits(options: ReadOptions) -> DuckLimits:
    memory = None if options.memory_limit is None else f"{options.memory_limit}B"
    return DuckLimits(memory, options.threads, options.temp_directory)
