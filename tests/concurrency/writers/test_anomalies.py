"""The anomalies of the LDBC ACID suite, over real processes: none of them happens.

An operation is serialisable: it is published only if no table that it was computed from has moved. What a program reads
in one call and writes in another is its own affair unless it passes the commit that it read as `if_commit`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from concurrency.writers import transactions as tx
from omnigraph.transaction.commit.protocol import commit
from transaction.recovery.hand_made import CITY, PERSON, create, require_settled, values_of

if TYPE_CHECKING:
    from pathlib import Path

    from crash.zygote import Zygote
    from omnigraph.manifest.graph_manifest import GraphManifest

WRITERS, ROUNDS = 3, 5


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "graph.omni")


@pytest.fixture
def graph(uri: str) -> GraphManifest:
    """Two tables with the rows x and y at 0."""
    graph = create(uri)
    commit(graph, tx.setting({PERSON: {"x": 0, "y": 0}, CITY: {"x": 0, "y": 0}}))
    return graph


def test_no_lost_update_with_if_commit(uri: str, zygote: Zygote) -> None:
    graph = create(uri)
    commit(graph, tx.setting({PERSON: {"counter": 0}}))
    children = [zygote.start(tx.increment, uri, ROUNDS) for _ in range(WRITERS)]
    tries = sum(child.outcome().value for child in children)
    assert tx.final(uri)[PERSON] == {"counter": WRITERS * ROUNDS}
    assert tries >= WRITERS * ROUNDS
    require_settled(graph)


def test_no_lost_update_within_an_operation(uri: str, zygote: Zygote) -> None:
    graph = create(uri)
    commit(graph, tx.setting({PERSON: {"counter": 0}}))
    children = [zygote.start(tx.increment_in_one_operation, uri, ROUNDS) for _ in range(WRITERS)]
    assert all(child.outcome().succeeded for child in children)
    assert tx.final(uri)[PERSON] == {"counter": WRITERS * ROUNDS}
    require_settled(graph)


def test_no_dirty_write_no_intermediate_read_and_nothing_observed_vanishes(
    graph: GraphManifest, uri: str, zygote: Zygote
) -> None:
    """Every snapshot shows one number in all four rows, and no reader ever goes back in time."""
    readers = [zygote.start(tx.watch, uri, 3.0) for _ in range(2)]
    writers = [zygote.start(tx.set_everywhere, uri, 100 * number, ROUNDS) for number in range(1, WRITERS + 1)]
    assert all(child.outcome().succeeded for child in writers)
    history = [_numbers(graph, commit.id) for commit in reversed(graph.lineage().newest_first())][1:]
    assert all(len(numbers) == 1 for numbers in history)
    order = [next(iter(numbers)) for numbers in history]
    assert len(order) == 1 + WRITERS * ROUNDS
    for reader in readers:
        seen = reader.outcome().value
        assert all(len(numbers) == 1 for numbers in seen), "two writers are mixed in one snapshot"
        places = [order.index(next(iter(numbers))) for numbers in seen]
        assert places == sorted(places), "what was seen has vanished"
    require_settled(graph)


def test_no_dirty_read_of_what_was_taken_back(graph: GraphManifest, uri: str, zygote: Zygote) -> None:
    reader = zygote.start(tx.watch, uri, 3.0)
    failing = zygote.start(tx.fail_everywhere, uri, ROUNDS)
    writer = zygote.start(tx.set_everywhere, uri, 100, ROUNDS)
    assert failing.outcome().succeeded
    assert writer.outcome().succeeded
    assert all(-1 not in numbers and len(numbers) == 1 for numbers in reader.outcome().value)
    assert tx.final(uri)[PERSON] == {"x": 100 + ROUNDS - 1, "y": 100 + ROUNDS - 1}
    require_settled(graph)


def test_no_circular_information_flow(graph: GraphManifest, uri: str, zygote: Zygote) -> None:
    """Each writes its own row and looks at the other's: what was seen must agree with the order of the commits."""
    children = [
        zygote.start(tx.write_one_read_other, uri, PERSON, CITY, ROUNDS),
        zygote.start(tx.write_one_read_other, uri, CITY, PERSON, ROUNDS),
    ]
    told = []
    for child in children:
        while (what := child.reports()) is not None:
            told.append(what)
        assert child.outcome().succeeded
    position = {each.id: at for at, each in enumerate(reversed(graph.lineage().newest_first()))}
    newest = {PERSON: 0, CITY: 0}
    for mine, number, looked, _ in sorted(told, key=lambda each: position[each[3]]):
        other = CITY if mine == PERSON else PERSON
        assert looked == newest[other], "it saw a commit that came later, or missed one that came before"
        newest[mine] = number
    require_settled(graph)


def test_no_write_skew_within_an_operation(graph: GraphManifest, uri: str, zygote: Zygote) -> None:
    """Two accounts in two tables hold 120 together; each of two withdrawals of 100 alone would be right."""
    commit(graph, tx.setting({PERSON: {"x": 60}, CITY: {"x": 60}}))
    both = [
        zygote.start(tx.withdraw, uri, each, failpoints="commit.before_publish=delay:0.3") for each in (PERSON, CITY)
    ]
    outcomes = sorted(child.outcome().value for child in both)
    assert outcomes in (["conflict", "done"], ["done", "refused"])
    assert tx.final(uri)[PERSON]["x"] + tx.final(uri)[CITY]["x"] == 20
    require_settled(graph)


def test_write_skew_over_two_calls_is_possible_without_if_commit_and_refused_with_it(graph: GraphManifest) -> None:
    """Stated, not prevented: the graph cannot know what a program has read before."""
    seen = graph.snapshot()
    commit(graph, tx.setting({PERSON: {"x": -40}}))
    blind = tx.setting({CITY: {"x": -40}})
    with pytest.raises(og.errors.HeadMismatch):
        commit(graph, replace(blind, expected_head=seen.commit_id))
    assert commit(graph, blind) is not None


def test_no_edge_is_left_without_its_node(uri: str, zygote: Zygote) -> None:
    """One process links people while another removes them: they write to different tables, and read each other's."""
    graph = og.init(uri, schema="node Person { name: String @key }\nedge Knows: Person -> Person")
    names = [f"p{number}" for number in range(12)]
    graph.load([{"type": "Person", "data": {"name": each}} for each in ("ada", *names)], mode="append")
    linking = zygote.start(tx.link, uri, names)
    removing = zygote.start(tx.remove, uri, names[::-1])
    assert linking.outcome().succeeded
    assert removing.outcome().value == len(names)
    snapshot, tables = graph.snapshot(), graph._manifest.stores.tables
    people = set(tables.open(snapshot["node:Person"].pin).read(["name"])["name"].to_pylist())
    edges = tables.open(snapshot["edge:Knows"].pin).read(["src", "dst"]).to_pylist()
    assert people == {"ada"}
    assert [each for each in edges if each["dst"] not in people] == []
    require_settled(graph._manifest)


def _numbers(graph: GraphManifest, commit_id: str) -> set[int]:
    snapshot = graph.snapshot_of(commit_id)
    tables = [values_of(graph.stores.tables.open(snapshot[key].pin).read()) for key in (PERSON, CITY)]
    return {value for values in tables for value in values.values()}
