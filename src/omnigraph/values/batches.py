"""`Batch` holds typed input rows of one node or edge type: columns as declared, and the ids and endpoints given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from omnigraph.catalog.arrow import default_array
from omnigraph.catalog.catalog import EdgeType, NodeType, PropertyType
from omnigraph.kernels.row_address import SYSTEM_COLUMNS
from omnigraph.values.columns import BadCell, column_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from omnigraph.values.columns import SourcePositions

    Column = pa.Array[Any]

Mode = Literal["append", "merge", "overwrite"]

GraphType = NodeType | EdgeType
RESERVED = SYSTEM_COLUMNS | {"_tombstone"}
_ID = PropertyType("String", nullable=True)
_MISSING = object()


@dataclass(frozen=True)
class Batch:
    """Rows of one type. `ids` is null where the input gave none; `src` and `dst` are set for edges."""

    type: GraphType
    positions: SourcePositions
    columns: Mapping[str, Column]
    ids: Column
    src: Column | None = None
    dst: Column | None = None

    def __len__(self) -> int:
        return len(self.ids)


def batch_of_rows(
    kind: GraphType,
    rows: Sequence[Mapping[str, object]],
    positions: SourcePositions,
    *,
    src: Sequence[object] | None = None,
    dst: Sequence[object] | None = None,
    lenient: bool = False,
) -> Batch:
    """Make a batch from objects whose members are properties and maybe `id`. Raises at the first value that fails."""
    columns = {name: _property(kind, name, rows, positions, lenient=lenient) for name in kind.properties}
    ids = _checked(kind, "id", _ID, [row.get("id") for row in rows], positions, lenient=lenient)
    if src is None or dst is None:
        return Batch(kind, positions, columns, ids)
    required = PropertyType("String")
    endpoints = [_checked(kind, name, required, values, positions) for name, values in (("from", src), ("to", dst))]
    return Batch(kind, positions, columns, ids, *endpoints)


def _property(
    kind: GraphType, name: str, rows: Sequence[Mapping[str, object]], positions: SourcePositions, *, lenient: bool
) -> Column:
    each = kind.properties[name]
    if each.default is None:
        return _checked(kind, name, each.type, [row.get(name) for row in rows], positions, lenient=lenient)
    values = [row.get(name, _MISSING) for row in rows]
    if all(value is _MISSING for value in values):
        return default_array(each, len(rows))
    given = [each.default if value is _MISSING else value for value in values]
    return _checked(kind, name, each.type, given, positions, lenient=lenient)


def _checked(
    kind: GraphType,
    name: str,
    declared: PropertyType,
    values: Sequence[object],
    positions: SourcePositions,
    *,
    lenient: bool = False,
) -> Column:
    try:
        return column_of(declared, values, lenient=lenient)
    except BadCell as bad:
        raise bad.at(positions, kind.name, name) from None
