"""Reading a table piece by piece, what is known of it from memory: a mutation after others asks the store for little.

A piece is asked for the columns that the filter tests; a small one for all that are wanted. Those are remembered, so
the next question of the kind costs nothing, and a piece without a row that matches is not asked for the others. Pieces
that an index covers, and large ones, are left to Lance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.relational.row_filter import truth
from omnigraph.store.compaction import covered_fragments
from omnigraph.store.filters import All, AnyOf, Filter, Not
from omnigraph.store.known_pieces import KnownRows, can_be_known, piece_bytes, removals_of
from omnigraph.store.places import PLACE_COLUMNS, ROW_ADDRESS, ROW_ID
from omnigraph.store.row_metadata import row_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lance import FragmentMetadata
    from numpy.typing import NDArray

    from omnigraph.store.staging import Staged
    from omnigraph.store.tables import Table, TableStore

# What is more than this is left to Lance: it would be read at once, and forgotten before it is asked for again.
MOST_PIECES = 64
LEARNED_BYTES = 16 * 1024 * 1024
# A file this small comes in one request, whatever is asked of it.
WHOLE_BYTES = 64 * 1024


def read_matching(tables: TableStore, table: Table, columns: Sequence[str], where: Filter) -> pa.Table:
    """The rows that match, from memory as far as they are known; in no particular order."""
    tested = sorted(columns_of(where))
    pieces = [each.metadata for each in table.dataset.get_fragments()]
    covered = covered_fragments(table)
    held = [each for each in pieces if each.id not in covered and can_be_known(each)]
    wanted = [name for name in columns if name not in PLACE_COLUMNS]
    if not tested or len(held) > MOST_PIECES or not {*tested, *wanted} <= set(table.schema.names):
        return table.read(columns, where)
    schema = table.schema_of(columns)
    known = _known(tables, table, held, tested, wanted)
    unknown = [each.id for each in pieces if each.id not in known]
    found = []
    for piece in held:
        rows = known.get(piece.id)
        matching = None if rows is None else _matching(rows, tested, where)
        if rows is None or matching is None or not len(matching):
            continue
        taken = _taken(tables, table, piece, rows, matching, schema)
        if taken is None:
            unknown.append(piece.id)
        else:
            found.append(taken)
    if unknown or not found:
        found.insert(0, table.read(columns, where, fragments=sorted(unknown)) if unknown else schema.empty_table())
    return pa.concat_tables(found)


def remember(tables: TableStore, staged: Staged, rows: pa.Table) -> None:
    """Keep what was just written as one piece. Rows of several that are replaced lie in an order of their own."""
    operation: Any = staged.transaction.operation
    fragments = operation.fragments if staged.change == "append" else operation.new_fragments
    in_order = staged.change == "append" or rows.num_rows == 1
    if len(fragments) != 1 or not in_order or not can_be_known(fragments[0]):
        return
    stored = staged.table.schema
    columns = {
        name: _one(rows.column(name))
        for name in rows.column_names
        if rows.schema.field(name).type == stored.field(name).type
    }
    offsets = np.arange(rows.num_rows, dtype=np.uint32)
    tables.known_pieces.add(staged.table, fragments[0], KnownRows(None, offsets, columns))


def columns_of(where: Filter) -> set[str]:
    """The columns that a filter tests."""
    match where:
        case All(operands) | AnyOf(operands):
            return {name for each in operands for name in columns_of(each)}
        case Not(operand):
            return columns_of(operand)
        case _:
            return {where.column}


def _known(
    tables: TableStore, table: Table, pieces: Sequence[FragmentMetadata], tested: Sequence[str], wanted: Sequence[str]
) -> dict[int, KnownRows]:
    """What is known of the pieces, each without the rows that it has lost; the others are read first."""
    known = {each.id: _living(tables, table, each, tested) for each in pieces}
    unknown = [each for each in pieces if known[each.id] is None]
    small = [each for each in unknown if piece_bytes(each) < WHOLE_BYTES]
    known.update(_learned(tables, table, small, sorted({*tested, *wanted})))
    large = [each for each in unknown if piece_bytes(each) >= WHOLE_BYTES]
    if sum(map(piece_bytes, large)) <= LEARNED_BYTES:
        known.update(_learned(tables, table, large, tested))
    return {number: rows for number, rows in known.items() if rows is not None}


def _living(tables: TableStore, table: Table, piece: FragmentMetadata, columns: Iterable[str]) -> KnownRows | None:
    rows = tables.known_pieces.of(table, piece, columns)
    if rows is None or rows.removals == removals_of(piece):
        return rows
    (removed,) = tables.removals.of([(table, piece)])
    left = rows.without(removed)
    # On another branch, or in an earlier state, rows may be there that were not when these were read.
    return left if len(left.offsets) == piece.num_rows else None


def _learned(
    tables: TableStore, table: Table, pieces: Sequence[FragmentMetadata], columns: Sequence[str]
) -> dict[int, KnownRows]:
    if not pieces:
        return {}
    rows = table.read([*columns, ROW_ADDRESS], fragments=[each.id for each in pieces])
    addresses = rows.column(ROW_ADDRESS).to_numpy()
    numbers = addresses >> np.uint64(32)
    learned = {}
    for piece in pieces:
        mine = np.flatnonzero(numbers == piece.id)
        arrays = {name: _one(rows.column(name).take(mine)) for name in columns}
        offsets = (addresses[mine] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        learned[piece.id] = KnownRows(removals_of(piece), offsets, arrays)
        tables.known_pieces.add(table, piece, learned[piece.id])
    return learned


def _matching(rows: KnownRows, tested: Sequence[str], where: Filter) -> NDArray[np.uint32]:
    """The offsets of the rows that match."""
    candidates = pa.table({name: rows.columns[name] for name in tested})
    matching: NDArray[np.uint32] = rows.offsets[
        truth(where, candidates).fill_null(False).to_numpy(zero_copy_only=False)
    ]
    return matching


def _taken(
    tables: TableStore,
    table: Table,
    piece: FragmentMetadata,
    rows: KnownRows,
    matching: NDArray[np.uint32],
    schema: pa.Schema,
) -> pa.Table | None:
    """The rows at these offsets, or None when not all of their columns are known."""
    made: dict[str, pa.Array[Any]] = {}
    if ROW_ID in schema.names:
        ids = row_ids(piece)
        if ids is None:
            return None
        made[ROW_ID] = ids.take(matching)
    made[ROW_ADDRESS] = pa.array((np.uint64(piece.id) << np.uint64(32)) + matching.astype(np.uint64))
    stored = [name for name in schema.names if name not in PLACE_COLUMNS]
    whole = _living(tables, table, piece, stored) if any(name not in rows.columns for name in stored) else rows
    if whole is None:
        return None
    places = np.searchsorted(whole.offsets, matching)
    made.update({name: whole.columns[name].take(places) for name in stored})
    return pa.Table.from_arrays([made[name].cast(schema.field(name).type) for name in schema.names], schema=schema)


def _one(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    array: pa.Array[Any] = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return array
