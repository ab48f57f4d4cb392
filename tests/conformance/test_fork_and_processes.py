"""Real processes on one table: nothing acknowledged is lost, and a killed writer leaves a whole table."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import lance
import pytest
from lance import LanceDataset

from conformance import writers
from conformance.tables import append, ids, keyed, write
from conformance.writers import Crew

KILL_ROUNDS = 2


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    return write(tmp_path / "t", keyed([-1]))


def test_spawned_processes_that_append_at_once_lose_nothing(table: LanceDataset, crew: Crew) -> None:
    acknowledged = sum(crew.all(writers.append_rows, table.uri))
    newest = lance.dataset(table.uri)
    assert newest.version == 1 + acknowledged
    assert len(set(ids(newest))) == newest.count_rows() == 1 + acknowledged


def test_a_handle_sees_what_another_process_committed(table: LanceDataset, crew: Crew) -> None:
    crew.all(writers.append_rows, table.uri)
    assert table.count_rows() == 1
    assert table.latest_version == 1 + 10 * Crew.SIZE
    table.checkout_latest()
    assert table.count_rows() == 1 + 10 * Crew.SIZE


def test_writers_killed_at_any_moment_leave_a_valid_table_without_duplicates(table: LanceDataset) -> None:
    for _ in range(KILL_ROUNDS):
        _kill_two_writers_while_they_append(table)
        newest = lance.dataset(table.uri)
        newest.validate()
        found = newest.to_table(columns=["id", "value"]).to_pylist()
        assert len({(row["id"], row["value"]) for row in found}) == len(found) == newest.version
        assert append(newest, keyed([-newest.version - 1])).version == newest.version + 1


def _kill_two_writers_while_they_append(table: LanceDataset) -> None:
    spawn = multiprocessing.get_context("spawn")
    goal = table.latest_version + 12
    started = table.latest_version
    doomed = [spawn.Process(target=writers.append_for_ever, args=(table.uri, started * 10 + n)) for n in (1, 2)]
    for process in doomed:
        process.start()
    while table.latest_version < goal:
        assert any(process.is_alive() for process in doomed)
        doomed[0].join(timeout=0.01)
    for process in doomed:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(timeout=30)
        assert process.exitcode == -signal.SIGKILL


def test_a_killed_writer_leaves_no_half_written_version(table: LanceDataset) -> None:
    _kill_two_writers_while_they_append(table)
    newest = lance.dataset(table.uri)
    names = sorted(path.name for path in (Path(table.uri) / "_versions").glob("*.manifest"))
    assert len(names) == newest.version
    for version in range(1, newest.version + 1):
        assert newest.checkout_version(version).count_rows() == version
