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

from omnigraph.counters import count
from omnigraph.kernels.arrays import ID, comparable, one_array, rebatch
from omnigraph.kernels.equality import distinct, is_among
from omnigraph.kernels.row_address import ROW_ADDRESS, ROW_ID, fragment_of, offset_of
from omnigraph.kernels.row_address import addresses as row_addresses
from omnigraph.storage.filters.arrow_eval import columns_of, truth
from omnigraph.storage.filters.literals import as_literals
from omnigraph.storage.filters.model import And, Filter, one_of
from omnigraph.storage.lance.metadata import row_ids
from omnigraph.storage.tables.compaction import covered_fragments
from omnigraph.storage.tables.fragment_cache import CachedRows, deletion_vector_of, fragment_bytes, is_cacheable
from omnigraph.storage.tables.row_rewrite import LOCATION_COLUMNS, locations_in

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
CACHED_READ_BYTES = 16 * 1024 * 1024
# A file this small is read in one request, whatever columns are asked for.
WHOLE_FILE_BYTES = 64 * 1024


def read_matching(tables: TableStore, table: Table, columns: Sequence[str], where: Filter) -> pa.Table:
    """The rows that match, from cached fragments where possible; in no particular order."""
    tested = sorted(columns_of(where))
    fragments = table.fragments()
    covered = covered_fragments(table)
    cacheable = [each for each in fragments if each.id not in covered and is_cacheable(each)]
    wanted = [name for name in columns if name not in LOCATION_COLUMNS]
    if not tested or len(cacheable) > MOST_FRAGMENTS or not {*tested, *wanted} <= set(table.schema.names):
        return table.read(columns, where)
    schema = table.schema_of(columns)
    cached = _cached(tables, table, cacheable, tested, wanted)
    uncached = [each.id for each in fragments if each.id not in cached]
    found = []
    for fragment in cacheable:
        rows = cached.get(fragment.id)
        matching = None if rows is None else _matching(rows, tested, where)
        if rows is None or matching is None or not len(matching):
            continue
        chosen = _rows_at(tables, table, fragment, rows, matching, schema)
        if chosen is None:
            uncached.append(fragment.id)
        else:
            found.append(chosen)
    if uncached or not found:
        found.insert(0, table.read(columns, where, fragments=sorted(uncached)) if uncached else schema.empty_table())
    return pa.concat_tables(found)


def cache_staged(tables: TableStore, staged: Staged, rows: pa.Table) -> None:
    """Cache the rows just written as one fragment.

    Several rows that replace others are not cached: they are stored in an order of their own.
    """
    operation: Any = staged.transaction.operation
    fragments = operation.fragments if staged.change == "append" else operation.new_fragments
    in_order = staged.change == "append" or rows.num_rows == 1
    if len(fragments) != 1 or not in_order or not is_cacheable(fragments[0]):
        return
    stored = staged.table.schema
    columns = {
        name: one_array(rows.column(name))
        for name in rows.column_names
        if rows.schema.field(name).type == stored.field(name).type
    }
    offsets = np.arange(rows.num_rows, dtype=np.uint32)
    tables.fragment_cache.add(staged.table, fragments[0], CachedRows(None, offsets, columns))


def _cached(
    tables: TableStore,
    table: Table,
    fragments: Sequence[FragmentMetadata],
    tested: Sequence[str],
    wanted: Sequence[str],
) -> dict[int, CachedRows]:
    """The cached rows of the fragments, without deleted ones; fragments that are not cached are read first."""
    cached = {each.id: _cached_fragment(tables, table, each, tested) for each in fragments}
    uncached = [each for each in fragments if cached[each.id] is None]
    small = [each for each in uncached if fragment_bytes(each) < WHOLE_FILE_BYTES]
    cached.update(_read_and_cache(tables, table, small, sorted({*tested, *wanted})))
    large = [each for each in uncached if fragment_bytes(each) >= WHOLE_FILE_BYTES]
    if sum(map(fragment_bytes, large)) <= CACHED_READ_BYTES:
        cached.update(_read_and_cache(tables, table, large, tested))
    return {fragment_id: rows for fragment_id, rows in cached.items() if rows is not None}


def _cached_fragment(
    tables: TableStore, table: Table, fragment: FragmentMetadata, columns: Iterable[str]
) -> CachedRows | None:
    rows = tables.fragment_cache.of(table, fragment, columns)
    if rows is None or rows.deletion_vector == deletion_vector_of(fragment):
        return rows
    (deleted,) = tables.deletion_vectors.of([(table, fragment)])
    left = rows.excluding(deleted)
    # On another branch, or in an earlier snapshot, the fragment may have rows that were deleted when these were read.
    return left if len(left.offsets) == fragment.num_rows else None


def _read_and_cache(
    tables: TableStore, table: Table, fragments: Sequence[FragmentMetadata], columns: Sequence[str]
) -> dict[int, CachedRows]:
    if not fragments:
        return {}
    rows = table.read([*columns, ROW_ADDRESS], fragments=[each.id for each in fragments])
    addresses = rows.column(ROW_ADDRESS).to_numpy()
    fragment_ids = fragment_of(addresses)
    cached = {}
    for fragment in fragments:
        mine = np.flatnonzero(fragment_ids == fragment.id)
        arrays = {name: one_array(rows.column(name).take(mine)) for name in columns}
        offsets = offset_of(addresses[mine]).astype(np.uint32)
        cached[fragment.id] = CachedRows(deletion_vector_of(fragment), offsets, arrays)
        tables.fragment_cache.add(table, fragment, cached[fragment.id])
    return cached


