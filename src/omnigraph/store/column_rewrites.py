"""New values for some columns of rows that are there, written beside the columns that stay as they are.

A piece of the table gets new files for these columns alone. Rows keep their ids and places; Lance marks exactly the
rows that got a value as updated, and takes the pieces out of indexes that cover one of the columns.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from lance import FragmentMetadata, LanceOperation, Transaction

from omnigraph.errors import InvalidInput, NotFound
from omnigraph.store.lance_errors import lance_errors
from omnigraph.store.staging import Staged

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from omnigraph.store.tables import Table

ADDRESS = "_rowaddr"


@dataclass(frozen=True)
class RewrittenPiece:
    """One piece of a table with new files that nobody refers to yet. `fields` are the columns by Lance's numbers."""

    piece: int
    description: str
    fields: tuple[int, ...]
    offsets: str
    rows: int


def rewrite_columns(table: Table, piece: int, values: pa.Table) -> RewrittenPiece:
    """Write new values for rows of one piece. `values` has each row's address, once, and the columns to write."""
    if values.num_rows != len(values.column(ADDRESS).unique()):
        raise InvalidInput(f"new values for {table.path} have a row twice: give each id once.")
    fragment = table.dataset.get_fragment(piece)
    if fragment is None:
        raise NotFound(f"{table.path} has no piece {piece} at version {table.version}")
    with lance_errors(f"writing new columns of {table.path}"):
        described, fields, offsets = fragment.update_columns(values, ADDRESS, with_offsets=True)
    text = orjson.dumps(described.to_json()).decode()
    return RewrittenPiece(piece, text, tuple(fields), base64.b64encode(offsets).decode(), values.num_rows)


def stage_rewritten(table: Table, pieces: Sequence[RewrittenPiece]) -> Staged:
    """One transaction of all the pieces, which must be of this very version of the table."""
    offsets: dict[int, Any] = {each.piece: base64.b64decode(each.offsets) for each in pieces}
    operation = LanceOperation.Update(
        updated_fragments=[FragmentMetadata.from_json(each.description) for each in pieces],
        fields_modified=sorted({field for each in pieces for field in each.fields}),
        update_mode="rewrite_columns",
        updated_fragment_offsets=offsets,
    )
    return Staged(table, "change", Transaction(table.version, operation), updated=sum(each.rows for each in pieces))
