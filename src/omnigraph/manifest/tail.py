"""The last piece of a branch's manifest: its head row, together with the rows of the latest publishes.

Each publish replaces this piece by one that has its own rows as well, and another head row: one file, and one commit
that removes the old piece. Two publishes of one branch remove the same piece, so Lance lets one of them win.

That alone is not enough. Lance looks for conflicts only in versions that are still there, and does not mind when a
piece that is to be removed is gone already: a publish that slept while others published and collected would meet
nobody, and fork the history. So every publish says that it removes the piece `LOCK` as well. There is none of that
number and never will be, but Lance compares the numbers, and the newest publish is never collected
(`collection.py`). Tests of Lance itself: tests/conformance/test_tail_publish.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation, Transaction
from lance.fragment import RowIdSequence, write_fragments

from omnigraph.manifest.row_ages import ends_its_publishes, tuples
from omnigraph.manifest.rows import CREATED_AT, KEY, SCHEMA
from omnigraph.store.lance_errors import lance_errors
from omnigraph.store.row_metadata import has_row_versions, row_ids
from omnigraph.store.staging import Staged

if TYPE_CHECKING:
    from lance import FragmentMetadata

    from omnigraph.store.tables import Table

# Pieces are numbered from 0 in the order they were written, in 32 bits.
LOCK: Final = 4_000_000_000
# A piece with more rows than this is not written again with every publish: the head row leaves it first.
MOST_ROWS: Final = 1_024
# For rows that keep their ids, Lance looks at every id between the lowest and the highest.
REACH: Final = 4_096


@dataclass(frozen=True)
class Tail:
    """A piece with the head row of a branch at `place`; what else it has are whole publishes, each ending its rows."""

    piece: FragmentMetadata
    content: pa.Table
    place: int

    @cached_property
    def rows(self) -> pa.Table:
        """Everything but the head row."""
        return pa.concat_tables([self.content[: self.place], self.content[self.place + 1 :]])

    @property
    def head(self) -> pa.Table:
        """The head row."""
        return self.content.slice(self.place, 1)

    @property
    def is_long(self) -> bool:
        """Whether it is time that the head row leaves it, should nobody have laid its rows down."""
        return self.content.num_rows > MOST_ROWS

    @cached_property
    def publishes(self) -> int:
        """How many publishes lie in it."""
        return self.rows.column("object_type").to_pylist().count("graph_commit")

    @cached_property
    def row_ids(self) -> pa.Array[Any]:
        """The ids of all but the head row."""
        ids = kept_row_ids(self.piece)
        return pa.concat_arrays([ids[: self.place], ids[self.place + 1 :]])

    @property
    def head_row_id(self) -> pa.Array[Any]:
        """The id of the head row."""
        return kept_row_ids(self.piece).slice(self.place, 1)


@dataclass(frozen=True)
class WrittenTail:
    """A tail that was written and is not committed yet: it has no number before."""

    piece: FragmentMetadata
    content: pa.Table
    place: int

    def under(self, piece: FragmentMetadata) -> Tail:
        """The same as the piece that it has become."""
        return Tail(piece, self.content, self.place)


def tail_of(table: Table, number: int, rows: pa.Table, head: str) -> Tail | None:
    """A fragment with the head row as `read_pieces` tells it, if a publish can replace it as a whole.

    It cannot when it is large, when rows were removed from it, or when its rows are not whole publishes that know their
    ages: then the order of rows would not tell them later (`row_ages.py`).
    """
    piece = table.dataset.get_fragment(number).metadata
    if len(piece.files) != 1 or piece.deletion_file is not None or piece.physical_rows > MOST_ROWS:
        return None
    place = rows.column(KEY).to_pylist().index(head)
    others = pa.concat_tables([rows[:place], rows[place + 1 :]])
    if others.num_rows and not (has_row_versions(piece) and _knows_its_ages(others)):
        return None
    return Tail(piece, rows.select(SCHEMA.names).cast(SCHEMA).combine_chunks(), place)


def _knows_its_ages(rows: pa.Table) -> bool:
    """Of rows that say they are from version 1 only the last change may be right, and a longer tail would lose that."""
    return 1 not in rows.column(CREATED_AT).to_pylist() and ends_its_publishes(list(tuples(rows.to_batches())))


def stage_longer_tail(table: Table, old: Tail, rows: pa.Table, head: pa.Table) -> tuple[Staged, WrittenTail]:
    """A publish: the rows of the old tail, the new ones, and the new head row, all in one piece; not committed."""
    written = _write(table, old, rows, head)
    operation = LanceOperation.Update(
        removed_fragment_ids=[old.piece.id, LOCK],
        updated_fragments=[],
        new_fragments=[written.piece],
        fields_modified=[],
        fields_for_preserving_frag_bitmap=[],
        update_mode="rewrite_rows",
    )
    return Staged(table, "change", Transaction(table.version, operation)), written


def stage_lone_head(table: Table, old: Tail) -> WrittenTail:
    """The head row of a tail, alone: what is left of it when its rows are laid down elsewhere; not committed."""
    content = old.head.combine_chunks()
    with lance_errors("writing the head row of __manifest"):
        (piece,) = write_fragments(content, table.dataset)
        piece.row_id_meta = RowIdSequence(old.head_row_id).to_inline_metadata()
    return WrittenTail(piece, content, 0)


def _write(table: Table, old: Tail, rows: pa.Table, head: pa.Table) -> WrittenTail:
    """Rows that keep their ids come first, for Lance gives the others new ones. The head row does, unless it is far."""
    kept, place = old.row_ids, 0
    if _is_far(old):
        parts, place = [old.rows, head, rows], len(kept)
    else:
        parts, kept = [head, old.rows, rows], pa.concat_arrays([old.head_row_id, kept])
    content = pa.concat_tables(parts).combine_chunks()
    with lance_errors("writing manifest rows"):
        (piece,) = write_fragments(content, table.dataset)
        piece.row_id_meta = RowIdSequence(kept).to_inline_metadata()
    return WrittenTail(piece, content, place)


def _is_far(tail: Tail) -> bool:
    """Whether the head row got its id so long ago that a new one is cheaper; not each time, for ids would have gaps."""
    ids = tail.row_ids
    return bool(len(ids)) and int(pc.max(ids).as_py()) - int(tail.head_row_id[0].as_py()) > REACH


def kept_row_ids(piece: FragmentMetadata) -> pa.Array[Any]:
    """The ids of a piece's rows, which the version file of a manifest always holds."""
    ids = row_ids(piece)
    assert ids is not None, "every release gives the rows of __manifest stable ids"
    return ids
