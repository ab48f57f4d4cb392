"""Tables for these tests: one column of every type a graph can have, and a store to keep them in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa

from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.new_tables import create_table
from omnigraph.storage.tables.table import Table, TableStore
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Sequence

PATH = "nodes/0123456789abcdef"
DIMENSIONS = 4
VECTOR = pa.list_(pa.float32(), DIMENSIONS)
BLOB = pa.field(
    "blob",
    pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.utf8())]),
    metadata={"ARROW:extension:name": "lance.blob.v2"},
)
FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.utf8(), nullable=False),
    pa.field("bool", pa.bool_()),
    BLOB,
    pa.field("date", pa.date32()),
    pa.field("f32", pa.float32()),
    pa.field("f64", pa.float64()),
    pa.field("i32", pa.int32()),
    pa.field("i64", pa.int64()),
    pa.field("moment", pa.date64()),
    pa.field("moments", pa.list_(pa.date64())),
    pa.field("text", pa.utf8()),
    pa.field("texts", pa.list_(pa.utf8())),
    pa.field("u32", pa.uint32()),
    pa.field("u64", pa.uint64()),
    pa.field("vector", VECTOR),
]
SCHEMA = pa.schema(FIELDS)
SMALL_FIELDS: list[pa.Field[Any]] = [pa.field("id", pa.utf8(), nullable=False), pa.field("n", pa.int64())]
SMALL = pa.schema(SMALL_FIELDS)


def date64(milliseconds: Sequence[int | None]) -> pa.Array[Any]:
    """Moments with their time of day; pyarrow's own conversion from datetime cuts it off."""
    return pa.array(milliseconds, pa.int64()).view(pa.date64())


def rows(*ids: str, salt: int = 0) -> pa.Table:
    """Rows with a value in every column, except that every third row has nulls wherever it may."""
    filled = [index % 3 != 2 for index in range(len(ids))]

    def some(value: object) -> list[object]:
        return [value if each else None for each in filled]

    lists = pa.ListArray.from_arrays(
        pa.array(range(0, 2 * len(ids) + 1, 2), pa.int32()), date64([1_577_836_800_001 + salt, None] * len(ids))
    )
    columns: list[pa.Array[Any]] = [
        pa.array(ids, pa.utf8()),
        pa.array(some(salt % 2 == 0), pa.bool_()),
        pa.array(some({"data": f"blob {salt}".encode(), "uri": None}), BLOB.type),
        pa.array(some(-719_162), pa.int32()).view(pa.date32()),
        pa.array(some(0.1), pa.float32()),
        pa.array(some(0.1), pa.float64()),
        pa.array(some(-(2**31)), pa.int32()),
        pa.array(some(-(2**63) + salt), pa.int64()),
        date64([-62_135_596_799_999 if each else None for each in filled]),
        lists,
        pa.array(some("quote ' backslash \\ nul \0 newline \n snow ☃"), pa.utf8()),
        pa.array(some(["", None, "a"]), pa.list_(pa.utf8())),
        pa.array(some(2**32 - 1), pa.uint32()),
        pa.array(some(2**64 - 1), pa.uint64()),
        pa.array(some([0.5, float("inf"), -1.0, float(salt)]), VECTOR),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def small(*ids: str, n: int = 0) -> pa.Table:
    """Rows of two columns, where types do not matter."""
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, schema=SMALL)


def open_store(uri: str) -> TableStore:
    """The tables below a URI."""
    return TableStore(parse_location(uri, REAL), REAL)


def options(store: TableStore) -> dict[str, str] | None:
    """What Lance needs to reach the store."""
    given = store.location.storage_options
    return None if given is None else dict(given)


def made(store: TableStore, content: pa.Table, path: str = PATH) -> Table:
    """A new table with some rows."""
    create_table(store, path, content.schema, [content] if content.num_rows else ())
    return store.open_newest(path)


def contents(table: Table) -> dict[str, list[object]]:
    """Everything a reader can see of a table, row by row, in the order of the ids; blobs as bytes."""
    plain = [name for name in table.schema.names if name != BLOB.name]
    found = table.read(plain)
    blobs = _blobs(table, found.num_rows) if BLOB.name in table.schema.names else [None] * found.num_rows
    listed = [_comparable(found.column(name)) for name in plain]
    by_id = zip(found.column("id").to_pylist(), zip(*listed, blobs, strict=True), strict=True)
    return {str(key): list(values) for key, values in sorted(by_id)}


def told(content: pa.Table) -> dict[str, list[object]]:
    """The same of rows in memory."""
    plain = [name for name in content.schema.names if name != BLOB.name]
    blobs: list[object] = [None] * content.num_rows
    if BLOB.name in content.schema.names:
        blobs = [None if each is None else each["data"] for each in content.column(BLOB.name).to_pylist()]
    listed = [_comparable(content.column(name)) for name in plain]
    by_id = zip(content.column("id").to_pylist(), zip(*listed, blobs, strict=True), strict=True)
    return {str(key): list(values) for key, values in sorted(by_id)}


def ids(table: Table) -> list[str]:
    """The ids of all rows, sorted."""
    return sorted(map(str, table.read(["id"]).column("id").to_pylist()))


def row_ids(table: Table) -> dict[str, int]:
    """The stable row id of each id."""
    found = table.handle.scanner(columns=["id"], with_row_id=True).to_table()
    return dict(zip(found.column("id").to_pylist(), found.column("_rowid").to_pylist(), strict=True))


def fresh(table: Table, store: TableStore) -> Table:
    """The newest version as a process that knows nothing would see it."""
    return open_store(store.location.uri).open_newest(table.path, table.branch)


def raw(store: TableStore, path: str = PATH, branch: str | None = None) -> lance.LanceDataset:
    """Lance's own newest handle, to do what our code never does."""
    return lance.dataset(store.uri(path, branch), storage_options=options(store))


def _comparable(column: pa.ChunkedArray[Any]) -> list[object]:
    """Python values, with moments as milliseconds: pyarrow shows only their date."""
    if pa.types.is_date64(column.type):
        return list(pa.chunked_array([each.view(pa.int64()) for each in column.chunks], pa.int64()).to_pylist())
    if pa.types.is_list(column.type) and pa.types.is_date64(column.type.value_type):
        return [None if each.values is None else each.values.view(pa.int64()).to_pylist() for each in column]
    return list(column.to_pylist())


def _blobs(table: Table, count: int) -> list[object]:
    if not count:
        return []
    return [None if each is None else each.read() for each in table.handle.take_blobs("blob", indices=range(count))]
