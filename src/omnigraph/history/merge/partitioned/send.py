"""Plans and runs a merge of any size: differing rows are sent to the task of their hash partition, which merges them.

Rows are packed, so that the JVM moves few large values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.history.merge.partitioned.deltas import DeltaScan, differing_reads
from omnigraph.history.merge.partitioned.hash_partitions import partitions_of
from omnigraph.history.merge.partitioned.task import RESULT, MergeJob, TableJob
from omnigraph.history.merge.reconcile import table_keys
from omnigraph.kernels.arrays import ID
from omnigraph.kernels.row_address import ROW_ADDRESS, ROW_ID, fragment_of
from omnigraph.tasks.runner import BYTES, INT, grouped_rows, pack
from omnigraph.tasks.table_scan import tables_in_task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.history.merge.merge_base import CommonState
    from omnigraph.history.merge.partitioned.deltas import SpillDirectory
    from omnigraph.history.merge.reconcile import MergeSettings, Pair
    from omnigraph.storage.objects.location import Location
    from omnigraph.storage.tables.table import Pin, Table
    from omnigraph.tasks.runner import Batches, TaskRunner
    from omnigraph.transaction.read_view import ReadView

PACKET = pa.schema([("part", INT), ("slot", INT), ("rows", BYTES)])
LOCATIONS = (ID, ROW_ID, ROW_ADDRESS)
ROWS_PER_SOURCE = 500_000
_BATCH = 131_072


@dataclass(frozen=True)
class RowSource:
    """Some rows of one version of a table. `slot` tells the receiving task what the rows are.

    Without a `read` the rows are the locations of all rows of some fragments: id, row id and row address.
    """

    slot: int
    location: Location
    pin: Pin
    fragments: tuple[int, ...]
    rows: int
    read: DeltaScan | None = None

    def packets(self, partitions: int) -> Iterator[pa.RecordBatch]:
        """The rows, packed by the hash partition of their ids."""
        table = tables_in_task(self.location).open(self.pin)
        for rows in self._batches(table):
            yield from _cut(rows, self.slot, partitions)

    def _batches(self, table: Table) -> Iterator[pa.Table]:
        if self.read is not None:
            yield from self.read.batches(table)
            return
        for batch in table.scan(LOCATIONS, fragments=self.fragments, batch_size=_BATCH):
            yield pa.Table.from_batches([batch]).select(LOCATIONS)


def sources(slot: int, location: Location, table: Table, reads: Iterable[DeltaScan]) -> list[RowSource]:
    """Scans as sources of bounded size."""
    return [
        RowSource(slot, location, table.pin, fragments, rows, _limited(read, fragments))
        for read in reads
        for fragments, rows in _groups(table, read.fragments)
    ]


def location_sources(slot: int, location: Location, table: Table) -> list[RowSource]:
    """The locations of all rows of a table, as sources of bounded size."""
    found = _groups(table, table.fragment_ids())
    return [RowSource(slot, location, table.pin, fragments, rows) for fragments, rows in found]


@dataclass
class MergePlan:
    """The row sources of a merge, each with the slot under which its packets arrive."""

    catalog: Catalog
    view: ReadView
    common: CommonState
    sources: list[RowSource] = field(default_factory=list)
    tables: list[TableJob] = field(default_factory=list)
    _slots: int = 0

    def add(self, pair: Pair, spill: SpillDirectory, columns: tuple[str, ...] | None, *, writes: bool) -> None:
        """Add one table, of which tasks report these columns. Differences that must be spilled go below `spill`."""
        there, here = pair
        tables, location = self.common.tables, self.common.tables.location
        slots = []
        for base, side in dict.fromkeys(self.common.pairs(there, here)):
            if base is not None and base.pin == side.pin:
                continue
            before, after = differing_reads(tables, base, side, spill.folder())
            slot = self._next(2)
            slots.append(((base, side), slot))
            self.sources += sources(slot, location, tables.open((base or side).pin), before)
            self.sources += sources(slot + 1, location, tables.open(side.pin), after)
        locations = self._next(1)
        if writes:
            self.sources += location_sources(locations, location, tables.open(here.pin))
        self.tables.append(TableJob(there, here, tuple(slots), locations, columns))

    def job(self, settings: MergeSettings, *, writes: bool) -> MergeJob:
        """The parameters of the merge tasks."""
        common = self.common
        return MergeJob(
            common.tables.location,
            self.catalog,
            table_keys(self.view),
            common.root,
            common.tips,
            common.conversion,
            tuple(self.tables),
            settings.by_property,
            settings.resolver,
            writes,
        )

    def _next(self, count: int) -> int:
        self._slots += count
        return self._slots - count


def run_merge(runner: TaskRunner, row_sources: Sequence[RowSource], job: MergeJob, partitions: int) -> Batches:
    """Send all rows to the task of their hash partition, and merge each partition. The batches have schema `RESULT`."""

    def send(group: list[RowSource]) -> Iterator[pa.RecordBatch]:
        for source in group:
            yield from source.packets(partitions)

    groups = grouped_rows(runner, row_sources, lambda each: each.rows)
    return runner.exchange(runner.map(groups, send, PACKET), partitions, job.run, RESULT)


def _cut(rows: pa.Table, slot: int, partitions: int) -> Iterator[pa.RecordBatch]:
    assigned = partitions_of(rows.column(ID), partitions)
    ordered = rows.take(pa.array(np.argsort(assigned, kind="stable"), pa.int64()))
    counts = np.bincount(assigned, minlength=partitions)
    starts = np.concatenate([[0], np.cumsum(counts)])
    for partition in np.flatnonzero(counts).tolist():
        body = pack(ordered.slice(int(starts[partition]), int(counts[partition])))
        yield pa.record_batch([[partition], [slot], [body]], schema=PACKET)


def _groups(table: Table, fragments: Iterable[int]) -> Iterator[tuple[tuple[int, ...], int]]:
    held: list[int] = []
    rows = 0
    for fragment in fragments:
        size = int(table.fragment(fragment).num_rows)
        if held and rows + size > ROWS_PER_SOURCE:
            yield tuple(held), rows
            held, rows = [], 0
        held.append(fragment)
        rows += size
    if held:
        yield tuple(held), rows


def _limited(read: DeltaScan, fragments: tuple[int, ...]) -> DeltaScan:
    """The scan of some fragments; row addresses of other fragments are not sent along."""
    if read.wanted is None or read.column != ROW_ADDRESS:
        return DeltaScan(fragments, read.column, read.wanted)
    return DeltaScan(
        fragments, read.column, read.wanted[np.isin(fragment_of(read.wanted), np.array(fragments, np.uint64))]
    )
