"""Determines the common state from which two branches differ, also when their histories have criss-cross merges.

Usually two branches have one merge base. Branches that merged each other, or both merged a third, can have several
(tips), none an ancestor of another. Each of them has changes that the other lacks and that both branches have: measured
against one alone, a change that one branch has undone since would come back. So the tips are merged first, as branches
are, and both branches are measured against the result.

`ConvertedCommonState` does the same for snapshots of different schemas. A schema change may overwrite a table, and then
the two versions share no data file: so a side is followed from one schema change to the next, and the deltas of these
spans are combined.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import put_schema
from omnigraph.errors import NotFound
from omnigraph.history.delta import TableDelta, differing_rows, net, table_delta
from omnigraph.history.merge.three_way import merge_table
from omnigraph.kernels.arrays import ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.history.merge.schema_lineage import RowConversion
    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.storage.tables.table import TableStore


class Deltas(Protocol):
    """A source of differing rows between two versions: all of them, or those of one partition of the merge."""

    def delta(self, base: TableEntry | None, side: TableEntry) -> TableDelta:
        """The changes from one version of a table to another."""
        ...

    def differing_rows(self, base: TableEntry, side: TableEntry) -> tuple[pa.Table, pa.Table]:
        """A superset of the changed rows of either version, each in the columns of its own version."""
        ...


@dataclass(frozen=True)
class AllRows:
    """Differing rows read from the tables into memory."""

    tables: TableStore

    def delta(self, base: TableEntry | None, side: TableEntry) -> TableDelta:
        """The changes from one version of a table to another."""
        return table_delta(self.tables, base, side)

    def differing_rows(self, base: TableEntry, side: TableEntry) -> tuple[pa.Table, pa.Table]:
        """A superset of the changed rows of either version, each in the columns of its own version."""
        return differing_rows(self.tables, base, side)


@dataclass(frozen=True)
class CommonState:
    """The state that two branches differ from. `root` is an ancestor of all `tips`; of a single tip it is the tip."""

    tables: TableStore
    root: Snapshot | None
    tips: tuple[Snapshot, ...] = ()
    # Converts rows of the common state to the schema of the target, when that has changed since.
    conversion: RowConversion | None = None
    # The source of differing rows; None reads them from the tables.
    deltas: Deltas | None = None
    _joined: dict[str, Joined] = field(default_factory=dict)

    def pairs(self, there: TableEntry, here: TableEntry) -> list[tuple[TableEntry | None, TableEntry]]:
        """The version pairs whose differences decide the merge of a table of the source and the target."""
        if self.conversion is not None:
            return [(_entry(self.root, there.table_key), there), (self._base_of(here, self.conversion), here)]
        tips = self._tips_of(here.table_key) if len(self.tips) > 1 else []
        return [(self._root_of(each.table_key), each) for each in (there, here, *tips)]

    def has(self, entry: TableEntry) -> bool:
        """Whether every common state has exactly this version of the table, so that nothing was changed since."""
        states = self.tips or ((self.root,) if self.root is not None else ())
        return bool(states) and all(_pin(each, entry.table_key) == entry.pin for each in states)

    def delta(self, side: TableEntry) -> TableDelta:
        """The changes from the common state of a table to this version."""
        if self.conversion is not None:
            return self._converted(side, self.conversion)
        since_root = self._since_root(side)
        if len(self.tips) < 2 or not self._tips_of(side.table_key):
            return since_root
        return rebased(self._join(side.table_key).since_root, since_root)

    def delta_of_source(self, there: TableEntry, here: TableEntry) -> TableDelta:
        """The changes from the common state of a table to the source's version, in the columns of the target."""
        if self.conversion is None:
            return self.delta(there)
        delta, schema = self._since_root(there), put_schema(self.tables.open(here.pin).schema)
        rows = (self.conversion.rows(there.table_key, each, schema) for each in (delta.before, delta.after))
        return net(here.table_key, *rows)

    def _converted(self, side: TableEntry, conversion: RowConversion) -> TableDelta:
        base = self._base_of(side, conversion)
        if base is None:
            return self._rows.delta(None, side)
        before, after = self._rows.differing_rows(base, side)
        schema = put_schema(self.tables.open(side.pin).schema)
        return net(side.table_key, conversion.rows(base.table_key, before, schema), after)

    def _base_of(self, side: TableEntry, conversion: RowConversion) -> TableEntry | None:
        entries = self.root.tables.values() if self.root is not None else ()
        return next((each for each in entries if conversion.new_key(each.table_key) == side.table_key), None)

    @property
    def _rows(self) -> Deltas:
        return AllRows(self.tables) if self.deltas is None else self.deltas

    def undecided(self, table_key: str) -> frozenset[str]:
        """The ids of rows on which the tips themselves disagree."""
        several = len(self.tips) > 1 and self._tips_of(table_key)
        return self._join(table_key).undecided if several else frozenset()

    def _tips_of(self, table_key: str) -> list[TableEntry]:
        return [each for tip in self.tips if (each := _entry(tip, table_key)) is not None]

    def _root_of(self, table_key: str) -> TableEntry | None:
        """The root's version of a table; None if several tips all lack it: none of it is common."""
        if len(self.tips) > 1 and not self._tips_of(table_key):
            return None
        return _entry(self.root, table_key)

    def _since_root(self, side: TableEntry) -> TableDelta:
        return self._rows.delta(self._root_of(side.table_key), side)

    def _join(self, table_key: str) -> Joined:
        if table_key not in self._joined:
            first, *others = [self._since_root(each) for each in self._tips_of(table_key)]
            joined = Joined(first, frozenset())
            for other in others:
                joined = joined.with_(other)
            self._joined[table_key] = joined
        return self._joined[table_key]


