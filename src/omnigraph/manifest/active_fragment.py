"""The active fragment of a branch's manifest: the head row and the newest publishes, replaced by each publish.

Each publish replaces this fragment by one that holds the old rows, the publish's own rows and a new head row: one data
file, and one commit that removes the old fragment. Two publishes of one branch remove the same fragment, so Lance lets
one of them win. That alone is not enough. Lance looks for conflicts only in versions that still exist, and accepts a
commit that removes a fragment that no longer exists: a publish that was suspended while others published and collected
old versions would meet no conflict, and fork the history. So every publish declares that it removes the fragment `LOCK`
as well. No fragment has that id and none ever will, but Lance compares the ids, and the newest publish is never
collected (`version_gc.py`). tests/conformance/test_active_fragment_publish.py pins this behaviour of Lance.

`OwnFragments` caches the fragments that this process has published, until compaction joins them. Joining needs no read
from the store: the rows are in memory and their row ids are in the version file. A data file never changes and its name
is used once, so a fragment that consists of that file and has no deletion vector holds exactly these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.kernels.row_address import CREATED_AT
from omnigraph.manifest.row_versions import holds_whole_publishes, tuples
from omnigraph.manifest.rows import KEY, SCHEMA
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.lance.metadata import has_row_versions, row_ids, without_row_versions
from omnigraph.storage.lance.paths import data_file
from omnigraph.storage.tables.row_rewrite import new_fragment, stage_swapped_fragment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance import FragmentMetadata

    from omnigraph.manifest.version_refs import Names
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table

# Lance assigns fragment ids from 0 upwards, in 32 bits, so it never reaches this one.
LOCK: Final = 4_000_000_000
# A larger fragment is not rewritten by every publish: the head row moves to a fragment of its own first.
MAX_ACTIVE_ROWS: Final = 1_024
# For rows that keep their row ids, Lance visits every id between the lowest and the highest.
MAX_ROW_ID_DISTANCE: Final = 4_096


@dataclass(frozen=True)
class ActiveFragment:
    """A fragment with the head row of a branch at `head_offset`; the other rows are whole publishes.

    Each publish ends with its commit row.
    """

    fragment: FragmentMetadata
    content: pa.Table
    head_offset: int

    @cached_property
    def rows(self) -> pa.Table:
        """All rows except the head row."""
        return pa.concat_tables([self.content[: self.head_offset], self.content[self.head_offset + 1 :]])

    @property
    def head(self) -> pa.Table:
        """The head row."""
        return self.content.slice(self.head_offset, 1)

    @property
    def is_long(self) -> bool:
        """Whether the head row should move to a fragment of its own, because no compaction has shortened this one."""
        return self.content.num_rows > MAX_ACTIVE_ROWS

    @cached_property
    def publishes(self) -> int:
        """The number of publishes whose rows are in this fragment."""
        return self.rows.column("object_type").to_pylist().count("graph_commit")

    @cached_property
    def row_ids(self) -> pa.Array[Any]:
        """The row ids of all rows except the head row."""
        ids = stored_row_ids(self.fragment)
        return pa.concat_arrays([ids[: self.head_offset], ids[self.head_offset + 1 :]])

    @property
    def head_row_id(self) -> pa.Array[Any]:
        """The row id of the head row."""
        return stored_row_ids(self.fragment).slice(self.head_offset, 1)


@dataclass(frozen=True)
class WrittenFragment:
    """An active fragment that is written but not committed; Lance assigns its fragment id at the commit."""

    fragment: FragmentMetadata
    content: pa.Table
    head_offset: int

    def under(self, fragment: FragmentMetadata) -> ActiveFragment:
        """The active fragment that this one became; `fragment` is its metadata after the commit."""
        return ActiveFragment(fragment, self.content, self.head_offset)


def active_fragment_of(table: Table, fragment_id: int, rows: pa.Table, head: str) -> ActiveFragment | None:
    """The active fragment made of fragment `number`, or None if a publish cannot replace that fragment as a whole.

    It cannot when the fragment is large, has a deletion vector, or holds rows other than whole publishes with known row
    versions: the order of rows would not imply their versions later (`row_versions.py`). `rows` is from
    `read_fragments`.
    """
    fragment = table.fragment(fragment_id)
    if len(fragment.files) != 1 or fragment.deletion_file is not None or fragment.physical_rows > MAX_ACTIVE_ROWS:
        return None
    head_offset = rows.column(KEY).to_pylist().index(head)
    others = pa.concat_tables([rows[:head_offset], rows[head_offset + 1 :]])
    if others.num_rows and not (has_row_versions(fragment) and _has_known_versions(others)):
        return None
    return ActiveFragment(fragment, rows.select(SCHEMA.names).cast(SCHEMA).combine_chunks(), head_offset)


def _has_known_versions(rows: pa.Table) -> bool:
    """Where the creation version reads 1, only the last update may be right, and rewriting the row would lose it."""
    return 1 not in rows.column(CREATED_AT).to_pylist() and holds_whole_publishes(list(tuples(rows.to_batches())))


def stage_extended_fragment(
    table: Table, old: ActiveFragment, rows: pa.Table, head: pa.Table
) -> tuple[Staged, WrittenFragment]:
    """Stage a publish: the rows of the old active fragment, the new rows and the new head row in one fragment."""
    written = _write(table, old, rows, head)
    return stage_swapped_fragment(table, [old.fragment.id, LOCK], written.fragment), written


def stage_lone_head(table: Table, old: ActiveFragment) -> WrittenFragment:
    """Write the head row alone, uncommitted: what remains when compaction moves the other rows elsewhere."""
    content = old.head.combine_chunks()
    with lance_errors("writing the head row of __manifest"):
        fragment = new_fragment(table, content, old.head_row_id)
    return WrittenFragment(fragment, content, 0)


def _write(table: Table, old: ActiveFragment, rows: pa.Table, head: pa.Table) -> WrittenFragment:
    """Rows that keep their row ids come first, since Lance assigns new ids to the rest.

    The head row keeps its id unless the id is far from the others.
    """
    row_ids_retained, head_offset = old.row_ids, 0
    if _is_far(old):
        contents, head_offset = [old.rows, head, rows], len(row_ids_retained)
    else:
        contents, row_ids_retained = [head, old.rows, rows], pa.concat_arrays([old.head_row_id, row_ids_retained])
    content = pa.concat_tables(contents).combine_chunks()
    with lance_errors("writing manifest rows"):
        fragment = new_fragment(table, content, row_ids_retained)
    return WrittenFragment(fragment, content, head_offset)


def _is_far(active: ActiveFragment) -> bool:
    """Whether the head row's id is so old that a new one is cheaper; renewing it each time would leave id gaps."""
    ids = active.row_ids
    return bool(len(ids)) and int(pc.max(ids).as_py()) - int(active.head_row_id[0].as_py()) > MAX_ROW_ID_DISTANCE


