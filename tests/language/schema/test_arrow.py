"""Tables have exactly the columns of the released format."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pyarrow as pa

from omnigraph.catalog.arrow import default_array, edge_arrow_schema, node_arrow_schema, table_arrow_schemas
from omnigraph.language.schema.compile import compile_schema

EVERYTHING = """
node All {
    z: String  y: Bool?  x: I32  w: I64  v: U32  u: U64  t: F32  s: F64  r: Date  q: DateTime?
    p: Vector(3)?  o: [String]  n: [I64]?  m: enum(b, a)  l: Blob?
}
edge Knows: All -> All { since: Date?  note: String }
"""


def test_node_columns_are_id_then_properties_by_name() -> None:
    blob = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
    assert node_arrow_schema(compile_schema(EVERYTHING).nodes["All"]).equals(
        pa.schema(
            [
                pa.field("id", pa.string(), nullable=False),
                pa.field("l", blob, metadata={"ARROW:extension:name": "lance.blob.v2"}),
                pa.field("m", pa.string(), nullable=False),
                pa.field("n", pa.list_(pa.field("item", pa.int64()))),
                pa.field("o", pa.list_(pa.field("item", pa.string())), nullable=False),
                pa.field("p", pa.list_(pa.field("item", pa.float32()), 3)),
                pa.field("q", pa.date64()),
                pa.field("r", pa.date32(), nullable=False),
                pa.field("s", pa.float64(), nullable=False),
                pa.field("t", pa.float32(), nullable=False),
                pa.field("u", pa.uint64(), nullable=False),
                pa.field("v", pa.uint32(), nullable=False),
                pa.field("w", pa.int64(), nullable=False),
                pa.field("x", pa.int32(), nullable=False),
                pa.field("y", pa.bool_()),
                pa.field("z", pa.string(), nullable=False),
            ]
        ),
        check_metadata=True,
    )


def test_edge_columns_are_id_src_dst_then_properties_by_name() -> None:
    schema = edge_arrow_schema(compile_schema(EVERYTHING).edges["Knows"])
    assert schema.names == ["id", "src", "dst", "note", "since"]
    assert [field.nullable for field in schema] == [False, False, False, False, True]
    assert schema.metadata is None


def test_every_table_has_its_columns_by_key() -> None:
    assert list(table_arrow_schemas(compile_schema(EVERYTHING))) == ["node:All", "edge:Knows"]


def test_defaults_become_columns_with_the_time_of_day() -> None:
    source = 'node P { at: DateTime @default("2026-01-31T12:30:00Z") n: I32 @default(7) m: I32? }'
    properties = compile_schema(source).nodes["P"].properties
    moments = default_array(properties["at"], 2)
    noon = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)
    assert moments.type == pa.date64()
    assert moments.cast(pa.int64()).to_pylist() == [int(noon.timestamp() * 1000)] * 2
    assert default_array(properties["n"], 3).equals(pa.array([7, 7, 7], pa.int32()))
    assert default_array(properties["m"], 2).equals(pa.array([None, None], pa.int32()))


def test_importing_the_language_loads_neither_arrow_nor_the_parser() -> None:
    code = (
        "import sys, omnigraph.language.schema; sys.exit(any(m in sys.modules for m in ('pyarrow', 'lark', 'lance')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_opening_a_schema_without_checks_does_not_load_arrow() -> None:
    code = (
        "import sys; from omnigraph.language.stored.files import schema_files as f;"
        "f('node P { a: I32 @range(a, 0..) }'); sys.exit('pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