@dataclass(frozen=True)
class Joined:
    """Several tips of a table merged into one: the changes since their root, and the rows they disagree on."""

    since_root: TableDelta
    undecided: frozenset[str]

    def with_(self, other: TableDelta) -> Joined:
        """Merge one more tip; where it disagrees, the existing row stays, and its id is recorded."""
        merged = merge_table(other, self.since_root, by_property=True, resolver=None, most=None)
        disputed = frozenset(each.row_id for each in merged.conflicts)
        done = rebased_on_top(self.since_root, merged.puts, merged.deletes, other)
        return Joined(done, self.undecided | disputed)


def rebased(first: TableDelta, second: TableDelta) -> TableDelta:
    """Of two deltas with the same base: the changes from the result of the first to the result of the second."""
    before = pa.concat_tables([first.after, _except(second.before, _changed_ids(first))])
    after = pa.concat_tables([second.after, _except(first.before, _changed_ids(second))])
    return net(second.table_key, before, after)


def followed(first: TableDelta, second: TableDelta) -> TableDelta:
    """Concatenate two deltas, of which the second starts where the first ends."""
    before = pa.concat_tables([first.before, _except(second.before, _changed_ids(first))])
    after = pa.concat_tables([_except(first.after, _changed_ids(second)), second.after])
    return net(second.table_key, before, after)


def rebased_on_top(first: TableDelta, puts: pa.Table, deletes: frozenset[str], other: TableDelta) -> TableDelta:
    """The first delta extended by puts and deletes that come from `other`, a delta with the same base."""
    deleted = pa.array(sorted(deletes), pa.string())
    changed = pa.concat_arrays([_ids(puts), deleted])
    before = pa.concat_tables([first.before, _among(_except(other.before, _changed_ids(first)), changed)])
    after = pa.concat_tables([_except(first.after, changed), puts])
    return net(first.table_key, before, after)


def _changed_ids(delta: TableDelta) -> pa.Array[Any]:
    return pa.concat_arrays([delta.before_ids, delta.after_ids])


def _except(rows: pa.Table, ids: pa.Array[Any]) -> pa.Table:
    return rows.filter(pc.invert(pc.is_in(rows.column(ID), value_set=ids)))


