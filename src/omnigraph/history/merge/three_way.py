"""Three-way merge of one table: the changes of source and target since their merge base.

Rows that only one side changed, and columns that at most one side changed, are merged as Arrow columns; only the
remaining rows become Python objects and are decided one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors.commits import Conflict, ConflictKind, Row
from omnigraph.history.delta import same_value
from omnigraph.history.merge.conflicts import MOST_LISTED, ConflictList, Resolver, merge_columns, resolved_keys
from omnigraph.history.merge.incident_edges import EdgesOfNodes, fates_of, resolve_edge
from omnigraph.kernels.arrays import ID, MILLISECONDS, replace_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.history.delta import TableDelta
    from omnigraph.history.merge.incident_edges import Fate, Fates, IncidentEdges, Side
    from omnigraph.storage.tables.row_rewrite import RowLocations


# Rows become Python objects to be decided one by one: never all of them at once.
_AT_ONCE = 5_000


@dataclass(frozen=True)
class TableMerge:
    """The changes to make on the target, with puts sorted by id, and the conflicts that the caller must resolve first.

    `more`: the number of conflicts that are not listed. `locations`: those of the rows on the target, if known.
    `fates`: what was decided about rows that one side removed and the other changed. `restored`: edges that the source
    removed with a node that stays. `edges`: those of nodes about which nothing is decided.
    `resolved`: the keys of a mapping of resolutions that had a conflict.
    """

    table_key: str
    puts: pa.Table
    deletes: frozenset[str]
    conflicts: tuple[Conflict, ...]
    more: int = 0
    locations: RowLocations | None = None
    fates: Fates = field(default_factory=dict)
    restored: pa.Table | None = None
    edges: EdgesOfNodes = field(default_factory=EdgesOfNodes)
    resolved: frozenset[str] = frozenset()


def merge_table(
    source: TableDelta,
    target: TableDelta,
    *,
    by_property: bool,
    resolver: Resolver,
    undecided: frozenset[str] = frozenset(),
    most: int | None = MOST_LISTED,
    incident: IncidentEdges | None = None,
) -> TableMerge:
    """Apply the source's changes on top of the target's.

    Rows that only the source changed are taken as they are. Rows that both changed are merged property by property, or,
    without `by_property`, must be equal on both sides; so must `undecided` rows, which have no agreed base. At most
    `most` conflicts are listed; None lists all. Of an edge table, `incident` tells which nodes stay.
    """
    contested = _changed_by_both(source, target, undecided)
    if incident is not None:
        merged = _merge_contested(source, target, contested, by_property, resolver, undecided, most, incident)
        return _with_restored(merged, source, target, contested, incident)
    if not len(contested):
        return TableMerge(source.table_key, source.after, _ids(source.deleted), ())
    return _merge_contested(source, target, contested, by_property, resolver, undecided, most, None)


def _with_restored(
    merged: TableMerge, source: TableDelta, target: TableDelta, contested: pa.Array[Any], incident: IncidentEdges
) -> TableMerge:
    """Retain the edges of nodes that stay: those that the source removed, and again those that the target removed."""
    here, there = _except(source.deleted, contested), _except(target.deleted, contested)
    stays = here.filter(pa.array(incident.restored(here, "source")))
    again = there.filter(pa.array(incident.restored(there, "target"))).cast(merged.puts.schema)
    puts = pa.concat_tables([merged.puts, again]).sort_by(ID) if again.num_rows else merged.puts
    edges = incident.of_open_nodes(source, target)
    return replace(merged, puts=puts, deletes=merged.deletes - _ids(stays), restored=stays, edges=edges)


def _except(rows: pa.Table, ids: pa.Array[Any]) -> pa.Table:
    return rows.filter(pc.invert(pc.is_in(rows.column(ID), value_set=ids)))


def _merge_contested(
    source: TableDelta,
    target: TableDelta,
    contested: pa.Array[Any],
    by_property: bool,
    resolver: Resolver,
    undecided: frozenset[str],
    most: int | None,
    incident: IncidentEdges | None,
) -> TableMerge:
    puts = source.after.filter(pc.invert(pc.is_in(source.after_ids, value_set=contested)))
    deletes = source.deleted.filter(pc.invert(pc.is_in(source.deleted.column(ID), value_set=contested)))
    disputed = pa.array(sorted(undecided), pa.string())
    agreed = contested.filter(pc.invert(pc.is_in(contested, value_set=disputed)))
    merged = merge_columns(source, target, agreed, by_property=by_property)
    decided = _Decisions(puts.schema, ConflictList(most))
    remaining = pa.concat_arrays([merged.undecided, disputed])
    for start in range(0, len(remaining), _AT_ONCE):
        some: list[Any] = remaining.slice(start, _AT_ONCE).to_pylist()
        decided.add(
            _disputed(each, resolver, incident)
            if each.row_id in undecided
            else _decide(each, by_property=by_property, resolver=resolver, incident=incident)
            for each in _contested(source, target, some)
        )
    puts = pa.concat_tables([puts, merged.puts, *decided.puts]).sort_by(ID)
    conflicts = tuple(decided.listed.conflicts)
    return TableMerge(
        source.table_key,
        puts,
        _ids(deletes) | decided.deleted_ids,
        conflicts,
        decided.listed.more,
        fates=decided.fates,
        resolved=resolved_keys(resolver, source.table_key, decided.disputed),
    )


def _changed_by_both(source: TableDelta, target: TableDelta, undecided: frozenset[str]) -> pa.Array[Any]:
    """The ids that both sides have changed, added or removed, and those that have no agreed base."""
    mine = pc.unique(pa.concat_arrays([source.before_ids, source.after_ids]))
    theirs = pa.concat_arrays([target.before_ids, target.after_ids])
    both = mine.filter(pc.is_in(mine, value_set=theirs))
    found: pa.Array[Any] = pc.unique(pa.concat_arrays([both, pa.array(sorted(undecided), pa.string())]))
    return found


@dataclass(frozen=True)
class _Contested:
    table_key: str
    row_id: str
    base: Row | None
    ours: Row | None
    theirs: Row | None


@dataclass(frozen=True)
class _Decided:
    row_id: str
    put: Row | None = None
    delete: bool = False
    conflict: Conflict | None = None
    fate: tuple[Side, Fate] | None = None
    is_disputed: bool = False


@dataclass(frozen=True)
class _Decisions:
    """The rows that were decided one by one, as Arrow tables again."""

    schema: pa.Schema
    listed: ConflictList
    puts: list[pa.Table] = field(default_factory=list)
    deleted_ids: set[str] = field(default_factory=set)
    fates: Fates = field(default_factory=dict)
    disputed: set[str] = field(default_factory=set)

    def add(self, decided: Iterable[_Decided]) -> None:
        rows: list[Row] = []
        for each in decided:
            if each.put is not None:
                rows.append(each.put)
            if each.delete:
                self.deleted_ids.add(each.row_id)
            if each.fate is not None:
                side, fate = each.fate
                self.fates.setdefault(side, {})[each.row_id] = fate
            if each.is_disputed:
                self.disputed.add(each.row_id)
            if each.conflict is not None:
                self.listed.add([each.conflict])
        self.puts.append(_table(rows, self.schema))


def _decide(entity: _Contested, *, by_property: bool, resolver: Resolver, incident: IncidentEdges | None) -> _Decided:
    base, ours, theirs = entity.base, entity.ours, entity.theirs
    if _same_row(ours, theirs):
        return _Decided(entity.row_id)
    if base is not None and ours is not None and theirs is not None:
        merged, disputed = _merge_properties(base, ours, theirs)
        if by_property and not disputed:
            return _Decided(entity.row_id, put=merged)
        agreed = merged if by_property else None
        return _resolved(entity, "DivergentUpdate", _named(disputed), disputed, resolver, agreed)
    if base is None:
        return _resolved(entity, "DivergentInsert", "both sides added it, with different values", (), resolver)
    side = (
        "the source removed it and the target changed it"
        if theirs is None
        else "the target removed it and the source changed it"
    )
    return _resolved(entity, "DeleteVsUpdate", side, (), resolver, incident=incident)


def _disputed(entity: _Contested, resolver: Resolver, incident: IncidentEdges | None) -> _Decided:
    if _same_row(entity.ours, entity.theirs):
        return _Decided(entity.row_id)
    message = "the histories of both sides have crossed, and each has resolved it differently"
    return _resolved(entity, "DivergentUpdate", message, (), resolver, incident=incident)


def _resolved(
    entity: _Contested,
    kind: ConflictKind,
    message: str,
    properties: tuple[str, ...],
    resolver: Resolver,
    agreed: Row | None = None,
    incident: IncidentEdges | None = None,
) -> _Decided:
    """Let the resolver decide. What only one side changed (`agreed`, on top of ours) is taken whichever side wins."""
    conflict = Conflict(
        kind, entity.table_key, entity.row_id, message, entity.base, entity.ours, entity.theirs, properties
    )
    conflict, choice = resolve_edge(incident, resolver, conflict)
    if choice is None:
        return _Decided(entity.row_id, conflict=conflict, fate=fates_of(conflict, "open"))
    row = _chosen(choice, entity, properties, agreed)
    fate = fates_of(conflict, "removed" if row is None else "kept")
    if _same_row(row, entity.ours):
        return _Decided(entity.row_id, fate=fate, is_disputed=True)
    return _Decided(entity.row_id, put=row, delete=row is None, fate=fate, is_disputed=True)


def _chosen(choice: Any, entity: _Contested, properties: tuple[str, ...], agreed: Row | None) -> Row | None:
    """The row as decided. In a row of the caller's own, what it does not name is as if the target had won."""
    ours = agreed or entity.ours
    if choice == "ours":
        return ours
    if choice == "theirs":
        theirs = entity.theirs
        return {**agreed, **{name: theirs[name] for name in properties}} if agreed and theirs else theirs
    return {**(ours or entity.theirs or {}), **choice, ID: entity.row_id}


