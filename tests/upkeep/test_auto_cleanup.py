"""Tables of older releases that delete their own old versions: the setting goes before anything is lost to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest

import omnigraph as og

if TYPE_CHECKING:
    from pathlib import Path


def do(graph: og.Graph, statement: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {statement} }}", branch=branch)


def settings(graph: og.Graph, branch: str | None = None) -> dict[str, str]:
    entry = graph.snapshot(branch=branch or "main")["node:Person"]
    return dict(lance.dataset(graph._manifest.stores.tables.uri(entry.path, branch), version=entry.version).config())


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A graph of an older release: the next commit to the table, its fifth, would delete all earlier versions."""
    graph = og.init(tmp_path / "g", schema="node Person { name: String @key }")
    do(graph, 'insert Person { name: "first" }')
    do(graph, 'insert Person { name: "second" }')
    person = lance.dataset(graph._manifest.stores.tables.uri(graph.snapshot()["node:Person"].path))
    person.update_config({"lance.auto_cleanup.interval": "5", "lance.auto_cleanup.older_than": "0s"})
    og.open(graph.uri).repair(confirm=True, force=True)
    return str(graph.uri)


def test_a_write_takes_the_setting_away_and_loses_no_version(uri: str) -> None:
    graph = og.open(uri)
    assert settings(graph)
    history = [each.id for each in graph.commits()]
    do(graph, 'insert Person { name: "third" }')
    do(graph, 'delete Person where name = "first"')
    assert settings(graph) == {}
    assert [each.parent for each in graph.commits()][1:3] == [graph.commits()[2].id, history[0]]
    for commit_id in history:
        rows = graph.query("query q() { match { $p: Person } return { $p.name } }", snapshot=commit_id)
        assert rows.to_arrow().num_rows <= 2


def test_optimize_takes_it_away_also_when_nothing_else_is_to_do(uri: str) -> None:
    graph = og.open(uri)
    graph.optimize()
    assert settings(graph) == {}
    assert graph.entity("Person", "second") is not None
    assert graph.optimize().commit is None


def test_a_write_that_must_be_the_very_next_commit_is_one(uri: str) -> None:
    graph = og.open(uri)
    head = graph.commits()[0].id
    made = graph.mutate('query q() { insert Person { name: "third" } }', if_commit=head)
    assert made.commit.parent == head
