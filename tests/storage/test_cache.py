"""One budget of bytes for a process: every share counts, the oldest use goes first, and answers stay the same."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph.cache import CACHE_BYTES, DEFAULT_BYTES, PROCESS, ByteCache
from omnigraph.errors import InvalidInput
from omnigraph.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = "node Person { name: String @key  age: I32? } edge Knows: Person -> Person"
FRIENDS = (
    "query q() { match { $p: Person  $p knows $q } return { $p.name, $q.name, $q.age } order { $p.name, $q.name } }"
)


@pytest.fixture(autouse=True)
def default_budget() -> Iterator[None]:
    before = PROCESS.limit, PROCESS.given
    yield
    PROCESS.resize(before[0])
    PROCESS.given = before[1]


def test_the_oldest_use_goes_first_whoever_made_it() -> None:
    whole = ByteCache(100)
    one, other = whole.share(), whole.share()
    one.put("a", "of one", 40)
    other.put("a", "of the other", 40)
    assert one.find("a") == "of one"
    other.put("b", "newest", 40)
    assert (one.find("a"), other.find("a"), other.find("b")) == ("of one", None, "newest")
    assert whole.size == one.size + other.size == 80


def test_a_share_has_a_limit_of_its_own_and_what_it_holds_goes_with_it() -> None:
    whole = ByteCache(100)
    small, large = whole.share(50), whole.share()
    large.put("x", "value", 30)
    for name in "abc":
        small.put(name, name, 20)
    small.put("too large", "value", 51)
    assert [small.find(each) for each in ("a", "b", "c", "too large")] == [None, "b", "c", None]
    assert whole.size == 70
    del small
    gc.collect()
    assert whole.size == 30
    whole.resize(29)
    assert (whole.size, large.find("x")) == (0, None)


def _work(graph: og.Graph, rounds: int) -> list[dict[str, object]]:
    """Loads, reads, updates and deletes, so that columns, rows of fragments and deletion vectors are cached."""
    people = [{"type": "Person", "data": {"name": f"p{n:03}", "age": n}} for n in range(300)]
    edges = [{"edge": "Knows", "from": f"p{n:03}", "to": f"p{(n * 7 + 1) % 300:03}"} for n in range(300)]
    graph.load([*people, *edges])
    found: list[dict[str, object]] = []
    for number in range(rounds):
        graph.mutate(f'query q() {{ update Person set {{ age: {number} }} where name = "p{number:03}" }}')
        graph.mutate(f'query q() {{ delete Person where name = "p{299 - number:03}" }}')
        found = graph.query(FRIENDS).to_pylist()
        assert PROCESS.size <= PROCESS.limit
    return found


def test_two_graphs_stay_within_one_budget_and_eviction_changes_no_answer(tmp_path: Path) -> None:
    roomy = og.init(tmp_path / "roomy", schema=SCHEMA, cache_bytes=DEFAULT_BYTES)
    expected = _work(roomy, 6)
    needed = PROCESS.size
    for limit in (0, 1_000, needed // 3):
        first = og.init(tmp_path / f"first{limit}", schema=SCHEMA, cache_bytes=limit)
        second = og.init(tmp_path / f"second{limit}", schema=SCHEMA)
        assert PROCESS.limit == limit
        assert _work(first, 6) == _work(second, 6) == expected == roomy.query(FRIENDS).to_pylist()
        assert first.query(FRIENDS).to_pylist() == expected
        assert PROCESS.size <= limit


def test_the_keyword_counts_before_the_environment_and_the_last_one_wins(tmp_path: Path) -> None:
    PROCESS.given = False
    og.init(tmp_path / "g", schema=SCHEMA, world=World(environ={CACHE_BYTES: "5000"}))
    assert PROCESS.limit == 5_000
    og.open(tmp_path / "g", cache_bytes=7_000)
    og.open(tmp_path / "g", world=World(environ={CACHE_BYTES: "5000"}))
    assert PROCESS.limit == 7_000
    og.open(tmp_path / "g", cache_bytes=6_000)
    assert PROCESS.limit == 6_000


def test_a_budget_that_is_no_number_of_bytes_is_refused(tmp_path: Path) -> None:
    PROCESS.given = False
    og.init(tmp_path / "g", schema=SCHEMA)
    with pytest.raises(InvalidInput, match="OMNIGRAPH_CACHE_BYTES is '2GB': write a number of bytes"):
        og.open(tmp_path / "g", world=World(environ={CACHE_BYTES: "2GB"}))
    with pytest.raises(InvalidInput, match="cache_bytes is -1"):
        og.open(tmp_path / "g", cache_bytes=-1)
