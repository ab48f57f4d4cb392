"""The tables of one operation on their way: staged, landed, published. The commit protocol leads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import CommitConflict, CommitRejected
from omnigraph.failpoints import reach
from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.layout import physical_branch
from omnigraph.manifest.publisher import NewVersion, PublishRequest
from omnigraph.store.staging import Committed, commit_staged
from omnigraph.write.recovery.sidecar import PlannedCommit, Sidecar, TablePin
from omnigraph.write.tickets import new_ticket_id

if TYPE_CHECKING:
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.line import ManifestLine
    from omnigraph.store.staging import Staged
    from omnigraph.write.commit import Operation, TableWrite, WriteSet
    from omnigraph.write.queues import Line
    from omnigraph.write.tickets import Ticket
    from omnigraph.write.view import View


class Effects:
    """What one operation does to its tables, computed from one view of a branch."""

    def __init__(
        self, manifest: GraphManifest, operation: Operation, write_set: WriteSet, view: View, line: ManifestLine
    ) -> None:
        self.manifest = manifest
        self.operation = operation
        self._write_set = write_set
        self._writes = sorted(write_set.writes, key=lambda each: each.entry.table_key)
        self._line = line
        self._branch = physical_branch(operation.branch)
        # What the operation was computed from, and must still be so when it is published.
        self._based_on = {**view.reads, **{each.entry.table_key: each.entry.version for each in self._writes}}
        self._staged: dict[str, Staged] = {}
        self._landed: dict[str, Committed] = {}

    def is_empty(self) -> bool:
        """Whether no table is changed, added or dropped."""
        return not (self._writes or self._write_set.added or self._write_set.dropped)

    def lines(self) -> list[Line]:
        """The tables it moves or was computed from, on its branch."""
        return [(table_key, self._branch) for table_key in self._based_on]

    def only_read(self) -> tuple[str, ...]:
        """The tables it was computed from and does not move."""
        return tuple(sorted(self._based_on.keys() - {each.entry.table_key for each in self._writes}))

    def moved(self, line: ManifestLine) -> list[str]:
        """The tables it was computed from that have moved since; all of them when the branch is another by now."""
        if line is not self._line:
            return sorted(self._based_on)
        return sorted(key for key, version in self._based_on.items() if line.state.current_version(key) != version)

    def fits(self, ticket: Ticket) -> bool:
        """Whether a ticket keeps others from all that this operation moves or was computed from."""
        mine = {pin.line for pin in self.pins()}
        return mine <= ticket.sidecar.lines and set(self.lines()) <= ticket.sidecar.lines | ticket.sidecar.read_lines

    def stage_ahead(self) -> None:
        """Stage what can be staged before the sidecar: all but tables that this branch has no line of its own of."""
        for write in self._writes:
            if write.entry.branch == self._branch:
                table = self.manifest.stores.tables.open(write.entry.pin)
                self._staged[write.entry.table_key] = write.stage(table)

    def sidecar(self) -> Sidecar:
        """The note to leave before the first effect."""
        world, operation = self.manifest.world, self.operation
        now = world.now_us()
        return Sidecar(
            operation_id=new_ticket_id(world),
            started_at=now,
            writer_kind=operation.kind,
            branch=self._branch,
            actor=operation.actor,
            tables=self.pins(),
            merge_source_commit_id=operation.merged_parent if operation.kind == "BranchMerge" else None,
            added=tuple(self._write_set.added),
            dropped=tuple(self._write_set.dropped),
            commit=PlannedCommit(world.ulid(), now, operation.merged_parent, operation.idempotency_key),
            reads=self.only_read(),
            incarnation=self._line.incarnation,
        )

    def pins(self) -> tuple[TablePin, ...]:
        """What the sidecar says of the tables, as far as it is known."""
        return tuple(self._pin(each) for each in self._writes)

    def land(self, ticket: Ticket) -> None:
        """Commit every table, in sorted order."""
        for write in self._writes:
            key = write.entry.table_key
            ticket.keep_alive()
            ticket.has_effects = True
            if key not in self._staged:
                self._fork_and_stage(write, ticket)
            self._landed[key] = self._land(self._staged[key], ticket)
            reach("commit.table_landed")

    def keep_handles(self) -> None:
        """The handles of the new versions serve the next reader."""
        for landed in self._landed.values():
            self.manifest.stores.tables.keep(landed.table)

    def request(self, sidecar: Sidecar) -> PublishRequest:
        """What to publish once every table has landed."""
        planned = sidecar.commit
        assert planned is not None
        return PublishRequest(
            commit_id=planned.commit_id,
            created_at=planned.created_at,
            versions=[
                *(self._new_version(each) for each in self._writes),
                *(NewVersion(each.table_key, 1, 0, each.table_branch, each.table_path) for each in sidecar.added),
            ],
            drops=[each.table_key for each in sidecar.dropped],
            expected_versions=self._based_on,
            expected_head=self.operation.expected_head,
            actor=self.operation.actor,
            merged_parent=self.operation.merged_parent,
            idempotency_key=self.operation.idempotency_key,
        )

    def _land(self, staged: Staged, ticket: Ticket) -> Committed:
        """Every writer that knows of the graph waits for its turn, so a commit in between is by another program."""
        try:
            landed = commit_staged(staged, operation_id=ticket.sidecar.operation_id)
        except (CommitConflict, CommitRejected) as error:
            raise _has_foreign_commits(staged) from error
        if not landed.contiguous:
            raise _has_foreign_commits(staged)
        return landed

    def _fork_and_stage(self, write: TableWrite, ticket: Ticket) -> None:
        """A branch's first write to a table: its own line of the table is made now that the sidecar stands."""
        assert self._branch is not None
        stores = self.manifest.stores
        parent = stores.tables.open(write.entry.pin)
        fork = fork_table(stores, write.entry.path, self._branch, parent=parent)
        reach("commit.forked")
        self._staged[write.entry.table_key] = write.stage(fork)
        ticket.update(tables=self.pins())

    def _pin(self, write: TableWrite) -> TablePin:
        staged = self._staged.get(write.entry.table_key)
        return TablePin(
            table_key=write.entry.table_key,
            table_path=self.manifest.stores.tables.location.child(write.entry.path),
            expected_version=write.entry.version,
            post_commit_pin=write.entry.version + 1,
            table_branch=self._branch,
            transaction=staged.uuid if staged is not None else None,
        )

    def _new_version(self, write: TableWrite) -> NewVersion:
        landed = self._landed[write.entry.table_key]
        return NewVersion(write.entry.table_key, landed.version, landed.table.count_rows(), self._branch)


def _has_foreign_commits(staged: Staged) -> CommitRejected:
    return CommitRejected(
        f"{staged.table.path} has commits that the graph does not know of, made by another program: nothing was "
        "changed, and they are kept. Run repair to look at them."
    )
