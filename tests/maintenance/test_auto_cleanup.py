"""Tables of older releases that delete their own old versions: the setting goes before anything is lost to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

import omnigraph as og
from omnigraph import errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = "node Person { name: String @key  age: I32? }\nnode City { name: String @key }"


def do(graph: og.Graph, statement: str, branch: str = "main", if_commit: str | None = None) -> og.Mutated:
    return graph.mutate(f"query q() {{ {statement} }}", branch=branch, if_commit=if_commit)


def settings(graph: og.Graph, branch: str = "main") -> dict[str, str]:
    table = graph._manifest.stores.tables.open(graph.snapshot(branch=branch)["node:Person"].pin)
    return {name: value for name, value in table.handle.config().items() if "auto_cleanup" in name}


def readable(graph: og.Graph) -> list[int]:
    """How many people there were at each commit of each branch, the newest first; every table of it can be read."""
    counts = []
    for branch in graph.branches.list():
        for commit in graph.commits(branch=branch.name):
            tables = graph.snapshot(at=commit.id)
            rows = {each.table_key: graph._manifest.stores.tables.open(each.pin).read().num_rows for each in tables}
            assert rows == {each.table_key: each.row_count for each in tables}
            counts.append(rows["node:Person"])
    return counts


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A graph of an older release: the next commit to a table, and every second after it, would delete the others."""
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    do(graph, 'insert Person { name: "first" }')
    do(graph, 'insert Person { name: "second" } insert City { name: "Rome" }')
    # Lance looks at the setting after every second commit, also after the one that makes it: that is a first one.
    for entry in graph.snapshot():
        dataset = lance.dataset(graph._manifest.stores.tables.uri(entry.path))
        if dataset.version % 2:
            dataset.update_config({"another": "program"})
        dataset.update_config({"lance.auto_cleanup.interval": "2", "lance.auto_cleanup.older_than": "0s"})
    og.open(graph.uri).repair(confirm=True, force=True)
    return str(graph.uri)


def test_such_a_table_loses_its_versions_to_the_next_commit_of_another_program(uri: str) -> None:
    """What the others are about."""
    graph = og.open(uri)
    entry = graph.snapshot()["node:Person"]
    before = len(lance.dataset(graph._manifest.stores.tables.uri(entry.path)).versions())
    lance.dataset(graph._manifest.stores.tables.uri(entry.path)).update_config({"another": "program"})
    assert len(lance.dataset(graph._manifest.stores.tables.uri(entry.path)).versions()) < before
    with pytest.raises(errors.VersionReclaimed):
        readable(og.open(uri, read_only=True))


WRITES: dict[str, Callable[[og.Graph], object]] = {
    "a mutation": lambda graph: do(graph, 'insert Person { name: "third" }'),
    "a mutation after a certain commit": lambda graph: do(
        graph, 'insert Person { name: "third" }', if_commit=graph.commits()[0].id
    ),
    "a load": lambda graph: graph.load({"Person": [{"name": "third"}]}, mode="merge"),
    "a change of schema": lambda graph: graph.apply_schema(SCHEMA.replace("age: I32?", "age: I64?")),
    "a type that goes and comes back": lambda graph: (
        graph.apply_schema("node City { name: String @key }"),
        graph.apply_schema(SCHEMA),
        do(graph, 'insert Person { name: "third" }'),
    ),
    "an optimize": lambda graph: graph.optimize(),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_write_takes_the_setting_away_and_loses_no_version(uri: str, write: str) -> None:
    graph = og.open(uri)
    assert settings(graph)
    WRITES[write](graph)
    if write != "a type that goes and comes back":
        assert readable(graph)[-4:] == [2, 2, 1, 0]
    assert settings(graph) == {}
    do(graph, 'insert Person { name: "fourth" }')
    do(graph, 'delete Person where name = "first"')
    found = graph.entity("Person", "first", at=graph.commits()[1].id)
    assert (found is not None) == (write != "a type that goes and comes back")


def test_the_first_write_of_a_branch_takes_it_away_there(uri: str) -> None:
    graph = og.open(uri)
    graph.branches.create("side")
    graph.branches.create("late")
    do(graph, 'insert Person { name: "third" }', "side")
    assert (settings(graph, "side"), bool(settings(graph)), bool(settings(graph, "late"))) == ({}, True, True)
    do(graph, 'insert Person { name: "fourth" }', "side")
    head = graph.commits(branch="late")[0].id
    do(graph, 'insert Person { name: "fifth" }', "late", if_commit=head)
    graph.merge("side")
    assert settings(graph) == {}
    assert max(readable(graph)) == 4
    assert graph.snapshot(branch="side")["node:Person"].row_count == 4


def test_optimize_takes_it_away_also_when_nothing_else_is_to_do(uri: str) -> None:
    graph = og.open(uri)
    graph.optimize()
    assert settings(graph) == {}
    assert graph.entity("Person", "second") is not None
    assert graph.optimize().commit is None


def test_a_write_that_must_follow_a_commit_follows_it_with_nothing_between_but_that(uri: str) -> None:
    graph = og.open(uri)
    head = graph.commits()[0].id
    made = do(graph, 'insert Person { name: "third" }', if_commit=head)
    between = graph.commit(made.commit.parent)
    assert between.parent == head
    assert graph.diff(head, between.id).summary() == []
    with pytest.raises(errors.HeadMismatch):
        do(graph, 'insert Person { name: "fourth" }', if_commit=head)


def test_a_write_that_is_refused_because_of_another_commit_changes_nothing(uri: str) -> None:
    graph = og.open(uri)
    commits = graph.commits()
    with pytest.raises(errors.HeadMismatch):
        do(graph, 'insert Person { name: "third" }', if_commit=commits[1].id)
    assert graph.commits() == commits
    assert settings(graph)
