"""Assigns row ids: the canonical text of the row's key, the id that the input gives, or a new ULID.

`catalog.key_ids` defines the texts; this module computes them for whole columns.

`mint_ulids` makes many ULIDs at once, from one clock reading and one request for randomness. `has_own_id` finds which
stored rows have the id that their key determines: two such rows with one key are one row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import FLOATS, EdgeType, PropertyType
from omnigraph.catalog.key_ids import canonical_text, composite_text, edge_id, node_id
from omnigraph.errors import ConstraintViolation
from omnigraph.errors.root import display_text
from omnigraph.kernels.arrays import ID, one_array, physical_type
from omnigraph.language.ir.types import parse_date, parse_datetime
from omnigraph.values.columns import first_true, refuse
from omnigraph.values.scalars import WrongValue, stored_value
from omnigraph.world import CROCKFORD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from omnigraph.catalog.catalog import NodeType
    from omnigraph.values.batches import Batch
    from omnigraph.world import World

    Column = pa.Array[Any]

_LENGTH = 26
_ALPHABET = CROCKFORD.encode()
# Ten bits are two characters: written as pairs, a ULID is 13 of these.
_PAIRS = np.array([_ALPHABET[each >> 5] | _ALPHABET[each & 31] << 8 for each in range(1 << 10)], dtype="<u2")
_PAIRS_OF_TIMESTAMP = 5


def mint_ulids(count: int, world: World) -> pa.Array[Any]:
    """Make new ULIDs that share their millisecond and differ in 80 random bits."""
    if not count:
        return pa.array([], pa.string())
    randomness = world.random_bits(80 * count).to_bytes(10 * count, "big")
    milliseconds = world.now_ms()
    texts = np.empty((count, _LENGTH // 2), dtype="<u2")
    for position in range(_PAIRS_OF_TIMESTAMP):
        texts[:, position] = _PAIRS[milliseconds >> 10 * (_PAIRS_OF_TIMESTAMP - 1 - position) & 1023]
    _spell(np.frombuffer(randomness, dtype=np.uint8).reshape(count, 10), texts[:, _PAIRS_OF_TIMESTAMP:])
    offsets = np.arange(count + 1, dtype=np.int32) * _LENGTH
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(texts.tobytes())]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _spell(octets: NDArray[np.uint8], pairs: NDArray[np.uint16]) -> None:
    """Encode octets as pairs of characters: five octets are four pairs."""
    for half in range(2):
        first, second, third, fourth, fifth = octets[:, half * 5 : half * 5 + 5].astype(np.uint16).T
        at = half * 4
        pairs[:, at] = _PAIRS[first << 2 | second >> 6]
        pairs[:, at + 1] = _PAIRS[(second & 63) << 4 | third >> 4]
        pairs[:, at + 2] = _PAIRS[(third & 15) << 6 | fourth >> 2]
        pairs[:, at + 3] = _PAIRS[(fourth & 3) << 8 | fifth]


_TEXT = PropertyType("String")


def key_texts(declared: PropertyType, column: Column) -> Column:
    """The canonical texts of a column of key values without nulls."""
    if declared.scalar in FLOATS:
        return pa.array([canonical_text(declared, value) for value in column.to_pylist()], pa.string())
    return _plain_texts(column)


def _plain_texts(column: Column) -> Column:
    """Integers in decimal, dates as days and datetimes as milliseconds since the epoch, booleans as true and false."""
    return column.cast(physical_type(column.type)).cast(pa.string())


def derived_ids(batch: Batch) -> Column | None:
    """The ids derived from the keys, or None when the type has no key."""
    texts = [key_texts(_declared(batch, name), _member(batch, name)) for name in batch.type.rules.key]
    if len(texts) < 2:
        return texts[0] if texts else None
    rows = zip(*(each.to_pylist() for each in texts), strict=True)
    return pa.array([composite_text(list(row)) for row in rows], pa.string())


def strict_ids(batch: Batch, world: World) -> Column:
    """The ids of a batch. An id that the input gives to a row with a key must equal the one derived from the key."""
    derived = derived_ids(batch)
    if derived is None:
        return given_or_new_ids(batch, world)
    wrong = mismatches(batch, derived)
    if wrong is not None:
        index = first_true(wrong)
        given, expected = (display_text(each[index].as_py()) for each in (batch.ids, derived))
        message = f"the id {given} of this {batch.type.name} does not match its key, which makes it {expected}"
        raise refuse(batch.positions[index], "id_mismatch", message, type_name=batch.type.name, property_name="id")
    return derived


def given_or_new_ids(batch: Batch, world: World) -> Column:
    """The ids that the input gives, and new ULIDs for the other rows."""
    missing = batch.ids.null_count
    if not missing:
        return batch.ids
    minted = mint_ulids(missing, world)
    if missing == len(batch):
        return minted
    filled: Column = pc.replace_with_mask(batch.ids, batch.ids.is_null(), minted)
    return filled


def mismatches(batch: Batch, derived: Column) -> Column | None:
    """A mask of the rows whose given id differs from the one derived from their key, or None when there are none."""
    differs: Any = pc.not_equal(batch.ids, derived)
    wrong = differs.fill_null(False)
    return wrong if pc.any(wrong, min_count=0).as_py() else None


def spells_a_member(batch: Batch, index: int, given: str) -> bool:
    """Whether an id is the text of one of the row's key values, as old releases wrote it."""
    members = ((_declared(batch, name), _member(batch, name)) for name in batch.type.rules.key)
    return any(_means(declared, given, _stored(column, index)) for declared, column in members)


