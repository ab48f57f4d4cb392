"""Gathers typed batches into one table of complete rows per type: every row has an id and no id occurs twice.

In the permissive grammar, a keyed node may have an id in the form of an older release. Its id is replaced by the
one derived from the key, the old id is recorded, and edge endpoints that name the old id are rewritten. Edges are
therefore processed after all nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import edge_arrow_schema, node_arrow_schema
from omnigraph.catalog.catalog import EdgeType
from omnigraph.errors import UniqueViolation
from omnigraph.errors.root import display_text
from omnigraph.kernels.arrays import one_array
from omnigraph.kernels.hashing import all_differ
from omnigraph.values.columns import SourcePosition, refuse
from omnigraph.values.row_ids import derived_ids, given_or_new_ids, mismatches, spells_a_member, strict_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.errors import InvalidRecord
    from omnigraph.values.batches import Batch, GraphType
    from omnigraph.world import World

    Column = pa.Array[Any]


@dataclass(frozen=True)
class LegacyId:
    """The legacy id of a node, its current id, and its source position."""

    type_name: str
    old: str
    new: str
    position: SourcePosition


class LegacyIds:
    """The legacy ids recorded so far, by node type."""

    def __init__(self, ids: Iterable[LegacyId] = ()) -> None:
        self.recorded: list[LegacyId] = []
        self._new: dict[str, dict[str, str]] = {}
        for each in ids:
            self.record(each)

    def __bool__(self) -> bool:
        return bool(self._new)

    def node_ids(self, batch: Batch, world: World) -> Column:
        """The ids of a batch of nodes. A given id that spells a key value of its row is recorded as a legacy id."""
        derived = derived_ids(batch)
        if derived is None:
            return given_or_new_ids(batch, world)
        wrong = mismatches(batch, derived)
        indices: list[Any] = [] if wrong is None else pc.indices_nonzero(wrong).to_pylist()
        for index in indices:
            self._record_row(batch, index, batch.ids[index].as_py(), derived[index].as_py())
        return derived

    def record(self, legacy_id: LegacyId) -> None:
        """Record a legacy id. The same legacy id for two nodes is an error."""
        kind, old, new = legacy_id.type_name, legacy_id.old, legacy_id.new
        current = self._new.setdefault(kind, {}).setdefault(old, new)
        if current != new:
            message = (
                f"the id {display_text(old)} stands for two {kind}s, {display_text(current)} and {display_text(new)}"
            )
            raise refuse(legacy_id.position, "id_ambiguous", message, type_name=kind, property_name="id")
        self.recorded.append(legacy_id)

    def old_ids(self, node_type: str) -> Column:
        """The legacy ids of a node type."""
        return pa.array(list(self._new.get(node_type, {})), pa.string())

    def renames_endpoints_of(self, kind: EdgeType) -> bool:
        """Whether endpoints of this edge type can refer to a legacy id."""
        return kind.source in self._new or kind.target in self._new

    def follow(self, batch: Batch) -> Batch:
        """The edge batch with legacy endpoint ids replaced by current ones."""
        kind = batch.type
        assert isinstance(kind, EdgeType)
        src, dst = self._current_ids(kind.source, batch.src), self._current_ids(kind.target, batch.dst)
        return replace(batch, src=src, dst=dst)

    def _record_row(self, batch: Batch, index: int, old: str, new: str) -> None:
        kind, position = batch.type, batch.positions[index]
        if not spells_a_member(batch, index, old):
            key = f"its key, which makes it {display_text(new)}"
            message = f"the id {display_text(old)} of this {kind.name} is no spelling of {key}"
            raise refuse(position, "id_mismatch", message, type_name=kind.name, property_name="id")
        self.record(LegacyId(kind.name, old, new, position))

    def _current_ids(self, node_type: str, ids: Column | None) -> Column | None:
        renamed = self._new.get(node_type)
        if not renamed or ids is None:
            return ids
        found = pc.index_in(ids, value_set=pa.array(list(renamed), pa.string()))
        return pc.coalesce(pa.array(list(renamed.values()), pa.string()).take(found), ids)


def legacy_id_taken(type_name: str, position: SourcePosition) -> InvalidRecord:
    """The error for a node whose id is the legacy id of another node: an edge could refer to either."""
    message = f"the id of this {type_name} is also an old spelling of another one's"
    return refuse(position, "id_ambiguous", message, type_name=type_name, property_name="id")


def permissive_edge_ids(batch: Batch, world: World) -> Column:
    """Edge ids after legacy endpoints are rewritten: derived from the key if there is one, else given or minted."""
    derived = derived_ids(batch)
    return given_or_new_ids(batch, world) if derived is None else derived


@dataclass(frozen=True)
class InputRows:
    """All rows of one type in the input."""

    type: GraphType
    table: pa.Table


@dataclass
class _Gathered:
    """The batches of one type with their row ids, in input order."""

    type: GraphType
    batches: list[Batch] = field(default_factory=list)
    ids: list[Column] = field(default_factory=list)

    def add(self, batch: Batch, ids: Column) -> None:
        self.batches.append(batch)
        self.ids.append(ids)

    def position(self, index: int) -> SourcePosition:
        """The source position of a row by its index."""
        for batch in self.batches:
            if index < len(batch):
                return batch.positions[index]
            index -= len(batch)
        raise IndexError(index)


def gather_rows(
    batches: Iterable[Batch], world: World, *, named: Iterable[GraphType] = (), strict: bool = True
) -> dict[str, InputRows]:
    """All rows by table key. Types in `named` are included even without rows.

    Strict: a given id must equal the one derived from the key. Otherwise legacy spellings are accepted and edges are
    rewritten accordingly.
    """
    gathered = {each.table_key: _Gathered(each) for each in named}
    legacy_ids = LegacyIds()
    edges: list[Batch] = []
    for batch in batches:
        if isinstance(batch.type, EdgeType):
            edges.append(batch)
            continue
        ids = strict_ids(batch, world) if strict else legacy_ids.node_ids(batch, world)
        gathered.setdefault(batch.type.table_key, _Gathered(batch.type)).add(batch, ids)
    _refuse_taken_legacy_ids(gathered, legacy_ids)
    for batch in edges:
        rewritten = legacy_ids.follow(batch)
        ids = strict_ids(rewritten, world) if strict else permissive_edge_ids(rewritten, world)
        gathered.setdefault(batch.type.table_key, _Gathered(batch.type)).add(rewritten, ids)
    for each in gathered.values():
        _refuse_repeated_ids(each)
    return {key: InputRows(each.type, _table(each)) for key, each in gathered.items()}


def _refuse_taken_legacy_ids(gathered: Mapping[str, _Gathered], legacy_ids: LegacyIds) -> None:
    """Refuse a legacy id that is also the id of another node: edges could be attached to the wrong node."""
    for each in gathered.values():
        if isinstance(each.type, EdgeType) or not len(old := legacy_ids.old_ids(each.type.name)):
            continue
        taken = pc.is_in(pa.chunked_array(each.ids, pa.string()), value_set=old)
        if pc.any(taken, min_count=0).as_py():
            raise legacy_id_taken(each.type.name, each.position(int(pc.index(taken, value=True).as_py())))


def _table(gathered: _Gathered) -> pa.Table:
    tables = [whole_rows(batch, ids) for batch, ids in zip(gathered.batches, gathered.ids, strict=True)]
    return pa.concat_tables(tables) if tables else rows_schema(gathered.type).empty_table()


def whole_rows(batch: Batch, ids: Column) -> pa.Table:
    """The rows of a batch in the schema of its table."""
    return pa.Table.from_arrays([ids, *_columns(batch)], schema=rows_schema(batch.type))


def rows_schema(kind: GraphType) -> pa.Schema:
    """The Arrow schema of a type's table."""
    return edge_arrow_schema(kind) if isinstance(kind, EdgeType) else node_arrow_schema(kind)


