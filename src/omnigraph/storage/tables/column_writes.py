"""New columns for rows that are there, without writing any of the others.

A column of nulls alone is a change of the table's schema: no data file is touched, and rows keep their ids, versions,
places and indexes. One with a value is written beside the others, as a file of its own for each fragment.

New values for some columns of rows that are there, written beside the columns that stay as they are.

A fragment of the table gets new files for these columns alone. Rows keep their ids and places; Lance marks exactly the
rows that got a value as updated, and takes the fragments out of indexes that cover one of the columns.
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
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.tables.staging import Staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from omnigraph.storage.tables.table import Table

    Fill = Callable[[int], pa.Array[Any]]


def stage_new_columns(table: Table, schema: pa.Schema, fills: Mapping[str, Fill]) -> Staged:
    """Give a table the columns of a schema that it lacks. The other columns are its own, in whatever order.

    `fills` makes so many values of a column; one that is not named is null in every row.
    """
    described = _extended(table, schema)
    fragments = [each.metadata for each in table.dataset.get_fragments()]
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
    described = table.dataset.lance_schema
    with lance_errors(f"writing new columns of {table.path}"):
        for fragment in table.dataset.get_fragments():
            written, described = fragment.merge_columns(values, columns=["id"])
            fragments.append(written)
    return fragments, _ordered(described, schema.names)


def _values(field: pa.Field[Any], fill: Fill | None, length: int) -> pa.Array[Any]:
    kind: Any = field.type
    return pa.nulls(length, kind) if fill is None else fill(length)


def _extended(table: Table, schema: pa.Schema) -> LanceSchema:
    """The table's own fields under their numbers, and the new ones under numbers that no file has used."""
    own = table.dataset.lance_schema
    used = [number for each in table.dataset.get_fragments() for file in each.metadata.files for number in file.fields]
    first = max([*used, *_numbers(own.fields())]) + 1
    new = [field for field in schema if field.name not in table.schema.names]
    # Lance numbers the fields of a schema one after the other: with so many before them the new ones come out right.
    before = [pa.field(f"_{number}", pa.int8()) for number in range(first)]
    numbered = _groups(LanceSchema.from_pyarrow(pa.schema([*before, *new])))
    return _made(own, {**_groups(own), **{field.name: numbered[field.name] for field in new}}, schema.names)


def _ordered(described: LanceSchema, names: list[str]) -> LanceSchema:
    return _made(described, _groups(described), names)


def _made(like: LanceSchema, groups: Mapping[str, list[bytes]], names: Iterable[str]) -> LanceSchema:
    # Only the pickled form keeps the numbers of fields.
    make, (metadata, *_) = like.__reduce__()[:2]
    return make(metadata, *(each for name in names for each in groups[name]))


def _groups(described: LanceSchema) -> dict[str, list[bytes]]:
    """The encoded fields, each column with those nested in it."""
    encoded = list(described.__reduce__()[1][1:])
    found, at = {}, 0
    for field in described.fields():
        size = _size(field)
        found[field.name()], at = encoded[at : at + size], at + size
    return found


def _size(field: Any) -> int:
    return 1 + sum(map(_size, field.children()))


def _numbers(fields: Iterable[Any]) -> list[int]:
    return [number for each in fields for number in (each.id(), *_numbers(each.children()))]


ADDRESS = "_rowaddr"


@dataclass(frozen=True)
class RewrittenFragment:
    """One fragment of a table with new files that nobody refers to yet. `fields` are the columns by Lance's numbers."""

    fragment: int
    description: str
    fields: tuple[int, ...]
    offsets: str
    rows: int


def rewrite_columns(table: Table, fragment_id: int, values: pa.Table) -> RewrittenFragment:
    """Write new values for rows of one fragment. `values` has each row's address, once, and the columns to write."""
    if values.num_rows != len(values.column(ADDRESS).unique()):
        raise InvalidInput(f"new values for {table.path} have a row twice: give each id once.")
    fragment = table.dataset.get_fragment(fragment_id)
    if fragment is None:
        raise NotFound(f"{table.path} has no fragment {fragment_id} at version {table.version}")
    with lance_errors(f"writing new columns of {table.path}"):
        described, fields, offsets = fragment.update_columns(values, ADDRESS, with_offsets=True)
    text = orjson.dumps(described.to_json()).decode()
    return RewrittenFragment(fragment_id, text, tuple(fields), base64.b64encode(offsets).decode(), values.num_rows)


def stage_rewritten(table: Table, fragments: Sequence[RewrittenFragment]) -> Staged:
    """One transaction of all the fragments, which must be of this very version of the table."""
    offsets: dict[int, Any] = {each.fragment: base64.b64decode(each.offsets) for each in fragments}
    operation = LanceOperation.Update(
        updated_fragments=[FragmentMetadata.from_json(each.description) for each in fragments],
        fields_modified=sorted({field for each in fragments for field in each.fields}),
        update_mode="rewrite_columns",
        updated_fragment_offsets=offsets,
    )
    return Staged(table, "change", Transaction(table.version, operation), updated=sum(each.rows for each in fragments))
