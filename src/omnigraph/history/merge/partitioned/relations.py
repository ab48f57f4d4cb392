"""Loads key columns, in comparable form, into a DuckDB file for the constraint checks of a large merge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.rules import type_of
from omnigraph.kernels.arrays import ID, comparable
from omnigraph.kernels.duckdb_pool import DuckLimits, open_file
from omnigraph.kernels.equality import value_at
from omnigraph.values.row_ids import has_own_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.history.merge.partitioned.row_rewrite import SpilledChange
    from omnigraph.transaction.read_view import ReadView

IS_FOREIGN = "is_foreign"
_BATCH = 65_536


def key_columns(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The ids, and the columns as `c0`, `c1`, … in comparable form; rows with a null among them are dropped."""
    plain = [comparable(rows.column(name)) for name in columns]
    table = pa.table({ID: rows.column(ID), **{f"c{at}": each for at, each in enumerate(plain)}})
    whole = [each.is_valid().to_numpy(zero_copy_only=False) for each in plain if each.null_count]
    return table.filter(pa.array(np.logical_and.reduce(whole))) if whole else table


def put_keys(catalog: Catalog, table_key: str, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The same for rows to write, with a column that is true when the id is not the one that the key determines."""
    kind = type_of(catalog, table_key)
    key = kind.rules.key
    # Only the key constraint reads it.
    foreign = ~has_own_id(kind, rows) if key and key == tuple(columns) else np.zeros(rows.num_rows, dtype=bool)
    whole = rows.select(list(dict.fromkeys([ID, *columns]))).append_column(IS_FOREIGN, pa.array(foreign))
    found = key_columns(whole, [*columns, IS_FOREIGN])
    return found.rename_columns([*found.column_names[:-1], IS_FOREIGN])


class KeyColumnTables:
    """The relations of `constraints`, created on first use; DuckDB spills what exceeds its memory limit."""

    def __init__(
        self, catalog: Catalog, view: ReadView, outcomes: Mapping[str, SpilledChange], folder: Path, memory: int
    ) -> None:
        self._catalog = catalog
        self._view = view
        self._outcomes = outcomes
        self._made: dict[tuple[object, ...], str] = {}
        limits = DuckLimits(f"{memory >> 20}MiB", threads=2, temp_directory=str(folder / "spill"))
        self._engine = open_file(folder / "keys.duckdb", limits)

    def close(self) -> None:
        """Close the database file."""
        self._engine.close()

    def puts(self, table_key: str, columns: tuple[str, ...]) -> str:
        """The rows to write."""
        return self._table(("puts", table_key, columns), lambda: self._of_puts(table_key, columns))

    def committed(self, table_key: str, columns: tuple[str, ...]) -> str:
        """The rows before the merge."""
        return self._table(("committed", table_key, columns), lambda: self._of_committed(table_key, columns))

    def deletes(self, table_key: str) -> str:
        """The ids of removed rows."""
        deletes = self._outcomes[table_key].deletes
        assert deletes is not None, "only called for tables that lose rows"
        return self._table(("deletes", table_key), lambda: map(pa.table, map(_ids, deletes.batches())))

    def query(self, sql: str, most: int) -> tuple[list[tuple[Any, ...]], int]:
        """The first `most` rows of a query, and how many more it has."""
        rows = self._engine.execute(f"SELECT * FROM ({sql}) LIMIT {most + 1}").fetchall()  # noqa: S608
        if len(rows) <= most:
            return rows, 0
        counted = self._engine.execute(f"SELECT count(*) FROM ({sql})").fetchone()  # noqa: S608
        assert counted is not None
        return rows[:most], int(counted[0]) - most

    def values(self, table_key: str, ids: Sequence[str], columns: tuple[str, ...]) -> dict[str, tuple[object, ...]]:
        """The values of some of the rows to write, by id."""
        puts = self._outcomes[table_key].puts
        assert puts is not None, "only called for tables that rows are put into"
        wanted = pa.array(ids, pa.string())
        found: dict[str, tuple[object, ...]] = {}
        for batch in puts.batches():
            found |= values_of(pa.Table.from_batches([batch]), wanted, columns)
        return found

    def _of_puts(self, table_key: str, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        puts = self._outcomes[table_key].puts
        assert puts is not None, "only called for tables that rows are put into"
        for batch in puts.batches():
            yield put_keys(self._catalog, table_key, pa.Table.from_batches([batch]), columns)

    def _of_committed(self, table_key: str, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        table, names = self._view.table(table_key), list(dict.fromkeys([ID, *columns]))
        yield key_columns(table.schema_of(names).empty_table(), columns)
        for batch in table.scan(names, batch_size=_BATCH):
            yield key_columns(pa.Table.from_batches([batch]), columns)

    def _table(self, key: tuple[object, ...], tables: Any) -> str:
        if key not in self._made:
            name = f"r{len(self._made)}"
            self._engine.register("incoming", _reader(tables()))
            self._engine.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")  # noqa: S608
            self._engine.unregister("incoming")
            self._made[key] = name
        return self._made[key]


def values_of(rows: pa.Table, wanted: pa.Array[Any], columns: Sequence[str]) -> dict[str, tuple[object, ...]]:
    """The values of the wanted rows, by id."""
    found = rows.filter(pc.is_in(rows.column(ID), value_set=wanted))
    ids: list[Any] = found.column(ID).to_pylist()
    return {row_id: tuple(value_at(found.column(name), row) for name in columns) for row, row_id in enumerate(ids)}


def _ids(batch: pa.RecordBatch) -> dict[str, pa.Array[Any]]:
    return {ID: batch.column(ID)}


def _reader(tables: Iterable[pa.Table]) -> pa.RecordBatchReader:
    """A non-empty stream of tables as a reader for DuckDB."""
    stream = iter(tables)
    first = next(stream)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first.to_batches()
        for each in stream:
            yield from each.cast(first.schema).to_batches()

    return pa.RecordBatchReader.from_batches(first.schema, batches())
