"""The last fragment of a branch's manifest: its head row, together with the rows of the latest publishes.

Each publish replaces this fragment by one that has its own rows as well, and another head row: one file, and one commit
that removes the old fragment. Two publishes of one branch remove the same fragment, so Lance lets one of them win.

That alone is not enough. Lance looks for conflicts only in versions that are still there, and does not mind when a
fragment that is to be removed is gone already: a publish that slept while others published and collected would meet
nobody, and fork the history. So every publish says that it removes the fragment `LOCK` as well. There is none of that
number and never will be, but Lance compares the numbers, and the newest publish is never collected
(`collection.py`). Tests of Lance itself: tests/conformance/test_tail_publish.py.

The fragments of a manifest that this process has published itself, kept in memory until they are joined.

Joining them needs nothing from the store: their rows are here, and the ids of the rows stand in the version file. A
data file never changes and its name is used once, so a fragment made of that file, with nothing removed, has exactly
these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation, Transaction
from lance.fragment import RowIdSequence, write_fragments

from omnigraph.manifest.row_versions import ends_its_publishes, tuples
from omnigraph.manifest.rows import CREATED_AT, KEY, SCHEMA
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.lance.metadata import has_row_versions, row_ids, without_row_versions
from omnigraph.storage.tables.staging import Staged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance import FragmentMetadata, LanceFragment

    from omnigraph.manifest.version_refs import Names
    from omnigraph.storage.tables.table import Table

# Fragments are numbered from 0 in the order they were written, in 32 bits.
LOCK: Final = 4_000_000_000
# A fragment with more rows than this is not written again with every publish: the head row leaves it first.
MOST_ROWS: Final = 1_024
# For rows that keep their ids, Lance looks at every id between the lowest and the highest.
REACH: Final = 4_096


@dataclass(frozen=True)
class ActiveFragment:
    """A fragment with the head row of a branch at `place`, and else whole publishes, each of which ends its rows."""

    fragment: FragmentMetadata
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
        ids = kept_row_ids(self.fragment)
        return pa.concat_arrays([ids[: self.place], ids[self.place + 1 :]])

    @property
    def head_row_id(self) -> pa.Array[Any]:
        """The id of the head row."""
        return kept_row_ids(self.fragment).slice(self.place, 1)


@dataclass(frozen=True)
class WrittenFragment:
    """A tail that was written and is not committed yet: it has no number before."""

    fragment: FragmentMetadata
    content: pa.Table
    place: int

    def under(self, fragment: FragmentMetadata) -> ActiveFragment:
        """The same as the fragment that it has become."""
        return ActiveFragment(fragment, self.content, self.place)


def tail_of(table: Table, number: int, rows: pa.Table, head: str) -> ActiveFragment | None:
    """A fragment with the head row as `read_fragments` tells it, if a publish can replace it as a whole.

    It cannot when it is large, when rows were removed from it, or when its rows are not whole publishes that know their
    ages: then the order of rows would not tell them later (`row_ages.py`).
    """
    fragment = table.dataset.get_fragment(number).metadata
    if len(fragment.files) != 1 or fragment.deletion_file is not None or fragment.physical_rows > MOST_ROWS:
        return None
    place = rows.column(KEY).to_pylist().index(head)
    others = pa.concat_tables([rows[:place], rows[place + 1 :]])
    if others.num_rows and not (has_row_versions(fragment) and _knows_its_ages(others)):
        return None
    return ActiveFragment(fragment, rows.select(SCHEMA.names).cast(SCHEMA).combine_chunks(), place)


def _knows_its_ages(rows: pa.Table) -> bool:
    """Of rows that say they are from version 1 only the last change may be right, and a longer tail would lose that."""
    return 1 not in rows.column(CREATED_AT).to_pylist() and ends_its_publishes(list(tuples(rows.to_batches())))


def stage_longer_tail(
    table: Table, old: ActiveFragment, rows: pa.Table, head: pa.Table
) -> tuple[Staged, WrittenFragment]:
    """A publish: the rows of the old tail, the new ones, and the new head row, all in one fragment; not committed."""
    written = _write(table, old, rows, head)
    operation = LanceOperation.Update(
        removed_fragment_ids=[old.fragment.id, LOCK],
        updated_fragments=[],
        new_fragments=[written.fragment],
        fields_modified=[],
        fields_for_preserving_frag_bitmap=[],
        update_mode="rewrite_rows",
    )
    return Staged(table, "change", Transaction(table.version, operation)), written


def stage_lone_head(table: Table, old: ActiveFragment) -> WrittenFragment:
    """The head row of a tail, alone: what is left of it when its rows are laid down elsewhere; not committed."""
    content = old.head.combine_chunks()
    with lance_errors("writing the head row of __manifest"):
        (fragment,) = write_fragments(content, table.dataset)
        fragment.row_id_meta = RowIdSequence(old.head_row_id).to_inline_metadata()
    return WrittenFragment(fragment, content, 0)


def _write(table: Table, old: ActiveFragment, rows: pa.Table, head: pa.Table) -> WrittenFragment:
    """Rows that keep their ids come first, for Lance gives the others new ones. The head row does, unless it is far."""
    kept, place = old.row_ids, 0
    if _is_far(old):
        parts, place = [old.rows, head, rows], len(kept)
    else:
        parts, kept = [head, old.rows, rows], pa.concat_arrays([old.head_row_id, kept])
    content = pa.concat_tables(parts).combine_chunks()
    with lance_errors("writing manifest rows"):
        (fragment,) = write_fragments(content, table.dataset)
        fragment.row_id_meta = RowIdSequence(kept).to_inline_metadata()
    return WrittenFragment(fragment, content, place)


def _is_far(tail: ActiveFragment) -> bool:
    """Whether the head row got its id so long ago that a new one is cheaper; not each time, for ids would have gaps."""
    ids = tail.row_ids
    return bool(len(ids)) and int(pc.max(ids).as_py()) - int(tail.head_row_id[0].as_py()) > REACH


def kept_row_ids(fragment: FragmentMetadata) -> pa.Array[Any]:
    """The ids of a fragment's rows, which the version file of a manifest always holds."""
    ids = row_ids(fragment)
    assert ids is not None, "every release gives the rows of __manifest stable ids"
    return ids


