"""Python values as Arrow columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import ConstraintViolation
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.write.load.values import WrongValue, stored_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.language.schema.catalog import PropertyType

# Stored values are numbers where Arrow has a type of its own for them.
_CARRIERS: dict[Any, Any] = {
    pa.date32(): pa.int32(),
    pa.date64(): pa.int64(),
    pa.list_(pa.field("item", pa.date32())): pa.list_(pa.int32()),
    pa.list_(pa.field("item", pa.date64())): pa.list_(pa.int64()),
}


def column(values: Sequence[object], declared: PropertyType, *, of: str) -> pa.Array[Any]:
    """Values of a declared type as a column; `of` names the type and property for the message when one does not fit."""
    kind: Any = arrow_type(declared)
    try:
        stored = [None if each is None else stored_value(declared, each) for each in values]
    except WrongValue as error:
        type_name, _, property_name = of.partition(".")
        raise ConstraintViolation(f"{of}: {error}", type_name=type_name, property_name=property_name) from error
    made: pa.Array[Any] = pa.array(stored, _CARRIERS.get(kind, kind)).cast(kind)
    return made
