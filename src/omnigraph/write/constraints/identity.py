"""Whether rows of a keyed type have the id that their key makes, column by column where that can be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ConstraintViolation
from omnigraph.language.schema.catalog import FLOATS, EdgeType
from omnigraph.language.schema.identity import edge_id, node_id
from omnigraph.store.arrow_columns import one_array
from omnigraph.store.tables import ID

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omnigraph.language.schema.catalog import NodeType

# Characters that JSON writes with a backslash.
_ESCAPED = r'[\x00-\x1f"\\]'


def has_own_id(kind: NodeType | EdgeType, rows: pa.Table) -> NDArray[np.bool_]:
    """For each row, whether its id is the canonical text of its key."""
    texts = _texts(kind, rows)
    if texts is None:
        return _one_by_one(kind, rows)
    own: NDArray[np.bool_] = pc.equal(rows.column(ID), texts).fill_null(False).to_numpy()
    return own


def _texts(kind: NodeType | EdgeType, rows: pa.Table) -> pa.Array[Any] | None:
    """The canonical ids, or None when one of them needs care: floats, and texts that JSON escapes."""
    floats = {name for name, each in kind.properties.items() if each.type.scalar in FLOATS}
    if floats & set(kind.rules.key):
        return None
    texts = [_text(one_array(rows.column(each))) for each in kind.rules.key]
    if len(texts) == 1:
        return texts[0]
    if any(pc.any(pc.match_substring_regex(each, pattern=_ESCAPED)).as_py() for each in texts):
        return None
    join: Any = pc.binary_join_element_wise
    composite: pa.Array[Any] = join('["', join(*texts, '","'), '"]', "")
    return composite


def _text(column: pa.Array[Any]) -> pa.Array[Any]:
    """Whole numbers in decimal, dates as days and moments as milliseconds since the epoch, true and false."""
    if pa.types.is_date64(column.type):
        column = column.view(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    return column.cast(pa.string())


def _one_by_one(kind: NodeType | EdgeType, rows: pa.Table) -> NDArray[np.bool_]:
    # Arrow gives a date64 to Python without its time of day; the key wants the milliseconds.
    columns = {name: one_array(rows.column(name)) for name in kind.rules.key}
    values = {
        name: (each.view(pa.int64()) if pa.types.is_date64(each.type) else each).to_pylist()
        for name, each in columns.items()
    }
    ids = rows.column(ID).to_pylist()
    own = [
        _own_id(kind, {name: column[row] for name, column in values.items()}) == row_id
        for row, row_id in enumerate(ids)
    ]
    return np.array(own, dtype=bool)


def _own_id(kind: NodeType | EdgeType, values: dict[str, object]) -> str | None:
    try:
        return edge_id(kind, values) if isinstance(kind, EdgeType) else node_id(kind, values)
    except ConstraintViolation:
        return None  # a key without a canonical text, such as NaN, makes no id
