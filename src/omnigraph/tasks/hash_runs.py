"""Numbers written down in files that all tasks see, sorted: a task reads just the range of a part.

On one machine this takes the place of a shuffle (`packed`). What was noted while rows were written is not read, hashed
or sent through Java again.

Which numbers of a row the rules compare, and how they are drawn from rows.
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
from omnigraph.kernels.arrays import ID
from omnigraph.kernels.canonical import comparable
from omnigraph.kernels.hashing import column_numbers, is_there, joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.values.batches import Mode

    Numbers = NDArray[np.uint64]


@dataclass(frozen=True)
class HashColumns:
    """One number of a tuple of columns for each row that has the whole tuple; `beside`: with that of another column."""

    columns: tuple[str, ...]
    beside: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that are read for it."""
        return self.columns if self.beside is None else (*self.columns, self.beside)


IDS = HashColumns((ID,))


def draws_of(catalog: Catalog, key: str, mode: Mode) -> tuple[HashColumns, ...]:
    """What may be asked of the rows that are put into a table."""
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
    """The numbers of rows, in their order; with another beside it, one row of two for each."""
    names = list(dict.fromkeys(name for each in wanted for name in each.names))
    plain = [comparable(rows.column(name)) for name in names]
    numbers = dict(zip(names, column_numbers(plain), strict=True)) if names else {}
    nulls = {name: is_there(each) for name, each in zip(names, plain, strict=True) if each.null_count}
    for each in wanted:
        found = functools.reduce(joined, [numbers[name] for name in each.columns])
        if each.beside is not None:
            found = np.column_stack([found, numbers[each.beside]])
        whole = [nulls[name] for name in each.columns if name in nulls]
        yield each, found[np.logical_and.reduce(whole)] if whole else found


# How many numbers a task holds before it writes them down: 32 MB.
_HELD = 4_000_000
# Of the 64-bit numbers, by their first byte.
_RANGES = 256


@dataclass(frozen=True)
class HashRun:
    """A file of numbers that were drawn from rows, in order of the first of them.

    `bounds` are 64-bit places: where each range of first numbers begins, and where the last one ends.
    """

    drawn: HashColumns
    file: str
    count: int
    bounds: bytes = field(repr=False)

    def numbers(self) -> Numbers:
        """All of them."""
        return self._read(0, self.count)

    def of_part(self, part: int, parts: int) -> Numbers:
        """Those whose first number lies in one of `parts` equal ranges, a power of two."""
        bounds = np.frombuffer(self.bounds, np.int64)
        first = part * _RANGES // parts
        last = max(first + 1, (part + 1) * _RANGES // parts)
        numbers = self._read(int(bounds[first]), int(bounds[last]))
        if parts <= _RANGES:
            return numbers
        chosen: Numbers = numbers[_firsts(numbers) >> np.uint64(65 - parts.bit_length()) == part]
        return chosen

    def _read(self, start: int, end: int) -> Numbers:
        """Read, not mapped: a mapped file counts as memory of the process as far as it was ever touched."""
        width = 1 if self.drawn.beside is None else 2
        numbers: Numbers = np.fromfile(self.file, np.uint64, (end - start) * width, offset=start * 8 * width)
        return numbers if width == 1 else numbers.reshape(-1, 2)


class HashRunWriter:
    """What one task notes, in a directory that all tasks see. It holds little and writes the rest down."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._waiting: dict[HashColumns, list[Numbers]] = {}
        self._held = 0

    def note(self, drawn: HashColumns, numbers: Numbers) -> Iterator[HashRun]:
        """Take numbers, and tell of the files that were written for it."""
        if len(numbers):
            self._waiting.setdefault(drawn, []).append(numbers)
            self._held += numbers.size
        if self._held >= _HELD:
            yield from self.finish()

    def finish(self) -> Iterator[HashRun]:
        """Write down what still waits."""
        waiting, self._waiting, self._held = self._waiting, {}, 0
        for drawn, fragments in waiting.items():
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
