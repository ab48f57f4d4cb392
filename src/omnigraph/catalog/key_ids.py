"""Derives the id of a keyed row from the canonical text of its key, so that equal keys are the same row.

For one key column the id is its text; for several it is a compact JSON array of their texts, in column-name order. An
edge with `@key(src, dst)` includes `src` and `dst` among its columns. Without a key, ids are minted, and equal edges
are separate rows.
"""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from omnigraph.catalog.canonical import plain_float_text
from omnigraph.catalog.catalog import FLOATS, INTEGERS, PropertyType
from omnigraph.catalog.defaults import INTEGER_LIMITS
from omnigraph.errors import ConstraintViolation
from omnigraph.world import EPOCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.catalog.catalog import EdgeType, NodeType

_ENDPOINT = PropertyType("String")


def node_id(node: NodeType, row_values: Mapping[str, object]) -> str | None:
    """The id of a node from the values of its key, or None when its type has no key."""
    return _row_id(node.name, node.rules.key, {name: each.type for name, each in node.properties.items()}, row_values)


def edge_id(edge: EdgeType, row_values: Mapping[str, object]) -> str | None:
    """The id of an edge from `src`, `dst` and the properties of its key, or None when its type has no key."""
    types = {name: each.type for name, each in edge.properties.items()}
    return _row_id(edge.name, edge.rules.key, {**types, "src": _ENDPOINT, "dst": _ENDPOINT}, row_values)


def _row_id(
    type_name: str, key: tuple[str, ...], types: Mapping[str, PropertyType], row_values: Mapping[str, object]
) -> str | None:
    if not key:
        return None
    texts = [_member_text(type_name, name, types[name], row_values.get(name)) for name in key]
    return texts[0] if len(texts) == 1 else composite_text(texts)


def composite_text(texts: list[str]) -> str:
    """The id of a composite key, from the canonical texts of its columns."""
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def _member_text(type_name: str, name: str, declared: PropertyType, value: object) -> str:
    try:
        return canonical_text(declared, value)
    except ValueError as error:
        raise ConstraintViolation(
            f"{type_name}.{name} is part of the key: {error}", type_name=type_name, property_name=name
        ) from error


def canonical_text(declared: PropertyType, value: object) -> str:
    """The canonical text of a key value. Raises `ValueError` for a value that cannot be part of a key.

    Dates may be given as days, and date-times as milliseconds, since the epoch, which is how Arrow stores them.
    """
    if value is None:
        raise ValueError("a value is missing")
    if declared.scalar == "String" and isinstance(value, str):
        return value
    if declared.scalar == "Bool" and isinstance(value, bool):
        return "true" if value else "false"
    if declared.scalar in FLOATS and isinstance(value, int | float) and not isinstance(value, bool):
        return _float(declared.scalar, float(value))
    whole = _integer(declared.scalar, value)
    if whole is None:
        raise ValueError(f"{value!r} is no {declared}")
    return str(whole)


def _integer(scalar: str, value: object) -> int | None:
    if scalar == "Date" and isinstance(value, date) and not isinstance(value, datetime):
        return (value - EPOCH.date()).days
    if scalar == "DateTime" and isinstance(value, datetime):
        timestamp = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return (timestamp - EPOCH) // timedelta(milliseconds=1)
    if isinstance(value, bool) or not isinstance(value, int) or scalar not in INTEGERS | {"Date", "DateTime"}:
        return None
    smallest, largest = INTEGER_LIMITS[{"Date": "I32", "DateTime": "I64"}.get(scalar, scalar)]
    return value if smallest <= value <= largest else None


def _float(scalar: str, value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be part of a key")
    return _single_precision_text(value) if scalar == "F32" else plain_float_text(value)


def _single_precision_text(value: float) -> str:
    """The shortest digits that round-trip as the same 32-bit float."""
    try:
        stored = struct.pack("<f", value)
    except OverflowError:
        raise ValueError(f"{value} is too large for F32") from None
    single = struct.unpack("<f", stored)[0]
    for digits in range(1, 10):
        candidate = float(f"{single:.{digits}g}")
        if _packs_to(candidate, stored):
            return plain_float_text(candidate)
    return plain_float_text(single)


def _packs_to(candidate: float, stored: bytes) -> bool:
    try:
        return struct.pack("<f", candidate) == stored
    except OverflowError:
        return False
