"""Which parts of two states of a table differ, told from their files.

A data file never changes, and its name is used once. So rows of a piece that both states have, and that neither has
removed, are the same rows, whatever happened in between: commits, restores, branches made and deleted. Only pieces that
one state has alone, and rows that one has removed, need looking at: the cost follows the change, not the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.errors import ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance import FragmentMetadata, LanceFragment
    from numpy.typing import NDArray

    from omnigraph.store.tables import Table, TableStore

    Numbers = NDArray[np.uint64]

ROW_ADDRESS = "_rowaddr"
_NOWHERE = np.zeros(0, dtype=np.uint64)
# The files are small: handing them to other threads takes longer than reading them.
_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)


@dataclass(frozen=True)
class Part:
    """What one of two states has alone: whole pieces, and single rows of pieces that both have, by their addresses."""

    pieces: tuple[int, ...]
    rows: int
    addresses: Numbers


def differing_parts(tables: TableStore, old: Table, new: Table) -> tuple[Part, Part]:
    """What only the old state has, and what only the new one has."""
    before, after = _pieces(old), _pieces(new)
    shared = {each for each in before if each in after and before[each].files == after[each].files}
    gone, come = [_NOWHERE], [_NOWHERE]
    for each in sorted(shared):
        then, now = before[each], after[each]
        if then.removals != now.removals:
            removed_then, removed_now = _removed(tables, old, then), _removed(tables, new, now)
            gone.append(np.setdiff1d(removed_now, removed_then, assume_unique=True))
            come.append(np.setdiff1d(removed_then, removed_now, assume_unique=True))
    return _part(before, shared, np.concatenate(gone)), _part(after, shared, np.concatenate(come))


@dataclass(frozen=True)
class _Piece:
    """A piece, and what tells it from others: its files and columns, and the random number of its removals."""

    number: int
    metadata: FragmentMetadata
    files: tuple[tuple[str, tuple[int, ...]], ...]
    removals: tuple[int, int] | None


def _pieces(table: Table) -> dict[int, _Piece]:
    return {each.fragment_id: _described(each) for each in table.dataset.get_fragments()}


def _described(fragment: LanceFragment) -> _Piece:
    metadata: FragmentMetadata = fragment.metadata
    # The public `path` makes a class each time it is asked.
    files = tuple((each._path, tuple(each.fields)) for each in metadata.files)
    file = metadata.deletion_file
    removals = None if file is None else (int(file.read_version), int(file.id))
    return _Piece(fragment.fragment_id, metadata, files, removals)


def _part(pieces: dict[int, _Piece], shared: set[int], addresses: Numbers) -> Part:
    alone = [each for each in pieces if each not in shared]
    return Part(tuple(alone), sum(int(pieces[each].metadata.num_rows) for each in alone), addresses)


def _removed(tables: TableStore, table: Table, piece: _Piece) -> Numbers:
    """The addresses of a piece's removed rows."""
    if piece.removals is None:
        return _NOWHERE
    offsets = _listed(tables, table, piece)
    if offsets is None:
        there = np.arange(piece.metadata.physical_rows, dtype=np.uint64)
        offsets = np.setdiff1d(there, _living(table, piece.number), assume_unique=True)
    return offsets + np.uint64(piece.number << 32)


def _listed(tables: TableStore, table: Table, piece: _Piece) -> Numbers | None:
    """The removed rows that a small file lists; None when they are so many that Lance keeps them another way."""
    path = str(table.dataset.get_fragment(piece.number).deletion_file())
    if not path.endswith(".arrow"):
        return None
    try:
        data = tables.objects.read(f"{_home(table, piece.metadata)}/{path}")
    except ObjectNotFound:
        return None
    file = pa.ipc.open_file(pa.BufferReader(data), options=_ONE_THREAD)
    offsets = [file.get_batch(each).column(0).to_numpy() for each in range(file.num_record_batches)]
    return np.concatenate([_NOWHERE, *offsets]).astype(np.uint64)


def _home(table: Table, metadata: FragmentMetadata) -> str:
    """The directory below the root that the piece's removals lie in: the table's own, or one it was forked from."""
    base: Any = metadata.deletion_file.base_id
    if base is None:
        return table.path if table.branch is None else f"{table.path}/tree/{table.branch}"
    path = str(table.dataset.base_paths()[base].path)
    return path[path.rindex(table.path) :].rstrip("/")


def _living(table: Table, piece: int) -> Numbers:
    """The offsets of a piece's rows that are not removed; no data file is read for it."""
    batches: Iterable[pa.RecordBatch] = table.scan([ROW_ADDRESS], fragments=[piece])
    found = [np.asarray(each.column(ROW_ADDRESS).to_numpy(), dtype=np.uint64) for each in batches]
    addresses = np.concatenate(found) if found else _NOWHERE
    return addresses - np.uint64(piece << 32)
