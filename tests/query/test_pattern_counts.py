"""Counts of patterns in the manner of LSQB: chains, stars, triangles, anti-patterns, optional parts.

Each is counted here a second time by SQL over the exported tables, written by hand.
"""

from __future__ import annotations

from random import Random  # noqa: TID251 - seeded, so that a failure can be repeated
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest

from query.graphs import make_graph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from query.graphs import Graph

SCHEMA = """
node Country { name: String @key }
node City { name: String @key }
node Person { name: String @key }
node Tag { name: String @key }
node Message { name: String @key }
edge IsPartOf: City -> Country
edge LivesIn: Person -> City
edge Knows: Person -> Person
edge LikesTag: Person -> Tag
edge Wrote: Person -> Message
edge Likes: Person -> Message
edge Replies: Message -> Message
edge HasTag: Message -> Tag
"""
SIZES = {"Country": 4, "City": 12, "Person": 60, "Tag": 10, "Message": 90}
# Each once, so that joins over rows and traversals with set semantics count the same.
EDGES = {"LikesTag": ("Person", "Tag", 120), "Likes": ("Person", "Message", 200), "HasTag": ("Message", "Tag", 150)}
QUESTIONS = {
    "a long chain": (
        "$t: Tag $m hasTag $t $r replies $m $p wrote $r $p livesIn $c $c isPartOf $o",
        (
            "HasTag h, Replies r, Wrote w, LivesIn l, IsPartOf i"
            " where h.src = r.dst and r.src = w.dst and w.src = l.src and l.dst = i.src"
        ),
    ),
    "a triangle in one country": (
        (
            "$a knows $b $b knows $c $a knows $c $a livesIn $x $b livesIn $y $c livesIn $z"
            " $x isPartOf $o $y isPartOf $o $z isPartOf $o"
        ),
        (
            "Knows k, Knows l, Knows m, LivesIn x, LivesIn y, LivesIn z, IsPartOf i, IsPartOf j, IsPartOf n"
            " where k.dst = l.src and m.src = k.src and m.dst = l.dst and x.src = k.src and y.src = k.dst"
            " and z.src = l.dst and i.src = x.dst and j.src = y.dst and n.src = z.dst"
            " and i.dst = j.dst and j.dst = n.dst"
        ),
    ),
    "replies among those who know each other": (
        "$a knows $b $a wrote $n $b wrote $m $n replies $m",
        (
            "Knows k, Wrote v, Wrote w, Replies r"
            " where v.src = k.src and w.src = k.dst and r.src = v.dst and r.dst = w.dst"
        ),
    ),
    "a star of likes, tags and replies": (
        "$m: Message $m hasTag $t $p likes $m $r replies $m $w wrote $m",
        "HasTag t, Likes l, Replies r, Wrote w where l.dst = t.src and r.dst = t.src and w.dst = t.src",
    ),
    "different tags of a message and its reply": (
        "$r replies $m $m hasTag $s $r hasTag $t $s != $t",
        "Replies r, HasTag s, HasTag t where s.src = r.dst and t.src = r.src and s.dst != t.dst",
    ),
    "friends of friends who like a tag": (
        "$a knows $b $b knows $c $a != $c $c likesTag $t",
        "Knows k, Knows l, LikesTag t where l.src = k.dst and l.dst != k.src and t.src = l.dst",
    ),
    "tags of replies that the message lacks": (
        "$r replies $m $r hasTag $t not { $m hasTag $t }",
        (
            "Replies r, HasTag t where t.src = r.src"
            " and not exists (from HasTag h where h.src = r.dst and h.dst = t.dst)"
        ),
    ),
    "friends of friends who are not friends": (
        "$a knows $b $b knows $c $a != $c not { $a knows $c } $c likesTag $t",
        (
            "Knows k, Knows l, LikesTag t where l.src = k.dst and l.dst != k.src and t.src = l.dst"
            " and not exists (from Knows m where m.src = k.src and m.dst = l.dst)"
        ),
    ),
    "messages with whoever likes and answers them": (
        "$m: Message $m hasTag $t $w wrote $m optional { $p likes $m } optional { $r replies $m }",
        (
            "HasTag t join Wrote w on w.dst = t.src left join Likes l on l.dst = t.src"
            " left join Replies r on r.dst = t.src"
        ),
    ),
}


def _records(random: Random) -> dict[str, list[dict[str, object]]]:
    names = {kind: [f"{kind[0].lower()}{n}" for n in range(size)] for kind, size in SIZES.items()}
    found: dict[str, list[dict[str, object]]] = {
        kind: [{"name": name} for name in several] for kind, several in names.items()
    }
    for edge, (start, end, count) in EDGES.items():
        pairs = {(random.choice(names[start]), random.choice(names[end])) for _ in range(count)}
        found[edge] = [{"src": a, "dst": b} for a, b in sorted(pairs)]
    friends = {(random.choice(names["Person"]), random.choice(names["Person"])) for _ in range(280)}
    both = {pair for a, b in friends if a != b for pair in ((a, b), (b, a))}
    found["Knows"] = [{"src": a, "dst": b} for a, b in sorted(both)]
    found["IsPartOf"] = [{"src": each, "dst": random.choice(names["Country"])} for each in names["City"]]
    found["LivesIn"] = [{"src": each, "dst": random.choice(names["City"])} for each in names["Person"]]
    found["Wrote"] = [{"src": random.choice(names["Person"]), "dst": each} for each in names["Message"]]
    found["Replies"] = [
        {"src": each, "dst": random.choice(names["Message"][:n])} for n, each in enumerate(names["Message"]) if n > 9
    ]
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Graph, duckdb.DuckDBPyConnection]]:
    records = _records(Random(11))
    graph = make_graph(tmp_path_factory.mktemp("lsqb"), SCHEMA, records)
    with duckdb.connect() as tables:
        for name in graph.catalog.edges:
            tables.register(name, pa.Table.from_pylist(records[name]))
        yield graph.indexed(), tables


@pytest.mark.parametrize("mode", ["auto", "csr", "indexed"])
@pytest.mark.parametrize("title", QUESTIONS)
def test_a_pattern_is_counted_like_a_join(both: tuple[Graph, duckdb.DuckDBPyConnection], title: str, mode: str) -> None:
    graph, tables = both
    pattern, sql = QUESTIONS[title]
    counted = pattern.partition("$")[2].partition(":")[0].split()[0]
    expected = tables.execute(f"select count(*) from {sql}").fetchone()
    found = graph.rows(f"match {{ {pattern} }} return {{ count(${counted}) as n }}", traversal=mode)
    assert found == [expected]
    assert found[0][0] > 0
