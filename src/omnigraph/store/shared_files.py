"""Which parts of two states of a table differ, told from their files.

A data file never changes, and its name is used once. So rows of a piece that both states have, and that neither has
removed, are the same rows, whatever happened in between: commits, restores, branches made and deleted. Only pieces that
one state has alone, and rows that one has removed, need looking at: the cost follows the change, not the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

if TYPE_CHECKING:
    from lance import FragmentMetadata, LanceFragment
    from numpy.typing import NDArray

    from omnigraph.store.tables import Table, TableStore

    Numbers = NDArray[np.uint64]

ROW_ADDRESS = "_rowaddr"
_NOWHERE = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True)
class Part:
    """What one of two states has alone: whole pieces, and single rows of pieces that both have, by their addresses."""

    pieces: tuple[int, ...]
    rows: int
    addresses: Numbers


def differing_parts(tables: TableStore, old: Table, new: Table) -> tuple[Part, Part]:
    """What only the old state has, and what only the new one has. The last answer for a handle is kept."""
    known = _last.get(new)
    if known is None or known[0] is not old:
        known = _last[new] = old, _differing(tables, old, new)
    return known[1]


# Whoever asks how much there is to read is the next to read it; and one state is compared with several others.
_last: WeakKeyDictionary[Table, tuple[Table, tuple[Part, Part]]] = WeakKeyDictionary()
_known: WeakKeyDictionary[Table, dict[int, Piece]] = WeakKeyDictionary()


def _differing(tables: TableStore, old: Table, new: Table) -> tuple[Part, Part]:
    before, after = described_pieces(old), described_pieces(new)
    shared = {each for each in before if each in after and before[each].files == after[each].files}
    unlike = [each for each in sorted(shared) if before[each].removals != after[each].removals]
    then, now = _removed(tables, old, before, unlike), _removed(tables, new, after, unlike)
    gone, come = np.setdiff1d(now, then, assume_unique=True), np.setdiff1d(then, now, assume_unique=True)
    return _part(before, shared, gone), _part(after, shared, come)


def _removed(tables: TableStore, table: Table, pieces: dict[int, Piece], numbers: list[int]) -> Numbers:
    """The addresses of the rows that some pieces have lost."""
    lists = tables.removals.of([(table, pieces[each].metadata) for each in numbers])
    found = [each + np.uint64(number << 32) for number, each in zip(numbers, lists, strict=True)]
    return np.concatenate([_NOWHERE, *found])


@dataclass(frozen=True)
class Piece:
    """A piece, how many rows it has left, and what tells it from others: its files, its columns, its removals."""

    number: int
    rows: int
    metadata: FragmentMetadata
    files: tuple[tuple[str, tuple[int, ...]], ...]
    removals: tuple[int, int] | None


def described_pieces(table: Table) -> dict[int, Piece]:
    """The pieces of a state of a table by their numbers, in the order of a scan."""
    found = _known.get(table)
    if found is None:
        found = _known[table] = {each.fragment_id: _described(each) for each in table.dataset.get_fragments()}
    return found


def _described(fragment: LanceFragment) -> Piece:
    metadata: FragmentMetadata = fragment.metadata
    # The public `path` makes a class each time it is asked.
    files = tuple((each._path, tuple(each.fields)) for each in metadata.files)
    file = metadata.deletion_file
    removals = None if file is None else (int(file.read_version), int(file.id))
    return Piece(fragment.fragment_id, int(metadata.num_rows), metadata, files, removals)


def _part(pieces: dict[int, Piece], shared: set[int], addresses: Numbers) -> Part:
    alone = [each for each in pieces if each not in shared]
    return Part(tuple(alone), sum(pieces[each].rows for each in alone), addresses)