def _matching(rows: CachedRows, tested: Sequence[str], where: Filter) -> NDArray[np.uint32]:
    """The offsets of the rows that match."""
    candidates = pa.table({name: rows.columns[name] for name in tested})
    matching: NDArray[np.uint32] = rows.offsets[
        truth(where, candidates).fill_null(False).to_numpy(zero_copy_only=False)
    ]
    return matching


def _rows_at(
    tables: TableStore,
    table: Table,
    fragment: FragmentMetadata,
    rows: CachedRows,
    matching: NDArray[np.uint32],
    schema: pa.Schema,
) -> pa.Table | None:
    """The rows at these offsets, or None when not all of their columns are cached."""
    columns: dict[str, pa.Array[Any]] = {}
    if ROW_ID in schema.names:
        ids = row_ids(fragment)
        if ids is None:
            return None
        columns[ROW_ID] = ids.take(matching)
    columns[ROW_ADDRESS] = pa.array(row_addresses(fragment.id, matching))
    stored = [name for name in schema.names if name not in LOCATION_COLUMNS]
    whole = (
        _cached_fragment(tables, table, fragment, stored) if any(name not in rows.columns for name in stored) else rows
    )
    if whole is None:
        return None
    indices = np.searchsorted(whole.offsets, matching)
    columns.update({name: whole.columns[name].take(indices) for name in stored})
    return pa.Table.from_arrays([columns[name].cast(schema.field(name).type) for name in schema.names], schema=schema)


# Above this many values, a scan of the whole column with a hash probe is faster than a filter that lists them.
LISTED_VALUES = 2_000
BATCH_ROWS = 65_536


@dataclass(frozen=True)
class LocatedRows:
    """Committed rows, and the location of each, in the same order."""

    rows: pa.Table
    locations: RowLocations


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

    def read(self, table_key: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Read all committed rows of a table into memory."""
        table = self.table(table_key)
        return table.read(columns) if self.entry(table_key).row_count else table.schema_of(columns).empty_table()

    def rows(self, table_key: str, columns: Sequence[str], where: Filter | None = None) -> LocatedRows:
        """Committed rows that match, with their locations."""
        count("row_lookups", table_key)
        return _located(self._read(table_key, _with_location(columns), where), columns)

    def rows_matching(self, table_key: str, wanted: Mapping[str, Values], columns: Sequence[str]) -> LocatedRows:
        """Committed rows in which each of these columns has one of the values given for it, with their locations.

        Nulls never match. Fast for few and for many values.
        """
        count("row_lookups", table_key)
        return _located(self._matching(table_key, wanted, _with_location(columns)), columns)

    def locations(self, table_key: str, ids: Values) -> RowLocations:
        """The locations of those ids that are committed."""
        return self.rows_matching(table_key, {ID: ids}, [ID]).locations

    def _read(self, table_key: str, columns: Sequence[str], where: Filter | None) -> pa.Table:
        table = self.table(table_key)
        if not self.entry(table_key).row_count:
            return table.schema_of(columns).empty_table()
        return table.read(columns) if where is None else read_matching(self.tables, table, columns, where)

    def _matching(self, table_key: str, wanted: Mapping[str, Values], columns: Sequence[str]) -> pa.Table:
        row_count = self.entry(table_key).row_count
        if not row_count or any(values.null_count == len(values) for values in wanted.values()):
            return self.table(table_key).schema_of(columns).empty_table()
        if row_count < min(map(len, wanted.values())):
            return self._probe_back(table_key, wanted, columns)
        needed = {column: distinct(values) for column, values in wanted.items()}
        listed = _listed(needed, {column: values.type for column, values in wanted.items()})
        if listed is not None:
            return self._read(table_key, columns, listed)
        return self._probe(table_key, needed, columns)

    def batches(self, table_key: str, columns: Sequence[str], *, rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """Stream committed rows as tables of `rows` rows, for work that has a fixed cost per table."""
        yield from rebatch(self.scan(table_key, columns), rows=rows)

    def _probe_back(self, table_key: str, wanted: Mapping[str, Values], columns: Sequence[str]) -> pa.Table:
        """`_matching` for more values than the table has rows: hashes the rows instead of the values."""
        rows = self.read(table_key, list(dict.fromkeys([*columns, *wanted])))
        for column, values in wanted.items():
            rows = rows.filter(is_among(comparable(rows.column(column)), comparable(values)))
        return rows.select(list(columns))

    def _probe(self, table_key: str, needed: Mapping[str, pa.Array[Any]], columns: Sequence[str]) -> pa.Table:
        # Each probe builds a hash table of the wanted values: batches at least as large as that keep the work linear.
        size = max(BATCH_ROWS, *map(len, needed.values()))
        found = [self.table(table_key).schema_of(columns).empty_table()]
        for batch in self.batches(table_key, list(dict.fromkeys([*columns, *needed])), rows=size):
            rows = batch
            for column, values in needed.items():
                rows = rows.filter(pc.is_in(comparable(rows.column(column)), value_set=values))
            found.append(rows.select(list(columns)))
        return pa.concat_tables(found)


def _with_location(columns: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*columns, ID, *LOCATION_COLUMNS]))


def _located(rows: pa.Table, columns: Sequence[str]) -> LocatedRows:
    return LocatedRows(rows.select(list(columns)), locations_in(rows))


def _listed(needed: Mapping[str, pa.Array[Any]], kinds: Mapping[str, pa.DataType]) -> Filter | None:
    """A filter that lists every value, or None when the list is too long or a value has no literal."""
    if sum(map(len, needed.values())) > LISTED_VALUES:
        return None
    literals = {column: as_literals(values, kinds[column]) for column, values in needed.items()}
    tests = tuple(one_of(column, values) for column, values in literals.items() if values is not None)
    return And(tests) if len(tests) == len(needed) else None
