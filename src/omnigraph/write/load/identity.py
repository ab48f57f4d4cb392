"""Which id each row has: the canonical text of its key, the id that the input gave, or a new ULID.

`language.schema.identity` defines the texts; here they are made for whole columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.query.literals import parse_date, parse_datetime
from omnigraph.language.schema.catalog import FLOATS, EdgeType, PropertyType
from omnigraph.language.schema.identity import canonical_text, composite_text
from omnigraph.write.load.columns import INTEGER_FORMS, first_true
from omnigraph.write.load.places import refuse
from omnigraph.write.load.ulids import mint_ulids
from omnigraph.write.load.values import WrongValue, shown, stored_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.world import World
    from omnigraph.write.load.batches import Batch

    Column = pa.Array[Any]

_TEXT = PropertyType("String")


def key_texts(declared: PropertyType, column: Column) -> Column:
    """The canonical texts of a column of key values, none of them null."""
    if declared.scalar in FLOATS:
        return pa.array([canonical_text(declared, value) for value in column.to_pylist()], pa.string())
    whole = column.cast(INTEGER_FORMS.get(column.type, column.type))
    return whole.cast(pa.string())


def derived_ids(batch: Batch) -> Column | None:
    """The ids that follow from the keys, or None when the type has no key."""
    texts = [key_texts(_declared(batch, name), _member(batch, name)) for name in batch.type.rules.key]
    if len(texts) < 2:
        return texts[0] if texts else None
    rows = zip(*(each.to_pylist() for each in texts), strict=True)
    return pa.array([composite_text(list(row)) for row in rows], pa.string())


def strict_ids(batch: Batch, world: World) -> Column:
    """The ids of a batch. An id that the input gives to a row with a key must be the one that follows from the key."""
    derived = derived_ids(batch)
    if derived is None:
        return given_or_new_ids(batch, world)
    wrong = mismatches(batch, derived)
    if wrong is not None:
        index = first_true(wrong)
        given, expected = (shown(each[index].as_py()) for each in (batch.ids, derived))
        message = f"the id {given} of this {batch.type.name} does not match its key, which makes it {expected}"
        raise refuse(batch.places[index], "id_mismatch", message, type_name=batch.type.name, property_name="id")
    return derived


def given_or_new_ids(batch: Batch, world: World) -> Column:
    """The ids that the input gives, and new ones for the other rows."""
    missing = batch.ids.null_count
    if not missing:
        return batch.ids
    minted = mint_ulids(missing, world)
    if missing == len(batch):
        return minted
    filled: Column = pc.replace_with_mask(batch.ids, batch.ids.is_null(), minted)
    return filled


def mismatches(batch: Batch, derived: Column) -> Column | None:
    """Which rows were given another id than their key makes, or None when no row was."""
    differs: Any = pc.not_equal(batch.ids, derived)
    wrong = differs.fill_null(False)
    return wrong if pc.any(wrong, min_count=0).as_py() else None


def spells_a_member(batch: Batch, index: int, given: str) -> bool:
    """Whether an id is a text of one of the row's key values, as old releases wrote it."""
    members = ((_declared(batch, name), _member(batch, name)) for name in batch.type.rules.key)
    return any(_means(declared, given, _stored(column, index)) for declared, column in members)


def _member(batch: Batch, name: str) -> Column:
    ends = {"src": batch.src, "dst": batch.dst} if isinstance(batch.type, EdgeType) else {}
    column = ends.get(name)
    return batch.columns[name] if column is None else column


def _declared(batch: Batch, name: str) -> PropertyType:
    each = batch.type.properties.get(name)
    return _TEXT if each is None else each.type


def _stored(column: Column, index: int) -> object:
    cell = column[index : index + 1]
    return cell.cast(INTEGER_FORMS.get(cell.type, cell.type))[0].as_py()


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
