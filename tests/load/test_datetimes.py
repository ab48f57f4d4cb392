"""A DateTime is a number of milliseconds. Whatever is finer is cut towards the past, by every way into a graph."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.kernels.arrays import comparable, floor_milliseconds, python_values

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.graph.graph import Graph

SCHEMA = "node T { name: String @key  at: DateTime?  ats: [DateTime]?  n: I32? }"
# After and before 1970: cutting the digits off and cutting towards zero differ for the second.
FINE = ["2024-05-06T07:08:09.123999", "1969-12-31T23:59:59.998001"]
CUT = [dt.datetime(2024, 5, 6, 7, 8, 9, 123_000, dt.UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 998_000, dt.UTC)]
AT = "query q() { match { $t: T } return { $t.name, $t.at, $t.ats } order { $t.name } }"
SET = "query q($name: String, $at: DateTime) { insert T { name: $name, at: $at } }"


def _record(name: str, **values: object) -> dict[str, object]:
    return {"type": "T", "data": {"name": name, **values}}


def _python(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def _arrow(unit: str, zone: str | None) -> Any:
    def table(name: str, text: str) -> pa.Table:
        micros = pa.array([np.datetime64(text, "us").astype(np.int64)]).view(pa.timestamp("us"))
        moments = micros.cast(pa.timestamp(unit)).view(pa.timestamp(unit, zone))
        return pa.table(
            {"name": [name], "at": moments, "ats": pa.array([[moments[0].value]]).cast(pa.list_(moments.type))}
        )

    return lambda graph, name, text, _: graph.load({"T": table(name, text)}, mode="merge")


def _csv(graph: Graph, name: str, text: str, folder: Path) -> object:
    (folder / "T.csv").write_text(f'name,at,ats\n{name},{text}Z,"[""{text}Z""]"\n')
    return graph.load({"T": folder / "T.csv"}, mode="merge")


def _parquet(graph: Graph, name: str, text: str, folder: Path) -> object:
    moments = pa.array([_python(text)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"name": [name], "at": moments}), folder / "T.parquet")
    return graph.load({"T": folder / "T.parquet"}, mode="merge")


def _pandas(graph: Graph, name: str, text: str, _: Path) -> object:
    stamps = pd.to_datetime([text], utc=True).as_unit("ns") + pd.Timedelta(1, "ns")
    return graph.load({"T": pd.DataFrame({"name": [name], "at": stamps})}, mode="merge")


DOORS: dict[str, Any] = {
    "a dict with text": lambda g, name, text, _: g.load([_record(name, at=f"{text}Z", ats=[f"{text}Z"])], mode="merge"),
    "a dict with a datetime": lambda g, name, text, _: g.load([_record(name, at=_python(text))], mode="merge"),
    "a dict with datetimes": lambda g, name, text, _: g.load([_record(name, ats=[_python(text)])], mode="merge"),
    "a dict with NumPy nanoseconds": lambda g, name, text, _: g.load(
        [_record(name, at=np.datetime64(text, "ns"), ats=np.array([text], "datetime64[ns]"))], mode="merge"
    ),
    "a dict with a pandas timestamp": lambda g, name, text, _: g.load(
        [_record(name, at=pd.Timestamp(text, tz="UTC") + pd.Timedelta(1, "ns"))], mode="merge"
    ),
    "Arrow, microseconds": _arrow("us", None),
    "Arrow, nanoseconds with a zone": _arrow("ns", "Europe/Rome"),
    "CSV": _csv,
    "Parquet": _parquet,
    "pandas": _pandas,
    "polars": lambda g, name, text, _: g.load(
        {"T": pl.DataFrame({"name": [name], "at": [_python(text)]})}, mode="merge"
    ),
    "a parameter with text": lambda g, name, text, _: g.mutate(SET, params={"name": name, "at": f"{text}Z"}),
    "a parameter with a datetime": lambda g, name, text, _: g.mutate(SET, params={"name": name, "at": _python(text)}),
    "a parameter of NumPy": lambda g, name, text, _: g.mutate(
        SET, params={"name": name, "at": np.datetime64(text, "ns")}
    ),
    "a literal": lambda g, name, text, _: g.mutate(
        f'query q() {{ insert T {{ name: "{name}", at: datetime("{text}Z") }} }}'
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_cuts_to_milliseconds_towards_the_past(door: str, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    for name, text in zip("ab", FINE, strict=True):
        DOORS[door](graph, name, text, tmp_path)
    for row, expected in zip(graph.query(AT).to_pylist(), CUT, strict=True):
        given = [each for each in (row["t.at"], *(row["t.ats"] or ())) if each is not None]
        assert given
        assert set(given) == {expected}


def test_a_key_has_the_same_id_through_a_load_and_a_mutation(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node K { at: DateTime @key  n: I32? }")
    graph.load([{"type": "K", "data": {"at": f"{FINE[0]}Z", "n": 1}}])
    graph.mutate("query q($at: DateTime) { upsert K { at: $at, n: 2 } }", params={"at": _python(FINE[0])})
    found = graph.query("query q() { match { $k: K } return { $k.at, $k.n } }").to_pylist()
    assert found == [{"k.at": CUT[0], "k.n": 2}]


def test_a_change_of_the_time_in_a_list_is_a_change(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.load([_record("a", ats=["2024-01-01T01:00:00Z"], n=1)])
    before = graph.snapshot().commit_id
    graph.load([_record("a", ats=["2024-01-01T02:00:00Z"], n=1)], mode="merge")
    assert [each.op for each in graph.changes(since=before)] == ["update"]
    assert [each.table_key for each in graph.diff(before, "main")] == ["node:T"]


@pytest.mark.parametrize("resolve", ["ours", "theirs"])
def test_a_merge_keeps_the_times_in_a_list(tmp_path: Path, resolve: str) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.load([_record("a", ats=["2024-01-01T01:00:00Z"], n=1)])
    graph.branches.create("side")
    graph.load([_record("a", ats=["2024-01-01T03:00:00Z"], n=2)], mode="merge", branch="side")
    graph.load([_record("a", ats=["2024-01-01T02:00:00Z"], n=3)], mode="merge")
    graph.merge("side", resolve=resolve)
    hour = {"ours": 2, "theirs": 3}[resolve]
    assert graph.query(AT).to_pylist()[0]["t.ats"] == [dt.datetime(2024, 1, 1, hour, tzinfo=dt.UTC)]


def test_lists_of_datetimes_are_equal_when_their_times_are() -> None:
    hours = pa.array([[0], [3_600_000], [0], None], pa.list_(pa.int64())).cast(pa.list_(pa.date64()))
    assert comparable(hours).unique().drop_null().to_pylist() == ["[0]", "[3600000]"]
    assert python_values(hours) == [[0], [3_600_000], [0], None]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_flooring_at_any_depth(unit: str) -> None:
    factor = {"s": 1_000, "ms": 1, "us": 1 / 1_000, "ns": 1 / 1_000_000}[unit]
    numbers = [-1_000_001, -1_000_000, -1, 0, 1, 999_999, None]
    flat = pa.array(numbers, pa.int64()).view(pa.timestamp(unit, "UTC"))
    expected = [None if each is None else int(np.floor(each * factor)) for each in numbers]
    assert floor_milliseconds(flat).view(pa.int64()).to_pylist() == expected
    lists = pa.ListArray.from_arrays([0, 3, None, 3, 7], flat)[1:]
    floored = floor_milliseconds(lists).cast(pa.list_(pa.int64())).to_pylist()
    assert floored == [[], None, expected[3:]]
    struct = pa.StructArray.from_arrays([flat], names=["at"])
    assert floor_milliseconds(struct).field(0).view(pa.int64()).to_pylist() == expected
