"""Rows in the shape of their table: the same columns in the same order, each of the stored type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidInput, ValueViolation
from omnigraph.language.schema.arrow import BLOB, BLOB_METADATA
from omnigraph.store.arrow_columns import one_array
from omnigraph.store.tables import ID

if TYPE_CHECKING:
    from collections.abc import Sequence


def put_schema(stored: pa.Schema) -> pa.Schema:
    """What rows to put look like. A stored blob is a descriptor; one that is put is its bytes or a URI."""
    return pa.schema([_put_field(each) for each in stored])


def readable_columns(stored: pa.Schema) -> list[str]:
    """The columns that a read gives: all but blobs, which are read one by one."""
    return [each.name for each in stored if not _is_blob(each)]


def shaped(rows: pa.Table, schema: pa.Schema, type_name: str) -> pa.Table:
    """The rows with exactly the columns of the schema. Nulls in required columns are left for validation to name."""
    _require_columns(rows, schema.names, type_name)
    if rows.schema == schema:
        return rows
    ids = rows.column(ID)
    columns = [_cast(rows.column(field.name), field, type_name, ids) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _put_field(field: pa.Field[Any]) -> pa.Field[Any]:
    if not _is_blob(field):
        return field
    return pa.field(field.name, BLOB, nullable=field.nullable, metadata=BLOB_METADATA)


def _is_blob(field: pa.Field[Any]) -> bool:
    kind: Any = field.type
    return isinstance(kind, pa.BaseExtensionType) or BLOB_METADATA.items() <= (field.metadata or {}).items()


def _require_columns(rows: pa.Table, names: Sequence[str], type_name: str) -> None:
    missing = [name for name in names if name not in rows.column_names]
    unknown = [name for name in rows.column_names if name not in names]
    if missing or unknown:
        what = f"lack {', '.join(missing)}" if missing else f"have unknown columns {', '.join(unknown)}"
        raise InvalidInput(f"rows of {type_name} {what}; whole rows have {', '.join(names)}")


def _cast(
    column: pa.ChunkedArray[Any], field: pa.Field[Any], type_name: str, ids: pa.ChunkedArray[Any]
) -> pa.ChunkedArray[Any]:
    kind: Any = field.type
    if column.type == kind:
        return column
    if pa.types.is_fixed_size_list(kind):
        _require_dimensions(column, field.name, kind.list_size, type_name, ids)
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"{type_name}.{field.name} does not take these values: {error}") from error


def _require_dimensions(
    column: pa.ChunkedArray[Any], name: str, dimensions: int, type_name: str, ids: pa.ChunkedArray[Any]
) -> None:
    """A vector that comes as a list must have the declared length; afterwards its type guarantees it."""
    if not (pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)):
        raise InvalidInput(f"{type_name}.{name} takes vectors, not {column.type}")
    lengths = one_array(pc.list_value_length(column)).fill_null(dimensions).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != dimensions)
    if len(wrong):
        row, row_id = int(wrong[0]), ids[int(wrong[0])].as_py()
        raise ValueViolation(
            f"{type_name}.{name} expects {dimensions} dimensions, got {lengths[row]} (row {row_id!r})",
            rule="vector",
            type_name=type_name,
            property_name=name,
            row_id=row_id,
            value=column[row].as_py(),
        )
