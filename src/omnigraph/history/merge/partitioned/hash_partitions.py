"""Spills rows to disk by hash partition, and sizes a merge from table metadata alone.

One file holds all partitions of a table, each in slices in the order of arrival, so that the number of partitions costs
no open files. Many small partitions are combined into groups once their sizes are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.kernels.arrays import ID, one_array
from omnigraph.kernels.hashing import hash_column, prefixes
from omnigraph.storage.tables.version_diff import version_differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.storage.tables.table import Table, TableStore
    from omnigraph.storage.tables.version_diff import VersionOnly

    Pair = tuple[TableEntry | None, TableEntry]

    Int64Array = NDArray[np.int64]

_TEXT, _LIST = 32, 64
# Up to this many rows, the sizes of the data files are not read: the declared types are enough.
_FEW_ROWS = 1_000
_BYTES_AT_ONCE, _LEAST_AT_ONCE, _MOST_AT_ONCE = 8 << 20, 256, 131_072


@dataclass(frozen=True)
class MergeBudget:
    """Merges up to `bytes` of changed rows run in memory; larger ones in groups of partitions of a quarter of that."""

    bytes: int = 64 << 20

    @property
    def group_bytes(self) -> int:
        """The size of a group: changed rows that are in memory together."""
        return max(1, self.bytes // 4)


def estimated_bytes(tables: TableStore, pairs: Iterable[Pair]) -> int:
    """About how much memory the differing rows of the version pairs take, each before and after its change."""
    return sum(_of_pair(tables, base, side) for base, side in pairs)


def _of_pair(tables: TableStore, base: TableEntry | None, side: TableEntry) -> int:
    if base is not None and base.pin == side.pin:
        return 0
    new = tables.open(side.pin)
    if base is None:
        return side.row_count * row_bytes(new)
    old = tables.open(base.pin)
    if base.path != side.path:
        return base.row_count * row_bytes(old) + side.row_count * row_bytes(new)
    old_only, new_only = version_differences(tables, old, new)
    if _rows(old_only) + _rows(new_only) <= _FEW_ROWS:
        return _rows(old_only) * _declared(old) + _rows(new_only) * _declared(new)
    return _rows(old_only) * row_bytes(old) + _rows(new_only) * row_bytes(new)


def _rows(version_only: VersionOnly) -> int:
    return version_only.rows + len(version_only.addresses)


def batch_rows(table: Table) -> int:
    """How many rows to read at a time."""
    return max(_LEAST_AT_ONCE, min(_MOST_AT_ONCE, _BYTES_AT_ONCE // max(row_bytes(table), 1)))


def row_bytes(table: Table) -> int:
    """About how much memory a row takes: by its types, or by its data files where texts and lists are long."""
    fragments = table.fragments()
    rows = sum(int(each.physical_rows or 0) for each in fragments)
    stored = sum(int(file.file_size_bytes or 0) for each in fragments for file in each.files)
    return max(_declared(table), stored // max(rows, 1))


def _declared(table: Table) -> int:
    return sum(_width(each.type) for each in table.schema)


def _width(kind: Any) -> int:
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _width(kind.value_type)
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return _LIST
    try:
        return -(-int(kind.bit_width) // 8)
    except ValueError:
        return _TEXT


# Partitions are many and small; how many of them make a group is decided when their sizes are known.
MOST_PARTITIONS = 256
_AT_ONCE = 131_072


class HashPartitions:
    """Rows of one schema in one file, by partition. `rows` and `bytes` hold the size of each partition."""

    def __init__(self, path: Path, schema: pa.Schema, partitions: int) -> None:
        self.schema = schema
        self.partitions = partitions
        self.rows: Int64Array = np.zeros(partitions, np.int64)
        self.bytes: Int64Array = np.zeros(partitions, np.int64)
        self._path = path
        self._slices: list[list[tuple[int, int]]] = [[] for _ in range(partitions)]
        self._end = 0
        path.touch()

    @property
    def row_count(self) -> int:
        """The number of rows of all partitions."""
        return int(self.rows.sum())

    def add(self, rows: pa.Table) -> None:
        """Append rows, each to the partition of its id."""
        for start in range(0, rows.num_rows, _AT_ONCE):
            some = rows.slice(start, _AT_ONCE)
            self.put(some, partitions_of(some.column(ID), self.partitions))

    def put(self, rows: pa.Table, assigned: Int64Array) -> None:
        """Append rows to partitions that the caller has computed."""
        order = np.argsort(assigned, kind="stable")
        ordered = rows.select(self.schema.names).take(pa.array(order, pa.int64())).combine_chunks()
        batch = pa.RecordBatch.from_arrays([one_array(each) for each in ordered.columns], schema=self.schema)
        counts = np.bincount(assigned, minlength=self.partitions)
        starts = np.concatenate([[0], np.cumsum(counts)])
        with self._path.open("r+b") as file:
            file.seek(self._end)
            for partition in np.flatnonzero(counts).tolist():
                body = batch.slice(int(starts[partition]), int(counts[partition])).serialize()
                file.write(body)
                self._slices[partition].append((self._end, body.size))
                self._end += body.size
                self.bytes[partition] += body.size
        self.rows += counts

    def read(self, partitions: Iterable[int]) -> pa.Table:
        """The rows of some partitions."""
        return pa.Table.from_batches(list(self.batches(partitions)), schema=self.schema)

    def batches(self, partitions: Iterable[int] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of some partitions, or of all, as a stream."""
        with self._path.open("rb") as file:
            for partition in range(self.partitions) if partitions is None else partitions:
                for start, size in self._slices[partition]:
                    file.seek(start)
                    yield pa.ipc.read_record_batch(pa.py_buffer(file.read(size)), self.schema)


def partitions_of(ids: pa.ChunkedArray[Any] | pa.Array[Any], partitions: int) -> Int64Array:
    """The partition of each id, the same in every process. `partitions` is a power of two."""
    if partitions == 1:
        return np.zeros(len(ids), np.int64)
    return prefixes(hash_column(ids), partitions.bit_length() - 1)


def partitions_for(total: int, group_bytes: int) -> int:
    """The number of partitions for this many bytes: several times the expected number of groups."""
    wanted = max(1, -(-4 * total // max(group_bytes, 1)))
    return min(MOST_PARTITIONS, 1 << (wanted - 1).bit_length())


def groups_of(sizes: Int64Array, most: int) -> list[list[int]]:
    """Combine neighbouring partitions up to a size. A larger one is a group by itself; empty ones are in no group."""
    groups: list[list[int]] = []
    held = most + 1
    for partition in np.flatnonzero(sizes).tolist():
        if held + int(sizes[partition]) > most:
            groups.append([])
            held = 0
        groups[-1].append(partition)
        held += int(sizes[partition])
    return groups
