"""New columns for rows that are there, without writing any of the others.

A column of nulls alone is a change of the table's schema: no data file is touched, and rows keep their ids, versions,
places and indexes. One with a value is written beside the others, as a file of its own for each piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lance import LanceOperation, Transaction
from lance.schema import LanceSchema

from omnigraph.store.lance_errors import lance_errors
from omnigraph.store.staging import Staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lance import FragmentMetadata

    from omnigraph.store.tables import Table

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

    pieces: list[FragmentMetadata] = []
    described = table.dataset.lance_schema
    with lance_errors(f"writing new columns of {table.path}"):
        for fragment in table.dataset.get_fragments():
            piece, described = fragment.merge_columns(values, columns=["id"])
            pieces.append(piece)
    return pieces, _ordered(described, schema.names)


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
