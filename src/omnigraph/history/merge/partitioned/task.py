"""The task of one hash partition: merges its rows as a merge in memory would, writes new fragments, reports results."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.rules import type_of, value_rules
from omnigraph.history.merge.conflicts import ConflictList, of_violation
from omnigraph.history.merge.incident_edges import DisputedNodes, incident_edges, is_node_table
from omnigraph.history.merge.merge_base import CommonState
from omnigraph.history.merge.partitioned.deltas import RowPartition
from omnigraph.history.merge.partitioned.deltas import rows_schema as read_schema
from omnigraph.history.merge.reconcile import MergeSettings, merge_pair
from omnigraph.kernels.arrays import ID, one_array
from omnigraph.kernels.row_address import ROW_ADDRESS, ROW_ID, by_fragment
from omnigraph.load.rows import rows_schema
from omnigraph.storage.lance.data_files import write_rows
from omnigraph.storage.lance.paths import table_dir
from omnigraph.storage.tables.row_rewrite import with_row_ids
from omnigraph.storage.tables.table import ROWS_PER_FILE, TableStore
from omnigraph.tasks.runner import BYTES, INT, LONG, TEXT, pack, unpack
from omnigraph.tasks.table_scan import tables_in_task
from omnigraph.transaction.constraints.evaluate import value_violations
from omnigraph.values.row_ids import has_own_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from omnigraph.catalog.catalog import Catalog
    from omnigraph.errors.commits import Conflict
    from omnigraph.history.merge.conflicts import Resolver
    from omnigraph.history.merge.incident_edges import Side
    from omnigraph.history.merge.schema_lineage import RowConversion
    from omnigraph.history.merge.three_way import TableMerge
    from omnigraph.manifest.snapshot import Snapshot, TableEntry
    from omnigraph.storage.objects.location import Location

Kind = Literal["conflicts", "broken", "counts", "fates", "edges", "fragment", "replaced", "removed", "puts", "deletes"]
RESULT = pa.schema([("kind", TEXT), ("number", INT), ("rows", LONG), ("body", BYTES)])
# The kinds that the driver of a cluster receives; the others stay with the tasks, for the constraint checks.
TO_DRIVER: tuple[Kind, ...] = (*("conflicts", "broken", "counts", "fates", "edges", "fragment", "replaced", "removed"),)
_AT_ONCE = 65_536


@dataclass(frozen=True)
class TableJob:
    """One table: its versions on both sides, and the slots in which its rows arrive."""

    there: TableEntry
    here: TableEntry
    # By version pair the first of two slots: rows as they were. The rows as they are come in the slot after it.
    slots: tuple[tuple[tuple[TableEntry | None, TableEntry], int], ...]
    locations: int
    # The columns of rows to write that the result reports; None means all.
    columns: tuple[str, ...] | None

    @property
    def table_dir(self) -> str:
        """Where new files go: beside the version that the merge is computed from."""
        return table_dir(self.here.path, self.here.branch)


@dataclass(frozen=True)
class MergeJob:
    """What every task needs. Without `writes` the merge is a preview, and no fragments are written.

    Nodes are merged first: the job of the edges begins at the table `first`, and has the decisions about `disputed`.
    """

    location: Location
    catalog: Catalog
    types: Mapping[str, str]
    root: Snapshot | None
    tips: tuple[Snapshot, ...]
    conversion: RowConversion | None
    tables: tuple[TableJob, ...]
    by_property: bool
    resolver: Resolver = field(repr=False)
    writes: bool
    first: int = 0
    disputed: DisputedNodes = field(default_factory=DisputedNodes)
    entries: Mapping[tuple[Side, str], TableEntry] = field(default_factory=dict)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Merge the rows of one partition. Yields rows of `RESULT`."""
        arrived = collected(batches)
        store = tables_in_task(self.location)
        for number, table in enumerate(self.tables[self.first :], self.first):
            deltas = RowPartition(store, _Arrived(store, table, arrived).rows)
            common = CommonState(store, self.root, self.tips, self.conversion, deltas)
            settings = MergeSettings(by_property=self.by_property, resolver=self.resolver)
            key = table.here.table_key
            incident = incident_edges(self.catalog, store, self.disputed, self.entries, key)
            merged = merge_pair(common, table.there, table.here, settings, incident)
            if merged is not None:
                yield from _TaskResult(self, number, table, merged).all(arrived.get(table.locations, []))


@dataclass(frozen=True)
class _Arrived:
    """The rows of a table that have arrived, by version pair."""

    store: TableStore
    table: TableJob
    arrived: Mapping[int, list[pa.Table]]

    def rows(self, base: TableEntry | None, side: TableEntry) -> tuple[pa.Table, pa.Table]:
        for pair, slot in self.table.slots:
            if pair == (base, side):
                return self._of(slot, base or side), self._of(slot + 1, side)
        raise AssertionError("every pair of states has its slots")

    def _of(self, slot: int, state: TableEntry) -> pa.Table:
        schema = read_schema(self.store.open(state.pin))
        return pa.concat_tables([schema.empty_table(), *(each.cast(schema) for each in self.arrived.get(slot, []))])


