"""Views snapshots of different schemas in one schema: the changes from their common state to each of them.

This does for snapshots of different schemas what `merge_base.py` does for those of one schema. A schema change may
overwrite a table, and then the two versions share no data file: so a side is followed from one schema change to the
next, and the deltas of these spans are combined.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from omnigraph.errors import NotFound
from omnigraph.history.delta import TableDelta, differing_rows, net, table_delta
from omnigraph.history.merge.merge_base import Joined, followed, rebased

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from omnigraph.history.merge.schema_lineage import RowConversion
    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.storage.tables.table import TableStore


@dataclass(frozen=True)
class ConvertedState:
    """A snapshot, and the conversion of its rows to the schema in which it is viewed.

    `stretches` are the spans that lead to it from the common state: each has one schema, and the next starts with the
    same rows in another schema. Without them the two snapshots are compared directly.
    """

    snapshot: Snapshot
    shape: RowConversion
    stretches: tuple[tuple[ConvertedState, ConvertedState], ...] = ()

    def entry(self, table_key: str) -> TableEntry | None:
        """The table of the snapshot that became `table_key`."""
        return next((each for each in self.snapshot if self.shape.new_key(each.table_key) == table_key), None)

    def rows(self, entry: TableEntry, rows: pa.Table, columns: pa.Schema) -> pa.Table:
        """Rows of one of its tables, converted to `columns`."""
        return self.shape.rows(entry.table_key, rows, columns)


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
            found = [self._between(*each, table_key) for each in side.stretches]
        except NotFound:
            found = []  # a cleanup has removed a snapshot in between; its two ends always exist
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
