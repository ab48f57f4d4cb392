"""Blobs, one at a time: whole, in parts, as they were, and those that are kept elsewhere."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph import errors

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node Doc { slug: String @key  file: Blob?  stars: I32? }
edge Cites: Doc -> Doc { scan: Blob? }
"""
LARGE = bytes(range(256)) * 20_000


def _packed(data: bytes) -> str:
    return "base64:" + base64.b64encode(data).decode()


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.init(tmp_path_factory.mktemp("blobs") / "g.omni", schema=SCHEMA)
    made.load(
        {
            "Doc": [
                {"slug": "small", "file": _packed(b"hello")},
                {"slug": "empty", "file": None},
                {"slug": "large", "file": _packed(LARGE)},
            ],
            "Cites": [{"from": "small", "to": "large", "id": "c", "scan": _packed(b"page 1")}],
        }
    )
    return made


def test_a_blob_is_read_whole_and_in_parts(graph: og.Graph) -> None:
    found = graph.blob("Doc", "large", "file")
    assert (found.kind, found.size) == ("managed", len(LARGE))
    assert found.read() == LARGE
    assert found.read(1_000, 500) == LARGE[1_000:1_500]
    assert found.read(len(LARGE) - 3, 100) == LARGE[-3:], "a part ends where the blob does"
    assert max(map(len, found.chunks())) <= 4 * 1024 * 1024


def test_edges_have_blobs_too(graph: og.Graph) -> None:
    assert graph.blob("Cites", "c", "scan").read() == b"page 1"


@pytest.mark.parametrize(("offset", "length"), [(-1, None), (0, 0), (5, None), (9, 1)])
def test_a_part_that_is_not_there_is_refused(graph: og.Graph, offset: int, length: int | None) -> None:
    with pytest.raises(errors.InvalidInput, match="blob"):
        graph.blob("Doc", "small", "file").read(offset, length)


def test_what_has_no_blob_says_so(graph: og.Graph) -> None:
    for entity in ("empty", "nobody"):
        with pytest.raises(errors.NotFound):
            graph.blob("Doc", entity, "file")
    with pytest.raises(errors.InvalidInput, match="no type 'Nothing'"):
        graph.blob("Nothing", "x", "file")
    with pytest.raises(errors.InvalidInput, match="not a Blob"):
        graph.blob("Doc", "small", "stars")


def test_an_earlier_commit_has_the_earlier_bytes_and_another_tag(graph: og.Graph) -> None:
    before, old = graph.commits()[0].id, graph.blob("Doc", "small", "file")
    graph.mutate('query q($b: Blob) { update Doc set { file: $b } where slug = "small" }', {"b": _packed(b"bye")})
    new = graph.blob("Doc", "small", "file")
    assert (new.read(), graph.blob("Doc", "small", "file", at=before).read()) == (b"bye", b"hello")
    assert new.etag != old.etag
    assert graph.blob("Doc", "small", "file").etag == new.etag


def test_one_that_is_kept_elsewhere_is_told_and_not_followed(graph: og.Graph, tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"theirs")
    graph.load({"Doc": [{"slug": "far", "file": outside.as_uri()}]})
    found = graph.blob("Doc", "far", "file")
    assert (found.kind, found.uri, found.size) == ("external", outside.as_uri(), None)
    with pytest.raises(errors.InvalidInput, match="read it there"):
        found.read()