def _merge_properties(base: Row, ours: Row, theirs: Row) -> tuple[Row, tuple[str, ...]]:
    merged, disputed = dict(ours), []
    for name, value in theirs.items():
        if same_value(value, base.get(name)) or same_value(value, ours.get(name)):
            continue
        if same_value(ours.get(name), base.get(name)):
            merged[name] = value
        else:
            disputed.append(name)
    return merged, tuple(disputed)


def _named(disputed: tuple[str, ...]) -> str:
    return f"both sides changed {', '.join(disputed) or 'it'}"


def _contested(source: TableDelta, target: TableDelta, ids: list[str]) -> Iterator[_Contested]:
    base = {**_rows(target.before, ids), **_rows(source.before, ids)}
    ours, theirs = _after(target, base, ids), _after(source, base, ids)
    for row_id in ids:
        yield _Contested(source.table_key, row_id, base.get(row_id), ours.get(row_id), theirs.get(row_id))


def _after(delta: TableDelta, base: dict[str, Row], ids: list[str]) -> dict[str, Row]:
    """The rows as a side has them; a row that it has not changed is that of the base."""
    wanted = pa.array(ids, pa.string())
    changed_ids = pa.concat_arrays([delta.before_ids, delta.after_ids])
    changed = set(wanted.filter(pc.is_in(wanted, value_set=changed_ids)).to_pylist())
    return {**{row_id: row for row_id, row in base.items() if row_id not in changed}, **_rows(delta.after, ids)}


def _rows(table: pa.Table, ids: list[str]) -> dict[str, Row]:
    wanted = table.filter(pc.is_in(table.column(ID), value_set=pa.array(ids, pa.string())))
    return {row[ID]: row for row in _plain(wanted).to_pylist()}


def _plain(table: pa.Table) -> pa.Table:
    """Datetimes as integers, in lists too: Python dates would lose the time of day."""
    for at, each in enumerate(table.schema):
        if (plain := replace_types(each.type, MILLISECONDS)) != each.type:
            table = table.set_column(at, each.name, table.column(at).cast(plain))
    return table


def _table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    columns = []
    for each in schema:
        values = [row.get(each.name) for row in rows]
        columns.append(pa.array(values, replace_types(each.type, MILLISECONDS)).cast(each.type))
    return pa.table(columns, schema=schema)


def _ids(rows: pa.Table) -> frozenset[str]:
    ids: list[Any] = rows.column(ID).to_pylist()
    return frozenset(ids)


def _same_row(one: Row | None, other: Row | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(same_value(value, other.get(name)) for name, value in one.items())
