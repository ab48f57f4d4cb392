"""How adjacency is built: ids are found as texts or as the numbers that they are, edges are sorted into groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.cache import ReadCache, cache_of
from omnigraph.kernels.equality import id_positions
from omnigraph.query.csr.build import EdgeEndpoints, in_order
from query.conftest import SOCIAL, edge, person
from query.graphs import make_graph

if TYPE_CHECKING:
    from pathlib import Path

MANY = 12_000


@pytest.mark.parametrize(
    "among",
    [
        [str(number) for number in range(MANY)],
        [str(number * 1_000_003 - 5) for number in range(MANY)],
        [f"0{number}" for number in range(MANY)],
        [f"p{number}" for number in range(MANY)],
        ["7", "-7", "70", "007", "+7", " 7", "seven"],
        [],
    ],
    ids=["dense numbers", "numbers far apart", "numbers with a zero", "words", "mixed", "nothing"],
)
def test_an_id_is_found_where_it_is_written_exactly_so(among: list[str]) -> None:
    asked = [*among[::-1], "07", "+7", "-0", "7", " 7", "", "99999999999999999999", "x"] * (
        1 + 20_000 // (len(among) + 8)
    )
    places = {text: place for place, text in enumerate(among)}
    wanted = [places.get(text, -1) for text in asked]
    whole = pa.array(asked, pa.string())
    assert id_positions(whole, pa.array(among, pa.string())).tolist() == wanted
    cut = pa.chunked_array([whole.slice(0, 11), whole.slice(11)])
    assert id_positions(cut, pa.array(among, pa.string())).tolist() == wanted


@pytest.mark.parametrize("asked", [[], ["p7"], ["p7", "x", "p7", "p11999", "p0", ""]])
def test_a_few_ids_are_found_among_many(asked: list[str]) -> None:
    among = pa.array([f"p{number}" for number in range(MANY)])
    places = {text: place for place, text in enumerate(among.to_pylist())}
    wanted = [places.get(text, -1) for text in asked]
    assert id_positions(pa.array(asked, pa.string()), among).tolist() == wanted
    assert id_positions(pa.chunked_array([asked], pa.string()), among).tolist() == wanted


@pytest.mark.parametrize("apart", [1, 1_000_003])
@pytest.mark.parametrize("beyond", [0, 5])
def test_ids_that_are_all_numbers_are_told_from_other_ways_to_write_them(apart: int, beyond: int) -> None:
    among = pa.array([str(number * apart) for number in range(MANY)])
    numbers = range(MANY + beyond)
    asked = pa.array([str(number * apart) if number % 3 else f"0{number * apart}" for number in numbers])
    assert id_positions(asked, among).tolist() == [n if n % 3 and n < MANY else -1 for n in numbers]


def test_codes_that_do_not_fit_beside_their_edges_come_in_the_same_order() -> None:
    random = np.random.default_rng(4)
    codes, edges = random.integers(0, 50, 400), np.arange(400)
    narrow = in_order(codes.copy(), edges.copy(), 6)
    wide = in_order(codes.copy(), edges.copy(), 62)
    assert [each.tolist() for each in narrow] == [each.tolist() for each in wide]
    assert narrow[0].tolist() == sorted(codes.tolist())


@pytest.mark.parametrize("direction", ["out", "in", "both"])
@pytest.mark.parametrize("distinct", [True, False])
def test_neighbours_are_those_of_the_edges(direction: str, distinct: bool) -> None:
    random = np.random.default_rng(9)
    sources, targets = random.integers(0, 7, 60).astype(np.int32), random.integers(0, 7, 60).astype(np.int32)
    made = EdgeEndpoints(sources, targets, None, 7, 7).adjacency(direction, distinct=distinct)
    pairs: list[tuple[int, int, int]] = []
    for number, (source, target) in enumerate(zip(sources.tolist(), targets.tolist(), strict=True)):
        if direction in ("out", "both"):
            pairs.append((source, target, number))
        if direction == "in" or (direction == "both" and source != target):
            pairs.append((target, source, number))
    for row in range(7):
        near = made.of(np.array([row]))
        mine = sorted((end, number) for start, end, number in pairs if start == row)
        if distinct:
            assert near.targets.tolist() == sorted({end for end, _ in mine})
        else:
            assert near.edges is not None
            assert list(zip(near.targets.tolist(), near.edges.tolist(), strict=True)) == mine


def test_degrees_come_from_adjacency_of_the_other_direction(tmp_path: Path) -> None:
    names = [f"p{number}" for number in range(40)]
    knows = [edge(a, b) for n, a in enumerate(names) for b in names[: n % 7]]
    graph = make_graph(tmp_path, SOCIAL, {"Person": [person(name, 1) for name in names], "Knows": knows})
    cache = cache_of(graph.store)
    incoming = "match { $a knows $p } return { $p.name, count($a) as n } order { n desc, $p.name } limit 2"
    assert graph.rows(incoming) == [("p0", 34), ("p1", 28)]
    outgoing = "match { $p knows $b } return { $p.name, count($b) as n } order { n desc, $p.name } limit 2"
    assert graph.rows(outgoing) == [("p13", 6), ("p20", 6)]
    assert (cache.builds["adjacency"], cache.builds["degrees"]) == (1, 1)


def test_a_cache_tells_objects_apart_by_number() -> None:
    cache, one = ReadCache(), object()
    others: list[Any] = [object() for _ in range(1_000)]
    first = cache.number_of(one)
    assert cache.number_of(one) == first
    assert len({first, *map(cache.number_of, others)}) == 1_001
