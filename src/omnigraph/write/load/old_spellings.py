"""Ids as old releases spelled them: accepted by the permissive grammar, and what edges point at follows.

A node with a key has the id that the key makes. Old releases wrote other texts of the key there; such an id is noted
with what it is now, and the ends of edges that name it are rewritten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.schema.catalog import EdgeType
from omnigraph.write.load.identity import derived_ids, given_or_new_ids, mismatches, spells_a_member
from omnigraph.write.load.places import Place, refuse
from omnigraph.write.load.values import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.errors import InvalidRecord
    from omnigraph.world import World
    from omnigraph.write.load.batches import Batch

    Column = pa.Array[Any]


@dataclass(frozen=True)
class Spelling:
    """An old id of a node, the one it has now, and where that stood."""

    type_name: str
    old: str
    new: str
    place: Place


class OldSpellings:
    """What has been noted so far, by node type."""

    def __init__(self, known: Iterable[Spelling] = ()) -> None:
        self.noted: list[Spelling] = []
        self._new: dict[str, dict[str, str]] = {}
        for each in known:
            self.note(each)

    def __bool__(self) -> bool:
        return bool(self._new)

    def node_ids(self, batch: Batch, world: World) -> Column:
        """The ids of a batch of nodes; an id that spells one of the row's key values is noted as an old one."""
        derived = derived_ids(batch)
        if derived is None:
            return given_or_new_ids(batch, world)
        wrong = mismatches(batch, derived)
        indices: list[Any] = [] if wrong is None else pc.indices_nonzero(wrong).to_pylist()
        for index in indices:
            self._note_row(batch, index, batch.ids[index].as_py(), derived[index].as_py())
        return derived

    def note(self, spelling: Spelling) -> None:
        """Take one; the same text for two nodes is an error."""
        kind, old, new = spelling.type_name, spelling.old, spelling.new
        known = self._new.setdefault(kind, {}).setdefault(old, new)
        if known != new:
            message = f"the id {shown(old)} stands for two {kind}s, {shown(known)} and {shown(new)}"
            raise refuse(spelling.place, "id_ambiguous", message, type_name=kind, property_name="id")
        self.noted.append(spelling)

    def old_ids(self, node_type: str) -> Column:
        """The old ids of a type."""
        return pa.array(list(self._new.get(node_type, {})), pa.string())

    def renames_ends_of(self, kind: EdgeType) -> bool:
        """Whether edges of a type may point at an old id."""
        return kind.source in self._new or kind.target in self._new

    def follow(self, batch: Batch) -> Batch:
        """A batch of edges that points at the ids as they are now."""
        kind = batch.type
        assert isinstance(kind, EdgeType)
        return replace(batch, src=self._now(kind.source, batch.src), dst=self._now(kind.target, batch.dst))

    def _note_row(self, batch: Batch, index: int, old: str, new: str) -> None:
        kind, place = batch.type, batch.places[index]
        if not spells_a_member(batch, index, old):
            message = f"the id {shown(old)} of this {kind.name} is no spelling of its key, which makes it {shown(new)}"
            raise refuse(place, "id_mismatch", message, type_name=kind.name, property_name="id")
        self.note(Spelling(kind.name, old, new, place))

    def _now(self, node_type: str, ids: Column | None) -> Column | None:
        renamed = self._new.get(node_type)
        if not renamed or ids is None:
            return ids
        found = pc.index_in(ids, value_set=pa.array(list(renamed), pa.string()))
        return pc.coalesce(pa.array(list(renamed.values()), pa.string()).take(found), ids)


def also_old(type_name: str, place: Place) -> InvalidRecord:
    """The error about a node whose id is an old one of another: edges could mean either."""
    message = f"the id of this {type_name} is also an old spelling of another one's"
    return refuse(place, "id_ambiguous", message, type_name=type_name, property_name="id")


def permissive_edge_ids(batch: Batch, world: World) -> Column:
    """The ids of edges that follow: what their key makes, whatever was given, else the given ones, else new ones."""
    derived = derived_ids(batch)
    return given_or_new_ids(batch, world) if derived is None else derived
