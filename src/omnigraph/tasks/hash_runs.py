"""Hash runs are files of sorted hashes that all tasks share: a task reads only the range of its partition.

On one machine they replace the packed shuffle of `transaction/constraints/exchange`. Hashes that were written together
with their rows are not read, computed or sent through the JVM again.

`HashColumns` names the columns of a row that a rule compares; `compute_hashes` computes their hashes.
"""

from __future__ import annotations

import functools
import os
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.catalog.catalog import EdgeType
from omnigraph.catalog.rules import count_rule, endpoint_rules, type_of, unique_rules
from omnigraph.kernels.arrays import ID, comparable
from omnigraph.kernels.hashing import hash_columns, is_there, joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.values.batches import Mode

    Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class HashColumns:
    """One hash of a tuple of columns per row without nulls in it; `beside`: paired with the hash of another column."""

    columns: tuple[str, ...]
    beside: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that must be read for it."""
        return self.columns if self.beside is None else (*self.columns, self.beside)


IDS = HashColumns((ID,))


def hash_columns_of(catalog: Catalog, key: str, mode: Mode) -> tuple[HashColumns, ...]:
    """The hashes that checks may need of the rows put into a table."""
    kind = type_of(catalog, key)
    found = [IDS, *(HashColumns(rule.columns, ID) for rule in unique_rules(catalog, key) if not rule.is_key)]
    if isinstance(kind, EdgeType):
        found += [HashColumns((rule.end,)) for rule in endpoint_rules(kind)]
        rule = count_rule(kind)
        if rule is not None and mode != "overwrite":
            found.append(HashColumns(("src",), ID))
        if rule is not None and mode == "merge" and rule.minimum:
            found.append(HashColumns((ID,), "src"))
    return tuple(dict.fromkeys(found))


def compute_hashes(rows: pa.Table, wanted: Sequence[HashColumns]) -> Iterator[tuple[HashColumns, Hashes]]:
    """Compute the hashes of rows, in row order; with `beside`, as an array of pairs."""
    names = list(dict.fromkeys(name for each in wanted for name in each.names))
    plain = [comparable(rows.column(name)) for name in names]
    hashes = dict(zip(names, hash_columns(plain), strict=True)) if names else {}
    nulls = {name: is_there(each) for name, each in zip(names, plain, strict=True) if each.null_count}
    for each in wanted:
        found = functools.reduce(joined, [hashes[name] for name in each.columns])
        if each.beside is not None:
            found = np.column_stack([found, hashes[each.beside]])
        whole = [nulls[name] for name in each.columns if name in nulls]
        yield each, found[np.logical_and.reduce(whole)] if whole else found


# How many hashes a task holds before it writes a run: 32 MB.
_MOST_BUFFERED = 4_000_000
# Ranges of the 64-bit hashes, by their first byte.
_RANGES = 256


@dataclass(frozen=True)
class HashRun:
    """A file of hashes of rows, sorted by the first hash of each row.

    `bounds` are 64-bit positions: where each range of first hashes begins, and where the last one ends.
    """

    columns: HashColumns
    file: str
    count: int
    bounds: bytes = field(repr=False)

    def hashes(self) -> Hashes:
        """All hashes of the run."""
        return self._read(0, self.count)

    def of_partition(self, partition: int, partitions: int) -> Hashes:
        """The hashes whose first falls into partition `part` of `parts` equal ranges; `parts` is a power of two."""
        bounds = np.frombuffer(self.bounds, np.int64)
        first = partition * _RANGES // partitions
        last = max(first + 1, (partition + 1) * _RANGES // partitions)
        hashes = self._read(int(bounds[first]), int(bounds[last]))
        if partitions <= _RANGES:
            return hashes
        chosen: Hashes = hashes[_firsts(hashes) >> np.uint64(65 - partitions.bit_length()) == partition]
        return chosen

    def _read(self, start: int, end: int) -> Hashes:
        """Read, not memory-mapped: every mapped page that was ever touched counts as memory of the process."""
        width = 1 if self.columns.beside is None else 2
        hashes: Hashes = np.fromfile(self.file, np.uint64, (end - start) * width, offset=start * 8 * width)
        return hashes if width == 1 else hashes.reshape(-1, 2)


class HashRunWriter:
    """Writes the hash runs of one task to a directory that all tasks share. It buffers little in memory."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._buffered: dict[HashColumns, list[Hashes]] = {}
        self._buffered_hashes = 0

    def add(self, columns: HashColumns, hashes: Hashes) -> Iterator[HashRun]:
        """Add hashes; yield the runs that were written because the buffer was full."""
        if len(hashes):
            self._buffered.setdefault(columns, []).append(hashes)
            self._buffered_hashes += hashes.size
        if self._buffered_hashes >= _MOST_BUFFERED:
            yield from self.finish()

    def finish(self) -> Iterator[HashRun]:
        """Write what is still buffered."""
        buffered, self._buffered, self._buffered_hashes = self._buffered, {}, 0
        for columns, chunks in buffered.items():
            hashes = _ordered(np.concatenate(chunks))
            handle, file = tempfile.mkstemp(dir=self._directory, suffix=".hashes")
            with os.fdopen(handle, "wb") as stream:
                hashes.tofile(stream)
            yield HashRun(columns, file, len(hashes), _bounds(_firsts(hashes)))


def _bounds(firsts: Hashes) -> bytes:
    starts = np.searchsorted(firsts, np.arange(1, _RANGES, dtype=np.uint64) << np.uint64(56))
    return np.concatenate([[0], starts, [len(firsts)]]).astype(np.int64).tobytes()


def _firsts(hashes: Hashes) -> Hashes:
    return hashes if hashes.ndim == 1 else hashes[:, 0]


def _ordered(hashes: Hashes) -> Hashes:
    if hashes.ndim > 1:
        return hashes[np.argsort(hashes[:, 0])]
    hashes.sort()
    return hashes
