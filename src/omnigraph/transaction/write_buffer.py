"""The write buffer holds the writes of one operation in memory; the operation's later statements read them back.

Committed tables are only read. The net result, one `TableChanges` per table, passes through `transaction/constraints`
and `transaction/table_writes.py` to the commit protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import put_schema, readable_columns, shaped
from omnigraph.catalog.rules import Unique, unique_rules
from omnigraph.errors import InvalidInput, KeyConflict, ResourceLimitExceeded
from omnigraph.kernels.arrays import ID, one_array
from omnigraph.kernels.equality import first_rows, row_numbers, texts, tuple_codes, value_at
from omnigraph.storage.tables.take_rows import read_blobs
from omnigraph.transaction.buffered_table import BufferedTable
from omnigraph.transaction.write_set import TableChanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.kernels.arrays import Values
    from omnigraph.storage.filters.model import Filter
    from omnigraph.transaction.read_view import ReadView

# No property can have this name, because it contains a space.
_MUST_BE_NEW = "must be new"
_BYTES_PER_REMOVED_ID = 100


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
        gone = self._table(table_key).delete(_id_array(ids))
        self._require_budget()
        return len(gone)

    def delete_nodes(self, node_type: str, ids: Iterable[str] | Values) -> Deleted:
        """Delete nodes, and every edge of every type that begins or ends at one of them."""
        gone = self._table(self.catalog.nodes[node_type].table_key).delete(_id_array(ids))
        edges = 0
        for edge in self.catalog.edges.values() if len(gone) else ():
            for end, kind in (("src", edge.source), ("dst", edge.target)):
                if kind == node_type:
                    incident = self.rows_where(edge.table_key, end, gone, [ID])
                    edges += self.delete(edge.table_key, incident.column(ID)) if incident.num_rows else 0
        self._require_budget()
        return Deleted(len(gone), edges)

    def read(self, table_key: str, columns: Sequence[str] | None = None, where: Filter | None = None) -> pa.Table:
        """Read the rows as they would be after the commit; all columns except blobs by default."""
        table = self._table(table_key)
        return table.overlay().read(table.chosen(columns), where)

    def rows_where(self, table_key: str, column: str, values: Values, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows whose column has one of the values."""
        table = self._table(table_key)
        return table.overlay().rows_where(column, values, table.chosen(columns))

    def blobs(self, table_key: str, column: str, ids: Values) -> pa.Array[Any]:
        """The blobs of some rows as they would be after the commit, in id order as given. `read` returns no blobs."""
        return self._table(table_key).blobs(column, ids)

    def exists(self, table_key: str, ids: Iterable[str] | Values) -> set[str]:
        """Those of the ids that have a row."""
        asked = _id_array(ids)
        return set(texts(asked.filter(self._table(table_key).overlay().has(asked))))

    def changes(self) -> dict[str, TableChanges]:
        """The net change of every table that would change, in name order."""
        found = {key: self._tables[key].overlay().change for key in sorted(self._tables)}
        return {key: change for key, change in found.items() if not change.is_empty}

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
        self._is_folded = True
        self._overlay: BufferedTable | None = None

    @property
    def bytes(self) -> int:
        """The size of the Arrow buffers and the deleted ids."""
        return sum(each.nbytes for each in self._chunks) + _BYTES_PER_REMOVED_ID * len(self._deletes)

    def chosen(self, columns: Sequence[str] | None) -> list[str]:
        """The columns to read: those asked for, or all readable ones."""
        readable = readable_columns(self._stored)
        unreadable = [each for each in columns or () if each not in readable]
        if unreadable:
            raise InvalidInput(f"{self._type_name}.{unreadable[0]} is not a column that rows can be read with")
        return readable if columns is None else list(columns)

    def blobs(self, column: str, ids: Values) -> pa.Array[Any]:
        """Buffered blobs over committed ones."""
        wanted: list[Any] = ids.to_pylist()
        puts = self.overlay().change.puts
        pending = {} if puts is None else dict(zip(_texts(puts.column(ID)), _texts(puts.column(column)), strict=True))
        rest = [each for each in wanted if each not in pending]
        committed = read_blobs(self._view.table(self._table_key), column, rest) if rest and not self._overwrite else {}
        kind: Any = self._schema.field(column).type
        made: pa.Array[Any] = pa.array([pending.get(each, committed.get(each)) for each in wanted], kind)
        return made

    def empty(self) -> None:
        """Hide all committed rows and discard what is buffered."""
        self._chunks, self._deletes, self._overwrite = [], set(), True
        self._is_folded, self._overlay = True, None

    def put(self, rows: pa.Table, *, only_new: bool) -> None:
        """Add rows, or replace those with the same ids."""
        chunk = shaped(rows, self._schema, self._type_name)
        if not chunk.num_rows:
            return
        ids = one_array(chunk.column(ID))
        if ids.null_count:
            raise InvalidInput(f"a row of {self._type_name} has no id")
        distinct = self._refuse_repeats(chunk, ids, only_new=only_new)
        self._is_folded = distinct and not self._chunks
        must_be_new = np.full(chunk.num_rows, only_new)
        if self._deletes:
            # A row that this operation deleted may be put again; it then replaces the committed one.
            must_be_new &= ~pc.is_in(ids, value_set=pa.array(list(self._deletes))).to_numpy(zero_copy_only=False)
            self._deletes.difference_update(ids.to_pylist())
        self._chunks.append(chunk.append_column(_MUST_BE_NEW, pa.array(must_be_new)))
        self._overlay = None

    def delete(self, ids: pa.Array[Any]) -> pa.Array[Any]:
        """Delete rows; return the ids that existed."""
        change = self.overlay().change
        committed = (
            pa.array([], pa.string())
            if change.overwrite
            else one_array(self._view.rows_where(self._table_key, ID, ids, [ID]).column(ID))
        )
        fresh = committed.filter(pc.invert(pc.is_in(committed, value_set=self.overlay().deleted_ids)))
        pending = self.overlay().put_ids.filter(pc.is_in(self.overlay().put_ids, value_set=ids))
        gone = pc.unique(pa.concat_arrays([fresh, pending]))
        if len(pending):
            rows = self._chunks[0]
            self._chunks = [rows.filter(pc.invert(pc.is_in(rows.column(ID), value_set=pending)))]
        self._deletes.update(texts(fresh))
        self._overlay = None
        return gone

    def overlay(self) -> BufferedTable:
        """The committed table with the buffered writes over it."""
        if self._overlay is None:
            if not self._is_folded:
                self._chunks, self._is_folded = [self._folded()], True
            self._overlay = BufferedTable(self._view, self._net())
        return self._overlay

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

    def _folded(self) -> pa.Table:
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
        kept = rows.drop_columns(_MUST_BE_NEW).take(row_numbers(last))
        return kept.append_column(_MUST_BE_NEW, pa.array(must_be_new[codes[last]]))

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
