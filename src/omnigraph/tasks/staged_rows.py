"""Describes what tasks have written: uncommitted fragments of tables, in input order."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.storage.lance.data_files import fragment_from_json, read_data_file, take_over
from omnigraph.storage.lance.paths import data_file, table_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from lance import FragmentMetadata

    from omnigraph.storage.objects.location import Location
    from omnigraph.storage.tables.table import Table
    from omnigraph.tasks.hash_runs import HashColumns, HashRun
    from omnigraph.values.batches import GraphType
    from omnigraph.world import World


_AT_ONCE = 65_536


@dataclass(frozen=True)
class StagedFragment:
    """One fragment, written by the unit of work `unit` after it had written `first` other rows of the type.

    `minted`: all its ids are new ULIDs, which cannot exist elsewhere. `dropped`: offsets of rows it had when it was
    first written and lost since. `positions`: the original position of each row, when they were not written in order.
    """

    unit: int
    first: int
    rows: int
    fragment: str
    minted: bool = False
    dropped: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()

    def original(self, offset: int) -> int:
        """The offset of a row when the fragment was first written."""
        if self.positions:
            return self.positions[offset]
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
        """The fragment's metadata as a Lance object."""
        return fragment_from_json(self.fragment)


@dataclass(frozen=True)
class StagedRows:
    """All rows that a load puts into one table. `path` and `branch` say where the files are.

    `hash_runs`: the hash runs computed when the rows were written; for other hashes the rows must be read.
    """

    type: GraphType
    location: Location
    path: str
    branch: str | None
    fragments: tuple[StagedFragment, ...] = field(default=(), repr=False)
    hash_runs: Mapping[HashColumns, tuple[HashRun, ...]] = field(default_factory=dict, repr=False)

    @property
    def directory(self) -> str:
        """The path, below the location, of the table or table branch whose files these are."""
        return table_dir(self.path, self.branch)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(each.rows for each in self.fragments)

    @property
    def has_blobs(self) -> bool:
        """Whether whole rows cannot be read back before the commit, because blobs are read as descriptors."""
        return any(each.type.scalar == "Blob" for each in self.type.properties.values())

    @property
    def is_minted(self) -> bool:
        """Whether all ids are new, so that none came from the input."""
        return all(each.minted for each in self.fragments)

    def options(self) -> dict[str, str] | None:
        """The storage options of the store."""
        options = self.location.storage_options
        return None if options is None else dict(options)


@dataclass(frozen=True)
class FragmentFile:
    """A fragment as a task reads it. `number` is its position among the fragments of its table."""

    number: int
    uri: str
    options: Mapping[str, str] | None
    minted: bool
    rows: int

    def read(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Its rows in order, restricted to these columns."""
        yield from read_data_file(self.uri, columns, self.options, batch_size=_AT_ONCE)


def fragment_files(table: StagedRows) -> list[FragmentFile]:
    """The fragments of a table, for tasks to read."""
    return [
        FragmentFile(
            number,
            file_uri(table.location, data_file(table.directory, each.path)),
            table.options(),
            each.minted,
            each.rows,
        )
        for number, each in enumerate(table.fragments)
    ]


def bring_files(table: Table, staged: StagedRows, world: World) -> None:
    """Copy the files to the table branch that they are staged on, if it was forked after they were written."""
    directory = table_dir(table.path, table.branch)
    if directory != staged.directory:
        files = [each.path for each in staged.fragments]
        take_over(staged.location, files, source=staged.directory, target=directory, world=world)


def file_uri(location: Location, relative: str) -> str:
    """The URI of one file, without the part of the scheme that concerns only table commits."""
    if location.is_local:
        return location.child(relative)
    return f"{location.scheme.partition('+')[0]}://{location.object_uri_path(relative)}"
