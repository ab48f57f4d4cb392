"""`omnigraph blob get` and `stat`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import omnigraph as og

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Ran

    Run = Callable[..., Ran]


@pytest.fixture
def docs(place: Path) -> og.Graph:
    made = og.init(place / "docs.omni", schema="node Doc { slug: String @key  file: Blob? }")
    (place / "elsewhere.bin").write_bytes(b"theirs")
    outside = (place / "elsewhere.bin").resolve().as_uri()
    made.load({"Doc": [{"slug": "a", "file": "base64:aGVsbG8="}, {"slug": "b", "file": outside}]})
    return made


def _blob(run: Run, verb: str, entity: str, *words: str) -> Ran:
    return run("blob", verb, "node", "Doc", entity, "file", "--uri", "docs.omni", *words)


def test_get_prints_the_bytes_or_a_part_of_them(run: Run, docs: og.Graph) -> None:
    assert _blob(run, "get", "a").out == "hello"
    assert _blob(run, "get", "a", "--offset", "1", "--length", "3").out == "ell"


def test_get_writes_a_file_only_when_there_is_something_to_write(run: Run, docs: og.Graph, place: Path) -> None:
    assert _blob(run, "get", "a", "--out", "a.bin").code == 0
    assert (place / "a.bin").read_bytes() == b"hello"
    for words in (["--offset", "9"], ["--length", "0"], ["--snapshot", "x", "--branch", "main"]):
        assert _blob(run, "get", "a", "--out", "none.bin", *words).code != 0
    assert not (place / "none.bin").exists()


def test_stat_tells_how_it_is_kept(run: Run, docs: og.Graph) -> None:
    told = json.loads(_blob(run, "stat", "a", "--json").out)
    assert told["selector"] == {"entity": "node", "type": "Doc", "id": "a", "property": "file"}
    assert (told["kind"], told["size"]) == ("managed", 5)
    assert told["target"] == {"branch": "main", "resolved_snapshot": docs.commits()[0].id}
    assert _blob(run, "stat", "b").out.splitlines()[0] == "kind: external"


def test_an_external_blob_is_named_and_not_fetched(run: Run, docs: og.Graph) -> None:
    ran = _blob(run, "get", "b")
    assert (ran.code, ran.out) == (1, "")
    assert "elsewhere.bin" in ran.err
