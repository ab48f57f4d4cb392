"""A column of texts, as CSV has them, as a column of the declared type. Lists and vectors are written as JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from omnigraph.language.schema.catalog import FLOATS, INTEGERS, PropertyType
from omnigraph.write.load.casts import cast_column
from omnigraph.write.load.columns import column_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False}


def text_column(declared: PropertyType, column: pa.Array[Any]) -> pa.Array[Any]:
    """The texts read as values of the declared type. Raises `BadCell` for the first that is none."""
    read = _reader(declared)
    if read is None:
        return cast_column(declared, column)
    values = [None if text is None else read(text) for text in column.to_pylist()]
    return column_of(declared, values)


def _reader(declared: PropertyType) -> Callable[[str], object] | None:
    """How to read a text, or None when the declared type takes texts as they are."""
    if declared.is_list or declared.dimensions is not None:
        return _json
    if declared.scalar in INTEGERS:
        return _integer
    if declared.scalar in FLOATS:
        return _number
    return _bool if declared.scalar == "Bool" else None


# A text that cannot be read stays a text: the declared type then refuses it and quotes it.


def _integer(text: str) -> object:
    return int(text) if _INTEGER.fullmatch(text) else text


def _number(text: str) -> object:
    return float(text) if _NUMBER.fullmatch(text) else text


def _bool(text: str) -> object:
    return _WORDS.get(text.lower(), text)


def _json(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
