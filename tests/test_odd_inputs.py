"""Inputs of extreme shape get an error of this program: deep nesting, lone surrogates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from omnigraph.cli.frame.arguments import parameters
from omnigraph.errors import InvalidInput, OmniGraphError, QueryError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = "node Person { name: String @key\n tags: [String]?\n mood: enum(good, bad)? }"
HALF = "\ud800"
BY_NAME = "query q($n: String) { match { $p: Person {name: $n} } return { $p.name } }"
BY_LIST = "query q($n: [String]) { match { $p: Person } return { $p.name } }"
INSERT = 'query m() { insert Person { name: "new" } }'


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "g.omni", schema=SCHEMA)


def _nested(levels: int = 100_000) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def _boxed(levels: int = 100_000) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("name", ["name", "tags", "mood"])
@pytest.mark.parametrize("deep", [_nested, _boxed])
def test_a_record_with_a_deeply_nested_value_is_refused(graph: og.Graph, name: str, deep: Callable[[], object]) -> None:
    with pytest.raises(OmniGraphError, match=f"Person.{name}"):
        graph.load([{"type": "Person", "data": {"name": "a", name: deep()}}])


@pytest.mark.parametrize("text", [BY_NAME, BY_LIST])
@pytest.mark.parametrize("deep", [_nested, _boxed])
def test_a_deeply_nested_parameter_is_refused(graph: og.Graph, text: str, deep: Callable[[], object]) -> None:
    with pytest.raises(QueryError, match="param 'n': expected"):
        graph.query(text, params={"n": deep()})


def test_deeply_nested_parameters_on_the_command_line_are_refused() -> None:
    with pytest.raises(InvalidInput, match="the parameters are not JSON"):
        parameters("[" * 200_000, None)


@pytest.mark.parametrize(
    "call",
    [
        lambda graph: graph.mutate(INSERT, actor=HALF),
        lambda graph: graph.mutate(INSERT, idempotency_key=HALF),
        lambda graph: graph.load([{"type": "Person", "data": {"name": "a"}}], actor=HALF),
        lambda graph: graph.load([{"type": "Person", "data": {"name": "a"}}], idempotency_key=HALF),
        lambda graph: graph.load([{"type": "Person", "data": {"name": HALF}}]),
        lambda graph: graph.apply_schema(SCHEMA + "node City { name: String }", actor=HALF),
        lambda graph: graph.tags.create("first", message=HALF),
        lambda graph: graph.tags.create("first", actor=HALF),
        lambda graph: graph.branches.create(HALF),
        lambda graph: graph.query(BY_NAME, params={"n": "a"}, branch=HALF),
        lambda graph: graph.query(BY_NAME, params={"n": HALF}),
        lambda graph: graph.query(BY_NAME.replace("$n} }", f'"{HALF}"}} }}'), params={"n": "a"}),
        lambda graph: og.open(f"{graph.uri}{HALF}"),
    ],
)
def test_half_of_a_surrogate_pair_is_refused_and_nothing_is_written(
    graph: og.Graph, call: Callable[[og.Graph], object]
) -> None:
    before = graph.commits()[0].id
    with pytest.raises(OmniGraphError):
        call(graph)
    assert graph.commits()[0].id == before
    assert graph.tags.list() == []
