"""Rows that wait on disk, by part: written as they come, read back some parts at a time.

One file holds all parts, each in slices where they came, so that the number of parts costs no open files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.store.arrow_columns import one_array
from omnigraph.store.many_texts import text_numbers
from omnigraph.store.tables import ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Numbers = NDArray[np.uint64]
    Places = NDArray[np.int64]

# Parts are many and small; how many of them make a piece is decided when their sizes are known.
MOST_PARTS = 256
_AT_ONCE = 131_072


class Parted:
    """Rows of one schema in one file. `rows` and `bytes` tell how much each part has."""

    def __init__(self, path: Path, schema: pa.Schema, parts: int) -> None:
        self.schema = schema
        self.parts = parts
        self.rows: Places = np.zeros(parts, np.int64)
        self.bytes: Places = np.zeros(parts, np.int64)
        self._path = path
        self._slices: list[list[tuple[int, int]]] = [[] for _ in range(parts)]
        self._end = 0
        path.touch()

    @property
    def row_count(self) -> int:
        """How many rows there are in all parts."""
        return int(self.rows.sum())

    def add(self, rows: pa.Table) -> None:
        """Add rows, each to the part of its id."""
        for start in range(0, rows.num_rows, _AT_ONCE):
            some = rows.slice(start, _AT_ONCE)
            self.put(some, parts_of(some.column(ID), self.parts))

    def put(self, rows: pa.Table, parts: Places) -> None:
        """Add rows to parts that the caller knows."""
        order = np.argsort(parts, kind="stable")
        ordered = rows.select(self.schema.names).take(pa.array(order, pa.int64())).combine_chunks()
        batch = pa.RecordBatch.from_arrays([one_array(each) for each in ordered.columns], schema=self.schema)
        counts = np.bincount(parts, minlength=self.parts)
        starts = np.concatenate([[0], np.cumsum(counts)])
        with self._path.open("r+b") as file:
            file.seek(self._end)
            for part in np.flatnonzero(counts).tolist():
                body = batch.slice(int(starts[part]), int(counts[part])).serialize()
                file.write(body)
                self._slices[part].append((self._end, body.size))
                self._end += body.size
                self.bytes[part] += body.size
        self.rows += counts

    def read(self, parts: Iterable[int]) -> pa.Table:
        """The rows of some parts."""
        return pa.Table.from_batches(list(self.batches(parts)), schema=self.schema)

    def batches(self, parts: Iterable[int] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of some parts, or of all, as a stream."""
        with self._path.open("rb") as file:
            for part in range(self.parts) if parts is None else parts:
                for start, size in self._slices[part]:
                    file.seek(start)
                    yield pa.ipc.read_record_batch(pa.py_buffer(file.read(size)), self.schema)


def parts_of(ids: pa.ChunkedArray[Any] | pa.Array[Any], parts: int) -> Places:
    """The part that each id is in, the same in every process. `parts` is a power of two."""
    if parts == 1:
        return np.zeros(len(ids), np.int64)
    shift = np.uint64(64 - (parts.bit_length() - 1))
    return (text_numbers(one_array(ids)) >> shift).astype(np.int64)


def parts_for(total: int, piece: int) -> int:
    """Into how many parts so many bytes go, for pieces of a size: more than there will be pieces."""
    wanted = max(1, -(-4 * total // max(piece, 1)))
    return min(MOST_PARTS, 1 << (wanted - 1).bit_length())


def pieces_of(sizes: Places, most: int) -> list[list[int]]:
    """Neighbouring parts together, up to a size; a larger part is a piece by itself. Empty parts are in none."""
    pieces: list[list[int]] = []
    held = most + 1
    for part in np.flatnonzero(sizes).tolist():
        if held + int(sizes[part]) > most:
            pieces.append([])
            held = 0
        pieces[-1].append(part)
        held += int(sizes[part])
    return pieces


def total_sizes(all_of: Sequence[Parted]) -> Places:
    """How many bytes each part has, of several files with the same parts."""
    sizes: Places = np.sum([each.bytes for each in all_of], axis=0)
    return sizes
