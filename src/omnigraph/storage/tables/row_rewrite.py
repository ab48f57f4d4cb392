"""Stages updates and deletes by row address, instead of joining the rows with the table.

Lance's own merge reads every row of the table to find a few, and fails on many: its join may hold 100 MB. An index on
the id locates a few rows at once, and many are located by reading all ids (`RowLocations`: id, row id and row address).
The rest is what Lance's merge writes as well: the new rows in fragments of their own, in which updated rows keep their
stable row ids, deletion vectors for the old fragments, and one transaction.

For rows that keep their row ids Lance looks up when they were created, among all rows between the first and the last of
them. If there are too many of either, the rows get new row ids instead, as if they had been deleted and inserted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation
from lance.fragment import RowIdSequence, write_fragments

from omnigraph.kernels.arrays import ID, one_array, rebatch
from omnigraph.kernels.equality import row_numbers
from omnigraph.kernels.hashing import are_among
from omnigraph.kernels.row_address import ROW_ADDRESS, ROW_ID, by_fragment
from omnigraph.storage.filters.model import one_of, render
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.tables.staging import Change, refuse_deleted_ids, refuse_repeated_ids, stage_operation
from omnigraph.storage.tables.table import ROWS_PER_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lance import FragmentMetadata
    from numpy.typing import NDArray

    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table, TableStore

    RowIds = NDArray[np.uint64]
    Addresses = NDArray[np.uint64]

LOCATION_COLUMNS = [ROW_ID, ROW_ADDRESS]


@dataclass(frozen=True)
class RowLocations:
    """The ids, row ids and row addresses of existing rows. No id occurs twice."""

    rows: pa.Table

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @cached_property
    def ids(self) -> pa.Array[Any]:
        """The ids of the rows."""
        return pa.concat_arrays(self.rows.column(ID).chunks) if len(self) else pa.array([], pa.string())

    @cached_property
    def row_ids(self) -> RowIds:
        """The stable row ids of the rows."""
        return np.asarray(self.rows.column(ROW_ID).to_numpy(), np.uint64)

    @cached_property
    def addresses(self) -> Addresses:
        """The row addresses: the fragment id in the upper 32 bits, the offset in the lower."""
        return np.asarray(self.rows.column(ROW_ADDRESS).to_numpy(), np.uint64)

    def of(self, ids: pa.Array[Any]) -> RowLocations:
        """The locations of these ids."""
        return RowLocations(self.rows.filter(pc.is_in(self.ids, value_set=ids)))

    def excluding(self, addresses: Addresses) -> RowLocations:
        """The locations that are not at one of these addresses."""
        return RowLocations(self.rows.filter(pa.array(~np.isin(self.addresses, addresses))))

    def and_(self, others: RowLocations) -> RowLocations:
        """The union with other locations."""
        return RowLocations(pa.concat_tables([self.rows, others.rows]))


def locations_in(rows: pa.Table) -> RowLocations:
    """The locations of rows that were read with row id and row address."""
    return RowLocations(rows.select([ID, *LOCATION_COLUMNS]).cast(NO_LOCATIONS.rows.schema))


_FIELDS: list[pa.Field[Any]] = [
    pa.field(ID, pa.string()),
    pa.field(ROW_ID, pa.uint64()),
    pa.field(ROW_ADDRESS, pa.uint64()),
]
NO_LOCATIONS = RowLocations(pa.schema(_FIELDS).empty_table())


# Within the commit Lance takes about 40 ns for each row between rows that keep their row ids, and holds about 100 bytes
# for each row that keeps its own.
STABLE_IDS_SPAN = 200_000
_SPAN_PER_ROW = 20
_STABLE_IDS_ROWS = 1_000_000
_MOST_NAMED = 2_000


def keeps_row_ids(rows: int, *, span: int) -> bool:
    """Whether this many updated rows, whose row ids span this range, keep their row ids."""
    return rows <= _STABLE_IDS_ROWS and span <= max(STABLE_IDS_SPAN, _SPAN_PER_ROW * rows)


def new_fragment(table: Table, rows: pa.Table, row_ids: RowIds | pa.Array[Any] | None = None) -> FragmentMetadata:
    """Write rows as an uncommitted fragment of the table; `row_ids` are the existing row ids of the first of them."""
    (fragment,) = write_fragments(
        rows,
        table.handle,
        schema=rows.schema,
        max_rows_per_file=max(rows.num_rows, 1),
        allow_external_blob_outside_bases=True,
    )
    return fragment if row_ids is None else with_row_ids(fragment, row_ids)


def with_row_ids(fragment: FragmentMetadata, row_ids: RowIds | pa.Array[Any]) -> FragmentMetadata:
    """Give the first rows of a new fragment existing row ids; the others get new ones at the commit."""
    if len(row_ids):
        fragment.row_id_meta = RowIdSequence(pa.array(row_ids, pa.uint64())).to_inline_metadata()
    return fragment


def delete_rows(tables: TableStore, table: Table, addresses: Addresses) -> tuple[list[FragmentMetadata], list[int]]:
    """Delete the rows at these addresses: the fragments that keep rows, and the ids of those with none left."""
    changed = by_fragment(addresses)
    left = tables.deletion_vectors.add(
        table, [(table.fragment(fragment_id), offsets) for fragment_id, offsets in changed]
    )
    emptied = [fragment_id for (fragment_id, _), fragment in zip(changed, left, strict=True) if fragment is None]
    return [each for each in left if each is not None], emptied


def change_of_rows(
    table: Table,
    written: Sequence[FragmentMetadata],
    *,
    shrunk: Sequence[FragmentMetadata],
    emptied: Sequence[int],
    deleted_ids: Sequence[str] = (),
) -> Any:
    """The operation that adds fragments and deletes rows of others. `deleted_ids`: those of rows not replaced."""
    if not written and (shrunk or emptied or deleted_ids):
        return LanceOperation.Delete(list(shrunk), list(emptied), _predicate(table, deleted_ids))
    if not (shrunk or emptied):
        return LanceOperation.Append(list(written))
    return LanceOperation.Update(
        removed_fragment_ids=list(emptied),
        updated_fragments=list(shrunk),
        new_fragments=list(written),
        # Every value may have changed, so no index covers the new fragments before it is extended.
        fields_for_preserving_frag_bitmap=[each.id() for each in table.handle.lance_schema.fields()],
        update_mode="rewrite_rows",
    )


def stage_swapped_fragment(table: Table, replaced: Sequence[int], written: FragmentMetadata) -> Staged:
    """Stage a fragment in place of others; any two such changes that remove a common fragment conflict."""
    operation = LanceOperation.Update(
        removed_fragment_ids=list(replaced),
        updated_fragments=[],
        new_fragments=[written],
        fields_modified=[],
        fields_for_preserving_frag_bitmap=[],
        update_mode="rewrite_rows",
    )
    return stage_operation(table, "change", operation)


def _predicate(table: Table, ids: Sequence[str]) -> str:
    """The predicate of the transaction, which is informational only; a list of many ids would be long."""
    return render(one_of(ID, ids), table.schema) if ids and len(ids) <= _MOST_NAMED else f"{ID} IS NOT NULL"


class RowRewrite:
    """Replaces, inserts and deletes rows of a table, as one transaction.

    Whether replaced rows keep their row ids is decided once for all rows of the table, however many tasks write them:
    `replaced` is their number, and `row_id_span` the difference between the highest and the lowest of their row ids.
    """

    def __init__(self, tables: TableStore, table: Table, *, replaced: int, row_id_span: int) -> None:
        self.table = table
        self.keeps_row_ids = keeps_row_ids(replaced, span=row_id_span)
        self._tables = tables
        self._replaced = replaced
        self._deleted = 0
        self._written: list[FragmentMetadata] = []
        self._shrunk: list[FragmentMetadata] = []
        self._emptied: list[int] = []

    def put(self, rows: pa.Table, order: NDArray[np.int64], row_ids: RowIds) -> None:
        """Write rows in this order, as new fragments; the first of them replace the rows with these row ids."""
        for start in range(0, rows.num_rows, ROWS_PER_FILE):
            some = slice(start, start + ROWS_PER_FILE)
            self.take_written(new_fragment(self.table, rows.take(row_numbers(order[some])), row_ids[some]))

    def add(self, tables: Iterable[pa.Table]) -> None:
        """Write each table of new rows as a fragment."""
        for rows in tables:
            self.take_written(new_fragment(self.table, rows))

    def take_written(self, fragment: FragmentMetadata) -> None:
        """Take a new fragment, possibly written by a task, with the row ids of the rows that it replaces."""
        if not self.keeps_row_ids:
            fragment.row_id_meta = None
        self._written.append(fragment)

    def remove(self, addresses: Addresses) -> None:
        """Delete the rows at these addresses: those that are replaced, and those that are only deleted."""
        self.take_deletions(len(addresses), *delete_rows(self._tables, self.table, addresses))

    def take_deletions(self, rows: int, shrunk: Sequence[FragmentMetadata], emptied: Sequence[int]) -> None:
        """Take fragments of which a task has deleted this many rows, and the ids of those that became empty."""
        self._deleted += rows
        self._shrunk += shrunk
        self._emptied += emptied

    def stage(self, *, deleted_ids: Sequence[str] = ()) -> Staged:
        """Stage everything. `deleted_ids` are named in the transaction, for information."""
        operation = change_of_rows(
            self.table, self._written, shrunk=self._shrunk, emptied=self._emptied, deleted_ids=deleted_ids
        )
        return stage_operation(
            self.table,
            self._change(named=bool(deleted_ids)),
            operation,
            inserted=sum(int(each.physical_rows) for each in self._written) - self._replaced,
            updated=self._replaced,
            deleted=self._deleted - self._replaced,
        )

    def _change(self, *, named: bool) -> Change:
        if not self._deleted and (self._written or not named):
            return "append"
        if not self._written:
            return "delete"
        return "change" if named or self._deleted > self._replaced else "upsert"


# More rows than this are found faster by reading all ids.
FEW_ROWS = 20_000
_AT_ONCE = 2_000
_IDS_AT_ONCE = 1_000_000
_NO_IDS = pa.array([], pa.string())


def stage_rewrite(
    table: Table,
    puts: pa.Table | None,
    deletes: Sequence[str],
    *,
    tables: TableStore,
    locations: RowLocations | None = None,
) -> Staged:
    """Update rows whose id exists, insert the others, and delete some, as one transaction.

    `locations`: those of the existing ones, possibly with others, if the caller knows them; else they are looked up.
    """
    wanted = _NO_IDS if puts is None else one_array(puts.column(ID))
    if puts is not None:
        refuse_repeated_ids(table, puts)
        refuse_deleted_ids(table, puts, deletes)
    changed = pa.concat_arrays([wanted, pa.array(deletes, pa.string())])
    there = _locate(table, changed) if locations is None else locations.of(changed)
    at = pc.index_in(wanted, value_set=there.ids)
    row_ids = there.row_ids[at.drop_null().sort().to_numpy()]
    span = int(np.ptp(row_ids)) if len(row_ids) else 0
    rewrite = RowRewrite(tables, table, replaced=len(row_ids), row_id_span=span)
    with lance_errors(f"staging a change to {table.path}"):
        rewrite.remove(there.addresses)
        if puts is not None:
            replaced_first = np.argsort(at.fill_null(len(there)).to_numpy(), kind="stable")
            rewrite.put(puts, replaced_first, row_ids)
        return rewrite.stage(deleted_ids=deletes)


def _locate(table: Table, ids: pa.Array[Any]) -> RowLocations:
    """The locations of these ids, as far as they exist."""
    if len(ids) > FEW_ROWS:
        return RowLocations(_locate_many(table, ids))
    wanted_ids = [str(each) for each in ids.to_pylist()]
    found = [
        table.read([ID, ROW_ID, ROW_ADDRESS], one_of(ID, wanted_ids[start : start + _AT_ONCE]))
        for start in range(0, len(wanted_ids), _AT_ONCE)
    ]
    return RowLocations(pa.concat_tables(found))


def _locate_many(table: Table, ids: pa.Array[Any]) -> pa.Table:
    """The same by scanning all ids, in chunks so large that hashing the wanted ids again for each stays cheap."""
    columns = [ID, ROW_ID, ROW_ADDRESS]
    chunks = rebatch(table.scan(columns), rows=max(len(ids), _IDS_AT_ONCE))
    return pa.concat_tables([table.schema_of(columns).empty_table(), *(_wanted(rows, ids) for rows in chunks)])


def _wanted(rows: pa.Table, ids: pa.Array[Any]) -> pa.Table:
    texts = one_array(rows.column(ID))
    wanted = are_among(texts, ids)
    return rows.filter(pc.is_in(texts, value_set=ids) if wanted is None else wanted)
