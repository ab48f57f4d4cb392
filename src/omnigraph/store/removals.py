"""The rows that pieces of a table have lost, in Lance's own small files: read, kept and written without Lance.

Lance writes such a file only after it has searched the piece for the rows, and tells what is in one only by scanning
the piece. A file is an Arrow table of one column, or a Roaring bitmap where it is long. It never changes and its name
is used once, so what was read or written of one holds for good.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from lance.fragment import DeletionFile

from omnigraph.errors import ObjectNotFound
from omnigraph.store import roaring
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lance import FragmentMetadata
    from numpy.typing import NDArray

    from omnigraph.store.objects import ControlStore
    from omnigraph.store.tables import Table

    Offsets = NDArray[np.uint32]

# Lance's own bound between its two forms.
LISTED_ROWS = 5_000
KEPT_BYTES = 16 * 1024 * 1024
_AT_ONCE = 16
_NONE = np.zeros(0, dtype=np.uint32)
_SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
# The files are small: handing them to other threads takes longer than reading them.
_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)


class Removals:
    """Reads and writes the lists of removed rows of all tables of a graph, and keeps the newest few."""

    def __init__(self, objects: ControlStore, *, kept_bytes: int = KEPT_BYTES) -> None:
        self._objects = objects
        self._kept: OrderedDict[str, Offsets] = OrderedDict()
        self._bytes = 0
        self._limit = kept_bytes
        self._lock = threading.Lock()

    def of(self, wanted: Sequence[tuple[Table, FragmentMetadata]]) -> list[Offsets]:
        """The offsets of the rows that each of some pieces has lost, in order."""
        return self._each(lambda one: self._of(*one), wanted)

    def add(self, table: Table, pieces: Sequence[tuple[FragmentMetadata, Offsets]]) -> list[FragmentMetadata | None]:
        """The pieces without these rows too, for a transaction; None for a piece of which no row is left."""
        return self._each(lambda one: self._add(table, *one), pieces)

    def _each(self, do: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """A disk is quicker than threads; a bucket is asked for several at once."""
        if self._objects.location.is_local:
            return [do(each) for each in items]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [each.result() for each in [pool.submit(copy_context().run, do, each) for each in items]]

    def _of(self, table: Table, piece: FragmentMetadata) -> Offsets:
        if piece.deletion_file is None:
            return _NONE
        path = f"{_home(table, piece)}/{piece.deletion_file.path(piece.id)}"
        with self._lock:
            if path in self._kept:
                self._kept.move_to_end(path)
                return self._kept[path]
        return self._keep(path, self._read(path, table, piece))

    def _read(self, path: str, table: Table, piece: FragmentMetadata) -> Offsets:
        try:
            data = self._objects.read(path)
        except ObjectNotFound:
            return _missing(table, piece)
        return roaring.decode(data) if path.endswith(".bin") else _unpacked(data)

    def _add(self, table: Table, piece: FragmentMetadata, offsets: Offsets) -> FragmentMetadata | None:
        known = self._of(table, piece)
        # Two ordered runs: sorting them so is merging them.
        removed = np.sort(np.concatenate([known, offsets]), kind="stable")
        assert (removed[1:] > removed[:-1]).all(), "rows are removed that the piece has"
        if len(removed) == piece.physical_rows:
            return None
        kind = "array" if len(removed) < LISTED_ROWS else "bitmap"
        file = DeletionFile(table.version, REAL.random_bits(64), kind, len(removed), None)
        path = f"{_line(table)}/{file.path(piece.id)}"
        self._objects.stage(path, _packed(removed) if kind == "array" else roaring.encode(removed))
        self._keep(path, removed)
        return replace(piece, deletion_file=file)

    def _keep(self, path: str, removed: Offsets) -> Offsets:
        with self._lock:
            if path not in self._kept:
                self._kept[path] = removed
                self._bytes += removed.nbytes
            while self._bytes > self._limit:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return removed


def _home(table: Table, piece: FragmentMetadata) -> str:
    """The directory below the root that the piece's list lies in: the table's own, or one it was forked from."""
    base: Any = piece.deletion_file.base_id
    if base is None:
        return _line(table)
    path = str(table.dataset.base_paths()[base].path)
    return path[path.rindex(table.path) :].rstrip("/")


def _line(table: Table) -> str:
    return table.path if table.branch is None else f"{table.path}/tree/{table.branch}"


def _packed(removed: Offsets) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _SCHEMA) as file:
        file.write_batch(pa.record_batch([pa.array(removed, pa.uint32())], schema=_SCHEMA))
    return sink.getvalue().to_pybytes()


def _unpacked(data: bytes) -> Offsets:
    """Lance writes them in no order."""
    file = pa.ipc.open_file(pa.BufferReader(data), options=_ONE_THREAD)
    offsets = [file.get_batch(each).column(0).to_numpy() for each in range(file.num_record_batches)]
    return np.sort(np.concatenate([_NONE, *offsets]).astype(np.uint32))


def _missing(table: Table, piece: FragmentMetadata) -> Offsets:
    """The same by asking Lance which rows there are, where its file is in another place than ours are."""
    found = [each.column(0).to_numpy() for each in table.scan(["_rowaddr"], fragments=[piece.id])]
    living = np.concatenate([np.zeros(0, np.uint64), *found]).astype(np.uint32)
    return np.setdiff1d(np.arange(piece.physical_rows, dtype=np.uint32), living, assume_unique=True)
