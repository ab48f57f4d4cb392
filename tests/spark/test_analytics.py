"""Algorithms on Spark against networkx, on graphs small enough to be looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, NotFound, SchemaChanged, ValueViolation
from omnigraph.spark.analytics import array_algorithms
from omnigraph.spark.analytics.arrays import Arrays
from omnigraph.spark.analytics.frame_algorithms import (
    connected_components,
    degrees,
    label_propagation,
    page_rank,
    shortest_paths,
    triangle_count,
)
from omnigraph.spark.analytics.topology import Ground, Topology
from omnigraph.storage.objects.location import parse_location
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = """
node Person { name: String @key  rank: F64?  group: I64?  level: I32?  @range(level, 0..9) }
node City { name: String @key  rank: F64? }
edge Follows: Person -> Person
edge LivesIn: Person -> City
"""
# A triangle, a tail, a pair apart, a loop, an edge twice, and one who knows nobody.
FOLLOWS = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("x", "y"), ("x", "y"), ("e", "e"), ("b", "d")]
PEOPLE = ["a", "b", "c", "d", "e", "x", "y", "z"]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return made(tmp_path_factory.mktemp("analytics"))


@pytest.fixture(scope="module")
def topology(graph: og.Graph, spark: SparkSession) -> Topology:
    return ground(graph, spark).topology(["follows"])


def made(folder: Path, people: list[str] = PEOPLE, follows: list[tuple[str, str]] = FOLLOWS) -> og.Graph:
    graph = og.init(folder / "graph.omni", schema=SCHEMA)
    rows: list[Any] = [{"name": each} for each in people]
    graph.load({"Person": rows, "City": [{"name": "a"}], "Follows": edges(follows), "LivesIn": edges([("a", "a")])})
    return graph


def ground(graph: og.Graph, session: SparkSession) -> Ground:
    return Ground(session, parse_location(graph.uri, REAL), graph.snapshot(), graph.catalog)


def edges(pairs: list[tuple[str, str]]) -> list[dict[str, object]]:
    return [{"from": one, "to": other} for one, other in pairs]


def reference(people: list[str] = PEOPLE, follows: list[tuple[str, str]] = FOLLOWS) -> nx.MultiDiGraph[str]:
    known: nx.MultiDiGraph[str] = nx.MultiDiGraph(follows)
    known.add_nodes_from(people)
    return known


def by_id(frame: DataFrame, column: str) -> dict[str, Any]:
    return {row["id"]: row[column] for row in frame.collect()}


@pytest.mark.spark
def test_page_rank_is_that_of_networkx_round_by_round(topology: Topology) -> None:
    ranks = by_id(page_rank(topology, damping=0.85, tolerance=0, max_iterations=3), "rank")
    assert ranks == pytest.approx(ranked(reference(), 3), abs=1e-14)


def ranked(graph: nx.MultiDiGraph[str], rounds: int) -> dict[str, float]:
    """So many steps of the power iteration with networkx's matrix."""
    nodes = sorted(graph)
    matrix = np.asarray(nx.google_matrix(graph, alpha=0.85, nodelist=nodes))
    start = np.full(len(nodes), 1 / len(nodes))
    return dict(zip(nodes, start @ np.linalg.matrix_power(matrix, rounds), strict=True))


@pytest.mark.spark
def test_components_are_those_of_networkx_and_named_by_their_first_vertex(topology: Topology) -> None:
    assert by_id(connected_components(topology), "component") == components(reference())


def components(graph: nx.MultiDiGraph[str]) -> dict[str, int]:
    order = sorted(graph)
    return {each: order.index(min(group)) for group in nx.weakly_connected_components(graph) for each in group}


@pytest.mark.spark
def test_distances_are_those_of_networkx(topology: Topology) -> None:
    found = shortest_paths(topology, {"Person": ["b", "x"]}, direction="out", max_distance=None)
    assert distances(found) == lengths(reference(), "b", "x")
    with pytest.raises(NotFound, match="there is no Person 'nobody'"):
        shortest_paths(topology, {"Person": ["nobody"]}, direction="out", max_distance=None)


def distances(frame: DataFrame) -> dict[tuple[str, str], int]:
    return {(row["source"], row["id"]): row["distance"] for row in frame.collect()}


def lengths(graph: nx.MultiDiGraph[str], *sources: str) -> dict[tuple[str, str], int]:
    found = {each: nx.single_source_shortest_path_length(graph, each) for each in sources}
    return {(source, each): far for source, reached in found.items() for each, far in reached.items()}


@pytest.mark.spark
def test_triangles_and_degrees_are_those_of_networkx(topology: Topology) -> None:
    known = reference()
    assert by_id(triangle_count(topology), "triangles") == nx.triangles(nx.Graph(known))
    assert {row["id"]: tuple(row)[2:] for row in degrees(topology).collect()} == {
        each: (known.in_degree(each), known.out_degree(each), known.degree(each)) for each in PEOPLE
    }


