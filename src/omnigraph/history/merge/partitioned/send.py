"""Sends differing rows to the task of their hash partition, packed so that the JVM moves few large values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.history.merge.partitioned.deltas import DeltaScan
from omnigraph.history.merge.partitioned.hash_partitions import parts_of
from omnigraph.kernels.arrays import ID
from omnigraph.kernels.row_address import ROW_ADDRESS, ROW_ID, fragment_of
from omnigraph.storage.tables.table import TableStore
from omnigraph.tasks.runner import BYTES, INT, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.storage.objects.location import Location
    from omnigraph.storage.tables.table import Pin, Table

PACKET = pa.schema([("part", INT), ("slot", INT), ("rows", BYTES)])
PLACES = (ID, ROW_ID, ROW_ADDRESS)
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

    def packets(self, parts: int) -> Iterator[pa.RecordBatch]:
        """The rows, packed by the hash partition of their ids."""
        table = TableStore(self.location).open(self.pin)
        for rows in self._batches(table):
            yield from _cut(rows, self.slot, parts)

    def _batches(self, table: Table) -> Iterator[pa.Table]:
        if self.read is not None:
            yield from self.read.batches(table)
            return
        for batch in table.scan(PLACES, fragments=self.fragments, batch_size=_BATCH):
            yield pa.Table.from_batches([batch]).select(PLACES)


def sources(slot: int, location: Location, table: Table, reads: Iterable[DeltaScan]) -> list[RowSource]:
    """Scans as sources of bounded size."""
    return [
        RowSource(slot, location, table.pin, fragments, rows, _limited(read, fragments))
        for read in reads
        for fragments, rows in _groups(table, read.fragments)
    ]


def place_sources(slot: int, location: Location, table: Table) -> list[RowSource]:
    """The locations of all rows of a table, as sources of bounded size."""
    found = _groups(table, table.fragment_ids())
    return [RowSource(slot, location, table.pin, fragments, rows) for fragments, rows in found]


def collected(batches: Iterable[pa.RecordBatch]) -> dict[int, list[pa.Table]]:
    """The rows of all packets of a partition, by slot."""
    found: dict[int, list[pa.Table]] = {}
    for batch in batches:
        slots: list[Any] = batch.column(1).to_pylist()
        for slot, body in zip(slots, batch.column(2), strict=True):
            found.setdefault(slot, []).append(unpack(body.as_buffer()))
    return found


def _cut(rows: pa.Table, slot: int, parts: int) -> Iterator[pa.RecordBatch]:
    part = parts_of(rows.column(ID), parts)
    ordered = rows.take(pa.array(np.argsort(part, kind="stable"), pa.int64()))
    counts = np.bincount(part, minlength=parts)
    starts = np.concatenate([[0], np.cumsum(counts)])
    for number in np.flatnonzero(counts).tolist():
        body = pack(ordered.slice(int(starts[number]), int(counts[number])))
        yield pa.record_batch([[number], [slot], [body]], schema=PACKET)


def _groups(table: Table, fragments: Iterable[int]) -> Iterator[tuple[tuple[int, ...], int]]:
    held: list[int] = []
    rows = 0
    for number in fragments:
        size = int(table.fragment(number).num_rows)
        if held and rows + size > ROWS_PER_SOURCE:
            yield tuple(held), rows
            held, rows = [], 0
        held.append(number)
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
