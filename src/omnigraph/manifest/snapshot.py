"""`Snapshot`: one immutable state of the graph, as the version of each table that makes it up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import NotFound
from omnigraph.kernels.report import Report
from omnigraph.storage.tables.table import Pin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class TableEntry:
    """One table of a snapshot: its location, version, branch and row count."""

    table_key: str
    path: str
    version: int
    branch: str | None
    row_count: int

    @property
    def pin(self) -> Pin:
        """The pin under which to open the table."""
        return Pin(self.path, self.version, self.branch)


@dataclass(frozen=True, repr=False)
class Snapshot(Report):
    """One state of one branch. Holding it keeps nothing open; reading it never changes.

    `schema` is the hash of the schema that its rows are in; None until a commit has changed the schema.
    """

    branch: str
    manifest_version: int
    commit_id: str | None
    tables: Mapping[str, TableEntry]
    schema: str | None = None

    def __iter__(self) -> Iterator[TableEntry]:
        return iter(self.tables.values())

    def __getitem__(self, table_key: str) -> TableEntry:
        try:
            return self.tables[table_key]
        except KeyError:
            raise NotFound(f"the graph has no table {table_key!r} on branch {self.branch!r}") from None

    def _summary(self) -> str:
        rows = sum(each.row_count for each in self)
        return f"of {self.branch} at commit {self.commit_id}: {len(self.tables)} tables, {rows:,} rows"