def _among(rows: pa.Table, ids: pa.Array[Any]) -> pa.Table:
    return rows.filter(pc.is_in(rows.column(ID), value_set=ids))


def _ids(rows: pa.Table) -> pa.Array[Any]:
    column = rows.column(ID)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.string())


def _entry(snapshot: Snapshot | None, table_key: str) -> TableEntry | None:
    return None if snapshot is None else snapshot.tables.get(table_key)


def _pin(snapshot: Snapshot, table_key: str) -> object:
    entry = snapshot.tables.get(table_key)
    return None if entry is None else entry.pin


@dataclass(frozen=True)
class ConvertedState:
    """A snapshot, and the conversion of its rows to the schema in which it is viewed.

    `spans` lead to it from the common state: each has one schema, and the next starts with the same rows in another
    schema. Without them the two snapshots are compared directly.
    """

    snapshot: Snapshot
    conversion: RowConversion
    spans: tuple[tuple[ConvertedState, ConvertedState], ...] = ()

    def entry(self, table_key: str) -> TableEntry | None:
        """The table of the snapshot that became `table_key`."""
        return next((each for each in self.snapshot if self.conversion.new_key(each.table_key) == table_key), None)

    def rows(self, entry: TableEntry, rows: pa.Table, columns: pa.Schema) -> pa.Table:
        """Rows of one of its tables, converted to `columns`."""
        return self.conversion.rows(entry.table_key, rows, columns)


@dataclass(frozen=True)
class ConvertedCommonState:
    """The state that two branches differ from, in one schema. `columns` returns those of a table, all nullable."""

    tables: TableStore
    root: ConvertedState | None
    tips: tuple[ConvertedState, ...]
    columns: Callable[[str], pa.Schema]
    _joined: dict[str, Joined] = field(default_factory=dict)

    def has(self, side: ConvertedState, table_key: str) -> bool:
        """Whether every common state has exactly this side's version of the table: nothing was changed since."""
        entry = side.entry(table_key)
        found = [each.entry(table_key) for each in self.tips]
        return entry is not None and bool(found) and all(each is not None and each.pin == entry.pin for each in found)

    def delta(self, side: ConvertedState, table_key: str) -> TableDelta:
        """The changes from the common state of a table to a side's version."""
        since_root = self._since_root(side, table_key)
        if len(self.tips) < 2:
            return since_root
        return rebased(self._join(table_key).since_root, since_root)

    def undecided(self, table_key: str) -> frozenset[str]:
        """The ids of rows on which the tips themselves disagree."""
        return self._join(table_key).undecided if len(self.tips) > 1 else frozenset()

    def _since_root(self, side: ConvertedState, table_key: str) -> TableDelta:
        try:
            found = [self._between(*each, table_key) for each in side.spans]
        except NotFound:
            found = []  # a cleanup has removed a snapshot in between; its first and last always exist
        return reduce(followed, found) if found else self._between(self.root, side, table_key)

    def _between(self, base: ConvertedState | None, side: ConvertedState, table_key: str) -> TableDelta:
        columns = self.columns(table_key)
        there = None if base is None else base.entry(table_key)
        here = side.entry(table_key)
        before = after = columns.empty_table()
        if base is not None and there is not None and here is not None:
            if there.pin != here.pin:
                rows = differing_rows(self.tables, there, here)
                before, after = base.rows(there, rows[0], columns), side.rows(here, rows[1], columns)
        elif here is not None:
            after = side.rows(here, table_delta(self.tables, None, here).after, columns)
        elif base is not None and there is not None:
            before = base.rows(there, table_delta(self.tables, there, None).before, columns)
        return net(table_key, before, after)

    def _join(self, table_key: str) -> Joined:
        if table_key not in self._joined:
            first, *others = [self._since_root(each, table_key) for each in self.tips]
            joined = Joined(first, frozenset())
            for other in others:
                joined = joined.with_(other)
            self._joined[table_key] = joined
        return self._joined[table_key]
