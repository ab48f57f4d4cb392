"""Parses graph records and groups them by type into batches.

A node is `{"type": T, "data": {…}}`, an edge `{"edge": E, "from": id, "to": id, "data": {…}}`. The strict grammar
refuses unknown members; the permissive one ignores them.

A strict line is one JSON object of bounded structure without duplicate members at any depth. orjson keeps the last of
two equal members, as most parsers do, so duplicates are detected by counting `":` in the line: every member has one,
and string values can only add more. If the count equals the number of members kept, there is no duplicate; otherwise,
or with white space before a colon, a slower parser that checks for duplicates reads the line again.
"""

from __future__ import annotations

import json
import re
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from omnigraph.catalog.catalog import EdgeType
from omnigraph.errors.inputs import suggestion
from omnigraph.errors.root import display_text
from omnigraph.values.batches import RESERVED, Batch, GraphType, batch_of_rows
from omnigraph.values.columns import SourcePositions, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.catalog.catalog import Catalog

MOST_SLOTS = 131_072
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_SLOT = re.compile(rb"[{}\[\],:]")


class BadRecord(ValueError):
    """A record that does not follow the grammar."""

    def __init__(self, rule: str, message: str, *, type_name: str | None = None, property_name: str | None = None):
        super().__init__(message)
        self.rule = rule
        self.type_name = type_name
        self.property_name = property_name


def strict_object(line: bytes) -> dict[str, Any]:
    """Parse a line that is one JSON object. Raises `BadRecord`."""
    if len(line) >= MOST_SLOTS:
        _check_structure(line)
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _not_json(line, error) from None
    if type(found) is not dict:
        raise BadRecord("not_an_object", f"expected a JSON object, got {display_text(found)}")
    inner = found.get("data")
    members = len(found) + (len(inner) if type(inner) is dict else 0)
    if line.count(b'":') != members or b" :" in line or b"\t:" in line or b"\r:" in line:
        _refuse_duplicates(line)
    return found


def _check_structure(line: bytes) -> None:
    slots = 1 + len(_SLOT.findall(_STRING.sub(b"", line)))
    if slots > MOST_SLOTS:
        raise BadRecord("structure", f"the record has more than {MOST_SLOTS} structural characters")


def _not_json(line: bytes, error: orjson.JSONDecodeError) -> BadRecord:
    try:
        line.decode()
    except UnicodeDecodeError as undecodable:
        column = len(line[: undecodable.start].decode()) + 1
        message = f"byte 0x{line[undecodable.start]:02X} at column {column} is not UTF-8: save the file as UTF-8"
        return BadRecord("encoding", message)
    hint = ": is the file cut off?" if "end of data" in error.msg else ""
    return BadRecord("json", f"not JSON: {error.msg} at column {error.colno}{hint}")


def _refuse_duplicates(line: bytes) -> None:
    try:
        json.loads(line, object_pairs_hook=_once_each)
    except RecursionError:
        raise BadRecord("structure", "the record is nested too deeply") from None


def _once_each(members: list[tuple[str, object]]) -> dict[str, object]:
    seen: dict[str, object] = {}
    for name, value in members:
        if name in seen:
            raise BadRecord("duplicate_member", f"the member {display_text(name)} occurs twice in one object")
        seen[name] = value
    return seen


BATCH_ROWS = 16_384
_NODE_MEMBERS = frozenset({"type", "data"})
_EDGE_MEMBERS = frozenset({"edge", "from", "to", "data"})


