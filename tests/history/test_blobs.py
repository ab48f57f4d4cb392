"""Blobs go with their rows through merges and reverts, and differ by their bytes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from mutation.conftest import Social
from omnigraph.storage.tables.take_rows import read_blobs

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "node Doc { name: String @key  stars: I32?  body: Blob? }"


def _record(name: str, body: bytes | None) -> dict[str, object]:
    text = None if body is None else "base64:" + base64.b64encode(body).decode()
    return {"type": "Doc", "data": {"name": name, "stars": 1, "body": text}}


@pytest.fixture
def documents(tmp_path: Path) -> Social:
    """Three documents on main, one without a body, and a branch of it."""
    graph = og.init(tmp_path / "graph", schema=SCHEMA)
    graph.load([_record("a", b"alpha"), _record("b", b"beta" * 50_000), _record("c", None)])
    graph.branches.create("feature")
    return Social(graph)


def _bodies(social: Social, branch: str = "main") -> dict[str, bytes | None]:
    entry = social.graph.snapshot(branch=branch)["node:Doc"]
    table = social.graph._manifest.stores.tables.open(entry.pin)
    found = read_blobs(table, "body", list(social.rows("node:Doc", branch)))
    return {name: None if each is None else each["data"] for name, each in found.items()}


def test_blobs_are_merged_with_their_rows(documents: Social) -> None:
    documents.do('update Doc set { stars: 2 } where name = "b"', "feature")
    documents.graph.load([_record("d", b"delta"), _record("a", b"ALPHA")], branch="feature")
    documents.do('update Doc set { stars: 3 } where name = "c"')
    documents.graph.merge("feature")
    assert _bodies(documents) == {"a": b"ALPHA", "b": b"beta" * 50_000, "c": None, "d": b"delta"}
    assert documents.rows("node:Doc")["b"]["stars"] == 2


def test_a_blob_on_one_side_and_a_property_on_the_other_merge(documents: Social) -> None:
    documents.graph.load([_record("a", b"ALPHA")], branch="feature")
    documents.do('update Doc set { stars: 9 } where name = "a"')
    documents.graph.merge("feature")
    assert _bodies(documents)["a"] == b"ALPHA"
    assert documents.rows("node:Doc")["a"]["stars"] == 9


def test_a_blob_that_was_removed_comes_back_with_a_revert(documents: Social) -> None:
    gone = documents.do('delete Doc where name = "b"').commit
    assert gone is not None
    documents.graph.revert(gone.id)
    assert _bodies(documents)["b"] == b"beta" * 50_000


def test_the_feed_tells_changed_blobs(documents: Social) -> None:
    now = documents.graph.changes().cursor
    documents.graph.load([_record("a", b"ALPHA")])
    documents.do('update Doc set { stars: 5 } where name = "b"')
    assert [(each.op, each.id) for each in documents.graph.changes(since=now)] == [("update", "a"), ("update", "b")]


def test_a_row_rewritten_with_the_same_blob_is_no_change(documents: Social) -> None:
    before = documents.graph.commits()[0].id
    documents.do('update Doc set { stars: 5 } where name = "b"')
    documents.do('update Doc set { stars: 1 } where name = "b"')
    assert documents.graph.diff(before, "main").summary() == []