def _member(batch: Batch, name: str) -> Column:
    endpoints = {"src": batch.src, "dst": batch.dst} if isinstance(batch.type, EdgeType) else {}
    column = endpoints.get(name)
    return batch.columns[name] if column is None else column


def _declared(batch: Batch, name: str) -> PropertyType:
    each = batch.type.properties.get(name)
    return _TEXT if each is None else each.type


def _stored(column: Column, index: int) -> object:
    cell = column[index : index + 1]
    return cell.cast(physical_type(cell.type))[0].as_py()


def _means(declared: PropertyType, text: str, stored: object) -> bool:
    return any(_reads_as(declared, read, text, stored) for read in _READINGS.get(declared.scalar, _WHOLE))


def _reads_as(declared: PropertyType, read: Callable[[str], object], text: str, stored: object) -> bool:
    try:
        return canonical_text(declared, stored_value(declared, read(text))) == canonical_text(declared, stored)
    except (WrongValue, ValueError, OverflowError):
        return False


def _bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


_WHOLE: Sequence[Callable[[str], object]] = (int,)
_READINGS: dict[str, Sequence[Callable[[str], object]]] = {
    "String": (str,),
    "Bool": (_bool,),
    "F32": (float,),
    "F64": (float,),
    "Date": (parse_date, int),
    "DateTime": (parse_datetime, int),
}


# Characters that JSON escapes.
_ESCAPED = r'[\x00-\x1f"\\]'


def has_own_id(kind: NodeType | EdgeType, rows: pa.Table) -> NDArray[np.bool_]:
    """For each row, whether its id is the canonical text of its key."""
    texts = _composed_ids(kind, rows)
    if texts is None:
        return _one_by_one(kind, rows)
    own: NDArray[np.bool_] = pc.equal(rows.column(ID), texts).fill_null(False).to_numpy()
    return own


def _composed_ids(kind: NodeType | EdgeType, rows: pa.Table) -> pa.Array[Any] | None:
    """The canonical ids, or None when they must be built row by row: for floats, and for texts that JSON escapes."""
    floats = {name for name, each in kind.properties.items() if each.type.scalar in FLOATS}
    if floats & set(kind.rules.key):
        return None
    texts = [_plain_texts(one_array(rows.column(each))) for each in kind.rules.key]
    if len(texts) == 1:
        return texts[0]
    if any(pc.any(pc.match_substring_regex(each, pattern=_ESCAPED)).as_py() for each in texts):
        return None
    join: Any = pc.binary_join_element_wise
    composite: pa.Array[Any] = join('["', join(*texts, '","'), '"]', "")
    return composite


def _one_by_one(kind: NodeType | EdgeType, rows: pa.Table) -> NDArray[np.bool_]:
    # Arrow converts a date64 to Python without its time of day; the key needs the milliseconds.
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
