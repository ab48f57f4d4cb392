"""`ReadView` is the state that a write is computed from: one snapshot of one branch, with a record of what was read.

Filtered reads go fragment by fragment through a cache, so that a mutation that follows others makes few requests to the
store. Of an uncached fragment the columns that the filter tests are read, and of a small one all requested columns;
both are cached, so the next read of the kind costs nothing, and the remaining columns of a fragment without a matching
row are never read. Fragments that an index covers, and large ones, are left to Lance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.kernels.arrays import ID, comparable
from omnigraph.kernels.equality import distinct, is_among
from omnigraph.kernels.rebatch import rebatch
from omnigraph.storage.filters.arrow_eval import truth
from omnigraph.storage.filters.literals import as_literals
from omnigraph.storage.filters.model import And, Filter, Not, Or, one_of
from omnigraph.storage.lance.metadata import row_ids
from omnigraph.storage.tables.compaction import covered_fragments
from omnigraph.storage.tables.fragment_cache import CachedRows, can_be_known, fragment_bytes, removals_of
from omnigraph.storage.tables.row_rewrite import PLACE_COLUMNS, ROW_ADDRESS, ROW_ID, places_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lance import FragmentMetadata
    from numpy.typing import NDArray

    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.storage.tables.row_rewrite import RowLocations
    from omnigraph.storage.tables.staging import Staged
    from omnigraph.storage.tables.table import Table, TableStore

    Values = pa.Array[Any] | pa.ChunkedArray[Any]

# Reads above these limits are left to Lance: they would fill the cache at once, and be evicted before they are used
# again.
MOST_FRAGMENTS = 64
LEARNED_BYTES = 16 * 1024 * 1024
# A file this small is read in one request, whatever columns are asked for.
WHOLE_BYTES = 64 * 1024


def read_matching(tables: TableStore, table: Table, columns: Sequence[str], where: Filter) -> pa.Table:
    """The rows that match, from cached fragments where possible; in no particular order."""
    tested = sorted(columns_of(where))
    fragments = [each.metadata for each in table.dataset.get_fragments()]
    covered = covered_fragments(table)
    held = [each for each in fragments if each.id not in covered and can_be_known(each)]
    wanted = [name for name in columns if name not in PLACE_COLUMNS]
    if not tested or len(held) > MOST_FRAGMENTS or not {*tested, *wanted} <= set(table.schema.names):
        return table.read(columns, where)
    schema = table.schema_of(columns)
    known = _known(tables, table, held, tested, wanted)
    unknown = [each.id for each in fragments if each.id not in known]
    found = []
    for fragment in held:
        rows = known.get(fragment.id)
        matching = None if rows is None else _matching(rows, tested, where)
        if rows is None or matching is None or not len(matching):
            continue
        taken = _taken(tables, table, fragment, rows, matching, schema)
        if taken is None:
            unknown.append(fragment.id)
        else:
            found.append(taken)
    if unknown or not found:
        found.insert(0, table.read(columns, where, fragments=sorted(unknown)) if unknown else schema.empty_table())
    return pa.concat_tables(found)


def remember(tables: TableStore, staged: Staged, rows: pa.Table) -> None:
    """Cache the rows just written as one fragment.

    Several rows that replace others are not cached: they are stored in an order of their own.
    """
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
    tables.known_fragments.add(staged.table, fragments[0], CachedRows(None, offsets, columns))


def columns_of(where: Filter) -> set[str]:
    """The columns that a filter tests."""
    match where:
        case And(operands) | Or(operands):
            return {name for each in operands for name in columns_of(each)}
        case Not(operand):
            return columns_of(operand)
        case _:
            return {where.column}


def _known(
    tables: TableStore,
    table: Table,
    fragments: Sequence[FragmentMetadata],
    tested: Sequence[str],
    wanted: Sequence[str],
) -> dict[int, CachedRows]:
    """The cached rows of the fragments, without deleted ones; fragments that are not cached are read first."""
    known = {each.id: _living(tables, table, each, tested) for each in fragments}
    unknown = [each for each in fragments if known[each.id] is None]
    small = [each for each in unknown if fragment_bytes(each) < WHOLE_BYTES]
    known.update(_learned(tables, table, small, sorted({*tested, *wanted})))
    large = [each for each in unknown if fragment_bytes(each) >= WHOLE_BYTES]
    if sum(map(fragment_bytes, large)) <= LEARNED_BYTES:
        known.update(_learned(tables, table, large, tested))
    return {number: rows for number, rows in known.items() if rows is not None}


def _living(tables: TableStore, table: Table, fragment: FragmentMetadata, columns: Iterable[str]) -> CachedRows | None:
    rows = tables.known_fragments.of(table, fragment, columns)
    if rows is None or rows.removals == removals_of(fragment):
        return rows
    (removed,) = tables.removals.of([(table, fragment)])
    left = rows.without(removed)
    # On another branch, or in an earlier snapshot, the fragment may have rows that were deleted when these were read.
    return left if len(left.offsets) == fragment.num_rows else None


def _learned(
    tables: TableStore, table: Table, fragments: Sequence[FragmentMetadata], columns: Sequence[str]
) -> dict[int, CachedRows]:
    if not fragments:
        return {}
    rows = table.read([*columns, ROW_ADDRESS], fragments=[each.id for each in fragments])
    addresses = rows.column(ROW_ADDRESS).to_numpy()
    numbers = addresses >> np.uint64(32)
    learned = {}
    for fragment in fragments:
        mine = np.flatnonzero(numbers == fragment.id)
        arrays = {name: _one(rows.column(name).take(mine)) for name in columns}
        offsets = (addresses[mine] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        learned[fragment.id] = CachedRows(removals_of(fragment), offsets, arrays)
        tables.known_fragments.add(table, fragment, learned[fragment.id])
    return learned


def _matching(rows: CachedRows, tested: Sequence[str], where: Filter) -> NDArray[np.uint32]:
    """The offsets of the rows that match."""
    candidates = pa.table({name: rows.columns[name] for name in tested})
    matching: NDArray[np.uint32] = rows.offsets[
        truth(where, candidates).fill_null(False).to_numpy(zero_copy_only=False)
    ]
    return matching


def _taken(
    tables: TableStore,
    table: Table,
    fragment: FragmentMetadata,
    rows: CachedRows,
    matching: NDArray[np.uint32],
    schema: pa.Schema,
) -> pa.Table | None:
    """The rows at these offsets, or None when not all of their columns are cached."""
    made: dict[str, pa.Array[Any]] = {}
    if ROW_ID in schema.names:
        ids = row_ids(fragment)
        if ids is None:
            return None
        made[ROW_ID] = ids.take(matching)
    made[ROW_ADDRESS] = pa.array((np.uint64(fragment.id) << np.uint64(32)) + matching.astype(np.uint64))
    stored = [name for name in schema.names if name not in PLACE_COLUMNS]
    whole = _living(tables, table, fragment, stored) if any(name not in rows.columns for name in stored) else rows
    if whole is None:
        return None
    places = np.searchsorted(whole.offsets, matching)
    made.update({name: whole.columns[name].take(places) for name in stored})
    return pa.Table.from_arrays([made[name].cast(schema.field(name).type) for name in schema.names], schema=schema)


def _one(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    array: pa.Array[Any] = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return array


# Above this many values, a scan of the whole column with a hash probe is faster than a filter that lists them.
LISTED_VALUES = 2_000
BATCH_ROWS = 65_536


@dataclass
class ReadView:
    """One snapshot of a branch. Every table read is recorded: a commit is refused if one of them has changed since."""

    snapshot: Snapshot
    tables: TableStore
    reads: dict[str, int] = field(default_factory=dict)

    def entry(self, table_key: str) -> TableEntry:
        """The snapshot's entry of a table, recorded as read."""
        entry = self.snapshot[table_key]
        self.reads[table_key] = entry.version
        return entry

    def table(self, table_key: str) -> Table:
        """A table opened at its pinned version, recorded as read."""
        return self.tables.open(self.entry(table_key).pin)

    def scan(
        self, table_key: str, columns: Sequence[str] | None = None, where: Filter | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Stream committed rows."""
        if self.entry(table_key).row_count:
            yield from self.table(table_key).scan(columns, where)

    def read(self, table_key: str, columns: Sequence[str] | None = None, where: Filter | None = None) -> pa.Table:
        """Read committed rows into memory."""
        table = self.table(table_key)
        if not self.entry(table_key).row_count:
            return table.schema_of(columns).empty_table()
        if columns is None or where is None:
            return table.read(columns, where)
        return read_matching(self.tables, table, columns, where)

    def places(self, table_key: str, ids: Values) -> RowLocations:
        """The row locations of those ids that are committed."""
        return places_in(self.rows_where(table_key, ID, ids, [ID, *PLACE_COLUMNS]))

    def rows_where(self, table_key: str, column: str, values: Values, columns: Sequence[str]) -> pa.Table:
        """Committed rows whose column has one of the values; nulls never match. Fast for few and for many values."""
        return self.rows_matching(table_key, {column: values}, columns)

    def rows_matching(self, table_key: str, wanted: Mapping[str, Values], columns: Sequence[str]) -> pa.Table:
        """Committed rows in which each of these columns has one of the values given for it."""
        row_count = self.entry(table_key).row_count
        if not row_count or any(values.null_count == len(values) for values in wanted.values()):
            return self.table(table_key).schema_of(columns).empty_table()
        if row_count < min(map(len, wanted.values())):
            return self._probe_back(table_key, wanted, columns)
        needed = {column: distinct(values) for column, values in wanted.items()}
        listed = _listed(needed, {column: values.type for column, values in wanted.items()})
        if listed is not None:
            return self.read(table_key, columns, listed)
        return self._probe(table_key, needed, columns)

    def batches(self, table_key: str, columns: Sequence[str], *, rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """Stream committed rows as tables of `rows` rows, for work that has a fixed cost per table."""
        yield from rebatch(self.scan(table_key, columns), rows=rows)

    def _probe_back(self, table_key: str, wanted: Mapping[str, Values], columns: Sequence[str]) -> pa.Table:
        """`rows_matching` for more values than the table has rows: hashes the rows instead of the values."""
        rows = self.read(table_key, list(dict.fromkeys([*columns, *wanted])))
        for column, values in wanted.items():
            rows = rows.filter(is_among(comparable(rows.column(column)), comparable(values)))
        return rows.select(list(columns))

    def _probe(self, table_key: str, needed: Mapping[str, pa.Array[Any]], columns: Sequence[str]) -> pa.Table:
        # Each probe builds a hash table of the wanted values: batches at least as large as that keep the work linear.
        size = max(BATCH_ROWS, *map(len, needed.values()))
        found = [self.table(table_key).schema_of(columns).empty_table()]
        for fragment in self.batches(table_key, list(dict.fromkeys([*columns, *needed])), rows=size):
            kept = fragment
            for column, values in needed.items():
                kept = kept.filter(pc.is_in(comparable(kept.column(column)), value_set=values))
            found.append(kept.select(list(columns)))
        return pa.concat_tables(found)


def _listed(needed: Mapping[str, pa.Array[Any]], kinds: Mapping[str, pa.DataType]) -> Filter | None:
    """A filter that lists every value, or None when the list is too long or a value has no literal."""
    if sum(map(len, needed.values())) > LISTED_VALUES:
        return None
    literals = {column: as_literals(values, kinds[column]) for column, values in needed.items()}
    tests = tuple(one_of(column, values) for column, values in literals.items() if values is not None)
    return And(tests) if len(tests) == len(needed) else None
