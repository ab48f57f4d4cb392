"""Loads that this process runs task by task: rows set aside without Spark, memory that does not follow the input."""

from __future__ import annotations

import bz2
import gzip
import random  # noqa: TID251
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import ConstraintViolation, InvalidInput, KeyConflict
from omnigraph.graph import backends
from omnigraph.load.plan import IN_MEMORY_BYTES, LoadOptions

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.values.batches import Mode

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique }
edge Knows: Person -> Person
"""


def graph_at(path: Path) -> og.Graph:
    return og.init(path, schema=SCHEMA)


def person(name: str, age: object = None, email: str | None = None) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, "age": age, "email": email}}


def knows(source: str, target: str) -> dict[str, Any]:
    return {"edge": "Knows", "from": source, "to": target}


def content(graph: og.Graph) -> dict[str, list[tuple[Any, ...]]]:
    people = graph.query("query q() { match { $p: Person } return { $p.name, $p.age, $p.email } }")
    edges = graph.query("query q() { match { $a: Person  $a knows $b } return { $a.name, $b.name } }")
    return {
        key: sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)
        for key, rows in (("Person", people), ("Knows", edges))
    }


def packed(data: bytes, codec: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACKERS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": partial(packed, codec="zstd"),
    ".lz4": partial(packed, codec="lz4"),
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_rows_are_set_aside_from_files_of_every_codec(tmp_path: Path, suffix: str) -> None:
    graph = graph_at(tmp_path / "g.omni")
    rows = [person("a", 1), person("b", 2**40), person("a", 3), knows("a", "c"), person("c"), knows("a", "b")]
    lines = [*(orjson.dumps(each) for each in rows), b"no json"]
    file, rejects = tmp_path / f"in.jsonl{suffix}", tmp_path / "rejects.parquet"
    file.write_bytes(PACKERS[suffix](b"\n".join(lines)))
    done = graph.load(file, engine="local", on_error=og.quarantine(10, rejects))
    assert (done.summary.engine, done.summary.rows) == ("local", 3)
    assert content(graph) == {"Person": [("a", 1, None), ("c", None, None)], "Knows": [("a", "c")]}
    found = [(row["number"], row["rule"]) for row in pq.read_table(rejects).to_pylist()]
    assert found == [(2, "range"), (3, "unique_violation"), (6, "orphan_edge"), (7, "json")]
    assert done.summary.rejected == {"json": 1, "orphan_edge": 1, "range": 1, "unique_violation": 1}


def test_a_quarantine_takes_every_kind_of_source(tmp_path: Path) -> None:
    sources: list[Any] = [
        {"Person": pa.table({"name": ["a", "b"], "age": [1, 2**40]})},
        {"Person": [{"name": "a"}, {"name": "b", "age": "x"}]},
        [person("a"), person("b", "x")],
        "\n".join(orjson.dumps(each).decode() for each in (person("a"), person("b", "x"))),
    ]
    for number, source in enumerate(sources):
        graph = graph_at(tmp_path / f"{number}.omni")
        done = graph.load(source, on_error=og.quarantine(1))
        assert (done.summary.rows, sum(done.summary.rejected.values())) == (1, 1)
        assert done.summary.engine == "local"


def test_one_row_more_than_the_limit_fails_the_load_and_changes_nothing(tmp_path: Path) -> None:
    graph = graph_at(tmp_path / "g.omni")
    with pytest.raises(InvalidInput, match="more than 1 row"):
        graph.load([person("a"), person("b", "x"), person("c", "y")], on_error=og.quarantine(1))
    assert content(graph) == {"Person": [], "Knows": []}


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
@pytest.mark.parametrize("seed", range(3))
def test_task_by_task_and_in_memory_loads_do_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode, seed: int
) -> None:
    chance = random.Random(seed)
    names = [f"p{each}" for each in range(12)]
    before = [person(name, 0, f"{name}@x") for name in names[:6]]
    rows = [person(name, chance.choice([1, 2, None]), f"{name}@y") for name in chance.sample(names, 8)]
    rows += [knows(*chance.sample(names, 2)) for _ in range(chance.randrange(3))]
    outcomes = []
    for place, limit in (("memory", IN_MEMORY_BYTES), ("tasks", 0)):
        monkeypatch.setattr(backends, "IN_MEMORY_BYTES", limit)
        graph = graph_at(tmp_path / f"{place}.omni")
        graph.load(before)
        file = tmp_path / "in.jsonl"
        file.write_bytes(b"\n".join(orjson.dumps(each) for each in rows))
        try:
            done = graph.load(file, mode=mode, engine="local")
            assert bool(done.summary.stages) == (place == "tasks")
            outcomes.append((done.summary.nodes, done.summary.edges, content(graph)))
        except (ConstraintViolation, KeyConflict) as error:
            outcomes.append((type(error), content(graph)))
    assert outcomes[0] == outcomes[1]


LOAD = """
import importlib.util, resource, sys
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "pyspark" else find_spec(name, *more)
import omnigraph as og
graph = og.open(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
done = graph.load(sys.argv[2])
assert not any(each.startswith("pyspark") for each in sys.modules)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(done.summary.rows, (after - before) * 1024, bool(done.summary.stages))
"""


@pytest.mark.slow
def test_a_file_that_is_larger_than_the_limit_is_loaded_in_less_memory_than_it_takes(tmp_path: Path) -> None:
    og.init(tmp_path / "g.omni", schema="node Note { name: String @key  text: String }")
    file, text = tmp_path / "notes.jsonl", "x" * 8_000
    with file.open("wb") as lines:
        for number in range(48_000):
            lines.write(b'{"type":"Note","data":{"name":"n%d","text":"%s"}}\n' % (number, text.encode()))
    assert file.stat().st_size > IN_MEMORY_BYTES
    command = [sys.executable, "-c", LOAD, str(tmp_path / "g.omni"), str(file)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout.split()
    rows, grown, in_tasks = int(told[0]), int(told[1]), told[2]
    assert (rows, in_tasks) == (48_000, "True")
    assert grown < file.stat().st_size, "in memory the rows alone would take this much, and parsing them as much again"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "Append"}, "there is no mode 'Append': use append, merge or overwrite."),
        ({"engine": "dask"}, "there is no engine 'dask': use auto, local or spark."),
        ({"on_error": "skip"}, r"on_error is 'fail' or og.quarantine\(limit, path\), not 'skip'."),
        ({"on_error": og.quarantine(1), "strict": False}, "strict grammar only"),
    ],
)
def test_options_that_there_are_not_are_refused_before_anything_is_read(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    graph = graph_at(tmp_path / "g.omni")
    for ask in (lambda: LoadOptions(**options), lambda: graph.load(tmp_path / "nothing here", **options)):
        with pytest.raises(InvalidInput, match=message):
            ask()


def test_a_format_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no format 'xml': use jsonl, parquet or csv"):
        graph_at(tmp_path / "g.omni").export(tmp_path / "out", format="xml")  # type: ignore[arg-type]
