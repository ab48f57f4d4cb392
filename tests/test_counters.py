"""Requests are countable: exact numbers, so that a change that costs more is noticed."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING

import pytest

from omnigraph.counters import Counts, count, counting
from omnigraph.errors import NotFound
from omnigraph.storage.filters.model import equal
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.storage.tables.immediate import create_branch, delete_branch, set_config
from omnigraph.storage.tables.staging import commit_staged, find_transaction, stage_append, stage_delete
from omnigraph.storage.tables.table import Pin
from omnigraph.world import REAL
from storage.every_type import PATH, made, open_store, small
from storage.joined_changes import stage_upsert

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def numbers(counts: Counts) -> dict[str, int]:
    """The counters that are not zero."""
    found = dataclasses.asdict(counts)
    del found["requests"]
    return {name: number for name, number in found.items() if number}


def test_opening_reading_and_committing_cost_what_they_say(graph_uri: str) -> None:
    store = open_store(graph_uri)
    made(store, small("a", "b"))
    with counting() as counts:
        table = store.open(Pin(PATH, 1))
        store.open(Pin(PATH, 1))
    assert numbers(counts) == {"table_opens": 1}
    with counting() as counts:
        table.read(["id"], equal("id", "a"))
        table.count_rows()
        list(table.scan())
    assert numbers(counts) == {"table_scans": 3}
    with counting() as counts:
        table.latest_version()
    assert numbers(counts) == {"table_probes": 1}
    with counting() as counts:
        staged = stage_append(table, small("c"))
        stage_upsert(table, small("a"))
        stage_delete(table, equal("id", "a"))
    assert numbers(counts) == {}
    with counting() as counts:
        landed = commit_staged(staged)
    assert numbers(counts) == {"table_commits": 1}
    assert counts.requests == [f"table_commits {PATH}"]
    with counting() as counts:
        find_transaction(landed.table, staged.uuid, after=1)
    assert numbers(counts) == {"table_probes": 1}


def test_what_commits_inline_counts_as_a_commit(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    table = made(store, small("a"))
    with counting() as counts:
        set_config(table, {"k": "v"})
        create_branch(table, "x")
        delete_branch(table, "x")
    assert numbers(counts) == {"table_commits": 3}


def test_an_open_that_fails_counts_too(tmp_path: Path) -> None:
    with counting() as counts, pytest.raises(NotFound):
        open_store(str(tmp_path)).open_newest("nowhere")
    assert numbers(counts) == {"table_opens": 1}


def test_control_objects_are_counted_by_what_was_asked(graph_uri: str) -> None:
    objects = open_control_store(parse_location(graph_uri, REAL), REAL)
    with counting() as counts:
        tag = objects.create("a.json", b"1")
        objects.replace("a.json", b"2", tag)
        objects.write("b.json", b"3")
        objects.read("a.json")
        objects.list()
        objects.delete("a.json")
    assert numbers(counts) == {"object_writes": 3, "object_reads": 1, "object_lists": 1, "object_deletes": 1}
    assert counts.objects == 6
    assert counts.requests[:2] == ["object_writes a.json", "object_writes a.json"]


def test_blocks_nest_and_each_counts_what_happens_inside_it() -> None:
    with counting() as outer:
        count("table_opens", "one")
        with counting() as inner:
            count("table_opens", "two")
        count("table_scans", "three")
    count("table_opens", "four")
    assert numbers(outer) == {"table_opens": 2, "table_scans": 1}
    assert numbers(inner) == {"table_opens": 1}
    assert outer.requests == ["table_opens one", "table_opens two", "table_scans three"]


def test_a_block_that_fails_stops_counting() -> None:
    def open_and_fail() -> None:
        count("table_opens")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), counting() as counts:
        open_and_fail()
    count("table_opens")
    assert numbers(counts) == {"table_opens": 1}


def in_a_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_another_thread_is_not_counted() -> None:
    with counting() as counts:
        in_a_thread(lambda: count("table_opens"))
        count("table_scans")
    assert numbers(counts) == {"table_scans": 1}


def test_only_counters_that_exist_can_be_counted() -> None:
    with counting(), pytest.raises(AttributeError):
        count("table_opnes")