@pytest.mark.spark
def test_communities_are_what_the_rule_says(topology: Topology) -> None:
    found = by_id(label_propagation(topology, max_iterations=2), "community")
    assert found == propagated(nx.Graph(reference()), 2)


def propagated(graph: nx.Graph[str], rounds: int) -> dict[str, int]:
    """Label propagation as its definition reads."""
    labels = {each: at for at, each in enumerate(sorted(graph))}
    for _ in range(rounds):
        votes = {each: [labels[each], *(labels[other] for other in graph[each] if other != each)] for each in graph}
        labels = {each: min(heard, key=lambda label: (-heard.count(label), label)) for each, heard in votes.items()}
    return labels


@pytest.mark.spark
@pytest.mark.slow
def test_larger_graphs_agree_with_networkx_whatever_the_layout(tmp_path: Path, spark: SparkSession) -> None:
    drawn = nx.gnp_random_graph(120, 0.015, seed=1, directed=True)
    people = [f"p{each:03}" for each in drawn]
    follows = [(people[one], people[other]) for one, other in drawn.edges]
    topology = ground(made(tmp_path, ["a", *people], follows), spark).topology(["Follows"])
    known = reference(["a", *people], follows)
    assert by_id(page_rank(topology, damping=0.85, tolerance=1e-5, max_iterations=100), "rank") == pytest.approx(
        ranked(known, 200), abs=1e-5
    )
    assert by_id(connected_components(topology), "component") == components(known)
    assert by_id(triangle_count(topology), "triangles") == nx.triangles(nx.Graph(known))
    for direction, way in (("out", known), ("in", known.reverse()), ("both", known.to_undirected())):
        found = shortest_paths(topology, {"Person": people[:3]}, direction=direction, max_distance=None)  # type: ignore[arg-type]
        assert distances(found) == lengths(way, *people[:3])
    assert by_id(label_propagation(topology, max_iterations=5), "community") == propagated(nx.Graph(known), 5)
    shuffled = ground(made(tmp_path / "again", [*reversed(people), "a"], follows[::-1]), spark).topology(["Follows"])
    once, again = (page_rank(each, damping=0.85, tolerance=0, max_iterations=5) for each in (topology, shuffled))
    assert by_id(once, "rank") == by_id(again, "rank")


@pytest.mark.spark
@pytest.mark.slow
def test_cliques_that_hardly_touch_are_the_communities_of_networkx(tmp_path: Path, spark: SparkSession) -> None:
    drawn = nx.connected_caveman_graph(6, 7)
    people = [f"p{each:03}" for each in drawn]
    follows = [(people[one], people[other]) for one, other in drawn.edges]
    topology = ground(made(tmp_path, ["a", *people], follows), spark).topology(["Follows"])
    found = by_id(label_propagation(topology, max_iterations=20), "community")
    named = nx.relabel_nodes(drawn, dict(enumerate(people)))
    expected = nx.community.label_propagation_communities(named)
    together = {frozenset(each for each in people if found[each] == label) for label in set(found.values())}
    assert together - {frozenset()} == {frozenset(each) for each in expected}


@pytest.mark.spark
def test_small_graphs_as_arrays_give_the_same_to_the_last_bit(
    graph: og.Graph, topology: Topology, spark: SparkSession
) -> None:
    here = ground(graph, spark)
    arrays = Arrays(here, tuple(here.edge_types(["Follows"])))
    settings: Any = {"damping": 0.85, "tolerance": 0, "max_iterations": 3}
    assert by_id(array_algorithms.page_rank(arrays, **settings), "rank") == by_id(
        page_rank(topology, **settings), "rank"
    )
    assert by_id(array_algorithms.connected_components(arrays), "component") == components(reference())
    found = by_id(array_algorithms.label_propagation(arrays, max_iterations=2), "community")
    assert found == propagated(nx.Graph(reference()), 2)


