"""Which parts of two states of a table differ, told from their files.

A data file never changes, and its name is used once. So rows of a piece that both states have, and that neither has
removed, are the same rows, whatever happened in between: commits, restores, branches made and deleted. Only pieces that
one state has alone, and rows that one has removed, need looking at: the cost follows the change, not the table.
"""

from __future__ import annotations

import io
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


@dataclass(frozen=True)
class Part:
    """What one of two states has alone: whole pieces, and single rows of pieces that both have, by their addresses."""

    pieces: tuple[int, ...]
    rows: int
    addresses: Numbers


def differing_parts(tables: TableStore, old: Table, new: Table) -> tuple[Part, Part]:
    """What only the old state has, and what only the new one has."""
    before, after = _pieces(old), _pieces(new)
    shared = [each for each in before if each in after and _files(before[each]) == _files(after[each])]
    gone, come = _NOWHERE, _NOWHERE
    for each in shared:
        if _removals(before[each]) != _removals(after[each]):
            removed_then, removed_now = (
                _removed(tables, table, pieces[each]) for table, pieces in ((old, before), (new, after))
            )
            gone = np.concatenate([gone, np.setdiff1d(removed_now, removed_then)])
            come = np.concatenate([come, np.setdiff1d(removed_then, removed_now)])
    known = set(shared)
    return _part(before, known, gone), _part(after, known, come)


def _part(pieces: dict[int, LanceFragment], shared: set[int], addresses: Numbers) -> Part:
    alone = [each for each in pieces if each not in shared]
    return Part(tuple(alone), sum(int(pieces[each].metadata.num_rows) for each in alone), addresses)


def _pieces(table: Table) -> dict[int, LanceFragment]:
    return {each.fragment_id: each for each in table.dataset.get_fragments()}


def _files(piece: LanceFragment) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((each.path, tuple(each.fields)) for each in piece.metadata.files)


def _removals(piece: LanceFragment) -> tuple[int, int] | None:
    """What tells the removals of a piece from others: the number in their file's name is drawn at random."""
    file = piece.metadata.deletion_file
    return None if file is None else (int(file.read_version), int(file.id))


def _removed(tables: TableStore, table: Table, piece: LanceFragment) -> Numbers:
    """The addresses of a piece's removed rows."""
    metadata: FragmentMetadata = piece.metadata
    if metadata.deletion_file is None:
        return _NOWHERE
    offsets = _listed(tables, table, piece)
    if offsets is None:
        offsets = np.setdiff1d(np.arange(metadata.physical_rows, dtype=np.uint64), _living(table, piece))
    return offsets + np.uint64(piece.fragment_id << 32)


def _listed(tables: TableStore, table: Table, piece: LanceFragment) -> Numbers | None:
    """The removed rows that a small file lists; None when they are so many that Lance keeps them another way."""
    path = str(piece.deletion_file())
    if not path.endswith(".arrow"):
        return None
    try:
        data = tables.objects.read(f"{_home(table, piece.metadata)}/{path}")
    except ObjectNotFound:
        return None
    with pa.ipc.open_file(io.BytesIO(data)) as file:
        offsets: Numbers = file.read_all().column(0).to_numpy().astype(np.uint64)
    return offsets


def _home(table: Table, metadata: FragmentMetadata) -> str:
    """The directory below the root that the piece's removals lie in: the table's own, or one it was forked from."""
    base: Any = metadata.deletion_file.base_id
    if base is None:
        return table.path if table.branch is None else f"{table.path}/tree/{table.branch}"
    path = str(table.dataset.base_paths()[base].path)
    return path[path.rindex(table.path) :].rstrip("/")


def _living(table: Table, piece: LanceFragment) -> Numbers:
    """The offsets of a piece's rows that are not removed; no data file is read for it."""
    batches: Iterable[pa.RecordBatch] = table.scan([ROW_ADDRESS], fragments=[piece.fragment_id])
    found = [np.asarray(each.column(ROW_ADDRESS).to_numpy(), dtype=np.uint64) for each in batches]
    addresses = np.concatenate(found) if found else _NOWHERE
    return addresses - np.uint64(piece.fragment_id << 32)
