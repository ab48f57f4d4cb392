"""Graph records: `{"type": T, "data": {…}}` for a node, `{"edge": E, "from": id, "to": id, "data": {…}}` for an edge.

Records are sorted by type as they come and leave as typed batches. The strict grammar refuses what it does not know,
the permissive one ignores it.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.language.schema.catalog import EdgeType
from omnigraph.language.suggestion import suggestion
from omnigraph.write.load.batches import RESERVED, Batch, GraphType, batch_of_rows
from omnigraph.write.load.json_objects import BadRecord
from omnigraph.write.load.places import Places, Unit
from omnigraph.write.load.values import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.language.schema.catalog import Catalog

BATCH_ROWS = 16_384
_NODE_MEMBERS = frozenset({"type", "data"})
_EDGE_MEMBERS = frozenset({"edge", "from", "to", "data"})


@dataclass
class _Group:
    """Rows of one type that wait to become a batch."""

    type: GraphType
    known: frozenset[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    src: list[object] = field(default_factory=list)
    dst: list[object] = field(default_factory=list)


class RecordSorter:
    """Takes records one by one and gives typed batches back."""

    def __init__(self, catalog: Catalog, *, source: str, unit: Unit, lenient: bool = False) -> None:
        self._catalog = catalog
        self._source = source
        self._unit: Unit = unit
        self._lenient = lenient
        self._nodes: dict[str, _Group] = {}
        self._edges: dict[str, _Group] = {}
        self.waiting = 0

    def add(self, record: dict[str, Any], number: int) -> None:
        """Sort one record in. Raises `BadRecord` when it does not follow the grammar."""
        name = record.get("type")
        if type(name) is str and "edge" not in record:
            group, ends, allowed = self._nodes.get(name) or self._node_group(name), None, _NODE_MEMBERS
        else:
            group = self._edge_group(record)
            ends, allowed = _ends(record, group.type), _EDGE_MEMBERS
        data = record.get("data", _NOTHING)
        if type(data) is not dict:
            raise BadRecord("data", f"`data` must be an object, got {shown(data)}", type_name=group.type.name)
        if not self._lenient:
            if not allowed.issuperset(record):
                raise _unknown_member(record, allowed)
            if not group.known.issuperset(data):
                raise unknown_field(group.type, data)
        if ends is not None:
            group.src.append(ends[0])
            group.dst.append(ends[1])
        group.rows.append(data)
        group.numbers.append(number)
        self.waiting += 1

    def batches(self) -> Iterator[Batch]:
        """What was sorted since the last time, as one batch per type."""
        for group in (*self._nodes.values(), *self._edges.values()):
            if group.rows:
                yield self._batch(group)
        self.waiting = 0

    def _batch(self, group: _Group) -> Batch:
        places = Places(self._source, self._unit, array("q", group.numbers))
        ends: dict[str, Any] = {"src": group.src, "dst": group.dst} if isinstance(group.type, EdgeType) else {}
        batch = batch_of_rows(group.type, group.rows, places, **ends, lenient=self._lenient)
        group.rows, group.numbers, group.src, group.dst = [], [], [], []
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
            return BadRecord("kind", f"`{member}` must be a text, got {shown(record[member])}")
    return BadRecord("kind", "a record needs `type` (a node) or `edge`")


def _ends(record: dict[str, Any], kind: GraphType) -> tuple[str, str]:
    return _endpoint(record, "from", kind), _endpoint(record, "to", kind)


def _endpoint(record: dict[str, Any], member: str, kind: GraphType) -> str:
    if member not in record:
        raise BadRecord("endpoint", f"an edge needs `{member}`, the id of a node", type_name=kind.name)
    value = record[member]
    if type(value) is not str:
        raise BadRecord(
            "endpoint", f"`{member}` must be the id of a node as text, got {shown(value)}", type_name=kind.name
        )
    return value


def _unknown_member(record: dict[str, Any], allowed: frozenset[str]) -> BadRecord:
    name = next(each for each in record if each not in allowed)
    known = ", ".join(f"`{each}`" for each in sorted(allowed))
    return BadRecord(
        "unknown_member", f"unknown member {shown(name)}: this record has {known}; properties go in `data`"
    )


def unknown_field(kind: GraphType, names: Iterable[str]) -> BadRecord:
    """The error about a member of `data`, or a column, that the type has no property for."""
    name = next(each for each in names if each != "id" and each not in kind.properties)
    if name in RESERVED:
        return BadRecord("reserved_field", f"{shown(name)} is reserved", type_name=kind.name, property_name=name)
    if isinstance(kind, EdgeType) and name in ("src", "dst"):
        text = f"the ends of an edge are `from` and `to`, not {shown(name)} in `data`"
        return BadRecord("reserved_field", text, type_name=kind.name, property_name=name)
    text = f"{kind.name} has no property {shown(name)}{suggestion(name, kind.properties)}"
    return BadRecord("unknown_field", text, type_name=kind.name, property_name=name)


def unknown_type(noun: str, name: str, known: Iterable[str]) -> str:
    """What to say about a type that the schema does not have."""
    return f"the schema has no {noun} type {shown(name)}{suggestion(name, known)}"
