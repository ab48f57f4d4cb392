"""Optimize and cleanup in a loop beside writers and readers: nothing is lost, nothing fails, nobody waits for long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from concurrency.writers import caretakers
from omnigraph.transaction.intents.sidecar import PREFIX

if TYPE_CHECKING:
    from pathlib import Path

    from crash.zygote import Zygote

pytestmark = pytest.mark.crash


def test_a_short_while_of_writing_and_tidying(tmp_path: Path, zygote: Zygote) -> None:
    _live(zygote, tmp_path, writes=8, seconds=4.0)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_long_while_of_writing_and_tidying(tmp_path: Path, zygote: Zygote) -> None:
    _live(zygote, tmp_path, writes=150, seconds=60.0)


def _live(zygote: Zygote, place: Path, *, writes: int, seconds: float) -> None:
    uri = str(place / "graph.omni")
    graph = og.init(uri, schema=caretakers.SCHEMA)
    graph.mutate(caretakers.ADD, {"n": "first"})
    writers = [zygote.start(caretakers.keep_writing, uri, name, writes) for name in ("a", "b")]
    readers = [zygote.start(caretakers.keep_reading, uri, seconds) for _ in range(2)]
    tidiers = [zygote.start(caretakers.keep_tidy, uri, what, seconds) for what in ("optimize", "cleanup")]
    outcomes = [each.outcome() for each in (*writers, *readers, *tidiers)]
    assert [str(each) for each in outcomes if not each.succeeded] == []
    assert all(each.value > 0 for each in outcomes)
    again = og.open(uri)
    names = {
        each["p.name"] for each in again.query("query q() { match { $p: Person } return { $p.name } }").to_pylist()
    }
    assert names == {"first", *(f"{name}-{number}" for name in ("a", "b") for number in range(writes))}
    assert list(again._manifest.stores.objects.list_names(PREFIX)) == []
    assert {each.classification for each in again.repair().tables} == {"no_drift"}
    print(f"{[each.value for each in outcomes]} writes, reads and upkeep side by side")
