"""Hash runs are files of sorted hashes that all tasks share: a task reads only the range of its partition.

On one machine they replace the packed shuffle of `transaction/constraints/exchange`. Hashes that were written together
with their rows are not read, computed or sent through the JVM again.

`HashColumns` names the columns of a row that a rule compares; `draw` computes their hashes.
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

    Numbers = NDArray[np.uint64]


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


def draws_of(catalog: Catalog, key: str, mode: Mode) -> tuple[HashColumns, ...]:
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


def draw(rows: pa.Table, wanted: Sequence[HashColumns]) -> Iterator[tuple[HashColumns, Numbers]]:
    """Compute the hashes of rows, in row order; with `beside`, as an array of pairs."""
    names = list(dict.fromkeys(name for each in wanted for name in each.names))
    plain = [comparable(rows.column(name)) for name in names]
    numbers = dict(zip(names, hash_columns(plain), strict=True)) if names else {}
    nulls = {name: is_there(each) for name, each in zip(names, plain, strict=True) if each.null_count}
    for each in wanted:
        found = functools.reduce(joined, [numbers[name] for name in each.columns])
        if each.beside is not None:
            found = np.column_stack([found, numbers[each.beside]])
        whole = [nulls[name] for name in each.columns if name in nulls]
        yield each, found[np.logical_and.reduce(whole)] if whole else found


# How many hashes a task holds before it writes a run: 32 MB.
_HELD = 4_000_000
# Ranges of the 64-bit hashes, by their first byte.
_RANGES = 256


@dataclass(frozen=True)
class HashRun:
    """A file of hashes of rows, sorted by the first hash of each row.

    `bounds` are 64-bit positions: where each range of first hashes begins, and where the last one ends.
    """

    drawn: HashColumns
    file: str
    count: int
    bounds: bytes = field(repr=False)

    def numbers(self) -> Numbers:
        """All hashes of the run."""
        return self._read(0, self.count)

    def of_part(self, part: int, parts: int) -> Numbers:
        """The hashes whose first falls into partition `part` of `parts` equal ranges; `parts` is a power of two."""
        bounds = np.frombuffer(self.bounds, np.int64)
        first = part * _RANGES // parts
        last = max(first + 1, (part + 1) * _RANGES // parts)
        numbers = self._read(int(bounds[first]), int(bounds[last]))
        if parts <= _RANGES:
            return numbers
        chosen: Numbers = numbers[_firsts(numbers) >> np.uint64(65 - parts.bit_length()) == part]
        return chosen

    def _read(self, start: int, end: int) -> Numbers:
        """Read, not memory-mapped: every mapped page that was ever touched counts as memory of the process."""
        width = 1 if self.drawn.beside is None else 2
        numbers: Numbers = np.fromfile(self.file, np.uint64, (end - start) * width, offset=start * 8 * width)
        return numbers if width == 1 else numbers.reshape(-1, 2)


class HashRunWriter:
    """Writes the hash runs of one task to a directory that all tasks share. It buffers little in memory."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._buffered: dict[HashColumns, list[Numbers]] = {}
        self._held = 0

    def note(self, drawn: HashColumns, numbers: Numbers) -> Iterator[HashRun]:
        """Add hashes; yield the runs that were written because the buffer was full."""
        if len(numbers):
            self._buffered.setdefault(drawn, []).append(numbers)
            self._held += numbers.size
        if self._held >= _HELD:
            yield from self.finish()

    def finish(self) -> Iterator[HashRun]:
        """Write what is still buffered."""
        buffered, self._buffered, self._held = self._buffered, {}, 0
        for drawn, fragments in buffered.items():
            numbers = _ordered(np.concatenate(fragments))
            handle, file = tempfile.mkstemp(dir=self._directory, suffix=".numbers")
            with os.fdopen(handle, "wb") as stream:
                numbers.tofile(stream)
            yield HashRun(drawn, file, len(numbers), _bounds(_firsts(numbers)))


def _bounds(firsts: Numbers) -> bytes:
    starts = np.searchsorted(firsts, np.arange(1, _RANGES, dtype=np.uint64) << np.uint64(56))
    return np.concatenate([[0], starts, [len(firsts)]]).astype(np.int64).tobytes()


def _firsts(numbers: Numbers) -> Numbers:
    return numbers if numbers.ndim == 1 else numbers[:, 0]


def _ordered(numbers: Numbers) -> Numbers:
    if numbers.ndim > 1:
        return numbers[np.argsort(numbers[:, 0])]
    numbers.sort()
    return numbers
