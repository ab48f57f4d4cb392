"""A node that one side removed and the other changed: its edges follow the decision about it."""

from __future__ import annotations

import random  # noqa: TID251
from typing import TYPE_CHECKING, Any, Literal

import pytest

import omnigraph as og
from history.test_partitioned_merge import SMALLEST, allow
from omnigraph import errors
from omnigraph.history.merge.incident_edges import MOST_EDGES

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32?  @key(src, dst) }
edge LivesIn: Person -> City { @key(src, dst) }
"""
EDGES = [
    ("Knows", "a", "b"),
    ("Knows", "b", "c"),
    ("Knows", "c", "a"),
    ("LivesIn", "a", "Oslo"),
    ("LivesIn", "b", "Oslo"),
]
Choice = Literal["ours", "theirs"]


@pytest.fixture(params=["in memory", "in groups"])
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> og.Graph:
    """A few people, and a branch `side`; merged in memory, or group by group."""
    if request.param == "in groups":
        allow(monkeypatch, SMALLEST)
    made = og.init(tmp_path / "g", schema=SCHEMA)
    people = [{"type": "Person", "data": {"name": name, "age": 1}} for name in "abcd"]
    cities = [{"type": "City", "data": {"name": "Oslo"}}]
    made.load([*people, *cities, *map(edge, EDGES)], mode="append", engine="local")
    made.branches.create("side")
    return made


def edge(of: tuple[str, str, str], **data: object) -> dict[str, Any]:
    kind, source, target = of
    return {"edge": kind, "from": source, "to": target, "data": data}


def do(graph: og.Graph, text: str, branch: str) -> None:
    graph.mutate(f"query q() {{ {text} }}", branch=branch)


def edges(graph: og.Graph, branch: str = "main") -> set[tuple[str, str, str]]:
    found = set()
    for kind in ("Knows", "LivesIn"):
        pin = graph.snapshot(branch=branch)[f"edge:{kind}"].pin
        rows = graph._manifest.stores.tables.open(pin).read(["src", "dst"]).to_pylist()
        found |= {(kind, row["src"], row["dst"]) for row in rows}
    return found


def nodes(graph: og.Graph, branch: str = "main") -> set[str]:
    names = set()
    for kind in ("Person", "City"):
        pin = graph.snapshot(branch=branch)[f"node:{kind}"].pin
        names |= set(graph._manifest.stores.tables.open(pin).read(["id"]).column("id").to_pylist())
    return names


def test_a_node_that_stays_on_the_target_keeps_its_edges(graph: og.Graph) -> None:
    do(graph, 'delete Person where name = "a"', "side")
    do(graph, 'update Person set { age: 9 } where name = "a"', "main")
    graph.merge("side", resolve="ours")
    assert graph.entity("Person", "a") == {"id": "a", "name": "a", "age": 9}
    assert edges(graph) == set(EDGES)


def test_a_node_that_comes_back_from_the_source_brings_its_edges(graph: og.Graph) -> None:
    do(graph, 'delete Person where name = "a"', "main")
    do(graph, 'update Person set { age: 9 } where name = "a"', "side")
    graph.merge("side", resolve={"node:Person/a": "theirs"})
    assert graph.entity("Person", "a") == {"id": "a", "name": "a", "age": 9}
    assert edges(graph) == set(EDGES)


def test_edges_whose_other_node_is_gone_do_not_stay(graph: og.Graph) -> None:
    do(graph, 'delete Person where name = "a" delete Person where name = "b"', "side")
    do(graph, 'update Person set { age: 9 } where name = "a"', "main")
    graph.merge("side", resolve="ours")
    assert nodes(graph) == {"a", "c", "d", "Oslo"}
    assert edges(graph) == {("Knows", "c", "a"), ("LivesIn", "a", "Oslo")}


def test_a_node_that_stays_removed_takes_its_changed_edges_with_it(graph: og.Graph) -> None:
    do(graph, 'delete Person where name = "a"', "side")
    do(graph, 'update Person set { age: 9 } where name = "a"', "main")
    graph.load([edge(EDGES[0], since=5)], mode="merge", engine="local")
    graph.merge("side", resolve={"node:Person/a": "theirs"})
    assert edges(graph) == {("Knows", "b", "c"), ("LivesIn", "b", "Oslo")}


def test_edges_are_listed_with_the_conflict_of_their_node(graph: og.Graph) -> None:
    do(graph, 'delete Person where name = "a"', "side")
    do(graph, 'update Person set { age: 9 } where name = "a"', "main")
    graph.load([edge(EDGES[0], since=5)], mode="merge", engine="local")
    node, changed = graph.merge("side", dry_run=True).conflicts
    assert (node.name, node.follows, node.more_edges) == ("node:Person/a", None, 0)
    assert len(node.edges) == 3
    assert changed.name in node.edges
    assert (changed.kind, changed.follows) == ("DeleteVsUpdate", "node:Person/a")
    graph.merge("side", resolve={"node:Person/a": "ours", changed.name: "theirs"})
    assert edges(graph) == set(EDGES) - {EDGES[0]}


def test_of_very_many_edges_some_are_listed_and_all_are_counted(graph: og.Graph) -> None:
    names = [f"x{each}" for each in range(MOST_EDGES + 7)]
    many = [edge(("Knows", "d", name)) for name in names]
    graph.load([*({"type": "Person", "data": {"name": name}} for name in names), *many], mode="append", engine="local")
    graph.merge("main", into="side")
    do(graph, 'delete Person where name = "d"', "side")
    do(graph, 'update Person set { age: 9 } where name = "d"', "main")
    with pytest.raises(errors.MergeConflicts) as refusal:
        graph.merge("side")
    (node,) = refusal.value.conflicts
    assert (len(node.edges), node.more_edges) == (MOST_EDGES, 7)


def change(graph: og.Graph, chance: random.Random, branch: str) -> None:
    person, other = chance.choice("abcd"), chance.choice("abcd")
    try:
        match chance.randrange(4):
            case 0:
                do(graph, f'delete Person where name = "{person}"', branch)
            case 1 | 2:
                do(graph, f'update Person set {{ age: {chance.randrange(9)} }} where name = "{person}"', branch)
            case _:
                since = chance.randrange(9)
                graph.load([edge(("Knows", person, other), since=since)], branch=branch, mode="merge", engine="local")
    except errors.OmniGraphError:
        return


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2))
def test_a_node_that_stays_never_has_fewer_edges_than_on_its_side(graph: og.Graph, seed: int) -> None:
    chance, compared = random.Random(seed), 0
    for number in range(8):
        source, target = f"source{number}", f"target{number}"
        for branch in (source, target):
            graph.branches.create(branch)
            for _ in range(4):
                change(graph, chance, branch)
        resolve: Choice = chance.choice(["ours", "theirs"])
        winner = target if resolve == "ours" else source
        before = edges(graph, winner)
        try:
            merged = graph.merge(source, into=target, resolve=resolve)
        except errors.MergeConflicts as refusal:
            assert not any(each.is_about_rows for each in refusal.conflicts)  # noqa: PT017
            continue
        lost, after = before - edges(graph, target), nodes(graph, target)
        assert all(not {each[1], each[2]} <= after for each in lost), (seed, number)
        compared += merged.kind == "merged"
    assert compared
