"""Executes the statements of a mutation against a write buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog.arrow import default_array, edge_arrow_schema, node_arrow_schema
from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.catalog.key_ids import edge_id, node_id
from omnigraph.errors import ConstraintViolation, InvalidInput, KeyConflict
from omnigraph.expressions.pushdown import column, computed, is_constant, matching, split
from omnigraph.kernels.arrays import python_values
from omnigraph.kernels.duckdb_pool import from_duckdb
from omnigraph.language.ir.query import Delete, Insert, Statement, Update, Upsert

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.expressions.pushdown import RequestValues
    from omnigraph.language.ir.query import Assignment, StatementTable
    from omnigraph.transaction.write_buffer import WriteBuffer
    from omnigraph.world import World


@dataclass
class Affected:
    """How many nodes and edges the statements changed, each counted once per statement that changed it."""

    nodes: int = 0
    edges: int = 0

    def add(self, kind: str, count: int) -> None:
        """Count rows of a kind."""
        if kind == "node":
            self.nodes += count
        else:
            self.edges += count


@dataclass(frozen=True)
class Executor:
    """Executes statements one after another; each sees the buffered writes of those before it."""

    catalog: Catalog
    buffer: WriteBuffer
    request: RequestValues
    world: World
    affected: Affected

    def run(self, statement: Statement) -> None:
        """Execute one statement."""
        match statement:
            case Insert():
                self._insert(statement)
            case Upsert():
                self._upsert(statement)
            case Update():
                self._update(statement)
            case Delete():
                self._delete(statement)

    def _insert(self, statement: Insert) -> None:
        """Put a whole row; values not given are the default or null. A row of the same key is a conflict."""
        kind = self._type(statement.table)
        row = self._new_row(kind, self._given(statement.values), statement)
        exists = statement.on_conflict != "replace" and self._exists(kind, row)
        if exists and statement.on_conflict == "ignore":
            return
        if exists:
            raise KeyConflict(kind.name, str(row.column("id")[0].as_py()))
        self.buffer.put(kind.table_key, row, only_new=not kind.rules.key)
        self.affected.add(statement.table.kind, 1)

    def _exists(self, kind: NodeType | EdgeType, row: pa.Table) -> bool:
        return self.buffer.rows_where(kind.table_key, "id", row.column("id")).num_rows > 0

    def _upsert(self, statement: Upsert) -> None:
        """Put new values into the row of this key, or a new row; values not given stay as they are."""
        kind = self._type(statement.table)
        given = self._given(statement.values)
        fresh = self._new_row(kind, given, statement)
        existing = self.buffer.rows_where(kind.table_key, "id", fresh.column("id"))
        if existing.num_rows:
            row = _replaced(self._whole(kind, existing, given), {name: fresh.column(name) for name in given})
        elif statement.unset_required:
            raise ConstraintViolation(
                f"there is no {kind.name} {fresh.column('id')[0].as_py()!r} yet, and a new one needs "
                f"{', '.join(statement.unset_required)}",
                type_name=kind.name,
                property_name=statement.unset_required[0],
            )
        else:
            row = fresh
        self.buffer.put(kind.table_key, row, only_new=False)
        self.affected.add(statement.table.kind, 1)

    def _update(self, statement: Update) -> None:
        kind = self._type(statement.table)
        rows = self._rows(kind, statement.where)
        if not rows.num_rows:
            return
        columns = self._new_columns(kind, rows, statement.values)
        changed = _replaced(self._whole(kind, rows, columns), columns)
        self.buffer.put(kind.table_key, changed, only_new=False)
        self.affected.add(statement.table.kind, rows.num_rows)

    def _delete(self, statement: Delete) -> None:
        kind = self._type(statement.table)
        ids = self._rows(kind, statement.where).column("id")
        if isinstance(kind, NodeType):
            deleted = self.buffer.delete_nodes(kind.name, ids)
            self.affected.nodes += deleted.nodes
            self.affected.edges += deleted.edges
        else:
            self.affected.edges += self.buffer.delete(kind.table_key, ids)

    def _whole(self, kind: NodeType | EdgeType, rows: pa.Table, replaced: Collection[str]) -> pa.Table:
        """Rows with the blobs that they were read without; blobs that are about to be replaced are not fetched."""
        for at, field in enumerate(_schema(kind)):
            if field.name not in rows.column_names:
                blobs = pa.nulls(rows.num_rows, field.type)
                if field.name not in replaced:
                    blobs = self.buffer.blobs(kind.table_key, field.name, rows.column("id"))
                rows = rows.add_column(at, field.name, blobs)
        return rows

    def _rows(self, kind: NodeType | EdgeType, where: Any) -> pa.Table:
        predicate = split(where, self.request)
        return matching(self.buffer.read(kind.table_key, None, predicate.filter), predicate.rest, self.request)

    def _type(self, target: StatementTable) -> NodeType | EdgeType:
        return self.catalog.nodes[target.name] if target.kind == "node" else self.catalog.edges[target.name]

    def _given(self, values: Sequence[Assignment]) -> dict[str, Any]:
        return {each.property: self.request.value(each.value) for each in values}

    def _new_row(self, kind: NodeType | EdgeType, given: Mapping[str, Any], statement: Insert | Upsert) -> pa.Table:
        endpoints = self._endpoints(statement)
        values = {
            name: column([given[name]], each.type, of=f"{kind.name}.{name}")
            if name in given
            else default_array(each, 1)
            for name, each in kind.properties.items()
        }
        key_values = {name: python_values(array)[0] for name, array in values.items() if name in kind.rules.key}
        identity = self._identity(kind, {**key_values, **endpoints})
        columns = {"id": pa.array([identity]), **{name: pa.array([end]) for name, end in endpoints.items()}, **values}
        return pa.Table.from_arrays([columns[name] for name in _names(kind)], schema=_nullable(_schema(kind)))

    def _endpoints(self, statement: Insert | Upsert) -> dict[str, str]:
        if statement.source is None or statement.target is None:
            return {}
        source, target = self.request.value(statement.source), self.request.value(statement.target)
        if not (isinstance(source, str) and isinstance(target, str)):
            raise InvalidInput(f"{statement.table.name}: the endpoints of an edge are the ids of two nodes, not null")
        return {"src": source, "dst": target}

    def _identity(self, kind: NodeType | EdgeType, values: Mapping[str, object]) -> str:
        found = node_id(kind, values) if isinstance(kind, NodeType) else edge_id(kind, values)
        return found if found is not None else self.world.ulid()

    def _new_columns(
        self, kind: NodeType | EdgeType, rows: pa.Table, values: Sequence[Assignment]
    ) -> dict[str, pa.Array[Any] | pa.ChunkedArray[Any]]:
        """Constants are evaluated once for all rows; expressions over the rows' own values run in DuckDB."""
        row_expressions = {each.property: (each.value, each.type) for each in values if not is_constant(each.value)}
        results = computed(rows, row_expressions, self.request) if row_expressions else None
        columns: dict[str, pa.Array[Any] | pa.ChunkedArray[Any]] = {}
        for each in values:
            target = _schema(kind).field(each.property).type
            if results is not None and each.property in row_expressions:
                columns[each.property] = _fit(results.column(each.property), target, of=f"{kind.name}.{each.property}")
            else:
                value = column([self.request.value(each.value)], each.type, of=f"{kind.name}.{each.property}")
                columns[each.property] = pa.chunked_array([value]).take(pa.array([0] * rows.num_rows))
        return columns


def _fit(values: pa.ChunkedArray[Any], target: pa.DataType, *, of: str) -> pa.Array[Any]:
    """Computed values in the column's own type; one that does not fit is refused, never truncated."""
    try:
        return from_duckdb(values, target)
    except pa.ArrowInvalid as error:
        type_name, _, property_name = of.partition(".")
        raise ConstraintViolation(f"{of}: {error}", type_name=type_name, property_name=property_name) from error


def _replaced(rows: pa.Table, columns: Mapping[str, pa.Array[Any] | pa.ChunkedArray[Any]]) -> pa.Table:
    for name, values in columns.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at).with_nullable(nullable=True), values)
    return rows


def _schema(kind: NodeType | EdgeType) -> pa.Schema:
    return node_arrow_schema(kind) if isinstance(kind, NodeType) else edge_arrow_schema(kind)


def _nullable(schema: pa.Schema) -> pa.Schema:
    """While rows are buffered, a required column may be null: validation names the row, Arrow would not."""
    return pa.schema([each.with_nullable(nullable=True) for each in schema])


def _names(kind: NodeType | EdgeType) -> list[str]:
    return _schema(kind).names
