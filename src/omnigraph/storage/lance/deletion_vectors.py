"""Reads, caches and writes the deletion vectors of fragments, in Lance's own files but without Lance.

Lance writes a deletion file only after it has searched the fragment for the rows, and reveals the content of one only
by scanning the fragment. A deletion file is an Arrow table of one column, or a Roaring bitmap (a set of 32-bit numbers)
if it is long. It never changes and its name is used once, so a cached deletion vector is never stale.
"""

from __future__ import annotations

from array import array
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import pyarrow as pa
from lance.fragment import DeletionFile
from pyroaring import BitMap

from omnigraph.cache import PROCESS, ByteCache
from omnigraph.errors import ObjectNotFound, StoreError
from omnigraph.kernels.row_address import ROW_ADDRESS
from omnigraph.storage.lance.paths import table_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import lance
    from lance import FragmentMetadata
    from numpy.typing import NDArray

    from omnigraph.storage.objects.store import ObjectStore
    from omnigraph.world import World

    Offsets = NDArray[np.uint32]


def decode(data: bytes) -> Offsets:
    """The sorted offsets in a Roaring bitmap; raises `StoreError` when it is malformed."""
    try:
        return np.array(BitMap.deserialize(data).to_array(), np.uint32)
    except (ValueError, IndexError) as error:
        raise StoreError(f"a set of removed rows cannot be read: {error}.") from error


def encode(offsets: Offsets) -> bytes:
    """A Roaring bitmap of the offsets, byte for byte as Lance writes it."""
    return BitMap(array("I", offsets.tobytes()), optimize=False).serialize()


# Lance's own threshold between its two formats.
LISTED_ROWS = 5_000
# What the deletion vectors of a graph may take of the process's cache.
MOST_BYTES = 16 * 1024 * 1024
_AT_ONCE = 16
_NONE = np.zeros(0, dtype=np.uint32)
_SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
# The files are small: passing them to other threads takes longer than reading them.
_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)


class TableHandle(Protocol):
    """The interface of a table that this module needs; `storage.tables.table.Table` implements it."""

    path: str
    branch: str | None

    @property
    def handle(self) -> lance.LanceDataset:
        """The Lance dataset."""

    @property
    def version(self) -> int:
        """The version of the handle."""

    def scan(self, columns: Sequence[str] | None = None, *, fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Scan some columns of some fragments."""


class DeletionVectors:
    """Reads and writes the deletion vectors of all tables of a graph, with a share of a cache."""

    def __init__(self, objects: ObjectStore, world: World, *, cache: ByteCache = PROCESS) -> None:
        self._objects = objects
        self._world = world
        self._cached = cache.share(MOST_BYTES)

    def of(self, wanted: Sequence[tuple[TableHandle, FragmentMetadata]]) -> list[Offsets]:
        """The deletion vector of each fragment: the sorted offsets of its deleted rows."""
        return self._each(lambda one: self._of(*one), wanted)

    def add(
        self, table: TableHandle, fragments: Sequence[tuple[FragmentMetadata, Offsets]]
    ) -> list[FragmentMetadata | None]:
        """The fragments with these rows deleted too, for a transaction; None for a fragment with no row left."""
        return self._each(lambda one: self._add(table, *one), fragments)

    def _each(self, do: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Sequentially on a local disk, which is faster than threads; concurrently on an object store."""
        if self._objects.location.is_local:
            return [do(each) for each in items]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [each.result() for each in [pool.submit(copy_context().run, do, each) for each in items]]

    def _of(self, table: TableHandle, fragment: FragmentMetadata) -> Offsets:
        if fragment.deletion_file is None:
            return _NONE
        path = f"{_home(table, fragment)}/{fragment.deletion_file.path(fragment.id)}"
        if (cached := self._cached.find(path)) is not None:
            return cast("Offsets", cached)
        return self._cache(path, self._read(path, table, fragment))

    def _read(self, path: str, table: TableHandle, fragment: FragmentMetadata) -> Offsets:
        try:
            data = self._objects.read(path)
        except ObjectNotFound:
            return _missing(table, fragment)
        return decode(data) if path.endswith(".bin") else _unpacked(data)

    def _add(self, table: TableHandle, fragment: FragmentMetadata, offsets: Offsets) -> FragmentMetadata | None:
        before = self._of(table, fragment)
        # Both runs are sorted: a stable sort merges them.
        deleted = np.sort(np.concatenate([before, offsets]), kind="stable")
        assert (deleted[1:] > deleted[:-1]).all(), "only rows that the fragment has are deleted"
        if len(deleted) == fragment.physical_rows:
            return None
        kind = "array" if len(deleted) < LISTED_ROWS else "bitmap"
        file = DeletionFile(table.version, self._world.random_bits(64), kind, len(deleted), None)
        path = f"{table_dir(table.path, table.branch)}/{file.path(fragment.id)}"
        self._objects.stage(path, _packed(deleted) if kind == "array" else encode(deleted))
        self._cache(path, deleted)
        return replace(fragment, deletion_file=file)

    def _cache(self, path: str, deleted: Offsets) -> Offsets:
        self._cached.put(path, deleted, deleted.nbytes)
        return deleted


def _home(table: TableHandle, fragment: FragmentMetadata) -> str:
    """The directory of the fragment's deletion file: that of the table, or of the one that it was forked from."""
    base: Any = fragment.deletion_file.base_id
    if base is None:
        return table_dir(table.path, table.branch)
    path = str(table.handle.base_paths()[base].path)
    return path[path.rindex(table.path) :].rstrip("/")


def _packed(deleted: Offsets) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _SCHEMA) as file:
        file.write_batch(pa.record_batch([pa.array(deleted, pa.uint32())], schema=_SCHEMA))
    return sink.getvalue().to_pybytes()


def _unpacked(data: bytes) -> Offsets:
    """Lance writes the offsets unordered, so they are sorted here."""
    file = pa.ipc.open_file(pa.BufferReader(data), options=_ONE_THREAD)
    offsets = [file.get_batch(each).column(0).to_numpy() for each in range(file.num_record_batches)]
    return np.sort(np.concatenate([_NONE, *offsets]).astype(np.uint32))


def _missing(table: TableHandle, fragment: FragmentMetadata) -> Offsets:
    """Derive the deletion vector from a scan of row addresses, where Lance's file is not below this graph's root."""
    found = [each.column(0).to_numpy() for each in table.scan([ROW_ADDRESS], fragments=[fragment.id])]
    living = np.concatenate([np.zeros(0, np.uint64), *found]).astype(np.uint32)
    return np.setdiff1d(np.arange(fragment.physical_rows, dtype=np.uint32), living, assume_unique=True)
