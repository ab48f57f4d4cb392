"""Conditions with literals: on every type, pushed into the table and evaluated in memory, with the same meaning."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from omnigraph.language.ir.params import bind_params
from omnigraph.query.plan.operators import FilterRows, Scan
from omnigraph.query.run import PreparedQuery
from omnigraph.world import REAL
from query.conftest import edge
from query.graphs import make_graph

if TYPE_CHECKING:
    from pathlib import Path

    from query.graphs import Graph

THINGS = """
node Thing { name: String @key
  count: I32?
  big: I64?
  price: F64?
  ratio: F32?
  flag: Bool?
  day: Date?
  at: DateTime?
  tags: [String]?
  firstName: String? @index
  other: String? }
edge Near: Thing -> Thing
"""
_AT = dt.datetime(2024, 5, 6, 7, 8, 9, 123_000, tzinfo=dt.UTC)


@pytest.fixture(params=["csr", "indexed"])
def things(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Graph, str]:
    rows = [
        {"name": "a", "count": 2, "big": 2**53 + 1, "price": 0.1, "ratio": 0.1, "flag": True,
         "day": dt.date(2024, 5, 6), "at": _AT,
         "tags": ["x", "y"], "firstName": "Ada Lovelace", "other": "Ada Lovelace"},
        {"name": "b", "count": 3, "big": 2**53, "price": 2.5, "ratio": 2.5, "flag": False,
         "day": dt.date(2024, 5, 7), "at": _AT + dt.timedelta(milliseconds=1),
         "tags": [], "firstName": "100%_sure", "other": "x"},
        {"name": "c"},
    ]  # fmt: skip
    near = [edge("a", "b"), edge("b", "c"), edge("a", "a")]
    graph = make_graph(tmp_path, THINGS, {"Thing": rows, "Near": near})
    return (graph.indexed(), request.param) if request.param == "indexed" else (graph, request.param)


def names(things: tuple[Graph, str], condition: str, params: str = "", **given: object) -> str:
    graph, mode = things
    text = f"query q({params}) {{ match {{ $t: Thing {condition} }} return {{ $t.name }} order {{ $t.name }} }}"
    return "".join(row[0] for row in graph.rows(text, given, traversal=mode))


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("$t.price = 0.1", "a"), ("$t.price > 0.1", "b"), ("$t.ratio = 0.1", "a"), ("$t.ratio >= 2.5", "b"),
        ("$t.count = 2", "a"), ("$t.count < 3", "a"), ("$t.count = 2.7", ""), ("$t.count < 2.7", "a"),
        ("$t.count != 2.7", "ab"),
        ("$t.flag = true", "a"), ("$t.flag != true", "b"), ("$t.flag", "a"), ("not $t.flag", "b"),
        ('$t.day = date("2024-05-06")', "a"), ('$t.day > date("2024-05-06")', "b"),
        ('$t.at = datetime("2024-05-06T07:08:09.123Z")', "a"), ('$t.at > datetime("2024-05-06T07:08:09.123Z")', "b"),
        ('$t.at >= datetime("2024-05-06T09:08:09.123+02:00")', "ab"), ("$t.at < now()", "ab"),
        ("$t.big = 9007199254740992.0", "b"), ("$t.big > 9007199254740992.0", "a"), ("$t.big = 9007199254740993", "a"),
        ('$t.tags contains "x"', "a"), ('not $t.tags contains "x"', "b"),
        ('$t.firstName starts_with "Ada"', "a"), ('$t.firstName contains "a Love"', "a"),
        ('$t.firstName contains "%_"', "b"),
        ('$t.firstName starts_with "1"', "b"), ('$t.name contains "a"', "a"), ('$t.name starts_with "_"', ""),
        ("$t.count in [1, 2]", "a"), ("$t.count not in [2]", "b"), ("$t.count in []", ""),
        ("$t.price in [0.1, 7]", "a"),
        ("$t.count is null", "c"), ("$t.count is not null", "ab"), ("$t.tags is null", "c"),
        ("$t.count > 1 and $t.price < 1", "a"), ("$t.count = 3 or $t.flag = true", "ab"),
        ("not ($t.count = 2 or $t.count is null)", "b"), ("$t.count + 1 = 3", "a"), ("-$t.count = -3", "b"),
        ("$t.count / 0 = 1", ""), ("$t.count / 2 = 1.5", "b"), ("$t.count % 2 = 1", "b"),
        ('"Ada Lovelace and more" contains $t.firstName', "a"), ("3 = $t.count", "b"), ("2.5 < $t.count", "b"),
        ("$t.firstName = $t.other", "a"),
    ],
)  # fmt: skip
def test_a_condition_selects(things: tuple[Graph, str], condition: str, found: str) -> None:
    assert names(things, condition) == found


@pytest.mark.parametrize(
    ("field", "found"),
    [("price: 0.1", "a"), ("ratio: 2.5", "b"), ("count: 2", "a"), ("flag: false", "b"),
     ('day: date("2024-05-07")', "b"),
     ('at: datetime("2024-05-06T07:08:09.123Z")', "a"), ('tags: "y"', "a"), ('firstName: "Ada Lovelace"', "a"),
     ("big: 9007199254740993", "a")],
)  # fmt: skip
def test_a_field_of_a_binding_selects(things: tuple[Graph, str], field: str, found: str) -> None:
    graph, mode = things
    rows = graph.rows(f"match {{ $t: Thing {{ {field} }} }} return {{ $t.name }}", traversal=mode)
    assert "".join(row[0] for row in rows) == found


def test_a_null_parameter_matches_nothing(things: tuple[Graph, str]) -> None:
    assert names(things, "$t.count = $n", "$n: I32?") == ""
    assert names(things, "not $t.count = $n", "$n: I32?") == ""
    assert names(things, "$t.count = $n or $t.flag = true", "$n: I32?") == "a"


def test_parameters_are_values_of_their_types(things: tuple[Graph, str]) -> None:
    assert names(things, "$t.name in $l", "$l: [String]", l=["a", "c", "'; --"]) == "ac"
    assert names(things, "$t.price > $x", "$x: F64", x=-1.5) == "ab"
    assert names(things, "$t.firstName contains $s", "$s: String", s="'") == ""
    assert names(things, "$t.at = $m", "$m: DateTime", m="2024-05-06T07:08:09.124Z") == "b"


def test_the_same_conditions_hold_for_a_variable_that_a_traversal_reached(things: tuple[Graph, str]) -> None:
    graph, mode = things
    for condition, found in (("$t.count = 3", "b"), ('$t.firstName starts_with "Ada"', "a"), ("$t.count is null", "c")):
        text = f"match {{ $s: Thing $s near $t {condition} }} return distinct {{ $t.name }}"
        assert "".join(row[0] for row in graph.rows(text, traversal=mode)) == found


def test_a_condition_between_two_variables_is_evaluated_after_they_met(things: tuple[Graph, str]) -> None:
    graph, mode = things
    pairs = graph.rows("match { $a: Thing $b: Thing $a.name = $b.name } return { $a.name, $b.name }", traversal=mode)
    assert sorted(pairs) == [("a", "a"), ("b", "b"), ("c", "c")]


def test_contains_works_inside_a_negation(things: tuple[Graph, str]) -> None:
    assert names(things, 'not { $t near $u $u.firstName contains "sure" }') == "bc"


def test_a_simple_condition_is_pushed_into_the_scan_and_not_evaluated_again(tmp_path: Path) -> None:
    graph = make_graph(tmp_path, THINGS)
    checked = graph.checked(
        'query q() { match { $t: Thing $t.count > 1 $t.firstName contains "x" } return { $t.name } }'
    )
    plan = PreparedQuery(
        graph.snapshot, graph.store, graph.catalog, checked, bind_params(checked, {}), world=REAL
    ).plan()
    (scan,) = plan.steps
    assert isinstance(scan, Scan)
    assert scan.conditions.pushed is not None
    assert not scan.conditions.rest
    assert not any(isinstance(step, FilterRows) for step in plan.steps)
