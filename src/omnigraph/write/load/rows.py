"""Typed batches become one table of whole rows per type: every row with its id, no id twice, edges at their nodes.

Edges wait until all nodes are known, because the permissive grammar may rewrite the ids that they point at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import UniqueViolation
from omnigraph.language.schema.arrow import edge_arrow_schema, node_arrow_schema
from omnigraph.language.schema.catalog import EdgeType
from omnigraph.store.arrow_columns import one_array
from omnigraph.store.many_texts import all_differ
from omnigraph.write.load.identity import strict_ids
from omnigraph.write.load.old_spellings import OldSpellings, also_old, permissive_edge_ids
from omnigraph.write.load.places import Place, refuse
from omnigraph.write.load.values import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.errors import InvalidRecord
    from omnigraph.world import World
    from omnigraph.write.load.batches import Batch, GraphType

    Column = pa.Array[Any]


@dataclass(frozen=True)
class Rows:
    """All rows of one type that an input holds."""

    type: GraphType
    table: pa.Table


@dataclass
class _Gathered:
    """Batches of one type with their ids, in the order of the input."""

    type: GraphType
    batches: list[Batch] = field(default_factory=list)
    ids: list[Column] = field(default_factory=list)

    def add(self, batch: Batch, ids: Column) -> None:
        self.batches.append(batch)
        self.ids.append(ids)

    def place(self, index: int) -> Place:
        """Where the row of this index came from."""
        for batch in self.batches:
            if index < len(batch):
                return batch.places[index]
            index -= len(batch)
        raise IndexError(index)


def gather_rows(
    batches: Iterable[Batch], world: World, *, touched: Iterable[GraphType] = (), strict: bool = True
) -> dict[str, Rows]:
    """All rows by table key. Types in `touched` are there even without rows.

    Strict: an explicit id must be what the key makes. Otherwise an old spelling of it is accepted, and edges follow.
    """
    gathered = {each.table_key: _Gathered(each) for each in touched}
    spellings = OldSpellings()
    edges: list[Batch] = []
    for batch in batches:
        if isinstance(batch.type, EdgeType):
            edges.append(batch)
            continue
        ids = strict_ids(batch, world) if strict else spellings.node_ids(batch, world)
        gathered.setdefault(batch.type.table_key, _Gathered(batch.type)).add(batch, ids)
    _refuse_old_ids(gathered, spellings)
    for batch in edges:
        moved = spellings.follow(batch)
        ids = strict_ids(moved, world) if strict else permissive_edge_ids(moved, world)
        gathered.setdefault(batch.type.table_key, _Gathered(batch.type)).add(moved, ids)
    for each in gathered.values():
        _refuse_repeated_ids(each)
    return {key: Rows(each.type, _table(each)) for key, each in gathered.items()}


def _refuse_old_ids(gathered: Mapping[str, _Gathered], spellings: OldSpellings) -> None:
    """An old spelling that is also the id of another node would send edges to the wrong one."""
    for each in gathered.values():
        if isinstance(each.type, EdgeType) or not len(old := spellings.old_ids(each.type.name)):
            continue
        taken = pc.is_in(pa.chunked_array(each.ids, pa.string()), value_set=old)
        if pc.any(taken, min_count=0).as_py():
            raise also_old(each.type.name, each.place(int(pc.index(taken, value=True).as_py())))


def _table(gathered: _Gathered) -> pa.Table:
    tables = [whole_rows(batch, ids) for batch, ids in zip(gathered.batches, gathered.ids, strict=True)]
    return pa.concat_tables(tables) if tables else rows_schema(gathered.type).empty_table()


def whole_rows(batch: Batch, ids: Column) -> pa.Table:
    """The rows of a batch as its table stores them."""
    return pa.Table.from_arrays([ids, *_columns(batch)], schema=rows_schema(batch.type))


def rows_schema(kind: GraphType) -> pa.Schema:
    """The columns of a type's table."""
    return edge_arrow_schema(kind) if isinstance(kind, EdgeType) else node_arrow_schema(kind)


def _columns(batch: Batch) -> list[Column]:
    ends = [each for each in (batch.src, batch.dst) if each is not None]
    return [*ends, *(batch.columns[name] for name in batch.type.properties)]


def _refuse_repeated_ids(gathered: _Gathered) -> None:
    ids = one_array(pa.chunked_array(gathered.ids, pa.string()))
    if all_differ(ids):
        return
    texts: list[Any] = ids.to_pylist()
    seen: dict[str, int] = {}
    for index, row_id in enumerate(texts):
        if row_id in seen:
            raise repeated_id(gathered.type, row_id, gathered.place(seen[row_id]), gathered.place(index))
        seen[row_id] = index


def repeated_id(kind: GraphType, row_id: str, earlier: Place, place: Place) -> UniqueViolation | InvalidRecord:
    """The error about an id that stands at two places of an input."""
    if not kind.rules.key:
        message = f"the id {shown(row_id)} of this {kind.name} stands twice, first in {earlier}"
        return refuse(place, "duplicate_id", message, type_name=kind.name, property_name="id")
    columns = kind.rules.key
    named = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
    return UniqueViolation(
        f"{place}: @unique violation on {kind.name}.{named}: the key {shown(row_id)} stands twice, first in {earlier}",
        type_name=kind.name,
        properties=columns,
        values=(row_id,),
        row_id=row_id,
        holder=row_id,
    )
