"""What a change of rows is made of, however many they are: new pieces, old ones without the rows, one transaction.

For rows that keep their ids Lance looks up when they were made, among all rows that lie between the first and the last
of them. Where there are too many of either, they get new ids instead, as if they had been removed and added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from lance import LanceOperation, Transaction
from lance.fragment import RowIdSequence, write_fragments

from omnigraph.store.filters import one_of, render
from omnigraph.store.staging import Staged
from omnigraph.store.tables import ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance import FragmentMetadata
    from numpy.typing import NDArray

    from omnigraph.store.tables import Table, TableStore

    Numbers = NDArray[np.uint64]

# Lance takes about 40 ns for each row that lies between rows that keep their ids, within the commit, and holds about
# 100 bytes for each that does.
KEPT_IDS_SPAN = 200_000
_SPAN_PER_ROW = 20
_KEPT_IDS_ROWS = 1_000_000
_MOST_NAMED = 2_000
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFF_FFFF)


def keeps_row_ids(rows: int, *, span: int) -> bool:
    """Whether so many changed rows, whose ids lie so far apart, keep their row ids."""
    return rows <= _KEPT_IDS_ROWS and span <= max(KEPT_IDS_SPAN, _SPAN_PER_ROW * rows)


def new_piece(table: Table, rows: pa.Table, row_ids: Numbers | None = None) -> FragmentMetadata:
    """Rows as a piece of the table, not committed yet; the first of them are those that have these row ids now."""
    (piece,) = write_fragments(
        rows,
        table.dataset,
        schema=rows.schema,
        max_rows_per_file=max(rows.num_rows, 1),
        allow_external_blob_outside_bases=True,
    )
    return piece if row_ids is None or not len(row_ids) else with_row_ids(piece, row_ids)


def with_row_ids(piece: FragmentMetadata, row_ids: Numbers) -> FragmentMetadata:
    """A new piece whose first rows are these committed rows; the others get ids of their own when it lands."""
    piece.row_id_meta = RowIdSequence(pa.array(row_ids, pa.uint64())).to_inline_metadata()
    return piece


def without_rows(tables: TableStore, table: Table, addresses: Numbers) -> tuple[list[FragmentMetadata], list[int]]:
    """The pieces without the rows at these addresses, which they have, and the numbers of those with none left."""
    addresses = np.sort(addresses)
    numbers, starts = np.unique(addresses >> _HALF, return_index=True)
    offsets = np.split((addresses & _LOW).astype(np.uint32), starts[1:])
    touched = [table.dataset.get_fragment(int(each)).metadata for each in numbers]
    left = tables.removals.add(table, list(zip(touched, offsets, strict=False)))
    emptied = [int(number) for number, piece in zip(numbers, left, strict=True) if piece is None]
    return [each for each in left if each is not None], emptied


def change_of_rows(
    table: Table,
    written: Sequence[FragmentMetadata],
    *,
    shrunk: Sequence[FragmentMetadata],
    emptied: Sequence[int],
    removed: Sequence[str] = (),
) -> Any:
    """The operation that adds pieces and takes rows out of others. `removed`: the ids, where nothing comes instead."""
    if not written and (shrunk or emptied or removed):
        return LanceOperation.Delete(list(shrunk), list(emptied), _told(table, removed))
    if not (shrunk or emptied):
        return LanceOperation.Append(list(written))
    return LanceOperation.Update(
        removed_fragment_ids=list(emptied),
        updated_fragments=list(shrunk),
        new_fragments=list(written),
        # Every value may be another, so no index covers the new pieces before it is built again.
        fields_for_preserving_frag_bitmap=[each.id() for each in table.dataset.lance_schema.fields()],
        update_mode="rewrite_rows",
    )


def _told(table: Table, ids: Sequence[str]) -> str:
    """What the transaction says of the removed rows; nobody goes by it, and a list of many would be long."""
    return render(one_of(ID, ids), table.schema) if ids and len(ids) <= _MOST_NAMED else f"{ID} IS NOT NULL"


def stage_replacement(
    table: Table,
    fragments: Sequence[FragmentMetadata],
    *,
    shrunk: Sequence[FragmentMetadata],
    emptied: Sequence[int],
    replaced: int,
) -> Staged:
    """Put the fragments in the place of rows that were taken out of others, as one Update.

    Rows keep their stable ids where the new fragments carry them (`with_row_ids`), as in Lance's own merge.
    """
    transaction = Transaction(table.version, change_of_rows(table, fragments, shrunk=shrunk, emptied=emptied))
    added = sum(each.physical_rows for each in fragments)
    return Staged(table, "upsert", transaction, inserted=added - replaced, updated=replaced)
