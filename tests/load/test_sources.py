"""What a load accepts: files by path, glob and directory, streams, text, records; and how large it is."""

from __future__ import annotations

import bz2
import gzip
import io
from functools import partial
from pathlib import Path
from typing import Literal

import lance
import pyarrow as pa
import pytest
from pyarrow import csv, feather, orc, parquet

from load.loading import SOCIAL, read, rows
from omnigraph.errors import InvalidInput, InvalidRecord
from omnigraph.language.schema.compile import compile_schema
from omnigraph.load.plan import LOCAL_BYTES, Input, LoadPlan, plan_load
from omnigraph.world import REAL

ADA = '{"type":"Person","data":{"name":"Ada"}}\n'
BOB = '{"type":"Person","data":{"name":"Bob"}}\n'
PEOPLE = pa.table({"name": ["Ada", "Bob"], "age": pa.array([36, None], pa.int32())})


def ids(source: object, **options: bool) -> list[str]:
    return sorted(rows(read(source, **options)["node:Person"], "id"))


def plan(source: object) -> LoadPlan:
    return plan_load(source, compile_schema(SOCIAL), REAL)


@pytest.mark.parametrize(
    "source",
    [
        ADA,
        ADA.encode(),
        bytearray(ADA.encode()),
        "\n\n" + ADA,
        [{"type": "Person", "data": {"name": "Ada"}}],
        iter([{"type": "Person", "data": {"name": "Ada"}}]),
        io.BytesIO(ADA.encode()),
        io.StringIO(ADA),
    ],
)
def test_text_records_and_streams_hold_graph_records(source: object) -> None:
    assert ids(source) == ["Ada"]


def test_a_file_by_its_path_in_every_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "people.jsonl"
    path.write_text(ADA)
    monkeypatch.chdir(tmp_path)
    for source in (path, str(path), "people.jsonl", f"file://{path}"):
        assert ids(source) == ["Ada"]
    with path.open("rb") as stream:
        assert ids(stream) == ["Ada"]


def test_globs_and_directories_are_read_in_the_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.jsonl").write_text(BOB)
    (tmp_path / "deep" / "a.ndjson").write_text(ADA)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".hidden.jsonl").write_text("x")
    assert [Path(each.name).name for each in plan(tmp_path).inputs] == ["b.jsonl", "a.ndjson"]
    assert ids(tmp_path) == ["Ada", "Bob"]
    assert ids(str(tmp_path / "*.jsonl")) == ["Bob"]
    assert ids(str(tmp_path / "**" / "*.ndjson")) == ["Ada"]


