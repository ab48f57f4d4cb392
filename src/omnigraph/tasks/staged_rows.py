"""What tasks have written: fragments of tables that nobody has committed, in the order of the input."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.storage.tables.staging import take_over

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from lance import FragmentMetadata

    from omnigraph.storage.objects.location import Location
    from omnigraph.storage.tables.table import Table
    from omnigraph.tasks.hash_runs import HashColumns, HashRun
    from omnigraph.values.batches import GraphType

_AT_ONCE = 65_536


@dataclass(frozen=True)
class StagedFragment:
    """One fragment. `unit` wrote it; `first` is how many rows of the type that unit wrote before it.

    `minted`: all its ids are new ULIDs, which nobody else has. `dropped`: rows that it had when it was first written.
    `places`: where each row was among those that were written together, when they were not written in order.
    """

    unit: int
    first: int
    rows: int
    fragment: str
    minted: bool = False
    dropped: tuple[int, ...] = ()
    places: tuple[int, ...] = ()

    def original(self, offset: int) -> int:
        """Where a row was when the fragment was first written."""
        if self.places:
            return self.places[offset]
        for each in self.dropped:
            if each > offset:
                break
            offset += 1
        return offset

    @property
    def path(self) -> str:
        """The name of its data file."""
        return str(json.loads(self.fragment)["files"][0]["path"])

    def metadata(self) -> FragmentMetadata:
        """As Lance takes it."""
        from lance import FragmentMetadata

        return FragmentMetadata.from_json(self.fragment)


@dataclass(frozen=True)
class StagedRows:
    """All rows that a load puts into one table. `path` and `branch` tell where the files are.

    `noted`: the numbers that were drawn from the rows when they were written; of others the rows must be read.
    """

    type: GraphType
    location: Location
    path: str
    branch: str | None
    fragments: tuple[StagedFragment, ...] = field(default=(), repr=False)
    noted: Mapping[HashColumns, tuple[HashRun, ...]] = field(default_factory=dict, repr=False)

    @property
    def line(self) -> str:
        """The table, or its named branch, that the files are beside: a path below the location."""
        return self.path if self.branch is None else f"{self.path}/tree/{self.branch}"

    @property
    def rows(self) -> int:
        """How many."""
        return sum(each.rows for each in self.fragments)

    @property
    def has_blobs(self) -> bool:
        """Whether its rows cannot be read back whole before they are committed: blobs come as descriptors."""
        return any(each.type.scalar == "Blob" for each in self.type.properties.values())

    @property
    def is_minted(self) -> bool:
        """Whether no id came from the input."""
        return all(each.minted for each in self.fragments)

    def options(self) -> dict[str, str] | None:
        """How the store is reached."""
        options = self.location.storage_options
        return None if options is None else dict(options)


@dataclass(frozen=True)
class FragmentFile:
    """A fragment as a task reads it. `number` is its place among the fragments of its table."""

    number: int
    uri: str
    options: Mapping[str, str] | None
    minted: bool
    rows: int

    def read(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Its rows in order, only these columns."""
        from lance.file import LanceFileReader

        options = None if self.options is None else dict(self.options)
        reader: Any = LanceFileReader(
            self.uri, storage_options=options, columns=None if columns is None else list(columns)
        )
        yield from reader.read_all(batch_size=_AT_ONCE).to_batches()


def fragment_files(table: StagedRows) -> list[FragmentFile]:
    """The fragments of a table for tasks to read."""
    return [
        FragmentFile(
            number, file_uri(table.location, f"{table.line}/data/{each.path}"), table.options(), each.minted, each.rows
        )
        for number, each in enumerate(table.fragments)
    ]


def bring_files(table: Table, staged: StagedRows) -> None:
    """The files beside the line of the table that they are staged on, which a branch may have only now."""
    line = table.path if table.branch is None else f"{table.path}/tree/{table.branch}"
    if line != staged.line:
        take_over(staged.location, [each.path for each in staged.fragments], source=staged.line, target=line)


def file_uri(location: Location, relative: str) -> str:
    """The URI of one file: without what only concerns the commits of a table."""
    if location.is_local:
        return location.child(relative)
    return f"{location.scheme.partition('+')[0]}://{location.object_uri_path(relative)}"
