"""`TableScan` reads one type of the graph in tasks: a pinned version of its table, in groups of fragments.

A scan is resolved to a pinned version once, on the driver; every task of it reads that version, whatever is committed
meanwhile. A task needs the scan and this package, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog.arrow import BLOB, is_blob, stored_schema
from omnigraph.catalog.catalog import resolve_table_key
from omnigraph.errors import InvalidInput
from omnigraph.kernels.row_address import ROW_ADDRESS
from omnigraph.manifest.graph_manifest import GraphManifest
from omnigraph.manifest.layout import MAIN
from omnigraph.manifest.states import named_state, resolve
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.table import Table, TableStore
from omnigraph.storage.tables.take_rows import blobs_at
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.storage.filters.model import Filter
    from omnigraph.storage.objects.location import Location
    from omnigraph.storage.tables.table import Pin

# Few enough that a task takes seconds and a lost one costs little, enough that its start-up cost is negligible.
ROWS_PER_TASK = 500_000
_BATCH = 65_536
# Blobs per batch, whose sizes are unknown.
_BLOBS_AT_ONCE = 64


@dataclass(frozen=True)
class TableScan:
    """A pinned table and what to read of it. `columns` None means all, `fragments` None means all."""

    location: Location
    pin: Pin
    columns: tuple[str, ...] | None = None
    where: Filter | None = None
    fragments: tuple[int, ...] | None = None

    def table(self) -> Table:
        """The table at the pinned version."""
        return tables_in_task(self.location).open(self.pin)

    def schema(self, table: Table | None = None) -> pa.Schema:
        """The columns to read, in the requested order, as the table stores them; `table` avoids opening it again."""
        stored = stored_schema((table or self.table()).schema)
        if self.columns is None:
            return stored
        missing = [name for name in self.columns if name not in stored.names]
        if missing:
            raise InvalidInput(f"there is no column {missing[0]!r}; the columns are {', '.join(stored.names)}")
        return pa.schema([stored.field(name) for name in self.columns])


def tables_in_task(location: Location) -> TableStore:
    """The tables as a task opens them: in a process of its own, whose clock and chance are the real ones."""
    return TableStore(location, REAL)


def resolve_scan(
    graph: str | os.PathLike[str],
    type_name: str,
    *,
    world: World,
    branch: str = MAIN,
    snapshot: str | None = None,
    timestamp: str | None = None,
    columns: Sequence[str] | None = None,
    where: Filter | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> TableScan:
    """Pin the newest snapshot of a branch, the one that `snapshot` names, or that of the branch at a time.

    `type_name` is a node or edge type, an edge type in any letter case; `node:Name` and `edge:Name` are accepted too.
    """
    location = parse_location(graph, world, storage_options)
    manifest = GraphManifest(location, read_only=True, world=world)
    state = resolve(manifest, named_state(snapshot, timestamp), branch=branch)
    pin = state[resolve_table_key(type_name, state.tables)].pin
    return TableScan(location, pin, None if columns is None else tuple(columns), where)


def tasks_of(scan: TableScan, *, rows_per_task: int = ROWS_PER_TASK) -> list[TableScan]:
    """Split the scan into groups of neighbouring fragments; none when the table is empty."""
    groups: list[list[int]] = []
    rows = rows_per_task
    for fragment in scan.table().fragments():
        if rows >= rows_per_task:
            groups.append([])
            rows = 0
        groups[-1].append(fragment.id)
        rows += fragment.num_rows
    return [replace(scan, fragments=tuple(group)) for group in groups]


def read_scan(scan: TableScan) -> Iterator[pa.RecordBatch]:
    """Stream the rows, with the types of `scan.schema()`; blobs come with their bytes, external ones with their URI."""
    table = scan.table()
    schema = scan.schema(table)
    blobs = [field.name for field in schema if is_blob(field)]
    columns = [*schema.names, ROW_ADDRESS] if blobs else schema.names
    size = _BLOBS_AT_ONCE if blobs else _BATCH
    for batch in table.scan(columns, scan.where, fragments=scan.fragments, batch_size=size):
        if batch.num_rows:
            arrays = [
                _blobs(table, name, batch) if name in blobs else batch.column(name).cast(schema.field(name).type)
                for name in schema.names
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _blobs(table: Table, name: str, batch: pa.RecordBatch) -> pa.Array[Any]:
    """Replace the descriptors that a scan returns: by the bytes of managed blobs, and the URIs of external ones."""
    descriptors: list[Any] = batch.column(name).to_pylist()
    addresses: list[int] = batch.column(ROW_ADDRESS).to_numpy().tolist()
    managed = [at for at, each in zip(addresses, descriptors, strict=True) if _is_managed(each)]
    contents = blobs_at(table, name, managed)
    values = [
        None if _is_null(each) else {"data": contents.get(at), "uri": each["blob_uri"] or None}
        for at, each in zip(addresses, descriptors, strict=True)
    ]
    return pa.array(values, BLOB)


def _is_managed(descriptor: Any) -> bool:
    return not _is_null(descriptor) and not descriptor["blob_uri"]


def _is_null(descriptor: Any) -> bool:
    """All zeros is how a null blob is stored where validity is not stored separately."""
    return descriptor is None or not any(descriptor[field] for field in ("kind", "position", "size", "blob_uri"))
