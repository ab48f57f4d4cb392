"""Rows of tables that this process has written or read lately, kept in memory under the files they lie in.

A data file never changes and its name is used once, so what was written or read of one holds for good. Which of its
rows are still there is another matter: that is told by the list of removed rows, a file of the same kind. A writer
that changes one table again and again needs nothing from the store to know what is in it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lance import FragmentMetadata
    from numpy.typing import NDArray

    from omnigraph.storage.tables.table import Table

    Offsets = NDArray[np.uint32]

KEPT_BYTES = 32 * 1024 * 1024
# A fragment that takes more than this is left to the store, and so are its columns when they are this large in memory.
FRAGMENT_BYTES = 4 * 1024 * 1024

# The files of a fragment, and the columns of its table: after a change of schema a file is read under other names.
Key = tuple[tuple[str, ...], tuple[tuple[str, int], ...]]


@dataclass(frozen=True)
class CachedRows:
    """Some columns of the rows of a fragment that were there beside one list of removed rows; `offsets` is where."""

    removals: str | None
    offsets: Offsets
    columns: Mapping[str, pa.Array[Any]]

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        return int(self.offsets.nbytes) + sum(each.nbytes for each in self.columns.values())

    def without(self, removed: Offsets) -> CachedRows:
        """The same without the rows at these offsets."""
        left = ~np.isin(self.offsets, removed)
        chosen = pa.array(left)
        return replace(
            self, offsets=self.offsets[left], columns={name: each.filter(chosen) for name, each in self.columns.items()}
        )


class FragmentCache:
    """The newest few fragments of all tables of a graph, up to a number of bytes. Safe to use from several threads."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most = most_bytes
        self._kept: OrderedDict[Key, CachedRows] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def of(self, table: Table, fragment: FragmentMetadata, columns: Iterable[str]) -> CachedRows | None:
        """What is known of a fragment, if these columns are."""
        key = _key(table, fragment)
        with self._lock:
            found = self._kept.get(key)
            if found is None or not all(name in found.columns for name in columns):
                return None
            self._kept.move_to_end(key)
            return found

    def add(self, table: Table, fragment: FragmentMetadata, rows: CachedRows) -> None:
        """Remember rows; columns that are known of the very same ones stay known."""
        key = _key(table, fragment)
        with self._lock:
            before = self._kept.pop(key, None)
            if before is not None:
                self._bytes -= before.nbytes
                if before.removals == rows.removals:
                    rows = replace(rows, columns={**before.columns, **rows.columns})
            if rows.nbytes > FRAGMENT_BYTES:
                return
            self._kept[key] = rows
            self._bytes += rows.nbytes
            while self._bytes > self._most:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes


def can_be_known(fragment: FragmentMetadata) -> bool:
    """Whether a fragment is small enough, and made of nothing but its files."""
    return not fragment.overlays and fragment_bytes(fragment) <= FRAGMENT_BYTES


def fragment_bytes(fragment: FragmentMetadata) -> int:
    """How large the files of a fragment are; a file that does not tell counts as large."""
    return sum(each.file_size_bytes or FRAGMENT_BYTES for each in fragment.files)


def removals_of(fragment: FragmentMetadata) -> str | None:
    """What tells one list of removed rows of a fragment from every other."""
    return None if fragment.deletion_file is None else str(fragment.deletion_file.path(fragment.id))


def _key(table: Table, fragment: FragmentMetadata) -> Key:
    fields = tuple((each.name(), each.id()) for each in table.dataset.lance_schema.fields())
    return tuple(str(each.path) for each in fragment.files), fields
