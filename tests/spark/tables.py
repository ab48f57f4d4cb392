"""Tables and rows for these tests: one of every type that OmniGraph has, with values at the ends of their ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog.arrow import BLOB, BLOB_METADATA
from omnigraph.manifest.create import NewGraph
from omnigraph.manifest.graph_manifest import GraphManifest, create_manifest
from omnigraph.manifest.publisher import NewVersion, PublishRequest
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.new_tables import create_table
from omnigraph.storage.tables.staging import commit_staged, stage_append, stage_fragments
from omnigraph.storage.tables.table import Table, TableStore
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lance import FragmentMetadata

# The years 1 and 9999, which Python's own clock types end with, and the ends of what Spark's microseconds hold.
MOMENTS = [None, 0, 1, -1, -62_135_596_800_000, 253_402_300_799_999, -9_223_372_036_854_775, 9_223_372_036_854_775]
_LIST_OF_MOMENTS = pa.list_(pa.field("item", pa.date64()))

EVERY_TYPE = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("bool", pa.bool_()),
        pa.field("i32", pa.int32()),
        pa.field("i64", pa.int64()),
        pa.field("u32", pa.uint32()),
        pa.field("u64", pa.uint64()),
        pa.field("f32", pa.float32()),
        pa.field("f64", pa.float64()),
        pa.field("date", pa.date32()),
        pa.field("moment", pa.date64()),
        pa.field("vector", pa.list_(pa.field("item", pa.float32()), 3)),
        pa.field("strings", pa.list_(pa.field("item", pa.string()))),
        pa.field("moments", _LIST_OF_MOMENTS),
        pa.field("u64s", pa.list_(pa.field("item", pa.uint64()))),
        pa.field("blob", BLOB, metadata=BLOB_METADATA),
    ]
)
VALUES: dict[str, list[Any]] = {
    "id": ["a", "b", "ä'\\\"\n\0", "", "e", "f", "g", "😀"],
    "bool": [None, True, False, None, True, False, True, None],
    "i32": [None, 0, -1, -(2**31), 2**31 - 1, 1, 2, 3],
    "i64": [None, 0, -1, -(2**63), 2**63 - 1, 1, 2, 3],
    "u32": [None, 0, 1, 2**31, 2**32 - 1, 2, 3, 4],
    "u64": [None, 0, 1, 2**63, 2**64 - 1, 2, 3, 4],
    "f32": [None, 0.0, -0.0, float("inf"), float("-inf"), 1.1754943508222875e-38, 0.1, 3.4028234663852886e38],
    "f64": [None, 0.0, -0.0, float("inf"), float("-inf"), 5e-324, 0.1, 1.7976931348623157e308],
    "date": [None, 0, -1, -719_162, 2_932_896, 1, 20_000, -20_000],
    "vector": [None, [0.0, -0.0, 1.5], [1, 2, 3], [None, 1, 2], [0.1, 0.2, 0.3], [1, 1, 1], [2, 2, 2], None],
    "strings": [None, [], ["x", None], ["", "ä"], ["a"], None, ["y"], ["z", "z"]],
    "u64s": [None, [], [2**64 - 1, None], [0], None, [1], [2], [3]],
    "blob": [
        None,
        {"data": b"\0\xff", "uri": None},
        {"data": b"x" * 70_000, "uri": None},
        {"data": None, "uri": "s3://elsewhere/object"},
        {"data": b"in the table", "uri": None},
        None,
        None,
        None,
    ],
}


def every_type() -> pa.Table:
    """Rows of `EVERY_TYPE`."""
    moments = pa.array(MOMENTS, pa.int64())
    lists: pa.Array[Any] = pa.array([None, [], [None, 1], *([each] for each in MOMENTS[3:])], pa.list_(pa.int64()))
    made = {
        "moment": moments.view(pa.date64()),
        "moments": lists.view(_LIST_OF_MOMENTS),
        "date": pa.array(VALUES["date"], pa.int32()).view(pa.date32()),
    }
    arrays = [
        made[field.name] if field.name in made else pa.array(VALUES[field.name], field.type) for field in EVERY_TYPE
    ]
    return pa.Table.from_arrays(arrays, schema=EVERY_TYPE)


def without_blobs(table: pa.Table) -> pa.Table:
    return table.drop_columns(["blob"])


def new_table(folder: Path, schema: pa.Schema) -> Table:
    """An empty table."""
    return create_table(TableStore(parse_location(folder, REAL), REAL), "table", schema)


def landed(table: Table, fragments: Sequence[FragmentMetadata]) -> Table:
    """The table with these fragments committed."""
    return commit_staged(stage_fragments(table, fragments)).table


def graph_with(uri: str, tables: dict[str, pa.Table]) -> GraphManifest:
    """A graph of these tables, each filled by one commit."""
    files = {"_schema.pg": b"", "_schema.ir.json": b"{}", "__schema_state.json": b"{}"}
    schemas = {key: rows.schema for key, rows in tables.items()}
    graph = create_manifest(parse_location(uri, REAL), NewGraph(files, schemas), REAL)
    for key, rows in tables.items():
        append(graph, key, rows)
    return graph


def append(graph: GraphManifest, key: str, rows: pa.Table, *, branch: str = "main") -> str:
    """Add rows as one commit; its id."""
    entry = graph.snapshot(branch)[key]
    done = commit_staged(stage_append(graph.stores.tables.open(entry.pin), rows))
    new = NewVersion(key, done.version, entry.row_count + rows.num_rows, branch=entry.branch, path=entry.path)
    request = PublishRequest(commit_id=REAL.ulid(), created_at=REAL.now_us(), versions=[new])
    return graph.publish(request, branch=branch).commit.id
