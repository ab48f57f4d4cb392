"""The pieces of a manifest that this process has published itself, kept in memory until they are joined.

Joining them needs nothing from the store: their rows are here, and the ids of the rows stand in the version file. A
data file never changes and its name is used once, so a piece made of that file, with nothing removed, has exactly these
rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from lance.fragment import RowIdSequence, write_fragments

from omnigraph.manifest.tail import kept_row_ids
from omnigraph.store.lance_errors import lance_errors
from omnigraph.store.row_metadata import without_row_versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance import FragmentMetadata, LanceFragment

    from omnigraph.manifest.named_files import Names
    from omnigraph.manifest.tail import Tail
    from omnigraph.store.tables import Table


class OwnPieces:
    """Rows by the data file that holds them; only whole publishes that landed as the version they say. Not locked."""

    def __init__(self) -> None:
        self._rows: dict[str, pa.Table] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, piece: FragmentMetadata, rows: pa.Table) -> None:
        """Remember what was written as this piece."""
        self._rows[_file(piece)] = rows

    def keep_only(self, names: Names) -> None:
        """Forget pieces whose files the newest version does not name any more."""
        self._rows = {file: rows for file, rows in self._rows.items() if f"data/{file}" in names}

    def among(self, fragments: Sequence[LanceFragment]) -> list[LanceFragment]:
        """Those of the fragments whose rows are known, and still all there."""
        return [each for each in fragments if self._of(each.metadata) is not None]

    def join(
        self, table: Table, fragments: Sequence[LanceFragment], tail: Tail, *, large: int
    ) -> FragmentMetadata | None:
        """One piece of the rows of several and of a tail, in the same order, under the same ids; None when it is vain.

        Its rows lose their versions, which their order tells as well (`row_ages.py`). A piece of `large` or more rows
        is joined no more, and need not be remembered.
        """
        if len(fragments) < 2 and not tail.rows.num_rows:
            return None
        old = [each.metadata for each in fragments]
        rows = pa.concat_tables([*(self._known(each) for each in old), tail.rows]).combine_chunks()
        with lance_errors("joining pieces of __manifest"):
            (piece,) = write_fragments(rows, table.dataset, max_rows_per_file=rows.num_rows)
            ids = pa.concat_arrays([*(kept_row_ids(each) for each in old), tail.row_ids])
            piece.row_id_meta = RowIdSequence(ids).to_inline_metadata()
            joined = without_row_versions(piece)
        if rows.num_rows < large:
            self.add(joined, rows)
        return joined

    def _of(self, piece: FragmentMetadata) -> pa.Table | None:
        if len(piece.files) != 1 or piece.deletion_file is not None:
            return None
        return self._rows.get(_file(piece))

    def _known(self, piece: FragmentMetadata) -> pa.Table:
        rows = self._of(piece)
        assert rows is not None
        assert rows.num_rows == piece.physical_rows
        return rows


def _file(piece: FragmentMetadata) -> str:
    return str(piece.files[0].path)
