"""What one operation changes: tables that move, that come and that go, and the schema.

What an operation wants a table to become, before anything is staged: whole rows to put, ids to remove.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.storage.tables.row_rewrite import RowLocations
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table
    from omnigraph.transaction.intents.sidecar import DroppedTable, PlannedSchema


@dataclass(frozen=True)
class TableChanges:
    """The net change to one table.

    `puts` has every column of the table and no id twice; None when no row is put. A row to put replaces the committed
    one of the same id. `deletes` and the ids of `puts` have nothing in common. `overwrite` means that the puts become
    the whole content. `only_new`: a put whose id is committed already is an error, not an upsert; `new_ids` says so of
    some of the puts. `places`: where the rows lie that are put or removed and are committed, when that is known.
    """

    table_key: str
    puts: pa.Table | None = None
    deletes: frozenset[str] = field(default_factory=frozenset)
    overwrite: bool = False
    only_new: bool = False
    new_ids: frozenset[str] = field(default_factory=frozenset)
    places: RowLocations | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not (self.overwrite or self.deletes or (self.puts is not None and self.puts.num_rows))


@dataclass(frozen=True)
class TableWrite:
    """A change to one table: from which state, and how to stage it on a handle of that state.

    `then` may tidy the changed table, within the same commit; without it, small fragments are compacted when there are
    many.
    """

    entry: TableEntry
    stage: Callable[[Table], Staged]
    then: Callable[[Table], Staged | None] | None = None


@dataclass(frozen=True)
class Adoption:
    """A version of a table that another program has made, and that the graph takes as it is."""

    entry: TableEntry
    version: int


@dataclass(frozen=True)
class FastForward:
    """A state of a table that is there already, on the line the branch has it from: taken as it is, no row written.

    `entry` is what the branch has of the table now; None when the table comes into the branch with this state.
    """

    entry: TableEntry | None
    to: TableEntry


@dataclass(frozen=True)
class NewTable:
    """A table that comes into the graph. `dead` is the version it was last dropped at; `rows` may be called twice."""

    table_key: str
    schema: pa.Schema
    rows: Callable[[], pa.RecordBatchReader] | None = None
    dead: int = 0


@dataclass(frozen=True)
class ForkedTable:
    """A table that comes into a branch on a line of its own, which begins at a state of the table's main line."""

    table_key: str
    parent: TableEntry
    stage: Callable[[Table], Staged]


@dataclass(frozen=True)
class SchemaWrite:
    """A change of the schema: what the sidecar says of it, and the new schema files by name.

    There are no files when a branch takes a schema that the graph has: those of the graph are main's.
    """

    planned: PlannedSchema
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class WriteSet:
    """Everything one operation changes. Empty, it is a commit that only says that something was done."""

    writes: Sequence[TableWrite] = ()
    added: Sequence[NewTable] = ()
    forked: Sequence[ForkedTable] = ()
    dropped: Sequence[DroppedTable] = ()
    schema: SchemaWrite | None = None
    adopted: Sequence[Adoption] = ()
    pointers: Sequence[FastForward] = ()
