"""Stages writes of single columns: new columns, and new values of existing ones, without rewriting the other columns.

A new column that is null in every row is a schema change: no data file is touched, and rows keep their row ids,
versions, addresses and indexes. A new column with values is written as an additional data file of each fragment.

New values of existing columns are written as new data files of the fragment, for these columns alone. Rows keep their
row ids and addresses; Lance marks exactly the rows that got a value as updated, and removes the fragments from the
coverage of indexes on these columns.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
from lance import FragmentMetadata, LanceOperation, Transaction
from lance.schema import LanceSchema

from omnigraph.errors import InvalidInput, NotFound
from omnigraph.kernels.row_address import ROW_ADDRESS
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.tables.staging import Staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from omnigraph.storage.tables.table import Table

    Fill = Callable[[int], pa.Array[Any]]


def stage_new_columns(table: Table, schema: pa.Schema, fills: Mapping[str, Fill]) -> Staged:
    """Add the columns of a schema that a table lacks. Its other columns must be the table's own, in any order.

    `fills` makes a given number of values for a column; a column that it does not name is null in every row.
    """
    described = _extended(table, schema)
    fragments = table.fragments()
    if fills:
        fragments, described = _filled(table, schema, fills)
    operation = LanceOperation.Merge(fragments, described, preserves_nullability=not fills)
    return Staged(table, "configure", Transaction(table.version, operation))


def _filled(table: Table, schema: pa.Schema, fills: Mapping[str, Fill]) -> tuple[list[FragmentMetadata], LanceSchema]:
    kinds = pa.schema([schema.field(name) for name in schema.names if name not in table.schema.names])

    def values(batch: pa.RecordBatch) -> pa.RecordBatch:
        made = [_values(field, fills.get(field.name), batch.num_rows) for field in kinds]
        return pa.RecordBatch.from_arrays(made, schema=kinds)

    fragments: list[FragmentMetadata] = []
    described = table.handle.lance_schema
    with lance_errors(f"writing new columns of {table.path}"):
        for fragment in table.handle.get_fragments():
            written, described = fragment.merge_columns(values, columns=["id"])
            fragments.append(written)
    return fragments, _ordered(described, schema.names)


def _values(field: pa.Field[Any], fill: Fill | None, length: int) -> pa.Array[Any]:
    kind: Any = field.type
    return pa.nulls(length, kind) if fill is None else fill(length)


def _extended(table: Table, schema: pa.Schema) -> LanceSchema:
    """The table's own fields under their field ids, and the new ones under ids that no data file has used."""
    own = table.handle.lance_schema
    used = [field_id for each in table.fragments() for file in each.files for field_id in file.fields]
    first = max([*used, *_field_ids(own.fields())]) + 1
    new = [field for field in schema if field.name not in table.schema.names]
    # Lance assigns field ids sequentially: with this many placeholders in front, the new fields get the intended ids.
    before = [pa.field(f"_{field_id}", pa.int8()) for field_id in range(first)]
    with_ids = _groups(LanceSchema.from_pyarrow(pa.schema([*before, *new])))
    return _made(own, {**_groups(own), **{field.name: with_ids[field.name] for field in new}}, schema.names)


def _ordered(described: LanceSchema, names: list[str]) -> LanceSchema:
    return _made(described, _groups(described), names)


def _made(like: LanceSchema, groups: Mapping[str, list[bytes]], names: Iterable[str]) -> LanceSchema:
    # Only the pickled form preserves field ids.
    make, (metadata, *_) = like.__reduce__()[:2]
    return make(metadata, *(each for name in names for each in groups[name]))


def _groups(described: LanceSchema) -> dict[str, list[bytes]]:
    """The encoded fields by column, each with its nested fields."""
    encoded = list(described.__reduce__()[1][1:])
    found, at = {}, 0
    for field in described.fields():
        size = _size(field)
        found[field.name()], at = encoded[at : at + size], at + size
    return found


def _size(field: Any) -> int:
    return 1 + sum(map(_size, field.children()))


def _field_ids(fields: Iterable[Any]) -> list[int]:
    return [field_id for each in fields for field_id in (each.id(), *_field_ids(each.children()))]


@dataclass(frozen=True)
class RewrittenFragment:
    """A fragment with new data files that no version references yet. `fields` are the columns' Lance field ids."""

    fragment: int
    description: str
    fields: tuple[int, ...]
    offsets: str
    rows: int


def rewrite_columns(table: Table, fragment_id: int, values: pa.Table) -> RewrittenFragment:
    """Write new values for rows of one fragment. `values` has each row's address, once, and the columns to write."""
    if values.num_rows != len(values.column(ROW_ADDRESS).unique()):
        raise InvalidInput(f"new values for {table.path} have a row twice: give each id once.")
    fragment = table.handle.get_fragment(fragment_id)
    if fragment is None:
        raise NotFound(f"{table.path} has no fragment {fragment_id} at version {table.version}")
    with lance_errors(f"writing new columns of {table.path}"):
        described, fields, offsets = fragment.update_columns(values, ROW_ADDRESS, with_offsets=True)
    text = orjson.dumps(described.to_json()).decode()
    return RewrittenFragment(fragment_id, text, tuple(fields), base64.b64encode(offsets).decode(), values.num_rows)


def stage_rewritten(table: Table, fragments: Sequence[RewrittenFragment]) -> Staged:
    """Stage one transaction of all the fragments, which must be of exactly this version of the table."""
    offsets: dict[int, Any] = {each.fragment: base64.b64decode(each.offsets) for each in fragments}
    operation = LanceOperation.Update(
        updated_fragments=[FragmentMetadata.from_json(each.description) for each in fragments],
        fields_modified=sorted({field for each in fragments for field in each.fields}),
        update_mode="rewrite_columns",
        updated_fragment_offsets=offsets,
    )
    return Staged(table, "change", Transaction(table.version, operation), updated=sum(each.rows for each in fragments))
