"""The graph as it would be: one view, and the changes that are to be laid over it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.write.changes import TableChanges
from omnigraph.write.overlay import Overlay
from omnigraph.write.same_value import is_among

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.write.view import View


@dataclass(frozen=True)
class Outcome:
    """Every table after the changes; one that is not changed is as it was."""

    view: View
    changes: Mapping[str, TableChanges]
    _overlays: dict[str, Overlay] = field(default_factory=dict)

    def table(self, table_key: str) -> Overlay:
        """One table after its change."""
        if table_key not in self._overlays:
            change = self.changes.get(table_key) or TableChanges(table_key)
            self._overlays[table_key] = Overlay(self.view, change)
        return self._overlays[table_key]

    def puts(self) -> Iterator[tuple[str, pa.Table]]:
        """The tables that rows are put into, in name order."""
        for table_key in sorted(self.changes):
            rows = self.changes[table_key].puts
            if rows is not None and rows.num_rows:
                yield table_key, rows

    def loses_rows(self, table_key: str) -> bool:
        """Whether committed rows of the table may be gone afterwards."""
        change = self.changes.get(table_key)
        return change is not None and (change.overwrite or bool(change.deletes))

    def is_lost(self, table_key: str, ids: pa.Array[Any]) -> pa.Array[Any]:
        """For each id of a committed row, whether the change removes it."""
        table = self.table(table_key)
        if table.change.overwrite:
            return pc.invert(is_among(ids, table.put_ids))
        return is_among(ids, table.deleted_ids)
