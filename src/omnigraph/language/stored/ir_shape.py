"""The shape of a stored schema: what a reader must find in `_schema.ir.json`, and what it may overlook.

Unknown keys are dropped, missing nullable keys are null, anything else missing or mistyped is a fault that names its
place, as `nodes[Person].properties[age].prop_type.scalar`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import NoReturn, get_args

from omnigraph.catalog.canonical import Json
from omnigraph.catalog.catalog import ScalarName
from omnigraph.errors.root import display_text
from omnigraph.lazy import record

IR_VERSION = 1

Reader = Callable[[object, str], Json]
_SCALARS = frozenset(get_args(ScalarName)) - {"Vector"}


class StoredSchemaFault(ValueError):
    """A stored schema that this release cannot read; the message says where and why."""


def ir_from_json(data: str | bytes) -> dict[str, Json]:
    """The stored schema in a file, with known keys only and in their order. Raises `StoredSchemaFault`."""
    value = load_json(data)
    version = value.get("ir_version") if isinstance(value, dict) else None
    if version != IR_VERSION:
        raise StoredSchemaFault(f"ir_version is {version!r}, and this release reads {IR_VERSION}")
    return _SCHEMA(value, "")


def load_json(data: str | bytes) -> object:
    """Any JSON. Raises `StoredSchemaFault` when it is none, however deep or odd it is."""
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except RecursionError:
        raise StoredSchemaFault("the JSON is nested too deeply") from None
    except ValueError as error:
        raise StoredSchemaFault(f"not valid JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _fault(path: str, wanted: str, value: object) -> StoredSchemaFault:
    return StoredSchemaFault(f"{path or 'the file'} should be {wanted}, found {display_text(value)}")


def _text(value: object, path: str) -> Json:
    if not isinstance(value, str):
        raise _fault(path, "a text", value)
    return value


def _boolean(value: object, path: str) -> Json:
    if not isinstance(value, bool):
        raise _fault(path, "true or false", value)
    return value


def _integer(smallest: int, largest: int) -> Reader:
    def read(value: object, path: str) -> Json:
        if not isinstance(value, int) or isinstance(value, bool) or not smallest <= value <= largest:
            raise _fault(path, f"a whole number from {smallest} to {largest}", value)
        return value

    return read


def _float(value: object, path: str) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _fault(path, "a number", value)
    return float(value)


@record
class _Nullable:
    """Reads null, and lets the key be absent."""

    inner: Reader

    def __call__(self, value: object, path: str) -> Json:
        return None if value is None else self.inner(value, path)


def _list(inner: Reader) -> Reader:
    def read(value: object, path: str) -> Json:
        if not isinstance(value, list):
            raise _fault(path, "a list", value)
        return [inner(each, f"{path}[{_label(each, index)}]") for index, each in enumerate(value)]

    return read


def _label(value: object, index: int) -> str:
    name = value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else str(index)


def _keys(shape: Mapping[str, Reader]) -> Callable[[object, str], dict[str, Json]]:
    def read(value: object, path: str) -> dict[str, Json]:
        if not isinstance(value, dict):
            raise _fault(path, "an object", value)
        prefix = f"{path}." if path else ""
        missing = [key for key, inner in shape.items() if key not in value and not isinstance(inner, _Nullable)]
        if missing:
            raise StoredSchemaFault(f"{prefix}{missing[0]} is missing")
        return {key: inner(value.get(key), f"{prefix}{key}") for key, inner in shape.items()}

    return read


def _tagged(choices: Mapping[str, Reader]) -> Reader:
    def read(value: object, path: str) -> Json:
        if not isinstance(value, dict) or len(value) != 1 or not choices.keys() >= value.keys():
            raise _fault(path, f"one of {', '.join(choices)}", value)
        return {tag: choices[tag](held, f"{path}.{tag}") for tag, held in value.items()}

    return read


def _scalar(value: object, path: str) -> Json:
    if isinstance(value, str) and value in _SCALARS:
        return value
    return _tagged({"Vector": _integer(1, 2**31 - 1)})(value, path)


def _texts_by_name(value: object, path: str) -> Json:
    if not isinstance(value, dict):
        raise _fault(path, "an object", value)
    return {key: _text(value[key], f"{path}.{key}") for key in sorted(value)}


def _annotation(value: object, path: str) -> Json:
    plain = _PLAIN_ANNOTATION(value, path)
    arguments = value.get("kwargs") if isinstance(value, dict) else None
    return {**plain, "kwargs": _texts_by_name(arguments, f"{path}.kwargs")} if arguments else plain


_PLAIN_ANNOTATION = _keys({"name": _text, "value": _Nullable(_text)})
_ID = _integer(0, 2**32 - 1)
_COUNT = _integer(0, 2**32 - 1)
_BOUND = _Nullable(_tagged({"Integer": _integer(-(2**63), 2**63 - 1), "Float": _float}))
_CONSTRAINT = _tagged(
    {
        "Key": _list(_text),
        "Unique": _list(_text),
        "Index": _list(_text),
        "Range": _keys({"property": _text, "min": _BOUND, "max": _BOUND}),
        "Check": _keys({"property": _text, "pattern": _text}),
    }
)
_TYPE = _keys({"scalar": _scalar, "nullable": _boolean, "list": _boolean, "enum_values": _Nullable(_list(_text))})
_PROPERTY = _keys({"name": _text, "prop_id": _ID, "prop_type": _TYPE, "annotations": _list(_annotation)})
_INTERFACE = _keys({"name": _text, "type_id": _ID, "properties": _list(_PROPERTY)})
_NODE = _keys(
    {
        "name": _text,
        "type_id": _ID,
        "annotations": _list(_annotation),
        "implements": _list(_text),
        "properties": _list(_PROPERTY),
        "constraints": _list(_CONSTRAINT),
    }
)
_EDGE = _keys(
    {
        "name": _text,
        "type_id": _ID,
        "from_type": _text,
        "to_type": _text,
        "cardinality": _keys({"min": _COUNT, "max": _Nullable(_COUNT)}),
        "annotations": _list(_annotation),
        "properties": _list(_PROPERTY),
        "constraints": _list(_CONSTRAINT),
    }
)
_SCHEMA = _keys(
    {
        "ir_version": _integer(IR_VERSION, IR_VERSION),
        "interfaces": _list(_INTERFACE),
        "nodes": _list(_NODE),
        "edges": _list(_EDGE),
    }
)
