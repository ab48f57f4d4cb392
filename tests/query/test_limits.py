"""Timeouts, cancellation, memory, and what a plan tells about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from omnigraph.cache import ReadCache
from omnigraph.counters import counting
from omnigraph.errors import InvalidInput, QueryCancelled, QueryTimedOut, QueryTooLarge
from omnigraph.query.exec.limits import ReadOptions
from omnigraph.query.run import PreparedQuery
from omnigraph.world import REAL
from query.conftest import SOCIAL, edge, person
from query.graphs import make_graph

if TYPE_CHECKING:
    from pathlib import Path

    from query.graphs import Graph

MANY = "match { $a: Person $b: Person $c: Person $d: Person } return { $a.name, $b.name, sum($c.age + $d.age) as s }"


@pytest.fixture
def crowd(tmp_path: Path) -> Graph:
    names = [f"p{number:03d}" for number in range(300)]
    knows = [edge(a, b) for n, a in enumerate(names) for b in names[n : n + 20]]
    return make_graph(tmp_path, SOCIAL, {"Person": [person(name, 1) for name in names], "Knows": knows})


def test_a_query_that_takes_too_long_is_stopped(crowd: Graph) -> None:
    with pytest.raises(QueryTimedOut, match=r"longer than 0\.3 s"):
        crowd.query(MANY, timeout=0.3, batch_rows=50_000)


def test_a_cancelled_query_stops(crowd: Graph) -> None:
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) > 5

    with pytest.raises(QueryCancelled):
        crowd.query(MANY, cancelled=cancelled, batch_rows=50_000)


def test_a_query_within_its_time_gives_its_answer(crowd: Graph) -> None:
    assert crowd.rows("match { $p: Person } return { count($p) as n }", timeout=60.0) == [(300,)]


def test_more_matches_than_are_held_at_once_go_through_in_batches(crowd: Graph, tmp_path: Path) -> None:
    text = (
        "match { $a knows $b $b knows $c } return { $a.name, count($c) as n, sum($b.age) as s }"
        " order { n desc, $a.name } limit 3"
    )
    at_once = crowd.rows(text)
    folder = tmp_path / "spill"
    folder.mkdir()
    assert crowd.rows(text, batch_rows=100, memory_limit=200_000_000, temp_directory=str(folder)) == at_once


def test_a_query_that_needs_too_much_memory_says_so(crowd: Graph) -> None:
    text = (
        "match { $a: Person $b: Person $c: Person } return { $a.name, $b.name, $c.name }"
        " order { $c.age, $b.name, $a.name desc }"
    )
    with pytest.raises(QueryTooLarge, match="memory"):
        crowd.query(text, memory_limit=8_000_000, temp_directory="", batch_rows=1_000_000, threads=1)


def test_more_matches_than_a_count_can_hold_are_refused(tmp_path: Path) -> None:
    names = [f"p{number:02d}" for number in range(40)]
    knows = [edge(a, b) for a in names for b in names]
    graph = make_graph(tmp_path, SOCIAL, {"Person": [person(name, 1) for name in names], "Knows": knows})
    chain = " ".join(f"$v{n} knows $v{n + 1}" for n in range(14))
    with pytest.raises(QueryTooLarge, match="64-bit"):
        graph.query(f"match {{ {chain} }} return {{ count($v0) as n }}")
    short = " ".join(f"$v{n} knows $v{n + 1}" for n in range(6))
    assert graph.rows(f"match {{ {short} }} return {{ count($v0) as n }}") == [(40**7,)]


def test_an_overflow_in_arithmetic_is_an_error_of_the_query(crowd: Graph) -> None:
    with pytest.raises(InvalidInput, match="cannot be computed"):
        crowd.query("match { $p: Person } return { $p.age * 9223372036854775807 * 2 as x }")


# -- plans -------------------------------------------------------------------------------------------------------------


def explained(graph: Graph, text: str, **options: Any) -> str:
    checked = graph.checked(f"query q() {{ {text} }}")
    return str(
        PreparedQuery(
            graph.snapshot, graph.store, graph.catalog, checked, {}, ReadOptions(**options), world=REAL
        ).explain()
    )


def test_a_plan_tells_its_operators_estimates_indexes_and_modes(crowd: Graph) -> None:
    indexed = crowd.indexed()
    text = 'match { $p: Person { name: "p007" } $p knows{1,3} $f not { $f worksAt $_ } } return { $f.name }'
    told = explained(indexed, text, traversal="indexed")
    assert "scan $p: Person where pushed name = 'p007'" in told
    assert "index name_idx" in told
    assert "expand $p -[Knows{1,3}]-> $f as $f: Person" in told
    assert "[Knows: indexed]" in told
    assert "anti join, for each $f" in told
    assert "rows" in told
    assert "[Knows: csr]" in explained(crowd, text, traversal="csr")


def test_explaining_reads_no_rows(social: Graph) -> None:
    with counting() as counts:
        explained(social, "match { $a knows $b $b worksAt $c } return { $a.name }")
    assert counts.table_scans == 0


def test_counts_of_paths_are_planned_as_counts(social: Graph) -> None:
    told = explained(social, "match { $a knows $b $b knows $c $b.age < 50 } return { count($c) as n }")
    assert told.splitlines()[0].startswith("count $")
    assert "expand" not in told


def test_the_plan_begins_where_there_is_least(crowd: Graph) -> None:
    told = explained(crowd, 'match { $a: Person $b: Person { name: "p007" } $a knows $b } return { $a.name, $b.name }')
    assert told.startswith("scan $b: Person")


def test_an_analysis_has_rows_and_times(social: Graph) -> None:
    checked = social.checked("query q() { match { $p knows $f } return { $f.name } order { $f.name } }")
    result, told = PreparedQuery(social.snapshot, social.store, social.catalog, checked, {}, world=REAL).analyze()
    assert [row["f.name"] for row in result] == ["Bob", "Charlie", "Diana"]
    assert [line.rows for line in told.lines][-2:] == [3, 3]
    assert all(line.seconds is not None and line.seconds >= 0 for line in told.lines)


# -- the cache ---------------------------------------------------------------------------------------------------------


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache = ReadCache(limit=100)
    for name in "abc":
        cache.get("x", name, lambda name=name: name, lambda _: 40)
    assert [cache.find(("x", name)) for name in "abc"] == [None, "b", "c"]
    assert cache.size == 80


def test_what_is_larger_than_everything_is_not_kept() -> None:
    cache = ReadCache(limit=10)
    assert cache.get("x", "a", lambda: "value", lambda _: 11) == "value"
    assert cache.find(("x", "a")) is None


def test_a_snapshot_gives_the_same_rows_after_later_writes(social: Graph) -> None:
    text = "match { $p: Person } return { count($p) as n }"
    later = social.append("node:Person", [{"id": "Eve", "name": "Eve", "age": 1}])
    assert (social.rows(text), later.rows(text)) == ([(4,)], [(5,)])
