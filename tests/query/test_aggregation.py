"""Groups and aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from query.conftest import PEOPLE, SOCIAL
from query.graphs import make_graph

if TYPE_CHECKING:
    from pathlib import Path

    from query.graphs import Graph


def test_friends_are_counted_for_those_who_have_some(social: Graph) -> None:
    text = "match { $p: Person $p knows $f } return { $p.name, count($f) as friends } order { friends desc }"
    assert social.rows(text) == [("Alice", 2), ("Bob", 1)]


def test_a_count_of_everything_is_one_row_of_one_integer(social: Graph) -> None:
    result = social.query("match { $p: Person } return { count($p) as total }")
    assert result.schema == pa.schema([("total", pa.int64())])
    assert result.to_pylist() == [{"total": 4}]


def test_aggregates_of_a_group_have_the_types_that_they_promise(social: Graph) -> None:
    text = (
        "match { $p: Person $p worksAt $c } return { $c.name, sum($p.age) as total, avg($p.age) as average,"
        " min($p.age) as youngest, max($p.age) as oldest, count($p) as heads } order { $c.name }"
    )
    result = social.query(text)
    types = [result.schema.field(name).type for name in result.columns[1:]]
    assert types == [pa.float64(), pa.float64(), pa.int32(), pa.int32(), pa.int64()]
    assert social.rows(text) == [("Acme", 30.0, 30.0, 30, 30, 1), ("Globex", 25.0, 25.0, 25, 25, 1)]


def test_a_limit_takes_the_most_connected(social: Graph) -> None:
    text = "match { $p: Person $p knows $f } return { $p.name, count($f) as n } order { n desc } limit 1"
    assert social.rows(text) == [("Alice", 2)]


def test_smallest_and_greatest_of_texts_and_dates(social: Graph) -> None:
    assert social.rows("match { $p: Person } return { min($p.name), max($p.name) }") == [("Alice", "Diana")]
    dates = social.rows("match { $a $e: knows $b } return { min($e.since), max($e.since), count($e.since) }")
    assert [str(each) for each in dates[0]] == ["2020-01-01", "2021-06-01", "2"]


def test_two_hops_are_counted_without_listing_them(social: Graph) -> None:
    assert social.rows("match { $a knows $b $b knows $c } return { count($c) as n }") == [(1,)]


def test_nothing_to_aggregate_is_one_row_without_groups_and_none_with(tmp_path: Path) -> None:
    graph = make_graph(tmp_path, SOCIAL, {"Person": PEOPLE})
    none = "match { $p: Person $p worksAt $c }"
    text = f"{none} return {{ count($p) as n, sum($p.age) as s, avg($p.age) as a, min($p.name) as m }}"
    assert graph.rows(text) == [(0, None, None, None)]
    assert graph.rows(f"{none} return {{ $c.name, count($p) }}") == []


def test_nulls_do_not_count(tmp_path: Path) -> None:
    graph = make_graph(tmp_path, SOCIAL, {"Person": [{"name": "a", "age": None}, {"name": "b", "age": 7}]})
    assert graph.rows("match { $p: Person } return { count($p), count($p.age), avg($p.age) }") == [(2, 1, 7.0)]


def test_having_keeps_groups_and_order_takes_an_aggregate_that_is_not_returned(social: Graph) -> None:
    text = "match { $p: Person $p <knows> $f } return { $p.name } having { count($f) > 1 } order { sum($f.age) desc }"
    assert social.rows(text) == [("Alice",), ("Bob",)]


def test_aggregates_stand_inside_expressions(social: Graph) -> None:
    text = "match { $p: Person } return { count($p) * 2 + 1 as n, max($p.age) - min($p.age) as span }"
    assert social.rows(text) == [(9, 10)]


def test_distinct_counts_each_once(social: Graph) -> None:
    text = "match { $a knows $b } return { count(distinct $a) as starts, count($a) as edges }"
    assert social.rows(text) == [(2, 3)]


def test_entities_are_groups(social: Graph) -> None:
    rows = social.rows("match { $p knows $f } return { $p, count($f) as n } order { n }")
    assert [(row[0]["id"], row[1]) for row in rows] == [("Bob", 1), ("Alice", 2)]


def test_a_product_of_independent_parts_is_counted(social: Graph) -> None:
    assert social.rows("match { $p: Person $c: Company } return { count($p) as n }") == [(8,)]
    assert social.rows("match { $p: Person $a knows $b $c: Company } return { count($p) as n }") == [(24,)]


def test_sums_over_counted_branches_weigh_each_match(social: Graph) -> None:
    rows = social.rows(
        "match { $p: Person $p knows $f } return { sum($p.age) as s, avg($p.age) as a, max($p.age) as m }"
    )
    assert rows == [(30.0 + 30.0 + 25.0, 85 / 3, 30)]
