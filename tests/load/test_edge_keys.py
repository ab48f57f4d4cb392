"""Edges with a key: the same edge loaded again is the same row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import omnigraph as og

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("key", "rows"), [("@key(from, to)", 2), ("@key(@src, @dst)", 2), ("", 4)])
def test_a_file_that_is_loaded_twice_adds_no_edge_with_a_key_again(tmp_path: Path, key: str, rows: int) -> None:
    schema = f"node Person {{ name: String @key }} edge Knows: Person -> Person {{ since: I32?  {key} }}"
    graph = og.init(tmp_path / "g", schema=schema)
    people = [{"type": "Person", "data": {"name": name}} for name in "abc"]
    edges = [{"edge": "Knows", "from": "a", "to": each, "data": {"since": 1}} for each in "bc"]
    for _ in range(2):
        graph.load([*people, *edges], mode="merge", engine="local")
    assert graph.snapshot()["edge:Knows"].row_count == rows
    assert og.open(tmp_path / "g").snapshot()["edge:Knows"].row_count == rows
