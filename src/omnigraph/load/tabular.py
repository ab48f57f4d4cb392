"""Converts Arrow streams, and objects whose members are columns, into typed batches of one type.

Columns have the names of the properties. Nodes may have `id`; edges may have `id` and must have `from` and `to` (or
`src` and `dst`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog.arrow import default_array
from omnigraph.catalog.catalog import EdgeType, PropertyType
from omnigraph.errors.root import display_text
from omnigraph.load.graph_records import BATCH_ROWS, BadRecord, unknown_field
from omnigraph.values.arrow_casts import cast_column
from omnigraph.values.batches import Batch, GraphType, batch_of_rows
from omnigraph.values.columns import BadCell, SourcePosition, SourcePositions, Unit, refuse
from omnigraph.values.row_ids import key_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from omnigraph.catalog.catalog import Catalog

    Column = pa.Array[Any]
    Convert = Callable[[PropertyType, Column], Column]

ENDPOINTS = {"from": ("from", "src"), "to": ("to", "dst")}
_OPTIONAL_ID = PropertyType("String", nullable=True)
_ENDPOINT = PropertyType("String")


@dataclass(frozen=True)
class _Reading:
    """How one table is converted: its type, its name in error messages, and the conversion of its columns."""

    catalog: Catalog
    type: GraphType
    source: str
    convert: Convert

    def batch(self, given: pa.RecordBatch, first_row: int) -> Batch:
        positions = SourcePositions(self.source, "row", range(first_row, first_row + given.num_rows))
        columns = {name: self._property(given, name, positions) for name in self.type.properties}
        ids = self._column(given, "id", _OPTIONAL_ID, positions)
        if not isinstance(self.type, EdgeType):
            return Batch(self.type, positions, columns, ids)
        src = self._endpoint(given, "from", self.type.source, positions)
        dst = self._endpoint(given, "to", self.type.target, positions)
        return Batch(self.type, positions, columns, ids, src, dst)

    def check_columns(self, schema: pa.Schema) -> None:
        """Refuse unknown, duplicate and missing required columns."""
        try:
            _check_columns(self.type, schema.names)
        except BadRecord as bad:
            raise refuse(
                SourcePosition(self.source, "row", 1),
                bad.rule,
                str(bad),
                type_name=self.type.name,
                property_name=bad.property_name,
            ) from None

    def _property(self, given: pa.RecordBatch, name: str, positions: SourcePositions) -> Column:
        each = self.type.properties[name]
        if name not in given.schema.names:
            return default_array(each, given.num_rows)
        return self._column(given, name, each.type, positions)

    def _column(self, given: pa.RecordBatch, name: str, declared: PropertyType, positions: SourcePositions) -> Column:
        if name not in given.schema.names:
            return pa.nulls(given.num_rows, pa.string())
        return self._converted(name, declared, given.column(name), positions)

    def _endpoint(self, given: pa.RecordBatch, end: str, node_type: str, positions: SourcePositions) -> Column:
        """The endpoint ids. Strings are ids; other types are converted from values of the node type's key column."""
        name = next(each for each in ENDPOINTS[end] if each in given.schema.names)
        column = given.column(name)
        node = self.catalog.nodes[node_type]
        if _is_text(column.type) or len(node.rules.key) != 1:
            return self._converted(name, _ENDPOINT, column, positions)
        declared = node.properties[node.rules.key[0]].type
        return key_texts(declared, self._converted(name, declared, column, positions))

    def _converted(self, name: str, declared: PropertyType, column: Column, positions: SourcePositions) -> Column:
        try:
            return self.convert(declared, column)
        except BadCell as bad:
            raise bad.at(positions, self.type.name, name) from None


def read_arrow(
    reader: pa.RecordBatchReader,
    kind: GraphType,
    catalog: Catalog,
    *,
    source: str,
    convert: Convert = cast_column,
    first_row: int = 1,
) -> Iterator[Batch]:
    """Read typed batches from an Arrow stream. Errors name the column and the row, counted from `first_row`."""
    reading = _Reading(catalog, kind, source, convert)
    reading.check_columns(reader.schema)
    row = first_row
    for given in reader:
        if given.num_rows:
            yield reading.batch(given, row)
            row += given.num_rows


def read_rows(
    numbered: Iterable[tuple[int, Mapping[str, Any]]],
    kind: GraphType,
    *,
    source: str,
    unit: Unit,
    lenient: bool = False,
) -> Iterator[Batch]:
    """Read typed batches from objects whose members are columns, each with its line or record number."""
    rows = iter(numbered)
    while batch := list(islice(rows, BATCH_ROWS)):
        yield _batch_of_objects(
            batch, kind, SourcePositions(source, unit, [number for number, _ in batch]), lenient=lenient
        )


def _batch_of_objects(
    batch: list[tuple[int, Mapping[str, Any]]], kind: GraphType, positions: SourcePositions, *, lenient: bool
) -> Batch:
    fields = {"id", *kind.properties, *_endpoint_names(kind)}
    for index, (_, row) in enumerate(batch):
        if not lenient and not fields.issuperset(row):
            bad = unknown_field(kind, [name for name in row if name not in fields])
            raise refuse(positions[index], bad.rule, str(bad), type_name=kind.name, property_name=bad.property_name)
    rows = [row for _, row in batch]
    if not isinstance(kind, EdgeType):
        return batch_of_rows(kind, rows, positions, lenient=lenient)
    src, dst = ([_first(row, names) for row in rows] for names in ENDPOINTS.values())
    return batch_of_rows(kind, rows, positions, src=src, dst=dst, lenient=lenient)


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> object:
    return next((row[name] for name in names if name in row), None)


def _endpoint_names(kind: GraphType) -> list[str]:
    return [name for names in ENDPOINTS.values() for name in names] if isinstance(kind, EdgeType) else []


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _check_columns(kind: GraphType, names: list[str]) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise BadRecord("duplicate_column", f"the column {display_text(repeated)} occurs twice", property_name=repeated)
    strange = [name for name in names if name not in {"id", *kind.properties, *_endpoint_names(kind)}]
    if strange:
        raise unknown_field(kind, strange)
    if isinstance(kind, EdgeType):
        _check_endpoints(kind, names)
    for name, each in kind.properties.items():
        if name not in names and not each.type.nullable and each.default is None:
            raise BadRecord(
                "missing_column", f"{kind.name}.{name} is required: the column is missing", property_name=name
            )


def _check_endpoints(kind: EdgeType, names: list[str]) -> None:
    for end, accepted in ENDPOINTS.items():
        present = [name for name in accepted if name in names]
        if len(present) != 1:
            problem = "both are there" if present else "the column is missing"
            raise BadRecord("endpoint", f"{kind.name} needs one column `{end}` (or `{accepted[1]}`): {problem}")
