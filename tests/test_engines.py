"""An engine that there is not is refused by every call that takes one; none of them runs here instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PEOPLE = "query q() { match { $p: Person } return { $p.name } }"
CALLS: dict[str, Callable[[og.Graph, Any, Path], object]] = {
    "query": lambda graph, engine, _: graph.query(PEOPLE, engine=engine),
    "load": lambda graph, engine, _: graph.load({"Person": [{"name": "ada"}]}, engine=engine),
    "merge": lambda graph, engine, _: graph.merge("side", engine=engine),
    "export": lambda graph, engine, folder: graph.export(folder / "out.jsonl", engine=engine),
    "ensure_indices": lambda graph, engine, _: graph.ensure_indices(engine=engine),
    "optimize": lambda graph, engine, _: graph.optimize(engine=engine),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_misspelt_engine_is_refused(tmp_path: Path, call: str) -> None:
    graph = og.init(tmp_path / "graph", schema="node Person { name: String @key }")
    graph.branches.create("side")
    head = graph.commits()[0]
    with pytest.raises(InvalidInput, match=r"there is no engine 'sprak': use (auto, )?local or spark\."):
        CALLS[call](graph, "sprak", tmp_path)
    assert graph.commits()[0] == head
    assert not (tmp_path / "out.jsonl").exists()
