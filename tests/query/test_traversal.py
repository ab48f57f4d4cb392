"""Following edges: hops, cycles, loops, both ways, bound edges, negation, optional parts. Every test in both modes."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from omnigraph.errors import HopCapReached
from omnigraph.language.ir.query import HOP_CAP
from query.conftest import SOCIAL, edge, person
from query.graphs import Graph, make_graph

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Ask = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(params=["csr", "indexed", "auto"])
def ask(request: pytest.FixtureRequest, social: Graph) -> Ask:
    return lambda text, **params: sorted(social.rows(text, params, traversal=request.param), key=str)


@pytest.fixture(params=["csr", "indexed"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def people(folder: Path, names: str, *knows: str, works: tuple[str, ...] = (), companies: str = "") -> Graph:
    """Persons of one letter each; `ab` means that a knows b, `aX` that a works at X."""
    return make_graph(
        folder,
        SOCIAL,
        {
            "Person": [person(name, 20 + n) for n, name in enumerate(names)],
            "Company": [{"name": name} for name in companies],
            "Knows": [edge(*each) for each in knows],
            "WorksAt": [edge(*each) for each in works],
        },
    )


def reached(graph: Graph, text: str, mode: str, **options: Any) -> str:
    """The names that a one-column query gives, sorted."""
    return "".join(sorted(row[0] for row in graph.rows(text, traversal=mode, **options)))


def from_a(graph: Graph, walk: str, mode: str) -> str:
    return reached(graph, f'match {{ $p: Person {{ name: "a" }} $p {walk} $f }} return {{ $f.name }}', mode)


def between(start: str, end: str) -> str:
    ends = f'$x: Person {{ name: "{start}" }} $y: Person {{ name: "{end}" }}'
    return f"match {{ {ends} $r: shortest($x knows $y) }}"


# -- one hop -----------------------------------------------------------------------------------------------------------


def test_friends_in_the_direction_of_the_edge(ask: Ask) -> None:
    assert ask('match { $p: Person { name: "Alice" } $p knows $f } return { $f.name }') == [("Bob",), ("Charlie",)]


def test_the_direction_follows_from_the_types(ask: Ask) -> None:
    rows = ask('match { $c: Company { name: "Acme" } $p worksAt $c } return { $p.name }')
    assert rows == ask('match { $c: Company { name: "Acme" } $c worksAt $p } return { $p.name }') == [("Alice",)]


def test_two_ends_that_nothing_else_binds(ask: Ask) -> None:
    assert ask("match { $a knows $b } return { $a.name, $b.name }") == [
        ("Alice", "Bob"), ("Alice", "Charlie"), ("Bob", "Diana"),
    ]  # fmt: skip


def test_both_ways_is_the_union_without_repetition(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "abc", "ab", "ba", "ca")
    assert from_a(graph, "<knows>", mode) == "bc"


def test_parallel_edges_are_one_for_a_traversal(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "ab", "ab", "ab")
    assert from_a(graph, "knows", mode) == "b"


def test_a_condition_at_the_end_constrains_the_start(ask: Ask) -> None:
    assert ask('match { $p: Person $p knows $f $f.name = "Diana" } return { $p.name }') == [("Bob",)]
    assert ask('match { $p: Person $f: Person { name: "Bob" } $p knows $f } return { $p.name }') == [("Alice",)]


def test_no_match_is_no_row(ask: Ask) -> None:
    assert ask('match { $p: Person { name: "Nobody" } $p knows $f } return { $f.name }') == []
    assert ask('match { $p: Person { name: "Diana" } $p knows $f } return { $f.name }') == []


def test_columns_stay_in_line_over_two_hops(ask: Ask) -> None:
    assert ask("match { $a knows $b $b knows $c } return { $a.name, $b.age, $c.name }") == [("Alice", 25, "Diana")]


def test_a_condition_in_the_middle(ask: Ask) -> None:
    assert ask("match { $a knows $b $b knows $c $b.age > 26 } return { $c.name }") == []


def test_several_traversals_from_one_node_give_all_combinations(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "abc", "ab", "ac", works=("aX", "aY"), companies="XY")
    text = 'match { $p: Person { name: "a" } $p knows $f $p worksAt $c } return { $f.name, $c.name }'
    assert sorted(graph.rows(text, traversal=mode)) == [("b", "X"), ("b", "Y"), ("c", "X"), ("c", "Y")]


def test_a_cycle_is_closed(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "abcd", "ab", "bc", "ca", "cd")
    text = "match { $x knows $y $y knows $z $z knows $x } return { $x.name, $y.name, $z.name }"
    assert sorted(graph.rows(text, traversal=mode)) == [("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b")]


def test_a_node_may_be_both_ends(tmp_path: Path, mode: str) -> None:
    assert reached(people(tmp_path, "ab", "aa", "ab"), "match { $x knows $x } return { $x.name }", mode) == "a"


def test_no_edges_at_all(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "ab")
    assert reached(graph, "match { $x knows $y } return { $x.name }", mode) == ""
    assert reached(graph, "match { $x: Person not { $x worksAt $_ } } return { $x.name }", mode) == "ab"


# -- several hops ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hops", "found"), [("{1,3}", "bcd"), ("{2,3}", "cd"), ("{2,2}", "c"), ("{1,}", "bcd"), ("{3,9}", "d")]
)
def test_hops_along_a_chain(tmp_path: Path, mode: str, hops: str, found: str) -> None:
    assert from_a(people(tmp_path, "abcd", "ab", "bc", "cd"), f"knows{hops}", mode) == found


def test_a_cycle_ends_and_does_not_come_back(tmp_path: Path, mode: str) -> None:
    assert from_a(people(tmp_path, "abc", "ab", "bc", "ca"), "knows{1,5}", mode) == "bc"


def test_each_end_is_reached_once_at_its_shortest_distance(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "abcd", "ab", "ac", "bd", "cd", "ad")
    assert from_a(graph, "knows{1,3}", mode) == "bcd"
    assert from_a(graph, "knows{2,3}", mode) == ""


def test_a_loop_reaches_its_own_node_at_the_first_hop(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "ab", "aa", "ab")
    for walk in ("knows", "knows{1,3}", "<knows>", "<knows>{1,2}"):
        assert from_a(graph, walk, mode) == "ab"
    assert from_a(graph, "knows{2,3}", mode) == ""


def test_a_bound_loop_is_one_edge_both_ways(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "a", "aa")
    assert len(graph.rows("match { $x $e: <knows> $y } return { $e.id }", traversal=mode)) == 1


def test_both_ways_from_a_sink(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "abc", "ba", "cb")
    assert from_a(graph, "<knows>{1,2}", mode) == "bc"
    assert from_a(graph, "<knows>{2,2}", mode) == "c"


def test_edges_between_different_types_never_chain(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "ab", works=("ab", "bX"), companies="bX")
    text = 'match { $p: Person { name: "a" } $p worksAt{1,2} $c } return { $c.name }'
    assert reached(graph, text, mode) == "b"
    assert reached(graph, text.replace("{1,2}", "{2,2}"), mode) == ""


def test_hops_between_bound_ends(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "abcd", "ab", "bc", "cd")
    text = 'match { $x: Person $y: Person { name: "d" } $x knows{2,3} $y } return { $x.name }'
    assert reached(graph, text, mode) == "ab"


def test_a_walk_that_would_go_on_beyond_the_cap_fails(tmp_path: Path) -> None:
    names = [f"n{number:04d}" for number in range(HOP_CAP + 3)]
    graph = make_graph(
        tmp_path,
        SOCIAL,
        {"Person": [person(name, 1) for name in names], "Knows": [edge(a, b) for a, b in pairwise(names)]},
    )
    with pytest.raises(HopCapReached, match=f"within {HOP_CAP} hops"):
        graph.query('match { $p: Person { name: "n0000" } $p knows{1,} $f } return { count($f) as n }')
    short = 'match { $p: Person { name: "n0002" } $p knows{1,} $f } return { count($f) as n }'
    assert graph.rows(short) == [(HOP_CAP,)]
    with pytest.raises(HopCapReached):
        graph.query(f"{between('n0000', 'n1002')} return {{ $r.length }}")


# -- bound edges -------------------------------------------------------------------------------------------------------


def test_a_bound_edge_is_a_row_for_each_edge(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "ab", "ab", "ab")
    assert reached(graph, "match { $x $e: knows $y } return { $y.name }", mode) == "bb"
    assert graph.rows("match { $x $e: knows $y } return { count($e) as n }", traversal=mode) == [(2,)]
    assert graph.rows("match { $x $e: knows $y } return { count($x) as n }", traversal=mode) == [(2,)]


def test_properties_of_a_bound_edge(ask: Ask) -> None:
    assert ask('match { $a $e: knows $b $e.since > date("2020-06-01") } return { $a.name, $e.since }') == [
        ("Bob", dt.date(2021, 6, 1))
    ]
    assert ask("match { $a $e: knows $b $e.since is null } return { $e.src, $e.dst }") == [("Alice", "Charlie")]


def test_no_bound_edges_still_have_their_types(social: Graph) -> None:
    result = social.query('match { $a $e: knows $b $a.name = "x" } return { $e.since, $e }')
    assert len(result) == 0
    assert result.schema.field("e.since").type == pa.date32()
    assert [each.name for each in result.schema.field("e").type] == ["id", "src", "dst", "since"]


def test_a_bound_edge_between_bound_ends(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "abc", "ab", "ab", "ba", "bc")
    text = 'match { $x: Person { name: "a" } $y: Person { name: "b" } $x $e: <knows> $y } return { $e.id }'
    assert len(graph.rows(text, traversal=mode)) == 3
    assert len(graph.rows(text.replace("<knows>", "knows"), traversal=mode)) == 2


def test_a_condition_on_an_edge_inside_a_negation(ask: Ask) -> None:
    text = 'match { $p: Person not { $p $e: knows $f $e.since > date("2021-01-01") } } return { $p.name }'
    assert ask(text) == [("Alice",), ("Charlie",), ("Diana",)]


# -- negation ----------------------------------------------------------------------------------------------------------


def test_those_without_a_job(ask: Ask) -> None:
    assert ask("match { $p: Person not { $p worksAt $_ } } return { $p.name }") == [("Charlie",), ("Diana",)]


def test_the_direction_inside_a_negation_follows_from_the_types(ask: Ask) -> None:
    assert ask('match { $c: Company not { $c worksAt $p $p.name = "Alice" } } return { $c.name }') == [("Globex",)]


def test_a_negation_with_a_condition_or_a_binding_inside(ask: Ask) -> None:
    assert ask("match { $p: Person not { $p knows $f $f.age > 30 } } return { $p.name }") == [
        ("Bob",), ("Charlie",), ("Diana",),
    ]  # fmt: skip
    text = 'match { $p: Person $c: Company { name: "Acme" } not { $p worksAt $c } } return { $p.name }'
    assert ask(text) == [("Bob",), ("Charlie",), ("Diana",)]


def test_a_negation_compares_with_the_row_outside(ask: Ask) -> None:
    text = "match { $p: Person not { $q: Person $q.age > $p.age } } return { $p.name }"
    assert ask(text) == [("Charlie",)]


def test_negations_nest_and_keep_to_their_rows(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "abcd", "ab", "ac", "db", works=("bX",), companies="X")
    text = "match { $p: Person not { $p knows $f not { $f worksAt $_ } } } return { $p.name }"
    assert reached(graph, text, mode) == "bcd"


def test_two_hops_in_a_negation_are_not_one(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "abc", "ab", "bc")
    assert reached(graph, "match { $p: Person not { $p knows{2,2} $_ } } return { $p.name }", mode) == "bc"


def test_both_ways_in_a_negation(tmp_path: Path, mode: str) -> None:
    assert (
        reached(people(tmp_path, "abc", "ab"), "match { $p: Person not { $p <knows> $_ } } return { $p.name }", mode)
        == "c"
    )


# -- optional parts and paths ------------------------------------------------------------------------------------------


def test_an_optional_part_gives_null_where_it_finds_nothing(ask: Ask) -> None:
    assert ask("match { $p: Person optional { $p worksAt $c } } return { $p.name, $c.name }") == [
        ("Alice", "Acme"), ("Bob", "Globex"), ("Charlie", None), ("Diana", None),
    ]  # fmt: skip
    assert ask("match { $p: Person optional { $p worksAt $c } $c is null } return { $p.name }") == [
        ("Charlie",),
        ("Diana",),
    ]


def test_an_optional_part_multiplies_rows_and_may_follow_another(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "abc", "ab", "ac", works=("bX",), companies="X")
    parts = "optional { $p knows $f } optional { $f worksAt $c }"
    text = f'match {{ $p: Person {{ name: "a" }} {parts} }} return {{ $f.name, $c.name }}'
    assert sorted(graph.rows(text, traversal=mode)) == [("b", "X"), ("c", None)]
    counted = "match { $p: Person optional { $p knows $f } } return { $p.name, count($f) as n } order { $p.name }"
    assert graph.rows(counted, traversal=mode) == [("a", 2), ("b", 0), ("c", 0)]


def test_a_whole_entity_that_was_not_found_is_null(ask: Ask) -> None:
    rows = ask('match { $p: Person { name: "Diana" } optional { $p worksAt $c } } return { $c }')
    assert rows == [(None,)]


def test_the_shortest_path_whose_ids_come_first(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "abcde", "ac", "ab", "bd", "cd", "de", "ab")
    text = f"{between('a', 'e')} return {{ $r.length, $r.nodes, $r.edges }}"
    ((length, nodes, edges),) = graph.rows(text, traversal=mode)
    assert (length, nodes) == (3, ["a", "b", "d", "e"])
    assert edges == ["Knows-0001", "Knows-0002", "Knows-0004"]


def test_a_path_within_bounds_or_none(tmp_path: Path, mode: str) -> None:
    graph = people(tmp_path, "abc", "ab", "bc")
    text = 'match { $x: Person { name: "a" } $y: Person $r: shortest($x knows{LOW,HIGH} $y) } return { $y.name }'
    assert reached(graph, text.replace("LOW,HIGH", "1,1"), mode) == "b"
    assert reached(graph, text.replace("LOW,HIGH", "0,2"), mode) == "abc"
    assert reached(graph, text.replace("LOW,HIGH", "2,5"), mode) == "c"
    missing = (
        'match { $x: Person { name: "c" } $y: Person optional { $r: shortest($x knows $y) } } return { $y.name, $r }'
    )
    assert {row[1] for row in graph.rows(missing, traversal=mode)} == {None}


# -- interfaces --------------------------------------------------------------------------------------------------------

NAMED = """
interface Named { name: String }
node Cat implements Named { name: String @key
  lives: I32? }
node Dog implements Named { name: String @key }
edge Chases: Dog -> Cat
"""


def test_an_interface_is_every_type_that_implements_it(tmp_path: Path, mode: str) -> None:
    records = {"Cat": [{"name": "tom"}, {"name": "rex"}], "Dog": [{"name": "rex"}], "Chases": [edge("rex", "tom")]}
    graph = make_graph(tmp_path, NAMED, records)
    rows = graph.rows("match { $n: Named } return { $n } order { $n.name }", traversal=mode)
    assert [tuple(row[0].values()) for row in rows] == [
        ("rex", "Cat", "rex"),
        ("rex", "Dog", "rex"),
        ("tom", "Cat", "tom"),
    ]
    assert graph.rows("match { $n: Named } return { count($n) as n }", traversal=mode) == [(3,)]
    alone = "match { $n: Named not { $n chases $c } } return { $n.name }"
    assert reached(graph, alone, mode) == "rextom"
    assert graph.rows('match { $n: Named $n.name = "rex" } return { count($n) as n }', traversal=mode) == [(2,)]