@pytest.mark.spark
@pytest.mark.slow
def test_larger_graphs_of_several_types_are_the_same_as_arrays(tmp_path: Path, spark: SparkSession) -> None:
    drawn = nx.gnp_random_graph(300, 0.006, seed=3, directed=True)
    people = [f"p{each:03}" for each in drawn]
    follows = [(people[one], people[other]) for one, other in drawn.edges]
    graph = made(tmp_path, ["a", *people], follows)
    names = ["Follows", "LivesIn"]
    here = ground(graph, spark)
    for blocks in (1, 7):
        arrays = Arrays(here, tuple(here.edge_types(names)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("omnigraph.spark.analytics.edge_blocks.EDGES_PER_BLOCK", len(follows) // blocks)
            assert agree(arrays, here.topology(names))
    off = graph.analytics.on(spark)
    expected = off.page_rank(names).orderBy("type", "id").collect()
    spark.conf.set("spark.omnigraph.verticesInArrays", "10")
    assert off.page_rank(names).orderBy("type", "id").collect() == expected
    spark.conf.unset("spark.omnigraph.verticesInArrays")


def agree(arrays: Arrays, topology: Topology) -> bool:
    settings: Any = {"damping": 0.85, "tolerance": 1e-4, "max_iterations": 30}
    pairs = [
        (array_algorithms.page_rank(arrays, **settings), page_rank(topology, **settings)),
        (array_algorithms.connected_components(arrays), connected_components(topology)),
        (
            array_algorithms.label_propagation(arrays, max_iterations=4),
            label_propagation(topology, max_iterations=4),
        ),
    ]
    return all(one.orderBy("type", "id").collect() == other.orderBy("type", "id").collect() for one, other in pairs)


@pytest.mark.spark
@pytest.mark.slow
def test_nodes_of_several_types_are_told_apart(graph: og.Graph, spark: SparkSession) -> None:
    analytics = graph.analytics.on(spark)
    rows = analytics.degrees(["LivesIn"]).where("degree > 0").orderBy("type").collect()
    assert [tuple(row)[:4] for row in rows] == [("City", "a", 1, 0), ("Person", "a", 0, 1)]
    with pytest.raises(InvalidInput, match="the edges join City, Person: give the sources by type"):
        analytics.shortest_paths(["a"], ["LivesIn"])


@pytest.mark.spark
def test_results_become_properties_in_one_commit_on_a_branch(tmp_path: Path, spark: SparkSession) -> None:
    graph = made(tmp_path)
    analytics = graph.analytics.on(spark)
    scores = spark.createDataFrame([("a", 0.5, 7), ("z", 0.25, 8), ("gone", 1.0, 9)], "id string, s double, g long")
    done = analytics.write_back(scores, {"rank": "s", "group": "g"}, type="Person", branch="scored", from_="main")
    assert done.nodes == {"Person": 2}
    ask = "query q() { match { $p: Person } return { $p.name, $p.rank, $p.group, $p.level } order { $p.name asc } }"
    rows = [tuple(row.values()) for row in graph.query(ask, branch="scored").to_pylist()]
    assert rows[0] == ("a", 0.5, 7, None)
    assert rows[-1] == ("z", 0.25, 8, None)
    assert [row[1:3] for row in rows[1:-1]] == [(None, None)] * 6
    assert graph.query(ask).to_pylist()[0]["p.rank"] is None
    (change,) = [each for each in graph.diff("main", "scored").summary() if each.table_key == "node:Person"]
    assert (change.inserted, change.updated, change.deleted) == (0, 2, 0)
    with pytest.raises(InvalidInput, match="Person has no property 'score' to write to"):
        analytics.write_back(scores, {"score": "s"}, type="Person")
    with pytest.raises(InvalidInput, match=r"Person\.name must be unique"):
        analytics.write_back(scores, {"name": "id"}, type="Person")
    with pytest.raises(ValueViolation, match="level"):
        analytics.write_back(spark.createDataFrame([("a", 10)], "id string, n int"), {"level": "n"}, type="Person")
    assert graph.query(ask).to_pylist()[0]["p.level"] is None


@pytest.mark.spark
@pytest.mark.slow
def test_results_are_not_written_under_a_schema_that_came_meanwhile(tmp_path: Path, spark: SparkSession) -> None:
    graph = made(tmp_path)
    where, newer = graph.uri, SCHEMA.replace("rank: F64?  group", "rank: F64?  score: F64?  group")

    def change(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        og.open(where).apply_schema(newer)
        yield from batches

    scores = spark.createDataFrame([("a", 0.5)], "id string, s double").coalesce(1)
    late = scores.mapInArrow(change, "id string, s double")
    with pytest.raises(SchemaChanged):
        graph.analytics.on(spark).write_back(late, {"rank": "s"}, type="Person")
    assert graph.analytics.on(spark).write_back(scores, {"rank": "s"}, type="Person").nodes == {"Person": 1}


def test_a_branch_behind_is_read_in_its_own_schema(tmp_path: Path, spark: SparkSession) -> None:
    graph = made(tmp_path, PEOPLE[:3], FOLLOWS[:2])
    graph.branches.create("side")
    graph.apply_schema('node Human @rename_from("Person") { name: String @key }\nedge Follows: Human -> Human')
    on = graph.analytics.on(spark)
    for branch, kind in (("side", "Person"), ("main", "Human")):
        found = on.shortest_paths(["a"], ["Follows"], branch=branch).collect()
        assert {(row["type"], row["id"], row["distance"]) for row in found} == {
            (kind, "a", 0),
            (kind, "b", 1),
            (kind, "c", 2),
        }
