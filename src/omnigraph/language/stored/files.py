"""Reads the three schema files of a graph and verifies at every open that they agree.

`_schema.pg` is the source text, `_schema.ir.json` its compiled form, `__schema_state.json` the accepted hash. This
module also describes the difference between two stored schemas in words, to explain why a graph was refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.catalog.canonical import Json, compact, in_range_order, pretty
from omnigraph.errors import SchemaContractDrift, SchemaError
from omnigraph.language.schema.compile import compile_accepted, compile_schema
from omnigraph.language.stored.ir import catalog_to_ir, ir_hash
from omnigraph.language.stored.ir_shape import StoredSchemaFault, ir_from_json, load_json
from omnigraph.lazy import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.catalog.catalog import Catalog, Range

_MOST = 8
_LONGEST = 80


def differences(left: Json, right: Json, *, left_name: str, right_name: str) -> tuple[str, ...]:
    """The first differences between two stored schemas, each with its path and both values."""
    found = [
        f"{path or 'the schema'}: {_shown(one)} in {left_name}, {_shown(other)} in {right_name}"
        for path, one, other in _walk("", left, right)
    ]
    rest = len(found) - _MOST
    return (*found[:_MOST], *([f"and {rest} more"] if rest > 0 else []))


_ABSENT = object()


def _walk(path: str, left: object, right: object) -> Iterator[tuple[str, object, object]]:
    if left == right and type(left) is type(right):
        return
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        yield from _walk_keys(f"{path}." if path else "", "", left, right)
    elif _named(left) and _named(right):
        yield from _walk_keys(f"{path}[", "]", _by_name(left), _by_name(right))
    else:
        yield path, left, right


def _walk_keys(
    before: str, after: str, left: Mapping[str, object], right: Mapping[str, object]
) -> Iterator[tuple[str, object, object]]:
    for key in dict.fromkeys((*left, *right)):
        yield from _walk(f"{before}{key}{after}", left.get(key, _ABSENT), right.get(key, _ABSENT))


def _named(value: object) -> bool:
    """Whether this is a list of types or properties, compared by name. Annotations, whose names may repeat, are not."""
    return isinstance(value, list) and all(isinstance(each, Mapping) and _has_id(each) for each in value)


def _has_id(each: Mapping[str, object]) -> bool:
    return "type_id" in each or "prop_id" in each


def _by_name(value: object) -> dict[str, object]:
    return {str(each["name"]): each for each in value} if isinstance(value, Sequence) else {}


def _shown(value: object) -> str:
    if value is _ABSENT:
        return "absent"
    if isinstance(value, Mapping) and _has_id(value):
        return "present"
    text = compact(value)  # type: ignore[arg-type]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


SOURCE, IR, STATE = "_schema.pg", "_schema.ir.json", "__schema_state.json"
_STATE_FORMAT = 1
_IDENTITY_VERSION = 1
_ADVICE = "Restore the schema files of this graph from a copy; change a schema only through `schema apply`."


@record
class SchemaFiles:
    """The exact bytes of the three files, and the hash they share."""

    source: bytes
    ir_json: bytes
    state_json: bytes
    ir_hash: str


@record
class Accepted:
    """An accepted schema: its source text, its catalog, and the hash by which commits refer to it."""

    source: str
    catalog: Catalog
    hash: str


def schema_files(text: str, source_name: str = "<text>") -> SchemaFiles:
    """The files of a new or changed schema. Raises `SchemaError`."""
    ir = catalog_to_ir(compile_schema(text, source_name))
    accepted = ir_hash(ir)
    state: dict[str, Json] = {
        "format_version": _STATE_FORMAT,
        "schema_ir_hash": accepted,
        "schema_identity_version": _IDENTITY_VERSION,
    }
    return SchemaFiles(text.encode(), pretty(ir).encode(), pretty(state).encode(), accepted)


def check_schema_files(
    source: str | bytes, ir_json: str | bytes | None, state_json: str | bytes | None, *, uri: str = "<graph>"
) -> Catalog:
    """The catalog of an existing graph. Raises `SchemaContractDrift`, which names the differing files and values."""
    catalog = _compiled(source, uri)
    if ir_json is None or state_json is None:
        missing = " and ".join(name for name, data in ((IR, ir_json), (STATE, state_json)) if data is None)
        raise _drift(uri, f"{missing} is missing beside {SOURCE}")
    stored = _stored(ir_json, uri)
    accepted = _accepted_hash(state_json, uri)
    if ir_hash(stored) != accepted:
        raise _drift(uri, f"{IR} has the hash {ir_hash(stored)}, and {STATE} accepted {accepted}")
    reading = _reading(catalog, accepted)
    if reading is not None:
        return reading
    found = differences(catalog_to_ir(catalog), stored, left_name=SOURCE, right_name=IR)
    raise _drift(uri, f"{SOURCE} no longer says what was accepted:\n" + "\n".join(f"  {each}" for each in found))


def accepted_catalog(source: str | bytes, accepted: str, *, uri: str = "<graph>") -> Catalog:
    """The catalog of the schema with a commit's hash. Raises `SchemaContractDrift` if the text has another hash."""
    reading = _reading(_compiled(source, uri), accepted)
    if reading is None:
        raise _drift(uri, f"the text that is kept for the schema {accepted} is that of another")
    return reading


def _reading(catalog: Catalog, accepted: str) -> Catalog | None:
    """The catalog as accepted by this program or by a released one."""
    readings = (catalog, _released_reading(catalog))
    return next((each for each in readings if ir_hash(catalog_to_ir(each)) == accepted), None)


def _compiled(source: str | bytes, uri: str) -> Catalog:
    try:
        text = source if isinstance(source, str) else source.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _drift(uri, f"{SOURCE} is not UTF-8 text: {error}") from error
    try:
        return compile_accepted(text, SOURCE)
    except SchemaError as error:
        raise _drift(uri, f"{SOURCE} does not compile:\n{error}") from error


def _stored(ir_json: str | bytes, uri: str) -> dict[str, Json]:
    try:
        return ir_from_json(ir_json)
    except StoredSchemaFault as error:
        raise _drift(uri, f"{IR} cannot be read: {error}") from error


def _accepted_hash(state_json: str | bytes, uri: str) -> str:
    try:
        state = load_json(state_json)
    except StoredSchemaFault as error:
        raise _drift(uri, f"{STATE} cannot be read: {error}") from error
    version = state.get("format_version") if isinstance(state, dict) else None
    accepted = state.get("schema_ir_hash") if isinstance(state, dict) else None
    if version != _STATE_FORMAT or isinstance(version, bool):
        raise _drift(uri, f"{STATE} has format_version {version!r}, and this release reads {_STATE_FORMAT}")
    if not isinstance(accepted, str):
        raise _drift(uri, f"{STATE} holds no schema_ir_hash")
    return accepted


def _released_reading(catalog: Catalog) -> Catalog:
    """The catalog as the released program read and enforced it: with `max` of `@range(p, ..max)` as the lower bound."""
    nodes = {
        name: replace(node, rules=replace(node.rules, ranges=in_range_order(map(_as_lower_bound, node.rules.ranges))))
        for name, node in catalog.nodes.items()
    }
    return replace(catalog, nodes=nodes)


def _as_lower_bound(each: Range) -> Range:
    if each.minimum is None and each.maximum is not None:
        return replace(each, minimum=each.maximum, maximum=None)
    return each


def _drift(uri: str, what: str) -> SchemaContractDrift:
    return SchemaContractDrift(uri, f"{uri}: {what}\n{_ADVICE}")