@dataclass(frozen=True)
class _TaskResult:
    """Emits the result of one table in one partition."""

    job: MergeJob
    number: int
    table: TableJob
    merged: TableMerge

    def all(self, locations: list[pa.Table]) -> Iterator[pa.RecordBatch]:
        merged = self.merged
        if merged.conflicts:
            yield self._row("conflicts", merged.more, pickle.dumps(merged.conflicts))
        if merged.fates and is_node_table(self._key):
            yield self._row("fates", 0, json.dumps(merged.fates).encode())
        if merged.edges.edges:
            yield self._row("edges", 0, json.dumps([merged.edges.edges, merged.edges.more]).encode())
        puts, deletes = merged.puts, pa.array(sorted(merged.deletes), pa.string())
        restored = 0 if merged.restored is None else merged.restored.num_rows
        counts: dict[str, object] = {"puts": puts.num_rows, "deletes": len(deletes), "foreign": False}
        counts |= {"restored": restored, "resolved": sorted(merged.resolved)}
        if puts.num_rows and not merged.conflicts:
            broken = self._broken(puts)
            if broken:
                yield self._row("broken", broken.more, pickle.dumps(tuple(broken.conflicts)))
            counts["foreign"] = has_foreign_ids(self.job.catalog, self._key, puts)
            yield from self._rows("puts", puts if self.table.columns is None else puts.select(self.table.columns))
        yield from self._rows("deletes", pa.table({ID: deletes}))
        yield self._row("counts", 0, json.dumps(counts).encode())
        if self.job.writes and not merged.conflicts:
            yield from self._write(puts, deletes, locations)

    @property
    def _key(self) -> str:
        return self.table.here.table_key

    def _broken(self, puts: pa.Table) -> ConflictList:
        listed = ConflictList()
        wrong = value_violations(value_rules(self.job.catalog, self._key), puts)
        listed.add(of_violation(each, self.job.types) for each in wrong)
        return listed

    def _rows(self, kind: Kind, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        for start in range(0, rows.num_rows, _AT_ONCE):
            some = rows.slice(start, _AT_ONCE)
            yield self._row(kind, some.num_rows, pack(some))

    def _write(self, puts: pa.Table, deletes: pa.Array[Any], locations: list[pa.Table]) -> Iterator[pa.RecordBatch]:
        """New fragments, with replaced rows first and by old row address, and the addresses of rows to delete."""
        located = pa.concat_tables(locations) if locations else _no_locations()
        indices = one_array(pc.index_in(puts.column(ID), value_set=one_array(located.column(ID))))
        found = located.take(indices.drop_null())
        order = np.argsort(found.column(ROW_ADDRESS).to_numpy(), kind="stable")
        old = puts.filter(indices.is_valid()).take(pa.array(order, pa.int64()))
        row_ids = found.column(ROW_ID).to_numpy()[order]
        deleted = located.filter(pc.is_in(located.column(ID), value_set=deletes)).column(ROW_ADDRESS).to_numpy()
        addresses = np.concatenate([found.column(ROW_ADDRESS).to_numpy(), deleted]).astype(np.uint64)
        if len(row_ids):
            yield self._row("replaced", len(row_ids), json.dumps([int(row_ids.min()), int(row_ids.max())]).encode())
        for fragment, offsets in by_fragment(addresses):
            yield self._row("removed", fragment, offsets.tobytes())
        rows = pa.concat_tables([old, puts.filter(indices.is_null())])
        for start in range(0, rows.num_rows, ROWS_PER_FILE):
            some = slice(start, start + ROWS_PER_FILE)
            yield self._fragment(rows.slice(start, ROWS_PER_FILE), row_ids[some])

    def _fragment(self, rows: pa.Table, row_ids: Any) -> pa.RecordBatch:
        location = self.job.location
        schema = rows_schema(type_of(self.job.catalog, self._key))
        stored = pa.Table.from_arrays([one_array(rows.column(each.name)) for each in schema], schema=schema)
        options = None if location.storage_options is None else dict(location.storage_options)
        batches = iter(stored.to_batches())
        (made,) = write_rows(batches, location.child(self.table.table_dir), options, schema, rows.num_rows, "append")
        return self._row("fragment", rows.num_rows, json.dumps(with_row_ids(made, row_ids).to_json()).encode())

    def _row(self, kind: Kind, rows: int, body: bytes) -> pa.RecordBatch:
        return pa.record_batch([[kind], [self.number], [rows], [body]], schema=RESULT)


def collected(batches: Iterable[pa.RecordBatch]) -> dict[int, list[pa.Table]]:
    """The rows of all packets of a partition, by slot."""
    found: dict[int, list[pa.Table]] = {}
    for batch in batches:
        slots: list[Any] = batch.column(1).to_pylist()
        for slot, body in zip(slots, batch.column(2), strict=True):
            found.setdefault(slot, []).append(unpack(body.as_buffer()))
    return found


def has_foreign_ids(catalog: Catalog, table_key: str, rows: pa.Table) -> bool:
    """Whether a row of a keyed type has an id that its key does not determine."""
    kind = type_of(catalog, table_key)
    return bool(kind.rules.key) and not bool(np.all(has_own_id(kind, rows)))


def conflicts_in(body: bytes) -> tuple[Conflict, ...]:
    """Conflicts that a task of this same merge has pickled."""
    found: tuple[Conflict, ...] = pickle.loads(body)  # noqa: S301
    return found


def _no_locations() -> pa.Table:
    number: pa.DataType = pa.uint64()
    text: pa.DataType = pa.string()
    return pa.schema([(ID, text), (ROW_ID, number), (ROW_ADDRESS, number)]).empty_table()
