"""What changed in the graph between two of its states, by type; computed table by table as it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.versions.delta import TableDelta, table_delta

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.store.tables import TableStore


@dataclass(frozen=True)
class DiffSummary:
    """How many rows of a table were added, changed and removed."""

    table_key: str
    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True)
class GraphDiff:
    """The way from `before` to `after`. Exact: rows that were rewritten with the same values are not in it."""

    before: Snapshot
    after: Snapshot
    tables: TableStore

    def __iter__(self) -> Iterator[TableDelta]:
        """The tables that differ, in name order; tables at the same version are not opened."""
        for key in sorted(self.before.tables.keys() | self.after.tables.keys()):
            base, side = self.before.tables.get(key), self.after.tables.get(key)
            if base is not None and side is not None and base.pin == side.pin:
                continue
            delta = table_delta(self.tables, base, side)
            if not delta.is_empty:
                yield delta

    def summary(self) -> list[DiffSummary]:
        """The numbers, by table."""
        return [
            DiffSummary(each.table_key, each.inserted.num_rows, each.updated[1].num_rows, each.deleted.num_rows)
            for each in self
        ]