def _columns(batch: Batch) -> list[Column]:
    endpoints = [each for each in (batch.src, batch.dst) if each is not None]
    return [*endpoints, *(batch.columns[name] for name in batch.type.properties)]


def _refuse_repeated_ids(gathered: _Gathered) -> None:
    ids = one_array(pa.chunked_array(gathered.ids, pa.string()))
    if all_differ(ids):
        return
    texts: list[Any] = ids.to_pylist()
    seen: dict[str, int] = {}
    for index, row_id in enumerate(texts):
        if row_id in seen:
            raise repeated_id(gathered.type, row_id, gathered.position(seen[row_id]), gathered.position(index))
        seen[row_id] = index


def repeated_id(
    kind: GraphType, row_id: str, earlier: SourcePosition, position: SourcePosition
) -> UniqueViolation | InvalidRecord:
    """The error for an id that occurs twice in the input."""
    if not kind.rules.key:
        message = f"the id {display_text(row_id)} of this {kind.name} occurs twice, first in {earlier}"
        return refuse(position, "duplicate_id", message, type_name=kind.name, property_name="id")
    columns = kind.rules.key
    named = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
    repeated = f"the key {display_text(row_id)} occurs twice, first in {earlier}"
    return UniqueViolation(
        f"{position}: @unique violation on {kind.name}.{named}: {repeated}",
        type_name=kind.name,
        properties=columns,
        values=(row_id,),
        row_id=row_id,
        holder=row_id,
    )
