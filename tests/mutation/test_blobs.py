"""Blobs are written by mutations, and stay with their rows when other properties change."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from mutation.conftest import Social
from omnigraph.storage.tables.take_rows import read_blobs

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "node File { name: String @key  size: I32?  body: Blob?  extra: Blob? }"


@pytest.fixture
def files(tmp_path: Path) -> Social:
    return Social(og.init(tmp_path / "graph", schema=SCHEMA))


def text(data: bytes) -> str:
    return "base64:" + base64.b64encode(data).decode()


def body(files: Social, name: str, column: str = "body") -> object:
    entry = files.graph.snapshot()["node:File"]
    table = files.graph._manifest.stores.tables.open(entry.pin)
    found = read_blobs(table, column, [name])[name]
    return found["data"] if found else None


@pytest.mark.parametrize("size", [3, 70_000, 5_000_000])
def test_a_blob_survives_an_update_of_another_property(files: Social, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    files.do("insert File { name: $n, body: $b }", n="a", b=text(data))
    files.do("insert File { name: $n, body: $b }", n="b", b=text(b"other"))
    files.do("update File set { size: 7 } where name = $n", n="a")
    assert (body(files, "a"), body(files, "b"), body(files, "a", "extra")) == (data, b"other", None)


def test_a_blob_can_be_replaced_and_removed(files: Social) -> None:
    files.do("insert File { name: $n, body: $b, extra: $b }", n="a", b=text(b"one"))
    files.do("update File set { body: $b } where name = $n", n="a", b=text(b"two"))
    assert (body(files, "a"), body(files, "a", "extra")) == (b"two", b"one")
    files.do("update File set { body: null } where name = $n", n="a")
    assert (body(files, "a"), body(files, "a", "extra")) == (None, b"one")


def test_an_upsert_keeps_the_blob_it_does_not_name(files: Social) -> None:
    files.do("insert File { name: $n, body: $b }", n="a", b=text(b"one"))
    files.do("upsert File { name: $n, size: 3 }", n="a")
    assert body(files, "a") == b"one"


def test_a_pending_blob_is_carried_by_a_later_statement(files: Social) -> None:
    files.do("insert File { name: $n, body: $b } update File set { size: 1 } where name = $n", n="a", b=text(b"new"))
    assert body(files, "a") == b"new"
