"""The write buffer holds the writes of one operation in memory; the operation's later statements read them back.

Committed tables are only read. The net result, one `TableChanges` per table, passes through `transaction/constraints`
and `transaction/table_writes.py` to the commit protocol. A read returns rows with their locations, and the buffer keeps
the locations of the rows that are then replaced or deleted: staging does not look them up again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import put_schema, readable_columns, to_stored
from omnigraph.catalog.rules import Unique, unique_rules
from omnigraph.errors import InvalidInput, KeyConflict, ResourceLimitExceeded
from omnigraph.kernels.arrays import ID, one_array
from omnigraph.kernels.equality import first_rows, row_numbers, texts, tuple_codes, value_at
from omnigraph.storage.tables.take_rows import read_blobs
from omnigraph.transaction.buffered_table import BufferedTable, FoundRows
from omnigraph.transaction.table_writes import cached_writes
from omnigraph.transaction.write_set import TableChanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.kernels.arrays import Values
    from omnigraph.storage.filters.model import Filter
    from omnigraph.transaction.read_view import ReadView
    from omnigraph.transaction.write_set import TableWrite

# No property can have this name, because it contains a space.
_MUST_BE_NEW = "must be new"
_NO_IDS = pa.array([], pa.string())
_BYTES_PER_DELETED_ID = 100


@dataclass(frozen=True)
class Budget:
    """How much memory the buffered writes of one operation may take: Arrow buffers, and about 100 bytes per id deleted.

    Exceeding it raises `ResourceLimitExceeded`.
    """

    bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True)
class Deleted:
    """How many nodes a deletion removed, and how many edges with them."""

    nodes: int
    edges: int


class WriteBuffer:
    """The writes of one operation over one read view. Reads see buffered rows over committed ones, matched by id."""

    def __init__(self, view: ReadView, catalog: Catalog, budget: Budget | None = None) -> None:
        self.view = view
        self.catalog = catalog
        self.budget = budget or Budget()
        self._tables: dict[str, _TableBuffer] = {}

    def put(self, table_key: str, rows: pa.Table, *, only_new: bool) -> None:
        """Write whole rows; of several rows with one id the last wins. `only_new`: none of the ids may exist yet.

        A row remains `only_new` if every put of its id was. A single call that repeats the key of a keyed type is
        refused.
        """
        self._table(table_key).put(rows, only_new=only_new)
        self._require_budget()

    def overwrite(self, table_key: str, rows: pa.Table) -> None:
        """Replace the whole content with these rows; earlier buffered writes to the table are discarded."""
        table = self._table(table_key)
        table.empty()
        table.put(rows, only_new=False)
        self._require_budget()

    def delete(self, table_key: str, ids: Iterable[str] | Values) -> int:
        """Delete rows; return how many of them existed and were not deleted before."""
        deleted = self._table(table_key).delete(_id_array(ids))
        self._require_budget()
        return len(deleted)

    def delete_nodes(self, node_type: str, ids: Iterable[str] | Values) -> Deleted:
        """Delete nodes, and every edge of every type that begins or ends at one of them."""
        deleted = self._table(self.catalog.nodes[node_type].table_key).delete(_id_array(ids))
        edges = 0
        for edge in self.catalog.edges.values() if len(deleted) else ():
            for end, kind in (("src", edge.source), ("dst", edge.target)):
                if kind == node_type:
                    incident = self.rows_where(edge.table_key, end, deleted, [ID])
                    edges += self.delete(edge.table_key, incident.column(ID)) if incident.num_rows else 0
        self._require_budget()
        return Deleted(len(deleted), edges)

    def read(self, table_key: str, columns: Sequence[str] | None = None, where: Filter | None = None) -> pa.Table:
        """Read the rows as they would be after the commit; all columns except blobs by default."""
        return self._table(table_key).read(columns, where)

    def rows_where(self, table_key: str, column: str, values: Values, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows whose column has one of the values."""
        return self._table(table_key).rows_where(column, values, columns)

    def blobs(self, table_key: str, column: str, ids: Values) -> pa.Array[Any]:
        """The blobs of some rows as they would be after the commit, in id order as given. `read` returns no blobs."""
        return self._table(table_key).blobs(column, ids)

    def exists(self, table_key: str, ids: Iterable[str] | Values) -> set[str]:
        """Those of the ids that have a row."""
        keys = _id_array(ids)
        return set(texts(keys.filter(self._table(table_key).buffered().has(keys))))

    def changes(self) -> dict[str, TableChanges]:
        """The net change of every table that would change, in name order."""
        found = {key: self._tables[key].buffered().change for key in sorted(self._tables)}
        return {key: change for key, change in found.items() if not change.is_empty}

    def writes(self) -> list[TableWrite]:
        """The writes that make the changes. Only rows that no read has located are looked up."""
        return cached_writes(self.view, {key: self._tables[key].located_change() for key in self.changes()})

    @property
    def bytes(self) -> int:
        """How much memory the buffered writes take."""
        return sum(each.bytes for each in self._tables.values())

    def _table(self, table_key: str) -> _TableBuffer:
        if table_key not in self._tables:
            self.view.entry(table_key)
            keys = [each for each in unique_rules(self.catalog, table_key) if each.is_key]
            self._tables[table_key] = _TableBuffer(table_key, self.view, keys[0] if keys else None)
        return self._tables[table_key]

    def _require_budget(self) -> None:
        held = self.bytes
        if held > self.budget.bytes:
            raise ResourceLimitExceeded(
                f"the pending writes take {held:,} bytes; one operation may hold {self.budget.bytes:,}. "
                "Use the bulk loader or the Spark pipeline for this much data, or split the operation.",
                resource="pending_bytes",
                limit=self.budget.bytes,
                actual=held,
            )


