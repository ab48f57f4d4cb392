from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph import errors

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "node Person { name: String @key }"
INSERT = "query add($name: String) { insert Person { name: $name } }"
NAMES = "query names() { match { $p: Person } return { $p.name as name } order { name } }"


def _insert(graph: og.Graph, name: str) -> str | None:
    commit = graph.mutate(INSERT, {"name": name}).commit
    return None if commit is None else commit.actor


def test_a_graph_is_handed_to_other_processes_which_write_to_it(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.omni", schema=SCHEMA, actor="me")

    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        actors = list(pool.map(_insert, [graph, graph], ["Ada", "Grace"]))

    assert actors == ["me", "me"]
    assert [row["name"] for row in graph.query(NAMES).to_pylist()] == ["Ada", "Grace"]


def test_a_graph_that_was_opened_for_reading_stays_so(tmp_path: Path) -> None:
    og.init(tmp_path / "g.omni", schema=SCHEMA)
    reader = pickle.loads(pickle.dumps(og.open(tmp_path / "g.omni", read_only=True)))

    assert reader.query(NAMES).to_pylist() == []
    with pytest.raises(errors.OmniGraphError, match="read"):
        _insert(reader, "Ada")
