"""Graphs to query: real Lance tables below a folder, and the snapshot that a manifest would give for them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog.arrow import table_arrow_schemas
from omnigraph.catalog.indexes import table_indexes
from omnigraph.language.gq.check import check_query
from omnigraph.language.gq.syntax.parse import parse_queries
from omnigraph.language.ir.params import bind_params
from omnigraph.language.ir.query import CheckedQuery
from omnigraph.language.schema.compile import compile_schema
from omnigraph.manifest.layout import table_path
from omnigraph.manifest.snapshot import Snapshot, TableEntry
from omnigraph.query.exec.limits import ReadOptions
from omnigraph.query.run import PreparedQuery
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.indexes import IndexSpec, stage_indexes
from omnigraph.storage.tables.new_tables import create_table
from omnigraph.storage.tables.staging import commit_staged, stage_append
from omnigraph.storage.tables.table import TableStore
from omnigraph.world import REAL
from storage.joined_changes import stage_delete_ids, stage_upsert

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.query.result.result import Result

    Record = dict[str, Any]

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Graph:
    """A graph that was made for a test."""

    catalog: Catalog
    store: TableStore
    snapshot: Snapshot

    def checked(self, text: str, name: str | None = None) -> CheckedQuery:
        queries = parse_queries(text)
        query = queries.queries[0] if name is None else next(each for each in queries.queries if each.name == name)
        checked = check_query(query, self.catalog)
        assert isinstance(checked, CheckedQuery)
        return checked

    def prepared(self, text: str, params: Mapping[str, object] | None = None, **options: Any) -> PreparedQuery:
        checked = self.checked(text if text.lstrip().startswith("query") else f"query q() {{ {text} }}")
        given = ReadOptions(**options)
        bound = bind_params(checked, params or {})
        return PreparedQuery(self.snapshot, self.store, self.catalog, checked, bound, given, now=NOW, world=REAL)

    def query(self, text: str, params: Mapping[str, object] | None = None, **options: Any) -> Result:
        return self.prepared(text, params, **options).run()

    def rows(self, text: str, params: Mapping[str, object] | None = None, **options: Any) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.query(text, params, **options).to_pylist()]

    # -- changes -------------------------------------------------------------------------------------------------------

    def append(self, table_key: str, records: Sequence[Record]) -> Graph:
        return self._changed(table_key, lambda table: stage_append(table, self._rows(table_key, records)))

    def upsert(self, table_key: str, records: Sequence[Record]) -> Graph:
        return self._changed(table_key, lambda table: stage_upsert(table, self._rows(table_key, records)))

    def delete(self, table_key: str, ids: Sequence[str]) -> Graph:
        return self._changed(table_key, lambda table: stage_delete_ids(table, ids))

    def indexed(self, *table_keys: str) -> Graph:
        graph = self
        for table_key in table_keys or tuple(self.snapshot.tables):
            graph = graph._changed(table_key, lambda table, key=table_key: stage_indexes(table, self._specs(key)))
        return graph

    def _specs(self, table_key: str) -> list[IndexSpec]:
        kind, _, name = table_key.partition(":")
        declared = self.catalog.nodes[name] if kind == "node" else self.catalog.edges[name]
        wanted = [each for each in table_indexes(declared) if each.kind in ("btree", "inverted", "vector")]
        return [IndexSpec(each.column, each.kind, each.name, each.metric) for each in wanted]

    def _rows(self, table_key: str, records: Sequence[Record]) -> pa.Table:
        return rows_of(table_arrow_schemas(self.catalog)[table_key], records)

    def _changed(self, table_key: str, stage: Any) -> Graph:
        entry = self.snapshot[table_key]
        staged = stage(self.store.open(entry.pin))
        if staged is None:
            return self
        committed = commit_staged(staged)
        count = committed.table.count_rows()
        new = TableEntry(table_key, entry.path, committed.version, entry.branch, count)
        return replace(self, snapshot=replace(self.snapshot, tables={**self.snapshot.tables, table_key: new}))


def make_graph(folder: Path, schema: str, records: Mapping[str, Sequence[Record]] | None = None) -> Graph:
    """A graph with these rows by type name. Nodes get their key for an id, edges a number; both may be given."""
    catalog = compile_schema(schema)
    store = TableStore(parse_location(str(folder), REAL), REAL)
    entries = {}
    for table_key, arrow in table_arrow_schemas(catalog).items():
        kind, _, name = table_key.partition(":")
        found = [
            _identified(catalog, kind, name, number, each) for number, each in enumerate((records or {}).get(name, ()))
        ]
        rows = rows_of(arrow, found)
        table = store.cache_handle(create_table(store, table_path(table_key), arrow, [rows] if rows.num_rows else ()))
        entries[table_key] = TableEntry(table_key, table.path, table.version, None, rows.num_rows)
    return Graph(catalog, store, Snapshot("main", 1, None, entries))


def _identified(catalog: Catalog, kind: str, name: str, number: int, record: Record) -> Record:
    if "id" in record:
        return record
    if kind == "edge":
        return {"id": f"{name}-{number:04d}", **record}
    key = catalog.nodes[name].rules.key
    return {"id": str(record[key[0]]) if key else f"{name}-{number:04d}", **record}


def rows_of(schema: pa.Schema, records: Sequence[Record]) -> pa.Table:
    columns = [_column(field, [each.get(field.name) for each in records]) for field in schema]
    return pa.table(columns, schema=schema)


def _column(field: pa.Field, values: list[Any]) -> pa.Array:
    if not pa.types.is_date64(field.type):
        return pa.array(values, field.type)
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    numbers = [None if each is None else (each - epoch) // dt.timedelta(milliseconds=1) for each in values]
    return pa.array(numbers, pa.int64()).view(pa.date64())