def stored_row_ids(fragment: FragmentMetadata) -> pa.Array[Any]:
    """The row ids of a fragment of a manifest, whose version file always stores them."""
    ids = row_ids(fragment)
    assert ids is not None, "every release gives the rows of __manifest stable ids"
    return ids


class OwnFragments:
    """Rows by the data file that holds them: only whole publishes that became the version they name.

    Not thread-safe: callers must lock.
    """

    def __init__(self) -> None:
        self._rows: dict[str, pa.Table] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, fragment: FragmentMetadata, rows: pa.Table) -> None:
        """Cache the rows that were written as this fragment."""
        self._rows[_file(fragment)] = rows

    def evict_others(self, names: Names) -> None:
        """Evict fragments whose files the newest version does not reference any more."""
        self._rows = {file: rows for file, rows in self._rows.items() if data_file("", file) in names}

    def among(self, fragments: Sequence[FragmentMetadata]) -> list[FragmentMetadata]:
        """The fragments whose rows are cached and have not been deleted since."""
        return [each for each in fragments if self._of(each) is not None]

    def join(
        self, table: Table, fragments: Sequence[FragmentMetadata], active: ActiveFragment, *, large: int
    ) -> FragmentMetadata | None:
        """Write one fragment of the rows of several fragments and the active one; None if there is nothing to join.

        Rows keep their order and row ids. They lose their row versions, which their order implies (`row_versions.py`).
        A result of `large` or more rows will not be joined again and is not cached.
        """
        if len(fragments) < 2 and not active.rows.num_rows:
            return None
        rows = pa.concat_tables([*(self._cached_rows(each) for each in fragments), active.rows]).combine_chunks()
        with lance_errors("joining fragments of __manifest"):
            ids = pa.concat_arrays([*(stored_row_ids(each) for each in fragments), active.row_ids])
            joined = without_row_versions(new_fragment(table, rows, ids))
        if rows.num_rows < large:
            self.add(joined, rows)
        return joined

    def _of(self, fragment: FragmentMetadata) -> pa.Table | None:
        if len(fragment.files) != 1 or fragment.deletion_file is not None:
            return None
        return self._rows.get(_file(fragment))

    def _cached_rows(self, fragment: FragmentMetadata) -> pa.Table:
        rows = self._of(fragment)
        assert rows is not None
        assert rows.num_rows == fragment.physical_rows
        return rows


def _file(fragment: FragmentMetadata) -> str:
    return str(fragment.files[0].path)
