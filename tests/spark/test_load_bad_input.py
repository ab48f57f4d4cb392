"""Bad input: a message a person can act on, the same from both engines, and nothing published."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, OmniGraphError, OrphanEdge
from spark.loading import make_graph, rows_of, small_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def many_tasks(spark: SparkSession) -> Iterator[None]:
    with small_tasks(spark, split_bytes=3_000, rows_per_file=50):
        yield


def people(count: int) -> list[dict[str, Any]]:
    return [{"type": "Person", "data": {"name": f"p{i}", "age": i % 100}} for i in range(count)]


def lines(rows: list[Any]) -> bytes:
    return "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in rows).encode()


def truncated(place: Path) -> Any:
    (place / "d.jsonl").write_bytes(lines(people(300))[:-9])
    return str(place / "d.jsonl")


def truncated_archive(place: Path) -> Any:
    (place / "d.jsonl.gz").write_bytes(gzip.compress(lines(people(3_000)))[:-400])
    return str(place / "d.jsonl.gz")


def wrong_encoding(place: Path) -> Any:
    rows = lines(people(200))
    (place / "d.jsonl").write_bytes(rows + '{"type":"Person","data":{"name":"Zoë"}}\n'.encode("latin-1"))
    return str(place / "d.jsonl")


def utf_16(place: Path) -> Any:
    (place / "d.jsonl").write_bytes(lines(people(200)).decode().encode("utf-16"))
    return str(place / "d.jsonl")


def wrong_type_late(place: Path) -> Any:
    late = {"type": "Person", "data": {"name": "x", "age": "old"}}
    (place / "d.jsonl").write_bytes(lines([*people(1_233), late, *people(5)]))
    return str(place / "d.jsonl")


def repeated_key(place: Path) -> Any:
    (place / "d.jsonl").write_bytes(lines([*people(400), people(8)[7]]))
    return str(place / "d.jsonl")


def missing_end(place: Path) -> Any:
    (place / "d.jsonl").write_bytes(lines([*people(300), {"edge": "knows", "from": "p1", "to": "nobody"}]))
    return str(place / "d.jsonl")


def unknown_column(place: Path) -> Any:
    pq.write_table(pa.table({"name": ["a"], "agee": [3]}), place / "Person.parquet")
    return {"Person": str(place / "Person.parquet")}


def wrong_cell(place: Path) -> Any:
    names = pa.array([f"p{i}" for i in range(100)])
    ages = pa.array([*range(99), 2**40], pa.int64())
    pq.write_table(pa.table({"name": names, "age": ages}), place / "Person.parquet", row_group_size=10)
    return {"Person": str(place / "Person.parquet")}


def short_parquet(place: Path) -> Any:
    pq.write_table(pa.table({"name": ["a"]}), place / "Person.parquet")
    whole = (place / "Person.parquet").read_bytes()
    (place / "Person.parquet").write_bytes(whole[:-20])
    return {"Person": str(place / "Person.parquet")}


CASES: list[tuple[Callable[[Path], Any], str]] = [
    (truncated, r"d\.jsonl, line 300: not JSON: .*is the file cut off\?"),
    (truncated_archive, r"d\.jsonl\.gz"),
    (wrong_encoding, r"line 201: byte 0xEB at column 36 is not UTF-8"),
    (utf_16, r"line 1: this is UTF-16 or UTF-32 text: save it as UTF-8"),
    (wrong_type_late, r"line 1234: Person\.age: expected I32\?, got the text 'old'"),
    (repeated_key, r"line 401: .*the key 'p7' occurs twice, first in .*d\.jsonl, line 8$"),
    (missing_end, r"edge Knows '.*': dst 'nobody' not found in Person"),
    (unknown_column, r"Person has no property 'agee': did you mean 'age'\?"),
    (wrong_cell, r"Person\.parquet, row 100: Person\.age: "),
    (short_parquet, r"Person\.parquet cannot be read as parquet"),
]


@pytest.mark.parametrize(("make", "message"), CASES, ids=[each.__name__ for each, _ in CASES])
def test_a_person_can_act_on_the_message(
    tmp_path: Path, spark: SparkSession, make: Callable[[Path], Any], message: str
) -> None:
    graph = make_graph(tmp_path / "g")
    source = make(tmp_path)
    before = len(graph.commits())
    with pytest.raises(OmniGraphError, match=message) as met:
        graph.load(source, mode="append", engine="spark", spark=spark)
    assert (len(graph.commits()), [each for each in rows_of(graph).values() if each]) == (before, [])
    if make is truncated_archive:
        return  # the libraries that unpack it say so in their own words
    with pytest.raises(type(met.value)) as same:
        graph.load(make(tmp_path), mode="append", engine="local")
    if make is not missing_end:
        assert str(same.value) == str(met.value)


def test_a_row_of_a_frame_is_named_by_its_number(tmp_path: Path, spark: SparkSession) -> None:
    graph = make_graph(tmp_path / "g")
    rows = [(f"p{i}", 2**40 if i == 70 else i) for i in range(100)]
    frame = spark.createDataFrame(spark.sparkContext.parallelize(rows, 4), "name string, age bigint")
    with pytest.raises(InvalidInput, match=r"^Person, row 71: Person\.age: .*out of range"):
        graph.load({"Person": frame}, mode="append")


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_bad_rows_are_set_aside_and_the_others_are_loaded(
    tmp_path: Path, spark: SparkSession, engine: Literal["spark", "local"]
) -> None:
    graph = make_graph(tmp_path / "g")
    graph.load([{"type": "Person", "data": {"name": "old", "email": "taken"}}], mode="append")
    file, rejects = tmp_path / "d.jsonl", tmp_path / "out" / "rejects.parquet"
    bad = {
        201: "not json",
        202: {"type": "Person", "data": {"name": "typed", "age": "x"}},
        203: {"type": "Person", "data": {"name": "ranged", "age": 999}},
        204: {"type": "Person", "data": {"name": "p5"}},
        205: {"type": "Person", "data": {"name": "held", "email": "taken"}},
        206: {"edge": "knows", "from": "p1", "to": "nobody"},
        207: {"edge": "knows", "from": "p1", "to": "held"},
        208: {"type": "City", "data": {"title": "c"}},
        209: {"edge": "LivesIn", "from": "p1", "to": "c"},
        210: {"edge": "LivesIn", "from": "p1", "to": "c"},
    }
    file.write_bytes(lines([*people(200), *bad.values()]))

    done = graph.load(file, mode="merge", engine=engine, spark=spark, on_error=og.quarantine(20, rejects))

    assert done.summary.engine == engine
    assert done.summary.nodes == {"City": 1, "Person": 200}
    assert done.summary.edges == {"Knows": 0, "LivesIn": 1}
    told = pq.read_table(rejects).to_pylist()
    assert [(row["number"], row["rule"]) for row in told] == [
        (201, "json"),
        (202, "type"),
        (203, "range"),
        (204, "unique_violation"),
        (205, "unique_violation"),
        (206, "orphan_edge"),
        (207, "orphan_edge"),
        (210, "cardinality_violation"),
    ]
    assert {row["source"] for row in told} == {str(file)}
    assert (told[0]["value"], told[5]["value"]) == ("not json", "nobody")
    assert "first in" in told[3]["message"]
    assert sum(done.summary.rejected.values()) == len(told)
    assert done.summary.rejects == str(rejects)
    assert {row["name"] for row in rows_of(graph)["node:Person"]} == {f"p{i}" for i in range(200)} | {"old"}


def test_more_bad_rows_than_may_be_set_aside_fail_the_load(tmp_path: Path, spark: SparkSession) -> None:
    graph = make_graph(tmp_path / "g")
    file = tmp_path / "d.jsonl"
    file.write_bytes(lines([*people(100), "x", "y", "z"]))
    with pytest.raises(InvalidInput, match=r"more than 2 rows cannot be loaded.*line 101: not JSON"):
        graph.load(file, mode="merge", spark=spark, on_error=og.quarantine(2, tmp_path / "r.parquet"))
    assert rows_of(graph)["node:Person"] == []
    with pytest.raises(InvalidInput, match=r"more than 2 rows cannot be loaded.*line 101: not JSON"):
        graph.load(file, engine="local", on_error=og.quarantine(2, tmp_path / "r.parquet"))


def test_rows_of_a_frame_are_set_aside_with_their_numbers(tmp_path: Path, spark: SparkSession) -> None:
    graph = make_graph(tmp_path / "g")
    rows = [(f"p{i}", 2**40 if i in (7, 70) else i) for i in range(100)] + [("p3", 1)]
    frame = spark.createDataFrame(spark.sparkContext.parallelize(rows, 3), "name string, age bigint")
    graph.load({"Person": frame}, mode="merge", on_error=og.quarantine(9, tmp_path / "r.parquet"))
    told = pq.read_table(tmp_path / "r.parquet").to_pylist()
    assert [(row["source"], row["unit"], row["number"]) for row in told] == [
        ("Person", "row", 8),
        ("Person", "row", 71),
        ("Person", "row", 101),
    ]
    assert told[1]["message"].startswith("Person, row 71: ")


def test_a_fault_that_no_row_of_the_input_has_is_not_set_aside(tmp_path: Path, spark: SparkSession) -> None:
    graph = make_graph(tmp_path / "g")
    graph.load([*people(3), {"edge": "knows", "from": "p0", "to": "p2"}], mode="append")
    with pytest.raises(OrphanEdge, match="dst 'p2' not found in Person"):
        graph.load(
            {"Person": [{"name": "p0"}]},
            mode="overwrite",
            spark=spark,
            on_error=og.quarantine(9, tmp_path / "r.parquet"),
        )
