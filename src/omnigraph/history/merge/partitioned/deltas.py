"""Finds the differing rows of table versions, so that a merge of any size reads one group of hash partitions at a time.

`differing_reads` decides what to scan of two versions to obtain the rows that differ. `SpillDirectory` owns the
temporary files, and `RowPartition` presents the rows of one group of partitions to a merge.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.catalog.arrow import put_schema
from omnigraph.history.delta import MOVED_ROWS, TableDelta, descends, net, with_blobs
from omnigraph.history.merge.partitioned.hash_partitions import HashPartitions, batch_rows
from omnigraph.kernels.row_address import ROW_ADDRESS, ROW_ID, UPDATED_AT, fragments_of
from omnigraph.storage.tables.version_diff import version_differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.storage.tables.table import Pin, Table, TableStore
    from omnigraph.storage.tables.version_diff import Addresses, VersionOnly
    from omnigraph.world import World

    Pair = tuple[Pin | None, Pin]

_BATCH = 131_072
_VERSIONS = pa.schema([(ROW_ID, pa.uint64()), (UPDATED_AT, pa.uint64())])
_MOVED_PARTITIONS = 64


@dataclass(frozen=True)
class DeltaScan:
    """A scan of some fragments of a table: all rows, or those whose `column` is one of the sorted `wanted` values."""

    fragments: tuple[int, ...]
    column: str = ROW_ADDRESS
    wanted: Addresses | None = None

    def batches(self, table: Table) -> Iterator[pa.Table]:
        """The rows with their blobs, in the form in which they are written."""
        for batch in self._scanned(table):
            if batch.num_rows:
                yield with_blobs(table, pa.Table.from_batches([batch]))

    def _scanned(self, table: Table) -> Iterator[pa.RecordBatch]:
        names = table.schema.names
        if self.wanted is None:
            yield from table.scan(names, fragments=self.fragments, batch_size=batch_rows(table))
            return
        for batch in table.scan([*names, self.column], fragments=self.fragments, batch_size=batch_rows(table)):
            values = batch.column(self.column).to_numpy()
            at = np.minimum(np.searchsorted(self.wanted, values), len(self.wanted) - 1)
            yield batch.filter(pa.array(self.wanted[at] == values)).select(names)


def rows_schema(table: Table) -> pa.Schema:
    """The schema of the rows that a scan of a table yields."""
    return with_blobs(table, table.schema_of(None).empty_table()).schema


def differing_reads(
    tables: TableStore, base: TableEntry | None, side: TableEntry, folder: Path
) -> tuple[list[DeltaScan], list[DeltaScan]]:
    """What to scan of either version to obtain all differing rows. `folder` is for rows that have to be spilled."""
    new = tables.open(side.pin)
    if base is None:
        return [], _all(new)
    old = tables.open(base.pin)
    if base.path != side.path:
        return _all(old), _all(new)
    old_only, new_only = version_differences(tables, old, new)
    if min(old_only.rows, new_only.rows) > MOVED_ROWS and descends(tables, side, base):
        old_ids, new_ids = _changed_row_ids(old, new, old_only, new_only, folder)
        return [*_by_row_id(old_only, old_ids), *_at(old_only)], [*_by_row_id(new_only, new_ids), *_at(new_only)]
    return [*_fragments(old_only), *_at(old_only)], [*_fragments(new_only), *_at(new_only)]


def _all(table: Table) -> list[DeltaScan]:
    return [DeltaScan(table.fragment_ids())] if table.fragment_ids() else []


def _fragments(version_only: VersionOnly) -> list[DeltaScan]:
    return [DeltaScan(version_only.fragments)] if version_only.fragments else []


def _by_row_id(version_only: VersionOnly, wanted: Addresses) -> list[DeltaScan]:
    return [DeltaScan(version_only.fragments, ROW_ID, wanted)] if len(wanted) else []


def _at(version_only: VersionOnly) -> list[DeltaScan]:
    """Single rows of fragments that both versions have, by row address."""
    fragments = tuple(fragments_of(version_only.addresses))
    return [DeltaScan(fragments, ROW_ADDRESS, np.sort(version_only.addresses))] if fragments else []


def _changed_row_ids(
    old: Table, new: Table, old_only: VersionOnly, new_only: VersionOnly, folder: Path
) -> tuple[Addresses, Addresses]:
    """The row ids of either version's fragments without rows that a compaction only moved; eight bytes each in memory.

    A row that only moved has the same row id, and was last updated at the same version, in both.
    """
    there = _row_versions(old, old_only, folder / "old-versions")
    here = _row_versions(new, new_only, folder / "new-versions")
    old_row_ids: list[Addresses] = []
    new_row_ids: list[Addresses] = []
    for partition in range(_MOVED_PARTITIONS):
        before, after = there.read([partition]), here.read([partition])
        old_row_ids.append(_not_in(before, after))
        new_row_ids.append(_not_in(after, before))
    return np.sort(np.concatenate(old_row_ids)), np.sort(np.concatenate(new_row_ids))


def _row_versions(table: Table, version_only: VersionOnly, path: Path) -> HashPartitions:
    versions = HashPartitions(path, _VERSIONS, _MOVED_PARTITIONS)
    for batch in table.scan([ROW_ID, UPDATED_AT], fragments=version_only.fragments, batch_size=_BATCH):
        partitions = (batch.column(ROW_ID).to_numpy() % _MOVED_PARTITIONS).astype(np.int64)
        versions.put(pa.Table.from_batches([batch]), partitions)
    return versions


def _not_in(rows: pa.Table, others: pa.Table) -> Addresses:
    ids, versions = _columns_of(rows)
    other_ids, other_versions = _columns_of(others)
    shared, at, again = np.intersect1d(ids, other_ids, assume_unique=True, return_indices=True)
    found: Addresses = np.setdiff1d(ids, shared[versions[at] == other_versions[again]], assume_unique=True)
    return found


def _columns_of(rows: pa.Table) -> tuple[Any, Any]:
    return rows.column(ROW_ID).to_numpy(), rows.column(UPDATED_AT).to_numpy()


class SpillDirectory:
    """A temporary directory that is created when it is first needed, and removed at the end.

    Its name contains host and process, so that the next process on this machine removes the files of a killed one.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._root: Path | None = None
        self._made = 0

    def folder(self) -> Path:
        """A new, empty directory."""
        if self._root is None:
            _remove_orphans(self._world)
            name = f"{_of_this_machine(self._world)}{_named(self._world.process())}~"
            self._root = Path(tempfile.mkdtemp(prefix=name))
        self._made += 1
        folder = self._root / str(self._made)
        folder.mkdir()
        return folder

    def clear(self) -> None:
        """Remove everything in it."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None

    def __enter__(self) -> SpillDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()


def _remove_orphans(world: World) -> None:
    mine = _of_this_machine(world)
    for each in Path(tempfile.gettempdir()).iterdir():
        process = each.name.removeprefix(mine).partition("~")[0].replace(".", ":")
        if each.name.startswith(mine) and not world.is_running(process):
            shutil.rmtree(each, ignore_errors=True)


def _of_this_machine(world: World) -> str:
    """The prefix of the names. Process ids mean nothing on another host, such as a container on the same machine."""
    return f"omnigraph-merge~{_named(world.host())}~"


def _named(text: str) -> str:
    return text.replace(":", ".")


@dataclass(frozen=True)
class RowPartition:
    """The rows of one group of hash partitions, for a merge of those alone. `rows` reads those of a version pair."""

    tables: TableStore
    rows: Callable[[TableEntry | None, TableEntry], tuple[pa.Table, pa.Table]]

    def delta(self, base: TableEntry | None, side: TableEntry) -> TableDelta:
        """The changes from one version of a table to another, within this group of partitions."""
        if base is not None and base.pin == side.pin:
            return TableDelta(side.table_key, self._nothing(side), self._nothing(side))
        return net(side.table_key, *self.rows(base, side))

    def differing_rows(self, base: TableEntry, side: TableEntry) -> tuple[pa.Table, pa.Table]:
        """A superset of the changed rows of either version, within this group of partitions."""
        return (self._nothing(base), self._nothing(side)) if base.pin == side.pin else self.rows(base, side)

    def _nothing(self, side: TableEntry) -> pa.Table:
        return put_schema(self.tables.open(side.pin).schema).empty_table()