class _TableBuffer:
    """The buffered writes to one table: rows as they were put, reduced to one per id at the first read."""

    def __init__(self, table_key: str, view: ReadView, key: Unique | None) -> None:
        self._table_key = table_key
        self._type_name = table_key.partition(":")[2]
        self._view = view
        self._key = key
        self._stored: pa.Schema = view.table(table_key).schema
        self._schema = put_schema(self._stored)
        self._chunks: list[pa.Table] = []
        self._deletes: set[str] = set()
        self._overwrite = False
        self._is_reduced = True
        self._buffered: BufferedTable | None = None
        self._found = FoundRows(view, table_key)

    @property
    def bytes(self) -> int:
        """The size of the Arrow buffers and the deleted ids."""
        deletes = _BYTES_PER_DELETED_ID * len(self._deletes)
        return sum(each.nbytes for each in self._chunks) + self._found.nbytes + deletes

    def read(self, columns: Sequence[str] | None, where: Filter | None) -> pa.Table:
        """The rows after the change for which the filter holds."""
        found = self.buffered().unchanged_rows(self._readable(columns), where)
        self._found.add(found.locations)
        return self.buffered().with_puts(found.rows, where)

    def rows_where(self, column: str, values: Values, columns: Sequence[str] | None) -> pa.Table:
        """The rows after the change whose column has one of the values."""
        found = self.buffered().unchanged_matching({column: values}, self._readable(columns))
        self._found.add(found.locations)
        if column == ID and not self._overwrite:
            self._found.add_absent(one_array(values), self.buffered().changed_ids)
        return self.buffered().with_puts_matching(found.rows, column, values)

    def located_change(self) -> TableChanges:
        """The net change, with the locations of all committed rows that it replaces or deletes."""
        change = self.buffered().change
        return (
            change if change.overwrite else replace(change, locations=self._found.locate(self.buffered().changed_ids))
        )

    def _readable(self, columns: Sequence[str] | None) -> list[str]:
        """The columns to read: the requested ones, or all readable ones."""
        readable = readable_columns(self._stored)
        unreadable = [each for each in columns or () if each not in readable]
        if unreadable:
            raise InvalidInput(f"{self._type_name}.{unreadable[0]} is not a column that rows can be read with")
        return readable if columns is None else list(columns)

    def blobs(self, column: str, ids: Values) -> pa.Array[Any]:
        """Buffered blobs over committed ones."""
        wanted: list[Any] = ids.to_pylist()
        puts = self.buffered().change.puts
        buffered_values = (
            {} if puts is None else dict(zip(_texts(puts.column(ID)), _texts(puts.column(column)), strict=True))
        )
        rest = [each for each in wanted if each not in buffered_values]
        committed = read_blobs(self._view.table(self._table_key), column, rest) if rest and not self._overwrite else {}
        data_type: Any = self._schema.field(column).type
        blobs: pa.Array[Any] = pa.array([buffered_values.get(each, committed.get(each)) for each in wanted], data_type)
        return blobs

    def empty(self) -> None:
        """Hide all committed rows and discard what is buffered."""
        self._chunks, self._deletes, self._overwrite = [], set(), True
        self._is_reduced, self._buffered = True, None
        self._found = FoundRows(self._view, self._table_key)

    def put(self, rows: pa.Table, *, only_new: bool) -> None:
        """Add rows, or replace those with the same ids."""
        chunk = to_stored(rows, self._schema, self._type_name)
        if not chunk.num_rows:
            return
        ids = one_array(chunk.column(ID))
        if ids.null_count:
            raise InvalidInput(f"a row of {self._type_name} has no id")
        distinct = self._refuse_repeats(chunk, ids, only_new=only_new)
        self._is_reduced = distinct and not self._chunks
        must_be_new = np.full(chunk.num_rows, only_new)
        if self._deletes:
            # A row that this operation deleted may be put again; it then replaces the committed one.
            must_be_new &= ~pc.is_in(ids, value_set=pa.array(list(self._deletes))).to_numpy(zero_copy_only=False)
            self._deletes.difference_update(ids.to_pylist())
        self._chunks.append(chunk.append_column(_MUST_BE_NEW, pa.array(must_be_new)))
        self._found.retain(ids)
        self._buffered = None

    def delete(self, ids: pa.Array[Any]) -> pa.Array[Any]:
        """Delete rows; return the ids that existed."""
        buffered = self.buffered()
        committed = _NO_IDS if self._overwrite else self._found.locate(ids).ids
        fresh = committed.filter(pc.invert(pc.is_in(committed, value_set=buffered.deleted_ids)))
        buffered_values = buffered.put_ids.filter(pc.is_in(buffered.put_ids, value_set=ids))
        if len(buffered_values):
            rows = self._chunks[0]
            self._chunks = [rows.filter(pc.invert(pc.is_in(rows.column(ID), value_set=buffered_values)))]
        self._deletes.update(texts(fresh))
        self._buffered = None
        return pc.unique(pa.concat_arrays([fresh, buffered_values]))

    def buffered(self) -> BufferedTable:
        """The committed table with the buffered writes over it."""
        if self._buffered is None:
            if not self._is_reduced:
                self._chunks, self._is_reduced = [self._reduced()], True
            self._buffered = BufferedTable(self._view, self._net())
        return self._buffered

    def _refuse_repeats(self, chunk: pa.Table, ids: pa.Array[Any], *, only_new: bool) -> bool:
        """Whether every id occurs once; raises where a repeated id is not allowed."""
        codes, size = tuple_codes([ids])
        if size == len(ids) or not (only_new or self._key):
            return size == len(ids)
        first = first_rows(codes, size)[codes]
        row = int(np.flatnonzero(first != np.arange(len(ids)))[0])
        if self._key is None:
            raise KeyConflict(self._type_name, ids[row].as_py())
        values = tuple(value_at(chunk.column(each), row) for each in self._key.columns)
        raise self._key.violation(ids[row].as_py(), values, ids[int(first[row])].as_py())

    def _reduced(self) -> pa.Table:
        """One row per id, the last one put. It must be new if every put of its id had to be."""
        rows = pa.concat_tables(self._chunks).combine_chunks()
        codes, size = tuple_codes([rows.column(ID)])
        if size == rows.num_rows:
            return rows
        flags = one_array(rows.column(_MUST_BE_NEW)).to_numpy(zero_copy_only=False)
        must_be_new = np.ones(size, dtype=bool)
        must_be_new[codes[~flags]] = False
        self._refuse_twice_new(rows, codes, must_be_new & (np.bincount(codes, minlength=size) > 1))
        last = np.empty(size, np.int64)
        last[codes] = np.arange(rows.num_rows)
        last.sort()
        reduced = rows.drop_columns(_MUST_BE_NEW).take(row_numbers(last))
        return reduced.append_column(_MUST_BE_NEW, pa.array(must_be_new[codes[last]]))

    def _refuse_twice_new(self, rows: pa.Table, codes: Any, repeated: Any) -> None:
        clashes = np.flatnonzero(repeated[codes])
        if len(clashes):
            raise KeyConflict(self._type_name, rows.column(ID)[int(clashes[0])].as_py())

    def _net(self) -> TableChanges:
        rows = self._chunks[0] if self._chunks else self._schema.empty_table()
        puts = rows.select(self._schema.names)
        if self._overwrite:
            return TableChanges(self._table_key, puts, overwrite=True)
        deletes = frozenset(self._deletes)
        if not puts.num_rows:
            return TableChanges(self._table_key, deletes=deletes)
        flags = one_array(rows.column(_MUST_BE_NEW))
        only_new = bool(pc.all(flags).as_py())
        new_ids = frozenset() if only_new else frozenset(texts(puts.column(ID).filter(flags)))
        return TableChanges(self._table_key, puts, deletes, only_new=only_new, new_ids=new_ids)


def _id_array(ids: Iterable[str] | Values) -> pa.Array[Any]:
    if isinstance(ids, pa.Array | pa.ChunkedArray):
        return one_array(ids).cast(pa.string()).drop_null()
    return pa.array(list(ids), pa.string())


def _texts(values: pa.ChunkedArray[Any]) -> list[Any]:
    found: list[Any] = values.to_pylist()
    return found
