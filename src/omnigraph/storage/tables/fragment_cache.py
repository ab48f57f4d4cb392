"""`FragmentCache`: rows of tables that this process has recently written or read, by the data files that hold them.

A data file never changes and its name is used once, so cached rows of a file never become stale. Which of them are
still alive is determined by the fragment's deletion vector, a file of the same kind. A writer that changes one table
again and again needs no request to know its content.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from omnigraph.cache import PROCESS, ByteCache

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lance import FragmentMetadata
    from numpy.typing import NDArray

    from omnigraph.storage.tables.table import Table

    Offsets = NDArray[np.uint32]

# What the rows of a graph may take of the process's cache.
MOST_BYTES = 32 * 1024 * 1024
# Larger fragments are not cached, and neither are columns that take more than this in memory.
FRAGMENT_BYTES = 4 * 1024 * 1024

# The data files of a fragment, and the columns of its table: after a schema change a file is read under other names.
Key = tuple[tuple[str, ...], tuple[tuple[str, int], ...]]


@dataclass(frozen=True)
class CachedRows:
    """Some columns of the rows of a fragment that are alive under one deletion vector, and the rows' offsets."""

    deletion_vector: str | None
    offsets: Offsets
    columns: Mapping[str, pa.Array[Any]]

    @property
    def nbytes(self) -> int:
        """The memory that they occupy."""
        return int(self.offsets.nbytes) + sum(each.nbytes for each in self.columns.values())

    def excluding(self, deleted: Offsets) -> CachedRows:
        """The same without the rows at these offsets."""
        left = ~np.isin(self.offsets, deleted)
        chosen = pa.array(left)
        return replace(
            self, offsets=self.offsets[left], columns={name: each.filter(chosen) for name, each in self.columns.items()}
        )


class FragmentCache:
    """The cached fragments of all tables of a graph: a share of a cache. Safe to use from several threads."""

    def __init__(self, cache: ByteCache = PROCESS) -> None:
        self._cached = cache.share(MOST_BYTES)
        self._lock = threading.Lock()

    def of(self, table: Table, fragment: FragmentMetadata, columns: Iterable[str]) -> CachedRows | None:
        """The cached rows of a fragment, if all these columns are cached."""
        found = cast("CachedRows | None", self._cached.find(_key(table, fragment)))
        return found if found is not None and all(name in found.columns for name in columns) else None

    def add(self, table: Table, fragment: FragmentMetadata, rows: CachedRows) -> None:
        """Cache rows; columns already cached under the same deletion vector are kept."""
        key = _key(table, fragment)
        with self._lock:
            before = cast("CachedRows | None", self._cached.find(key))
            if before is not None and before.deletion_vector == rows.deletion_vector:
                rows = replace(rows, columns={**before.columns, **rows.columns})
            if rows.nbytes > FRAGMENT_BYTES:
                self._cached.forget(key)
            else:
                self._cached.put(key, rows, rows.nbytes)


def is_cacheable(fragment: FragmentMetadata) -> bool:
    """Whether a fragment can be cached: it is small enough, and consists of nothing but its data files."""
    return not fragment.overlays and fragment_bytes(fragment) <= FRAGMENT_BYTES


def fragment_bytes(fragment: FragmentMetadata) -> int:
    """The size of a fragment's data files; a file of unknown size counts as large."""
    return sum(each.file_size_bytes or FRAGMENT_BYTES for each in fragment.files)


def deletion_vector_of(fragment: FragmentMetadata) -> str | None:
    """An identifier of a fragment's deletion vector; None if it has none."""
    return None if fragment.deletion_file is None else str(fragment.deletion_file.path(fragment.id))


def _key(table: Table, fragment: FragmentMetadata) -> Key:
    fields = tuple((each.name(), each.id()) for each in table.handle.lance_schema.fields())
    return tuple(str(each.path) for each in fragment.files), fields
