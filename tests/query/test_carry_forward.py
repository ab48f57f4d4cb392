"""What a read keeps of one version serves the next: the same columns and neighbours as if they were read anew."""

from __future__ import annotations

import random  # noqa: TID251
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import omnigraph as og
from omnigraph.cache import ReadCache
from omnigraph.query.columns.table_columns import TableRows
from omnigraph.query.csr.build import EdgeEndpoints
from omnigraph.query.csr.edge_adjacency import EdgeTables
from omnigraph.storage.tables.version_diff import NEW, RowRemap, RowRun
from query.conftest import SOCIAL, edge, person
from query.graphs import make_graph

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from omnigraph.manifest.snapshot import Snapshot

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City { @key(src, dst) }
"""
PEOPLE, CITIES, EDGES = 120, 6, 400


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    chance = random.Random(1)
    made = og.init(tmp_path / "graph.omni", schema=SCHEMA)
    people: list[Any] = [
        {"type": "Person", "data": {"name": f"p{each}", "age": each % 50, "tags": [f"t{each % 3}"]}}
        for each in range(PEOPLE)
    ]
    cities = [{"type": "City", "data": {"name": f"c{each}"}} for each in range(CITIES)]
    knows = [
        {"edge": "Knows", "from": f"p{chance.randrange(PEOPLE)}", "to": f"p{chance.randrange(PEOPLE)}", "data": {}}
        for _ in range(EDGES)
    ]
    lives = [
        {"edge": "LivesIn", "from": f"p{each}", "to": f"c{each % CITIES}", "data": {}} for each in range(0, PEOPLE, 2)
    ]
    made.load([*people, *cities, *knows, *lives], mode="append")
    return made


class Reader:
    """Reads snapshots with a memory that it keeps, and with none."""

    def __init__(self, graph: og.Graph) -> None:
        self.graph = graph
        self.kept = ReadCache()

    def rows(self, snapshot: Snapshot, key: str, cache: ReadCache | None = None) -> TableRows:
        return TableRows(snapshot[key], self.graph._manifest.stores.tables, cache or self.kept)

    def edges(self, snapshot: Snapshot, name: str, cache: ReadCache | None = None) -> EdgeTables:
        target = {"Knows": "Person", "LivesIn": "City"}[name]
        keys = (f"edge:{name}", "node:Person", f"node:{target}")
        edges, sources, targets = (self.rows(snapshot, each, cache) for each in keys)
        return EdgeTables(edges, sources, targets, cache or self.kept)

    def check(self, snapshot: Snapshot) -> None:
        anew = ReadCache()
        for entry in snapshot:
            names = self.graph._manifest.stores.tables.open(entry.pin).schema.names
            kept, read = (self.rows(snapshot, entry.table_key, each).columns(names) for each in (None, anew))
            for name in names:
                assert kept[name].equals(read[name]), (entry.table_key, name)
                kept[name].validate(full=True)
        for name in ("Knows", "LivesIn"):
            carried, built = (self.edges(snapshot, name, each) for each in (None, anew))
            for part in ("sources", "targets", "edges"):
                assert _same(getattr(carried.endpoints(), part), getattr(built.endpoints(), part)), (name, part)
            for direction in ("out", "in", "both") if name == "Knows" else ("out", "in"):
                for distinct in (True, False):
                    one, other = (each.adjacency(direction, distinct=distinct) for each in (carried, built))
                    for part in ("offsets", "targets", "edges"):
                        assert _same(getattr(one, part), getattr(other, part)), (name, direction, distinct, part)


def _same(one: Any, other: Any) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def _insert(graph: og.Graph, chance: random.Random, branch: str) -> None:
    name = f"n{chance.randrange(10**9)}"
    graph.mutate(
        "query q($n: String, $o: String, $c: String) { insert Person { name: $n } insert Knows { from: $n, to: $o } "
        "insert LivesIn { from: $n, to: $c } }",
        {"n": name, "o": _somebody(graph, chance, branch), "c": f"c{chance.randrange(CITIES)}"},
        branch=branch,
    )


def _link(graph: og.Graph, chance: random.Random, branch: str) -> None:
    somebody = {"a": _somebody(graph, chance, branch), "b": _somebody(graph, chance, branch)}
    insert = "insert Knows { from: $a, to: $b }"
    graph.mutate(f"query q($a: String, $b: String) {{ {insert} {insert} }}", somebody, branch=branch)


def _update(graph: og.Graph, chance: random.Random, branch: str) -> None:
    graph.mutate(
        "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }",
        {"n": _somebody(graph, chance, branch), "a": chance.randrange(10**6)},
        branch=branch,
    )


def _update_many(graph: og.Graph, chance: random.Random, branch: str) -> None:
    graph.mutate(
        "query q($a: I32) { update Person set { age: 77 } where age = $a }",
        {"a": chance.randrange(50)},
        branch=branch,
    )


def _update_edges(graph: og.Graph, chance: random.Random, branch: str) -> None:
    graph.mutate(
        "query q($n: String, $s: I32) { update Knows set { since: $s } where from = $n }",
        {"n": _somebody(graph, chance, branch), "s": chance.randrange(10**6)},
        branch=branch,
    )


def _delete(graph: og.Graph, chance: random.Random, branch: str) -> None:
    graph.mutate(
        "query q($n: String) { delete Person where name = $n }",
        {"n": _somebody(graph, chance, branch)},
        branch=branch,
    )


def _delete_edges(graph: og.Graph, chance: random.Random, branch: str) -> None:
    graph.mutate(
        "query q($n: String) { delete Knows where from = $n }",
        {"n": _somebody(graph, chance, branch)},
        branch=branch,
    )


def _optimize(graph: og.Graph, _: random.Random, branch: str) -> None:
    graph.optimize(branch=branch)


def _somebody(graph: og.Graph, chance: random.Random, branch: str) -> str:
    rows = graph._manifest.stores.tables.open(graph.snapshot(branch=branch)["node:Person"].pin)
    return str(chance.choice(rows.read(["name"]).column("name").to_pylist()))


CHANGES: list[Callable[[og.Graph, random.Random, str], None]] = [
    *(_insert, _link, _update, _update_many, _update_edges, _delete, _delete_edges, _optimize)
]


def _after_many_changes(graph: og.Graph, seed: int, steps: int) -> None:
    chance, reader = random.Random(seed), Reader(graph)
    graph.branches.create("side")
    states = []
    for _ in range(steps):
        branch = chance.choice(["main", "main", "side"])
        for _ in range(chance.randrange(1, 4)):
            chance.choice(CHANGES)(graph, chance, branch)
        states.append(graph.snapshot(branch=branch))
        # Older states, too, from what is known of later ones.
        reader.check(chance.choice([states[-1], states[-1], chance.choice(states)]))
    assert reader.kept.builds["row_remap"] > steps


@pytest.mark.parametrize("seed", range(3))
def test_after_changes_of_every_kind(graph: og.Graph, seed: int) -> None:
    _after_many_changes(graph, seed, 12)


def test_after_more_and_more_edges_between_the_same_few(graph: og.Graph) -> None:
    chance, reader = random.Random(5), Reader(graph)
    reader.check(graph.snapshot())
    for number in range(8):
        few = [f"p{chance.randrange(4)}" for _ in range(10)]
        knows: list[Any] = [
            {"edge": "Knows", "from": a, "to": b, "data": {}} for a, b in zip(few[:5], few[5:], strict=True)
        ]
        graph.load([{"type": "Person", "data": {"name": f"more-{number}"}}, *knows], mode="append")
        three = reader.edges(graph.snapshot(), "Knows")
        assert all(
            three.can_carry(each, distinct=distinct) for each in ("out", "in", "both") for distinct in (True, False)
        )
        reader.check(graph.snapshot())


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(100, 120))
def test_after_very_many_changes(graph: og.Graph, seed: int) -> None:
    _after_many_changes(graph, seed, 40)


@pytest.mark.parametrize("traversal", ["csr", "indexed"])
def test_an_edge_whose_node_comes_later_is_found(tmp_path: Path, traversal: str) -> None:
    people = [person(f"p{number}", 1) for number in range(20)]
    knows = [*(edge(f"p{number}", "p1") for number in range(20)), edge("p2", "late")]
    early = make_graph(tmp_path, SOCIAL, {"Person": people, "Knows": knows})
    ask = 'match { $a: Person { name: "p2" } $a knows $b } return { $b.name } order { $b.name }'
    assert early.rows(ask, traversal=traversal) == [("p1",)]
    late = early.append("node:Person", [{"id": "late", **person("late", 1)}])
    assert late.rows(ask, traversal=traversal) == [("late",), ("p1",)]
    again = late.append("edge:Knows", [{"id": "more", **edge("p2", "p3")}])
    assert again.rows(ask, traversal=traversal) == [("late",), ("p1",), ("p3",)]
    gone = again.delete("node:Person", ["p1"])
    assert gone.rows(ask, traversal=traversal) == [("late",), ("p3",)]


def _moves(graph: og.Graph, key: str, change: str) -> RowRemap | None:
    reader = Reader(graph)
    before = reader.rows(graph.snapshot(), key).state
    graph.mutate(f"query q() {{ {change} }}")
    return reader.rows(graph.snapshot(), key).remap_from(before)


def test_an_insert_adds_rows(graph: og.Graph) -> None:
    moves = _moves(graph, "node:Person", 'insert Person { name: "new" }')
    assert moves is not None
    assert moves.runs == (RowRun(0, PEOPLE), RowRun(NEW, 1))
    assert moves.only_adds
    assert not moves.is_same


def test_an_update_takes_a_row_out_and_adds_it(graph: og.Graph) -> None:
    moves = _moves(graph, "node:Person", 'update Person set { age: 7 } where name = "p3"')
    assert moves is not None
    assert [each.start for each in moves.runs] == [0, 4, NEW]
    assert moves.later_row_numbers()[:5].tolist() == [0, 1, 2, -1, 3]
    assert not moves.only_adds


def test_a_table_that_was_not_touched_is_the_same(graph: og.Graph) -> None:
    moves = _moves(graph, "node:City", 'insert Person { name: "new" }')
    assert moves is not None
    assert moves.is_same


def test_a_table_that_was_written_anew_is_read_anew(graph: og.Graph) -> None:
    reader = Reader(graph)
    before = reader.rows(graph.snapshot(), "node:City").state
    graph.load([{"type": "City", "data": {"name": f"c{each}"}} for each in range(CITIES)], mode="overwrite")
    assert reader.rows(graph.snapshot(), "node:City").remap_from(before) is None


def test_rows_that_had_been_removed_are_read(graph: og.Graph) -> None:
    reader, old = Reader(graph), graph.snapshot()
    graph.mutate('query q() { delete Person where name = "p3" }')
    new = graph.snapshot()
    assert reader.rows(old, "node:Person").remap_from(reader.rows(new, "node:Person").state) is None
    reader.check(new)
    reader.check(old)


def test_of_two_states_that_lost_different_rows_neither_is_made_from_the_other(graph: og.Graph) -> None:
    reader = Reader(graph)
    graph.branches.create("side")
    for branch, name in (("main", "p3"), ("side", "p5")):
        graph.mutate("query q($n: String) { delete Person where name = $n }", {"n": name}, branch=branch)
    main, side = graph.snapshot(), graph.snapshot(branch="side")
    assert reader.rows(main, "node:Person").remap_from(reader.rows(side, "node:Person").state) is None
    for each in (main, side, main):
        reader.check(each)


def test_a_name_that_was_given_to_another_column_is_not_mistaken(graph: og.Graph) -> None:
    reader = Reader(graph)
    reader.check(graph.snapshot())
    graph.apply_schema(SCHEMA.replace("age: I32?", ""))
    graph.apply_schema(SCHEMA)
    reader.check(graph.snapshot())
    assert reader.rows(graph.snapshot(), "node:Person").column("age").null_count == PEOPLE


def test_only_new_edges_are_read_and_looked_up(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(graph)
    reader.check(graph.snapshot())
    graph.mutate('query q() { insert Knows { from: "p1", to: "p2" } }')
    three = reader.edges(graph.snapshot(), "Knows")
    read: list[int] = []
    scan = type(three.edges.table).scan

    def counted(*arguments: Any, **options: Any) -> Any:
        for batch in scan(*arguments, **options):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(type(three.edges.table), "scan", counted)
    assert three.can_carry("out", distinct=True)
    assert three.adjacency("out", distinct=True).degrees.sum() > 0
    assert sum(read) == 1


@pytest.mark.parametrize("direction", ["out", "in", "both"])
@pytest.mark.parametrize("distinct", [True, False])
def test_nodes_that_were_changed_keep_their_neighbours_without_sorting_all(
    graph: og.Graph, direction: str, distinct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader(graph)
    reader.edges(graph.snapshot(), "Knows").adjacency(direction, distinct=distinct)
    for number, name in enumerate(("p3", "p7", "p3", "p119")):
        insert = f'insert Person {{ name: "x{number}" }} insert Knows {{ from: "{name}", to: "x{number}" }}'
        graph.mutate(f'query q() {{ update Person set {{ age: 99 }} where name = "{name}" {insert} }}')
        wanted = reader.edges(graph.snapshot(), "Knows", ReadCache()).adjacency(direction, distinct=distinct)
        with monkeypatch.context() as patch:
            patch.delattr(EdgeEndpoints, "adjacency")
            found = reader.edges(graph.snapshot(), "Knows").adjacency(direction, distinct=distinct)
        for part in ("offsets", "targets", "edges"):
            assert _same(getattr(found, part), getattr(wanted, part)), part


def test_from_and_to_nothing(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", schema=SCHEMA)
    reader = Reader(graph)
    reader.check(graph.snapshot())
    for change in (
        'insert Person { name: "a" } insert Person { name: "b" } insert Person { name: "c" }',
        'update Person set { age: 1 } where name = "a"',
        'insert Knows { from: "a", to: "b" }',
        'update Person set { age: 2 } where name = "a"',
        'delete Knows where from = "a"',
        'insert City { name: "x" } insert LivesIn { from: "a", to: "x" }',
        'delete City where name = "x"',
        'delete Person where name != ""',
        'insert Person { name: "a" } insert Knows { from: "a", to: "a" }',
    ):
        graph.mutate(f"query q() {{ {change} }}")
        reader.check(graph.snapshot())


def test_of_one_thing_a_few_versions_are_kept_and_the_one_used_last_is_the_latest() -> None:
    cache = ReadCache(limit=100)
    for version in range(3):
        cache.put(version, f"value {version}", 10)
        cache.add_version("thing", version, f"state {version}")
    assert cache.find(0) == "value 0"
    assert cache.latest("thing") == "state 0"
    cache.put(3, "value 3", 10)
    cache.add_version("thing", 3, "state 3")
    assert cache.latest("thing") == "state 3"
    assert [cache.find(version) is not None for version in range(4)] == [True, False, True, True]
    assert cache.size == 30


def test_what_is_not_kept_is_no_version() -> None:
    cache = ReadCache(limit=100)
    cache.put("large", "value", 1_000)
    cache.add_version("thing", "large", "state")
    assert cache.latest("thing") is None
    cache.put("small", "value", 60)
    cache.add_version("thing", "small", "state")
    cache.put("another", "value", 60)
    assert cache.latest("thing") is None
    assert cache.latest("nothing") is None
