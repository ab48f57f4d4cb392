"""An operation, its write set (tables that it changes, adds and drops, its change to the schema) and its read set.

`TableChanges` is the net change to one table before anything is staged: whole rows to put, ids to delete.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from omnigraph.errors.inputs import require_text
from omnigraph.kernels.report import Report
from omnigraph.manifest.layout import MAIN, physical_branch
from omnigraph.manifest.publisher import ANY_HEAD, AnyHead
from omnigraph.storage.tables.staging import how_made

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from omnigraph.manifest.branch_manifest import BranchManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.storage.tables.row_rewrite import RowLocations
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.intents.sidecar import DroppedTable, PlannedSchema, WriterKind
    from omnigraph.transaction.read_view import ReadView


@dataclass(frozen=True)
class TableChanges:
    """The net change to one table.

    `puts` has every column of the table and no id twice; None when no row is put. A row that is put replaces the
    committed one of the same id. `deletes` and the ids of `puts` are disjoint. `overwrite` means that the puts become
    the whole content. `only_new`: a put whose id is committed already is an error, not an upsert; `new_ids` says so for
    some of the puts. `locations` has every committed row that is replaced or deleted, when the caller has found them;
    None: they are looked up when the change is staged.
    """

    table_key: str
    puts: pa.Table | None = None
    deletes: frozenset[str] = field(default_factory=frozenset)
    overwrite: bool = False
    only_new: bool = False
    new_ids: frozenset[str] = field(default_factory=frozenset)
    locations: RowLocations | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not (self.overwrite or self.deletes or (self.puts is not None and self.puts.num_rows))


@dataclass(frozen=True)
class TableWrite:
    """A change to one table: the version it starts from, and how to stage it on a handle of that version.

    `then` may compact the changed table within the same commit; without it, small fragments are compacted when there
    are many.
    """

    entry: TableEntry
    stage: Callable[[Table], Staged]
    then: Callable[[Table], Staged | None] | None = None


@dataclass(frozen=True)
class Adoption:
    """A table version that another program committed, and that the graph adopts unchanged."""

    entry: TableEntry
    version: int


@dataclass(frozen=True)
class FastForward:
    """A version of a table that exists already, on the Lance branch that the graph branch reads: adopted as it is.

    No row is written. `entry` is the branch's current entry of the table; None when the table is new to the branch.
    """

    entry: TableEntry | None
    to: TableEntry


@dataclass(frozen=True)
class NewTable:
    """A table to add to the graph. `dead` is the version at which it was last dropped; `rows` may be called twice."""

    table_key: str
    schema: pa.Schema
    rows: Callable[[], pa.RecordBatchReader] | None = None
    dead: int = 0


@dataclass(frozen=True)
class ForkedTable:
    """A table to add to a branch as a fork of its own, which starts at a version of the table's main branch."""

    table_key: str
    parent: TableEntry
    stage: Callable[[Table], Staged]


@dataclass(frozen=True)
class SchemaWrite:
    """A change of the schema: the sidecar's record of it, and the new schema files by name.

    There are no files when a branch adopts a schema that the graph has: the graph's files are main's.
    """

    planned: PlannedSchema
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class WriteSet:
    """Everything that one operation changes. An empty one makes a commit that only records that something was done."""

    writes: Sequence[TableWrite] = ()
    added: Sequence[NewTable] = ()
    forked: Sequence[ForkedTable] = ()
    dropped: Sequence[DroppedTable] = ()
    schema: SchemaWrite | None = None
    adopted: Sequence[Adoption] = ()
    pointers: Sequence[FastForward] = ()


# Lance operations that leave the rows of a table as they are.
_SAME_ROWS = frozenset({"Rewrite", "CreateIndex", "ReserveFragments"})
_MAX_VERSIONS_EXAMINED = 8


@dataclass(frozen=True)
class ReadSet:
    """The versions of the tables that an operation was computed from, by table key, and the branch they were read from.

    They must still be current when the operation is published.
    """

    branch_manifest: BranchManifest
    versions: Mapping[str, int]

    def outdated(self, now: BranchManifest) -> list[str]:
        """The tables that have another version now; all of them if the branch was recreated."""
        if now is not self.branch_manifest:
            return sorted(self.versions)
        return sorted(key for key, version in self.versions.items() if now.current_version(key) != version)

    def overtaken(self, now: BranchManifest, since: int, until: int) -> bool:
        """Whether the rows of a table were changed by a commit of this interval, which starts with the operation.

        The read view may be older than the operation, because it comes from cache: earlier commits do no harm. Clocks
        of several machines need not agree: a commit dated in the future does not count as overtaking, and preparing the
        operation again is correct in any case.
        """
        newest = (now.table_history(key)[:1] for key in self.outdated(now))
        recent = any(since <= commit.created_us <= until for history in newest for commit, _ in history)
        return recent and not self.only_compacted(now)

    def only_compacted(self, now: BranchManifest) -> bool:
        """Whether the outdated tables have exactly the same rows: compacted, indexed, or restored by a recovery."""
        if now is not self.branch_manifest:
            return False
        snapshot = now.snapshot()
        return all(key in snapshot.tables and self._has_same_rows(snapshot[key]) for key in self.outdated(now))

    def _has_same_rows(self, now: TableEntry) -> bool:
        before = self.versions[now.table_key]
        physical = physical_branch(self.branch_manifest.branch)
        if now.branch != physical or now.version - before > _MAX_VERSIONS_EXAMINED:
            return False
        table = self.branch_manifest.stores.tables.open(now.pin)
        same = True
        for version in range(before + 1, now.version + 1):
            made = how_made(table, version)
            same = made.restored == before or (same and made.operation in _SAME_ROWS)
        return same


class AnySchema:
    """Marks an operation that was computed without a schema, or with the schema of its first read view."""


ANY_SCHEMA: Final = AnySchema()


@dataclass(frozen=True)
class Operation:
    """A write to be committed, and the conditions under which it may be.

    `prepare` computes the changes from a read view; None means that there is nothing to change. When `repeatable`
    (inserts and upserts are), it may be called again with a newer read view. When not (updates and deletes), the
    operation fails with a conflict if a commit that began after it has changed its tables; commits that began earlier
    become part of its input. `schema` is the hash of the schema that `prepare` works with: if the branch has another
    one by then, the operation fails with `SchemaChanged`. `final_check` is called after every table is committed and
    before the publish; it may raise.
    """

    kind: WriterKind
    prepare: Callable[[ReadView], WriteSet | None]
    branch: str = MAIN
    actor: str | None = None
    repeatable: bool = True
    expected_head: str | AnyHead | None = ANY_HEAD
    idempotency_key: str | None = None
    merged_parent: str | None = None
    schema: str | AnySchema | None = ANY_SCHEMA
    final_check: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        require_text("an actor", self.actor)
        require_text("an idempotency key", self.idempotency_key)


@dataclass(frozen=True, repr=False)
class Receipt(Report):
    """A commit that is visible, and the state it made. `repeated` when an idempotency key had made it before."""

    commit: GraphCommit
    snapshot: Snapshot
    repeated: bool = False
