"""Tables that come into a branch with its operation: a line of their own, forked, written and landed as one version.

Whoever dies on the way leaves a fork that no manifest names; the next one of the name is made in its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.failpoints import reach
from omnigraph.manifest.branches import fork_table
from omnigraph.transaction.intents.sidecar import AddedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.manifest.branch_manifest import Storage
    from omnigraph.storage.tables.staging import Committed, Staged
    from omnigraph.transaction.intents.queue import QueueEntry
    from omnigraph.transaction.write_set import ForkedTable


@dataclass
class ForkedTables:
    """The tables that one operation brings into its branch, in name order."""

    stores: Storage
    branch: str | None
    tables: Sequence[ForkedTable]
    _staged: dict[str, Staged] = field(default_factory=dict)

    def added(self) -> tuple[AddedTable, ...]:
        """What the sidecar says of them, as far as it is known."""
        return tuple(self._planned(each) for each in self.tables)

    def stage(self, table: ForkedTable) -> Staged:
        """Make the line, now that the sidecar stands, and stage its content."""
        assert self.branch is not None, "main has no line of a table beside its main line"
        parent = self.stores.tables.open(table.parent.pin)
        fork = fork_table(self.stores, table.parent.path, self.branch, parent=parent)
        reach("commit.forked")
        self._staged[table.table_key] = table.stage(fork)
        return self._staged[table.table_key]

    def land(
        self, ticket: QueueEntry, land: Callable[[Staged], Committed], note: Callable[[], None]
    ) -> list[Committed]:
        """Fork, stage and land each of them; `note` tells the sidecar what is about to land."""
        landed = []
        for each in self.tables:
            ticket.has_effects = True
            staged = self.stage(each)
            note()
            landed.append(land(staged))
            reach("commit.table_landed")
        return landed

    def _planned(self, table: ForkedTable) -> AddedTable:
        staged, parent = self._staged.get(table.table_key), table.parent
        return AddedTable(
            table.table_key,
            parent.path,
            self.branch,
            version=parent.version + 1,
            row_count=0 if staged is None else _rows_after(parent.row_count, staged),
            transaction=None if staged is None else staged.uuid,
        )


def _rows_after(before: int, staged: Staged) -> int:
    return staged.inserted if staged.change == "overwrite" else before + staged.inserted - staged.deleted
