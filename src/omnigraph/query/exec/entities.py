"""Finishes a result: entity keys become structs, and every column gets the Arrow type that the query declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.catalog import PropertyType
from omnigraph.kernels.arrays import one_array
from omnigraph.kernels.duckdb_pool import from_duckdb
from omnigraph.language.ir.types import EntityType
from omnigraph.query.exec.bindings import TYPE_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.catalog.catalog import Catalog, Property
    from omnigraph.language.ir.expressions import EntityValue
    from omnigraph.language.ir.query import CheckedQuery, Column, Variable
    from omnigraph.query.exec.scope import Scope

_PATH_VALUES = ("length", "nodes", "edges")


def finished(scope: Scope, checked: CheckedQuery, rows: pa.Table) -> pa.Table:
    """The result under its own column names and types."""
    columns = [
        _finished(scope, column, one_array(rows.column(f"c{index}"))) for index, column in enumerate(checked.columns)
    ]
    return pa.table(columns, names=[each.name for each in checked.columns])


def result_schema(scope: Scope, checked: CheckedQuery) -> pa.Schema:
    """Names and types of the result columns, known before the query runs."""
    return pa.schema([pa.field(each.name, _arrow_type(scope, each)) for each in checked.columns])


def _arrow_type(scope: Scope, column: Column) -> pa.DataType:
    if isinstance(column.type, EntityType):
        variable = scope.variables[cast("EntityValue", column.value).variable]
        fields = _fields(scope.read.catalog, variable)
        return pa.struct([pa.field(result_name, kind) for result_name, (_, kind) in fields.items()])
    assert isinstance(column.type, PropertyType)
    return arrow_type(column.type)


def entity_fields(scope: Scope, name: str) -> list[str]:
    """The stored columns that a whole node or edge is built from."""
    variable = scope.variables[name]
    if variable.kind == "path":
        return []
    return [stored for stored, _ in _fields(scope.read.catalog, variable).values() if stored != TYPE_NAME]


def _finished(scope: Scope, column: Column, values: pa.Array[Any]) -> pa.Array[Any]:
    if isinstance(column.type, EntityType):
        return _objects(scope, cast("EntityValue", column.value).variable, values)
    assert isinstance(column.type, PropertyType)
    return from_duckdb(values, arrow_type(column.type))


def _objects(scope: Scope, name: str, keys: pa.Array[Any]) -> pa.Array[Any]:
    variable = scope.variables[name]
    whole: Any = keys.cast(pa.int64())
    row_keys = whole.fill_null(-1).to_numpy(zero_copy_only=False)
    fields = _fields(scope.read.catalog, variable)
    found = scope.values(name, [stored for stored, _ in fields.values()], row_keys)
    arrays = [found[stored] for stored, _ in fields.values()]
    struct_fields = [pa.field(result_name, kind) for result_name, (_, kind) in fields.items()]
    objects: pa.Array[Any] = pa.StructArray.from_arrays(arrays, fields=struct_fields, mask=pa.array(row_keys < 0))
    return objects


def _fields(catalog: Catalog, variable: Variable) -> dict[str, tuple[str, pa.DataType]]:
    """The fields of an entity: name in the result, stored column, and Arrow type. Blobs are not included."""
    if variable.kind == "path":
        texts = pa.list_(pa.field("item", pa.string()))
        return {name: (name, pa.int64() if name == "length" else texts) for name in _PATH_VALUES}
    own = ("id", "src", "dst") if variable.kind == "edge" else ("id",)
    fields = {name: (name, cast("pa.DataType", pa.string())) for name in own}
    if variable.is_interface:
        fields["type"] = (TYPE_NAME, pa.string())
    readable = {name: each for name, each in _properties(catalog, variable).items() if each.type.scalar != "Blob"}
    return fields | {name: (name, arrow_type(each.type)) for name, each in readable.items()}


def _properties(catalog: Catalog, variable: Variable) -> Mapping[str, Property]:
    if variable.kind == "edge":
        return catalog.edges[variable.declared].properties
    declared = catalog.interfaces if variable.is_interface else catalog.nodes
    return declared[variable.declared].properties