def compressed(data: bytes, codec: Literal["gzip", "bz2", "zstd", "lz4"]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACKERS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": partial(compressed, codec="zstd"),
    "lz4": partial(compressed, codec="lz4"),
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_packed_files_are_unpacked(tmp_path: Path, suffix: str) -> None:
    pack = PACKERS[suffix]
    path = tmp_path / f"people.jsonl.{suffix}"
    path.write_bytes(pack(ADA.encode()))
    assert ids(path) == ["Ada"]
    table = tmp_path / f"Person.csv.{suffix}"
    table.write_bytes(pack(b"name\nAda\n"))
    assert ids(table) == ["Ada"]


WRITERS = {
    "parquet": parquet.write_table,
    "csv": csv.write_csv,
    "orc": orc.write_table,
    "feather": feather.write_feather,
    "lance": lance.write_dataset,
}


@pytest.mark.parametrize("suffix", sorted(WRITERS))
def test_files_of_one_type_in_every_format(tmp_path: Path, suffix: str) -> None:
    path = str(tmp_path / f"Person.{suffix}")
    WRITERS[suffix](PEOPLE, path)
    for source in (path, {"Person": path}, {"node:Person": Path(path)}):
        assert rows(read(source)["node:Person"], "id", "age") == [("Ada", 36), ("Bob", None)]


def test_json_lines_of_one_type_name_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "knows.jsonl"
    path.write_text('{"from":"a","to":"b"}\n\n{"src":"b","dst":"a","since":"1970-01-02"}\n')
    assert rows(read({"Knows": path})["edge:Knows"], "src", "dst") == [("a", "b"), ("b", "a")]
    path.write_text('{"from":"a","to":"b"}\n\n{"from":"b"}\n')
    with pytest.raises(InvalidInput, match=r"knows.jsonl, line 3: required property Knows\.to has no value"):
        read({"Knows": path})


def test_csv_cells_are_read_as_declared(tmp_path: Path) -> None:
    schema = """node T { s: String? n: I32? f: F64? b: Bool? d: Date? at: DateTime? v: Vector(2)? l: [String]? }"""
    path = tmp_path / "T.csv"
    path.write_text(
        's,n,f,b,d,at,v,l\n007,7,1e3,TRUE,2024-01-01,2024-01-01T00:00:00Z,"[1, 2.5]","[""a"",""b,c""]"\n'
        '"",,,,,,,\n,,,,,,,\n'
    )
    table = read(path, schema)["node:T"]
    assert rows(table, "s", "n", "f", "b", "v", "l")[0] == ("007", 7, 1000.0, True, [1.0, 2.5], ["a", "b,c"])
    assert table.column("s").to_pylist() == ["007", "", None]
    assert table.column("at").cast(pa.int64()).to_pylist() == [1_704_067_200_000, None, None]


def test_tsv_is_csv_with_tabs(tmp_path: Path) -> None:
    (tmp_path / "Person.tsv").write_text("name\tcity\nAda\tRome, Italy\n")
    assert rows(read(tmp_path)["node:Person"], "id", "city") == [("Ada", "Rome, Italy")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,age\nA,1\nB,x\n", r"Person\.csv, row 2: Person\.age: expected I32\?, got the text 'x'"),
        ("name,age\nA,0x10\n", r"row 1: Person\.age: expected I32\?, got the text '0x10'"),
        ("name,age\nA,99999999999\n", r"row 1: Person\.age: 99999999999 is out of range"),
        ("name,agee\nA,1\n", r"Person has no property 'agee'"),
        ("name,age\nA\n", r"Person\.csv cannot be read as csv: .*Expected 2 columns, got 1"),
        ("", r"Person\.csv cannot be read as csv: Empty CSV file"),
        (b"name\n\xe9\n", r"Person\.csv cannot be read as csv: .*invalid UTF8"),
    ],
)
def test_a_csv_file_that_does_not_fit_names_file_and_row(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = tmp_path / "Person.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(InvalidInput, match=message):
        read(path)


@pytest.mark.parametrize("suffix", ["parquet", "orc", "feather"])
def test_a_damaged_or_cut_off_file_is_refused_by_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"Person.{suffix}"
    WRITERS[suffix](PEOPLE, str(path))
    for data in (path.read_bytes()[:-20], b"", b"nonsense" * 100):
        path.write_bytes(data)
        with pytest.raises(InvalidInput, match=rf"Person.{suffix} cannot be read as {suffix}"):
            read(path)


def test_a_cut_off_ndjson_file_names_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_text(ADA + BOB[:-7])
    with pytest.raises(InvalidRecord, match=r"cut\.jsonl, line 2: not JSON: .*is the file cut off\?"):
        read(path)


def test_a_folder_says_whether_nodes_or_edges_are_meant(tmp_path: Path) -> None:
    schema = "node Twin { n: String @key } edge Twin: Twin -> Twin"
    for folder, text in (("nodes", "n\na\n"), ("edges", "from,to\na,a\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "Twin.csv").write_text(text)
    tables = read(tmp_path, schema)
    assert {key: table.num_rows for key, table in tables.items()} == {"node:Twin": 1, "edge:Twin": 1}
    with pytest.raises(InvalidInput, match="write 'node:Twin' or 'edge:Twin'"):
        read({"Twin": []}, schema)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.jsonl", "there is nothing to load at missing.jsonl"),
        ("*.nothing", "there is nothing to load"),
        ("", "is not a path"),
        (5, "5 cannot be loaded"),
        (None, "None cannot be loaded"),
        (PEOPLE, r"pass \{'TypeName': table\}"),
        ({"Persn": []}, "no type 'Persn': did you mean 'Person'?"),
        ({"Person": 5}, "5 cannot be loaded as Person"),
        ({"Person": b"x"}, "cannot be loaded as Person"),
    ],
)
def test_what_cannot_be_loaded_is_refused(source: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        plan(source)


def test_a_file_of_unknown_format_or_type_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(
        InvalidInput, match=r"notes\.txt: the suffix determines the format, and '\.txt' is none of these"
    ):
        plan(tmp_path)
    (tmp_path / "folk.parquet").write_text("")
    with pytest.raises(InvalidInput, match=r"no type 'folk'.* Say what it holds"):
        plan(tmp_path / "folk.parquet")


def test_the_size_of_files_text_and_tables_is_known_and_of_streams_is_not(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(ADA)
    (tmp_path / "b.jsonl").write_text(BOB)
    assert plan(tmp_path).size == len(ADA) + len(BOB)
    assert plan(ADA).size == len(ADA)
    assert plan({"Person": PEOPLE}).size == PEOPLE.nbytes
    assert plan(io.BytesIO(b"")).size is None
    assert plan({"Person": PEOPLE, "Knows": []}).size is None


def test_large_inputs_and_spark_frames_are_for_spark() -> None:
    small, large = Input("graph text", b"", size=LOCAL_BYTES), Input("graph text", b"", size=LOCAL_BYTES + 1)
    assert LoadPlan((small,)).engine == "local"
    assert LoadPlan((large,)).engine == "spark"

    class Frame:
        sparkSession = object()  # noqa: N815

    planned = plan({"Person": Frame()})
    assert planned.engine == "spark"
    with pytest.raises(InvalidInput, match="loaded by Spark"):
        read({"Person": Frame()})


@pytest.mark.s3
def test_files_in_a_bucket_are_found_and_read(s3_uri: str, tmp_path: Path) -> None:
    from omnigraph.storage.objects.location import parse_location
    from omnigraph.storage.objects.store import open_control_store

    objects = open_control_store(parse_location(s3_uri, REAL), REAL)
    parquet.write_table(PEOPLE, tmp_path / "p.parquet")
    objects.write("in/a.jsonl", ADA.encode())
    objects.write("in/sub/b.jsonl.gz", gzip.compress(BOB.encode()))
    objects.write("tables/Person.parquet", (tmp_path / "p.parquet").read_bytes())
    assert ids(f"{s3_uri}/in/a.jsonl") == ["Ada"]
    assert ids(f"{s3_uri}/in") == ["Ada", "Bob"]
    assert ids(f"{s3_uri}/in/*.jsonl") == ["Ada"]
    assert ids({"Person": f"{s3_uri}/tables/Person.parquet"}) == ["Ada", "Bob"]
    assert plan(f"{s3_uri}/in/a.jsonl").size == len(ADA)
    with pytest.raises(InvalidInput, match="there is nothing to load"):
        plan(f"{s3_uri}/nowhere")
