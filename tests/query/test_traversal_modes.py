"""Lookups by index and adjacency in memory: when which is taken, and that the answers are equal on changing tables."""

from __future__ import annotations

from random import Random  # noqa: TID251 - seeded, so that a failure can be repeated
from typing import TYPE_CHECKING

import pytest

from omnigraph.cache import cache_of
from omnigraph.counters import counting
from omnigraph.query.csr.access_path import TraversalEstimate, choose_mode, index_covers
from omnigraph.query.exec.limits import ReadOptions
from query.conftest import SOCIAL, edge, person
from query.graphs import make_graph

if TYPE_CHECKING:
    from pathlib import Path

    from query.graphs import Graph


def chosen(
    walk: TraversalEstimate, *, is_built: bool = False, covered: bool = True, options: ReadOptions | None = None
) -> str:
    return choose_mode(walk, options or ReadOptions(), is_built=is_built, is_covered=lambda: covered)


def test_few_starts_are_looked_up_and_many_are_not() -> None:
    assert chosen(TraversalEstimate(frontier=1, hops=1, edges=1_000_000, nodes=10_000)) == "indexed"
    assert chosen(TraversalEstimate(frontier=1_025, hops=1, edges=10**9, nodes=10**9)) == "csr"
    assert chosen(TraversalEstimate(frontier=1, hops=7, edges=10**9, nodes=10**9)) == "csr"
    assert chosen(TraversalEstimate(frontier=1_000, hops=3, edges=1_000, nodes=100)) == "csr"


def test_what_is_built_already_costs_nothing() -> None:
    assert chosen(TraversalEstimate(frontier=1, hops=1, edges=10**9, nodes=10**6), is_built=True) == "csr"


def test_without_an_index_every_hop_reads_every_edge() -> None:
    assert chosen(TraversalEstimate(frontier=1, hops=1, edges=10**6, nodes=10**5), covered=False) == "indexed"
    assert chosen(TraversalEstimate(frontier=1, hops=2, edges=10**6, nodes=10**5), covered=False) == "csr"


def test_what_can_be_carried_over_from_another_version_costs_little() -> None:
    walk = TraversalEstimate(frontier=500, hops=1, edges=10**6, nodes=2_000)
    assert chosen(walk) == "indexed"
    assert choose_mode(walk, ReadOptions(), is_built=False, is_covered=lambda: True, can_carry=lambda: True) == "csr"


def test_the_choice_can_be_overridden() -> None:
    many = TraversalEstimate(frontier=10**6, hops=1, edges=10, nodes=10)
    assert chosen(many, options=ReadOptions(traversal="indexed")) == "indexed"
    assert chosen(TraversalEstimate(1, 1, 10**9, 10**6), options=ReadOptions(indexed_frontier=0)) == "csr"


def test_an_index_covers_until_rows_are_added(social: Graph) -> None:
    def covers(graph: Graph) -> bool:
        return index_covers(graph.store.open(graph.snapshot["edge:Knows"].pin), "src")

    assert not covers(social)
    indexed = social.indexed("edge:Knows")
    assert covers(indexed)
    assert not covers(indexed.append("edge:Knows", [{"id": "n", **edge("Diana", "Alice")}]))


def test_an_edge_that_was_added_after_the_index_is_found(social: Graph) -> None:
    grown = social.indexed("edge:Knows").append("edge:Knows", [{"id": "n", **edge("Diana", "Alice")}])
    for mode in ("indexed", "csr", "auto"):
        rows = grown.rows('match { $p: Person { name: "Diana" } $p knows $f } return { $f.name }', traversal=mode)
        assert rows == [("Alice",)]


def test_rows_that_moved_within_their_table_keep_their_edges(social: Graph) -> None:
    text = "match { $a knows $b } return { $a.name, $b.name, $b.age } order { $a.name, $b.name }"
    before = social.rows(text)
    moved = social.upsert("node:Person", [{"id": "Alice", "name": "Alice", "age": 31}]).delete(
        "node:Person", ["Charlie"]
    )
    for mode in ("indexed", "csr"):
        rows = moved.rows(text, traversal=mode)
        assert rows == [row for row in before if row[1] != "Charlie"]
    assert social.rows(text) == before


def test_a_repeated_query_opens_nothing_and_scans_nothing(social: Graph) -> None:
    text = "match { $a knows $b $b worksAt $c $b.age > 20 } return { $a.name, $c.name } order { $a.name }"
    first = social.rows(text)
    with counting() as counts:
        assert social.rows(text) == first
    assert (counts.table_opens, counts.table_scans) == (0, 0)


def test_adjacency_is_built_once_and_only_for_the_edges_of_the_query(social: Graph) -> None:
    builds = cache_of(social.store).builds
    for _ in range(2):
        social.query("match { $a knows $b } return { count($a) as n }", traversal="csr")
    assert builds["endpoints"] == 1
    social.query("match { $a <knows> $b $b worksAt $c } return { count($a) as n }", traversal="csr")
    assert builds["endpoints"] == 2


@pytest.mark.parametrize("seed", range(6))
def test_the_modes_agree_and_stay_within_the_graph(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    keys = "abcde"
    graph = make_graph(
        tmp_path,
        SOCIAL,
        {
            "Person": [person(key, 1) for key in keys],
            "Company": [{"name": key} for key in keys],
            "Knows": [edge(random.choice(keys), random.choice(keys)) for _ in range(random.randint(0, 12))],
            "WorksAt": [edge(random.choice(keys), random.choice(keys)) for _ in range(random.randint(0, 6))],
        },
    )
    for walk in ("knows{1,3}", "<knows>{1,3}", "worksAt{1,2}"):
        text = f"match {{ $p: Person $p {walk} $x }} return {{ $p.name, $x.name }}"
        answers = [sorted(graph.rows(text, traversal=mode)) for mode in ("csr", "indexed", "auto")]
        assert answers[0] == answers[1] == answers[2]
        assert {row[1] for row in answers[0]} <= set(keys)
    employed = graph.rows("match { $p: Person $p worksAt $_ } return distinct { $p.name }")
    idle = graph.rows("match { $p: Person not { $p worksAt $_ } } return { $p.name }")
    assert sorted(employed + idle) == [(key,) for key in keys]
