"""`ForkedTables` adds tables to a branch as forks: each is forked, written and committed as one version.

An operation that dies midway leaves a fork that no manifest names; the next fork of the same name replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import CommitRejected
from omnigraph.failpoints import reach
from omnigraph.manifest.branch_lease import fork_table
from omnigraph.transaction.intents.sidecar import AddedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.layout import Storage
    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.storage.tables.staging import Committed, Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.intents.queue import QueueEntry
    from omnigraph.transaction.write_set import ForkedTable


@dataclass
class ForkedTables:
    """The tables that one operation adds to its branch by forking them, in name order."""

    stores: Storage
    branch: str | None
    tables: Sequence[ForkedTable]
    _staged: dict[str, Staged] = field(default_factory=dict)

    def added(self) -> tuple[AddedTable, ...]:
        """The sidecar's entries for them; row count and transaction are filled in once a table is staged."""
        return tuple(self._planned(each) for each in self.tables)

    def stage(self, table: ForkedTable) -> Staged:
        """Fork the table and stage its content. The sidecar must be on the store."""
        assert self.branch is not None, "tables are forked for branches other than main alone"
        staged = fork_and_stage(self.stores, self.branch, table.parent, table.stage)
        self._staged[table.table_key] = staged
        return staged

    def commit_tables(
        self, queue_entry: QueueEntry, commit_one: Callable[[Staged], Committed], update_sidecar: Callable[[], None]
    ) -> list[Committed]:
        """Fork, stage and commit each table; `update_sidecar` runs before each commit."""
        committed = []
        for each in self.tables:
            queue_entry.may_have_committed = True
            staged = self.stage(each)
            update_sidecar()
            committed.append(commit_one(staged))
            reach("commit.table_landed")
        return committed

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


def fork_and_stage(stores: Storage, branch: str, parent: TableEntry, stage: Callable[[Table], Staged]) -> Staged:
    """Fork a table at a version for a branch, and stage a change to the fork."""
    fork = fork_table(stores, parent.path, branch, parent=stores.tables.open(parent.pin))
    reach("commit.forked")
    return stage(fork)


def require_no_earlier_fork(branch_manifest: BranchManifest, table_key: str) -> None:
    """Refuse to fork a table of a type that was dropped and came back: its earlier fork has that name already."""
    if branch_manifest.has_forked(table_key):
        raise CommitRejected(
            f"branch {branch_manifest.branch!r} has had rows of its own of {table_key} before that type was dropped "
            f"and came back: it can be read there, not written. Make a new branch of it, and write to that."
        )
