"""How much of a merge is held in memory, and how large it is going to be, told from metadata alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.store.shared_files import differing_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.manifest.snapshot import TableEntry
    from omnigraph.store.shared_files import Part
    from omnigraph.store.tables import Table, TableStore

    Pair = tuple[TableEntry | None, TableEntry]

_TEXT, _LIST = 32, 64
# For so few rows the files of a table are not asked how large they are.
_FEW_ROWS = 1_000
_BYTES_AT_ONCE, _LEAST_AT_ONCE, _MOST_AT_ONCE = 8 << 20, 256, 131_072


@dataclass(frozen=True)
class MergeBudget:
    """Changed rows of `bytes` are merged in memory; more are worked on in pieces of a quarter of that."""

    bytes: int = 64 << 20

    @property
    def piece(self) -> int:
        """How many bytes of changed rows are looked at together."""
        return max(1, self.bytes // 4)


def estimated_bytes(tables: TableStore, pairs: Iterable[Pair]) -> int:
    """About how much memory the rows that differ between pairs of states take, each as it was and as it is."""
    return sum(_of_pair(tables, base, side) for base, side in pairs)


def _of_pair(tables: TableStore, base: TableEntry | None, side: TableEntry) -> int:
    if base is not None and base.pin == side.pin:
        return 0
    new = tables.open(side.pin)
    if base is None:
        return side.row_count * row_bytes(new)
    old = tables.open(base.pin)
    if base.path != side.path:
        return base.row_count * row_bytes(old) + side.row_count * row_bytes(new)
    gone, come = differing_parts(tables, old, new)
    if _rows(gone) + _rows(come) <= _FEW_ROWS:
        return _rows(gone) * _declared(old) + _rows(come) * _declared(new)
    return _rows(gone) * row_bytes(old) + _rows(come) * row_bytes(new)


def _rows(part: Part) -> int:
    return part.rows + len(part.addresses)


def batch_rows(table: Table) -> int:
    """How many rows to read at a time."""
    return max(_LEAST_AT_ONCE, min(_MOST_AT_ONCE, _BYTES_AT_ONCE // max(row_bytes(table), 1)))


def row_bytes(table: Table) -> int:
    """About how much memory a row takes: what its types take, or what its files take where texts and lists are long."""
    pieces = [each.metadata for each in table.dataset.get_fragments()]
    rows = sum(int(each.physical_rows or 0) for each in pieces)
    stored = sum(int(file.file_size_bytes or 0) for each in pieces for file in each.files)
    return max(_declared(table), stored // max(rows, 1))


def _declared(table: Table) -> int:
    return sum(_width(each.type) for each in table.schema)


def _width(kind: Any) -> int:
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _width(kind.value_type)
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return _LIST
    try:
        return -(-int(kind.bit_width) // 8)
    except ValueError:
        return _TEXT
