"""Three-way merge of one table: the changes of source and target since their merge base.

Rows that only one side changed, and columns that at most one side changed, are merged as Arrow columns; only the
remaining rows become Python objects and are decided one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors.commits import Conflict, ConflictKind, Row
from omnigraph.history.delta import same_value
from omnigraph.history.merge.conflicts import MOST_LISTED, ConflictList, Resolver, merge_columns, resolve
from omnigraph.kernels.arrays import ID, MILLISECONDS, replace_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.history.delta import TableDelta
    from omnigraph.storage.tables.row_rewrite import RowLocations


# Rows become Python objects to be decided one by one: never all of them at once.
_AT_ONCE = 5_000


@dataclass(frozen=True)
class TableMerge:
    """The changes to make on the target, with puts sorted by id, and the conflicts that the caller must resolve first.

    `more`: the number of conflicts that are not listed. `locations`: those of the rows on the target, if known.
    """

    table_key: str
    puts: pa.Table
    deletes: frozenset[str]
    conflicts: tuple[Conflict, ...]
    more: int = 0
    locations: RowLocations | None = None


def merge_table(
    source: TableDelta,
    target: TableDelta,
    *,
    by_property: bool,
    resolver: Resolver,
    undecided: frozenset[str] = frozenset(),
    most: int | None = MOST_LISTED,
) -> TableMerge:
    """Apply the source's changes on top of the target's.

    Rows that only the source changed are taken as they are. Rows that both changed are merged property by property, or,
    without `by_property`, must be equal on both sides; so must `undecided` rows, which have no agreed base. At most
    `most` conflicts are listed; None lists all.
    """
    contested = _changed_by_both(source, target, undecided)
    if not len(contested):
        return TableMerge(source.table_key, source.after, _ids(source.deleted), ())
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
            _disputed(each, resolver)
            if each.row_id in undecided
            else _decide(each, by_property=by_property, resolver=resolver)
            for each in _contested(source, target, some)
        )
    puts = pa.concat_tables([puts, merged.puts, *decided.puts]).sort_by(ID)
    conflicts = tuple(decided.listed.conflicts)
    return TableMerge(source.table_key, puts, _ids(deletes) | decided.deleted_ids, conflicts, decided.listed.more)


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


@dataclass(frozen=True)
class _Decisions:
    """The rows that were decided one by one, as Arrow tables again."""

    schema: pa.Schema
    listed: ConflictList
    puts: list[pa.Table] = field(default_factory=list)
    deleted_ids: set[str] = field(default_factory=set)

    def add(self, decided: Iterable[_Decided]) -> None:
        rows: list[Row] = []
        for each in decided:
            if each.put is not None:
                rows.append(each.put)
            if each.delete:
                self.deleted_ids.add(each.row_id)
            if each.conflict is not None:
                self.listed.add([each.conflict])
        self.puts.append(_table(rows, self.schema))


def _decide(entity: _Contested, *, by_property: bool, resolver: Resolver) -> _Decided:
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
    return _resolved(entity, "DeleteVsUpdate", side, (), resolver)


def _disputed(entity: _Contested, resolver: Resolver) -> _Decided:
    if _same_row(entity.ours, entity.theirs):
        return _Decided(entity.row_id)
    message = "the histories of both sides have crossed, and each has resolved it differently"
    return _resolved(entity, "DivergentUpdate", message, (), resolver)


def _resolved(
    entity: _Contested,
    kind: ConflictKind,
    message: str,
    properties: tuple[str, ...],
    resolver: Resolver,
    agreed: Row | None = None,
) -> _Decided:
    """Let the resolver decide. What only one side changed (`agreed`, on top of ours) is taken whichever side wins."""
    conflict = Conflict(
        kind, entity.table_key, entity.row_id, message, entity.base, entity.ours, entity.theirs, properties
    )
    choice = resolve(resolver, conflict)
    if choice is None:
        return _Decided(entity.row_id, conflict=conflict)
    row = _chosen(choice, entity, properties, agreed)
    if _same_row(row, entity.ours):
        return _Decided(entity.row_id)
    return _Decided(entity.row_id, delete=True) if row is None else _Decided(entity.row_id, put=row)


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