class OwnFragments:
    """Rows by the data file that holds them; only whole publishes that landed as the version they say. Not locked."""

    def __init__(self) -> None:
        self._rows: dict[str, pa.Table] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, fragment: FragmentMetadata, rows: pa.Table) -> None:
        """Remember what was written as this fragment."""
        self._rows[_file(fragment)] = rows

    def keep_only(self, names: Names) -> None:
        """Forget fragments whose files the newest version does not name any more."""
        self._rows = {file: rows for file, rows in self._rows.items() if f"data/{file}" in names}

    def among(self, fragments: Sequence[LanceFragment]) -> list[LanceFragment]:
        """Those of the fragments whose rows are known, and still all there."""
        return [each for each in fragments if self._of(each.metadata) is not None]

    def join(
        self, table: Table, fragments: Sequence[LanceFragment], tail: ActiveFragment, *, large: int
    ) -> FragmentMetadata | None:
        """One fragment of the rows of several and of a tail, in the same order, under the same ids; None when it is
        vain.

        Its rows lose their versions, which their order tells as well (`row_ages.py`). A fragment of `large` or more
        rows is joined no more, and need not be remembered.
        """
        if len(fragments) < 2 and not tail.rows.num_rows:
            return None
        old = [each.metadata for each in fragments]
        rows = pa.concat_tables([*(self._known(each) for each in old), tail.rows]).combine_chunks()
        with lance_errors("joining fragments of __manifest"):
            (fragment,) = write_fragments(rows, table.dataset, max_rows_per_file=rows.num_rows)
            ids = pa.concat_arrays([*(kept_row_ids(each) for each in old), tail.row_ids])
            fragment.row_id_meta = RowIdSequence(ids).to_inline_metadata()
            joined = without_row_versions(fragment)
        if rows.num_rows < large:
            self.add(joined, rows)
        return joined

    def _of(self, fragment: FragmentMetadata) -> pa.Table | None:
        if len(fragment.files) != 1 or fragment.deletion_file is not None:
            return None
        return self._rows.get(_file(fragment))

    def _known(self, fragment: FragmentMetadata) -> pa.Table:
        rows = self._of(fragment)
        assert rows is not None
        assert rows.num_rows == fragment.physical_rows
        return rows


def _file(fragment: FragmentMetadata) -> str:
    return str(fragment.files[0].path)