@dataclass
class _Group:
    """Buffered rows of one type, not yet converted to a batch."""

    type: GraphType
    fields: frozenset[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    source_numbers: list[int] = field(default_factory=list)
    src: list[object] = field(default_factory=list)
    dst: list[object] = field(default_factory=list)


class RecordSorter:
    """Groups records by type and converts each group to a typed batch."""

    def __init__(self, catalog: Catalog, *, source: str, unit: Unit, lenient: bool = False) -> None:
        self._catalog = catalog
        self._source = source
        self._unit: Unit = unit
        self._lenient = lenient
        self._nodes: dict[str, _Group] = {}
        self._edges: dict[str, _Group] = {}
        self.buffered = 0

    def add(self, record: dict[str, Any], number: int) -> None:
        """Add a record to the group of its type. Raises `BadRecord` if it violates the grammar."""
        name = record.get("type")
        if type(name) is str and "edge" not in record:
            group, endpoints, allowed = self._nodes.get(name) or self._node_group(name), None, _NODE_MEMBERS
        else:
            group = self._edge_group(record)
            endpoints, allowed = _endpoints(record, group.type), _EDGE_MEMBERS
        data = record.get("data", _NOTHING)
        if type(data) is not dict:
            raise BadRecord("data", f"`data` must be an object, got {display_text(data)}", type_name=group.type.name)
        if not self._lenient:
            if not allowed.issuperset(record):
                raise _unknown_member(record, allowed)
            if not group.fields.issuperset(data):
                raise unknown_field(group.type, data)
        if endpoints is not None:
            group.src.append(endpoints[0])
            group.dst.append(endpoints[1])
        group.rows.append(data)
        group.source_numbers.append(number)
        self.buffered += 1

    def batches(self) -> Iterator[Batch]:
        """Drain the buffered records as one batch per type."""
        for group in (*self._nodes.values(), *self._edges.values()):
            if group.rows:
                yield self._batch(group)
        self.buffered = 0

    def _batch(self, group: _Group) -> Batch:
        positions = SourcePositions(self._source, self._unit, array("q", group.source_numbers))
        endpoints: dict[str, Any] = {"src": group.src, "dst": group.dst} if isinstance(group.type, EdgeType) else {}
        batch = batch_of_rows(group.type, group.rows, positions, **endpoints, lenient=self._lenient)
        group.rows, group.source_numbers, group.src, group.dst = [], [], [], []
        return batch

    def _node_group(self, name: str) -> _Group:
        kind = self._catalog.nodes.get(name)
        if kind is None:
            raise BadRecord("unknown_type", unknown_type("node", name, self._catalog.nodes), type_name=name)
        return self._nodes.setdefault(name, _Group(kind, frozenset({"id", *kind.properties})))

    def _edge_group(self, record: dict[str, Any]) -> _Group:
        name = record.get("edge")
        if type(name) is not str:
            raise _no_kind(record)
        if "type" in record:
            raise BadRecord("kind", "a record has `type` or `edge`, not both")
        kind = self._catalog.edge(name)
        if kind is None:
            raise BadRecord("unknown_type", unknown_type("edge", name, self._catalog.edges), type_name=name)
        group = self._edges.get(kind.name)
        if group is None:
            group = self._edges[kind.name] = _Group(kind, frozenset({"id", *kind.properties}))
        return group


_NOTHING: dict[str, Any] = {}


def _no_kind(record: dict[str, Any]) -> BadRecord:
    for member in ("type", "edge"):
        if member in record:
            return BadRecord("kind", f"`{member}` must be a text, got {display_text(record[member])}")
    return BadRecord("kind", "a record needs `type` (a node) or `edge`")


def _endpoints(record: dict[str, Any], kind: GraphType) -> tuple[str, str]:
    return _endpoint(record, "from", kind), _endpoint(record, "to", kind)


def _endpoint(record: dict[str, Any], member: str, kind: GraphType) -> str:
    if member not in record:
        raise BadRecord("endpoint", f"an edge needs `{member}`, the id of a node", type_name=kind.name)
    value = record[member]
    if type(value) is not str:
        raise BadRecord(
            "endpoint", f"`{member}` must be the id of a node as text, got {display_text(value)}", type_name=kind.name
        )
    return value


def _unknown_member(record: dict[str, Any], allowed: frozenset[str]) -> BadRecord:
    name = next(each for each in record if each not in allowed)
    members = ", ".join(f"`{each}`" for each in sorted(allowed))
    return BadRecord(
        "unknown_member", f"unknown member {display_text(name)}: this record has {members}; properties go in `data`"
    )


def unknown_field(kind: GraphType, names: Iterable[str]) -> BadRecord:
    """The error for the first member of `data`, or column, that is not a property of the type."""
    name = next(each for each in names if each != "id" and each not in kind.properties)
    if name in RESERVED:
        return BadRecord("reserved_field", f"{display_text(name)} is reserved", type_name=kind.name, property_name=name)
    if isinstance(kind, EdgeType) and name in ("src", "dst"):
        text = f"the ends of an edge are `from` and `to`, not {display_text(name)} in `data`"
        return BadRecord("reserved_field", text, type_name=kind.name, property_name=name)
    text = f"{kind.name} has no property {display_text(name)}{suggestion(name, kind.properties)}"
    return BadRecord("unknown_field", text, type_name=kind.name, property_name=name)


def unknown_type(noun: str, name: str, defined: Iterable[str]) -> str:
    """The error message for a type that the schema does not define."""
    return f"the schema has no {noun} type {display_text(name)}{suggestion(name, defined)}"
