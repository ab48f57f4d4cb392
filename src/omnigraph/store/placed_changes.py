"""Staging a change of rows from where they lie, instead of joining them with the table.

Lance's own merge looks at every row of the table to find a few, and fails on many: its join may hold 100 MB. With an
index on the id the places of a few are known at once, and those of many are found by reading all ids. The rest is what
that merge writes, too (`replaced_rows.py`): the new rows in pieces of their own, in which rows that were there keep
their stable ids, and a note in the old pieces that they are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import Transaction

from omnigraph.store.arrow_columns import one_array
from omnigraph.store.filters import one_of
from omnigraph.store.lance_errors import lance_errors
from omnigraph.store.many_texts import are_among
from omnigraph.store.places import ROW_ADDRESS, ROW_ID, Places
from omnigraph.store.replaced_rows import change_of_rows, keeps_row_ids, new_piece, without_rows
from omnigraph.store.staging import Staged, refuse_removed_ids, refuse_repeated_ids
from omnigraph.store.tables import ID, ROWS_PER_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance import FragmentMetadata

    from omnigraph.store.tables import Table, TableStore

# More rows than this are found quicker by reading all ids.
FEW_ROWS = 20_000
_AT_ONCE = 2_000
_IDS_AT_ONCE = 1_000_000
_NO_IDS = pa.array([], pa.string())


def stage_placed(
    table: Table, puts: pa.Table | None, deletes: Sequence[str], *, tables: TableStore, places: Places | None = None
) -> Staged:
    """Replace rows whose id is there, add the others, and remove some, as one transaction.

    `places`: where the rows are that are there, maybe with others, for a caller that knows: they are not looked for.
    """
    wanted = _NO_IDS if puts is None else one_array(puts.column(ID))
    if puts is not None:
        refuse_repeated_ids(table, puts)
        refuse_removed_ids(table, puts, deletes)
    asked = pa.concat_arrays([wanted, pa.array(deletes, pa.string())])
    there = _places(table, asked) if places is None else places.of(asked)
    replaced = pc.index_in(wanted, value_set=there.ids)
    with lance_errors(f"staging a change to {table.path}"):
        shrunk, emptied = without_rows(tables, table, there.addresses)
        written = [] if puts is None else _pieces(table, puts, replaced, there)
        operation = change_of_rows(table, written, shrunk=shrunk, emptied=emptied, removed=deletes)
    updated = len(replaced) - replaced.null_count
    return Staged(
        table,
        "delete" if puts is None else "append" if not len(there) else "change" if deletes else "upsert",
        Transaction(table.version, operation),
        inserted=replaced.null_count,
        updated=updated,
        deleted=len(there) - updated,
    )


def _places(table: Table, ids: pa.Array[Any]) -> Places:
    """Where rows of these ids are, as far as they are there."""
    if len(ids) > FEW_ROWS:
        return Places(_rows_of_many(table, ids))
    asked = [str(each) for each in ids.to_pylist()]
    found = [
        table.read([ID, ROW_ID, ROW_ADDRESS], one_of(ID, asked[start : start + _AT_ONCE]))
        for start in range(0, len(asked), _AT_ONCE)
    ]
    return Places(pa.concat_tables(found))


def _rows_of_many(table: Table, ids: pa.Array[Any]) -> pa.Table:
    """The same by reading all ids, in pieces so large that numbering the wanted ones anew for each stays cheap."""
    columns = [ID, ROW_ID, ROW_ADDRESS]
    found = [table.schema_of(columns).empty_table()]
    held: list[pa.RecordBatch] = []
    for batch in table.scan(columns):
        held.append(batch)
        if sum(each.num_rows for each in held) >= max(len(ids), _IDS_AT_ONCE):
            found.append(_wanted(held, ids))
            held = []
    return pa.concat_tables([*found, _wanted(held, ids)] if held else found)


def _wanted(batches: list[pa.RecordBatch], ids: pa.Array[Any]) -> pa.Table:
    rows = pa.Table.from_batches(batches)
    texts = one_array(rows.column(ID))
    wanted = are_among(texts, ids)
    return rows.filter(pc.is_in(texts, value_set=ids) if wanted is None else wanted)


def _pieces(table: Table, puts: pa.Table, replaced: pa.Array[Any], places: Places) -> list[FragmentMetadata]:
    """The new rows, those that were there first and with the ids that Lance knows them by."""
    known_first = np.argsort(replaced.fill_null(len(places)).to_numpy(), kind="stable")
    row_ids = places.row_ids[replaced.drop_null().sort().to_numpy()]
    keeps = keeps_row_ids(len(row_ids), span=int(np.ptp(row_ids)) if len(row_ids) else 0)
    made = []
    for start in range(0, puts.num_rows, ROWS_PER_FILE):
        part = pa.array(known_first[start : start + ROWS_PER_FILE], pa.int64())
        made.append(new_piece(table, puts.take(part), row_ids[start : start + ROWS_PER_FILE] if keeps else None))
    return made
