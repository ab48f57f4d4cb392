"""States of a graph that are in different schemas, seen in one: what turned their common state into each of them.

The same as `bases.py` does for states of one schema. A change of schema may write a table anew, and then none of its
files are the same: so a side is followed from one change to the next, and what happened in between is put together.
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

    from omnigraph.history.merge.row_conversion import RowConversion
    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.storage.tables.table import TableStore


@dataclass(frozen=True)
class ConvertedState:
    """A state, and how its rows come into the schema that it is seen in.

    `stretches` lead to it from the common state: each has one schema, and the next begins with the same rows in another
    shape. Without them the two are compared as they are.
    """

    snapshot: Snapshot
    shape: RowConversion
    stretches: tuple[tuple[ConvertedState, ConvertedState], ...] = ()

    def entry(self, table_key: str) -> TableEntry | None:
        """The table that has become this one."""
        return next((each for each in self.snapshot if self.shape.new_key(each.table_key) == table_key), None)

    def rows(self, entry: TableEntry, rows: pa.Table, columns: pa.Schema) -> pa.Table:
        """Rows of one of its tables in the columns of what that has become."""
        return self.shape.rows(entry.table_key, rows, columns)


@dataclass(frozen=True)
class ConvertedCommonState:
    """The state that two lines differ from, in one schema. `columns` tells those of a table, each nullable."""

    tables: TableStore
    root: ConvertedState | None
    tips: tuple[ConvertedState, ...]
    columns: Callable[[str], pa.Schema]
    _joined: dict[str, Joined] = field(default_factory=dict)

    def has(self, side: ConvertedState, table_key: str) -> bool:
        """Whether a table is in every common state exactly as it is on this side: then nothing was changed since."""
        entry = side.entry(table_key)
        found = [each.entry(table_key) for each in self.tips]
        return entry is not None and bool(found) and all(each is not None and each.pin == entry.pin for each in found)

    def delta(self, side: ConvertedState, table_key: str) -> TableDelta:
        """What turned the common state of a table into the one that a side has."""
        since_root = self._since_root(side, table_key)
        if len(self.tips) < 2:
            return since_root
        return rebased(self._join(table_key).since_root, since_root)

    def undecided(self, table_key: str) -> frozenset[str]:
        """The rows that the common states themselves disagree on."""
        return self._join(table_key).undecided if len(self.tips) > 1 else frozenset()

    def _since_root(self, side: ConvertedState, table_key: str) -> TableDelta:
        try:
            found = [self._between(*each, table_key) for each in side.stretches]
        except NotFound:
            found = []  # a cleanup has taken a state on the way; the ends of it are always there
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
