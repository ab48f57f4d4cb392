"""What one operation changes: tables that move, that come and that go, and the schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.store.staging import Staged
    from omnigraph.store.tables import Table
    from omnigraph.write.recovery.sidecar import DroppedTable, PlannedSchema


@dataclass(frozen=True)
class TableWrite:
    """A change to one table: from which state, and how to stage it on a handle of that state.

    `then` may tidy the changed table, within the same commit; without it, small pieces are joined when there are many.
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
class Pointer:
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
    pointers: Sequence[Pointer] = ()
