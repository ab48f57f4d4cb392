"""Results: Arrow as it is, Python values, JSON as it is specified, and something to look at."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from omnigraph.query.result.result import Result
from query.graphs import make_graph

if TYPE_CHECKING:
    from pathlib import Path

    from query.graphs import Graph

KINDS = """
node Thing { name: String @key
  big: I64?
  unsigned: U64?
  ratio: F64?
  small: F32?
  day: Date?
  at: DateTime?
  tags: [String]?
  moments: [DateTime]?
  vector: Vector(2)?
  blob: Blob? }
"""
_AT = dt.datetime(2024, 5, 6, 7, 8, 9, 120_000, tzinfo=dt.UTC)


@pytest.fixture
def things(tmp_path: Path) -> Graph:
    return make_graph(
        tmp_path,
        KINDS,
        {
            "Thing": [
                {"name": "a", "big": 2**53, "unsigned": 7, "ratio": 0.5, "small": 0.1,
                 "day": dt.date(2024, 5, 6), "at": _AT,
                 "tags": ["x"], "vector": [1.0, 2.0]},
                {"name": "b"},
            ]
        },
    )  # fmt: skip


def test_every_type_comes_back_as_it_was_stored(things: Graph) -> None:
    names = ["big", "unsigned", "ratio", "small", "day", "at", "tags", "moments", "vector"]
    result = things.query(
        f"match {{ $t: Thing }} return {{ {', '.join(f'$t.{name}' for name in names)} }} order {{ $t.name }}"
    )
    stored = things.store.open(things.snapshot["node:Thing"].pin).schema
    assert [result.schema.field(f"t.{name}").type for name in names] == [stored.field(name).type for name in names]
    first, second = result.to_pylist()
    assert first["t.at"] == _AT
    assert first["t.vector"] == [1.0, 2.0]
    assert set(second.values()) == {None}


def test_json_has_text_for_what_json_cannot_hold(things: Graph) -> None:
    text = 'match { $t: Thing $t.name = "a" } return { $t.big, $t.at, $t.day, $t.tags, $t.vector, $t.unsigned }'
    assert json.loads(things.query(text).to_json()) == [
        {"t.big": str(2**53), "t.at": "2024-05-06T07:08:09.120Z", "t.day": "2024-05-06", "t.tags": ["x"],
         "t.vector": [1.0, 2.0], "t.unsigned": 7}
    ]  # fmt: skip
    assert json.loads(things.query(text).to_json(large_integers_as_text=False))[0]["t.big"] == 2**53


def test_json_spells_out_numbers_that_are_not_finite() -> None:
    result = Result(pa.table({"x": [math.nan, math.inf, -math.inf, 1.5, None]}))
    assert [row["x"] for row in json.loads(result.to_json())] == ["NaN", "Infinity", "-Infinity", 1.5, None]


def test_json_keeps_the_order_of_columns(things: Graph) -> None:
    text = things.query("match { $t: Thing } return { $t.ratio as z, $t.name as a } order { a }").to_json()
    assert text.startswith('[{"z":0.5,"a":"a"}')


def test_an_entity_is_an_object_without_blobs(things: Graph) -> None:
    (row,) = things.query('match { $t: Thing { name: "a" } } return { $t }').to_pylist()
    assert list(row["t"]) == [
        "id",
        "at",
        "big",
        "day",
        "moments",
        "name",
        "ratio",
        "small",
        "tags",
        "unsigned",
        "vector",
    ]
    assert row["t"]["at"] == _AT
    assert json.loads(things.query('match { $t: Thing { name: "a" } } return { $t }').to_json())[0]["t"]["at"].endswith(
        "Z"
    )


def test_the_arrow_stream_is_read_by_others(things: Graph) -> None:
    result = things.query("match { $t: Thing } return { $t.name } order { $t.name }")
    assert pa.table(result) == result.to_arrow()
    assert result.to_pandas()["t.name"].tolist() == ["a", "b"]
    assert [batch.num_rows for batch in result.batches(1)] == [1, 1]
    assert [row["t.name"] for row in result] == ["a", "b"]


def test_a_result_can_be_looked_at(things: Graph) -> None:
    result = things.query("match { $t: Thing } return { $t.name, $t.ratio as half } order { $t.name }")
    assert repr(result).splitlines() == [
        "┌────────┬──────┐",
        "│ t.name │ half │",
        "├────────┼──────┤",
        "│ a      │  0.5 │",
        "│ b      │      │",
        "└────────┴──────┘",
        "2 rows",
    ]
    assert "<th>t.name</th>" in result._repr_html_()


def test_markup_in_values_is_text() -> None:
    assert "<script>" not in Result(pa.table({"<b>": ["<script>"]}))._repr_html_()


def test_only_the_first_rows_of_many_are_shown() -> None:
    assert repr(Result(pa.table({"n": range(100)}))).endswith("100 rows, the first 20 are shown")


def test_constants_and_parameters_are_columns(things: Graph) -> None:
    text = (
        'query q($n: I32, $at: DateTime) { match { $t: Thing { name: "a" } } return { $n, 7, "x", $at, now() as now } }'
    )
    (row,) = things.query(text, {"n": 5, "at": "2024-01-01T00:00:00.5Z"}).to_pylist()
    assert list(row.values())[:3] == [5, 7, "x"]
    assert row["at"] == dt.datetime(2024, 1, 1, 0, 0, 0, 500_000, tzinfo=dt.UTC)
    assert row["now"] == dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=dt.UTC)
