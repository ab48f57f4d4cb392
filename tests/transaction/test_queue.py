"""Threads of one process queue for tables before they queue on the store."""

from __future__ import annotations

import threading

import pytest

from omnigraph.transaction.intents.queue_rules import hold_locks

URI = "/graphs/a"


def held_by_another(uri: str, *lines: tuple[str, str | None]) -> bool:
    """Whether another thread would have to wait for these lines."""
    got = threading.Event()

    def try_it() -> None:
        with hold_locks(uri, lines):
            got.set()

    thread = threading.Thread(target=try_it, daemon=True)
    thread.start()
    return not got.wait(0.2)


def test_a_table_is_held_by_one_thread_at_a_time() -> None:
    with hold_locks(URI, [("node:A", None)]):
        assert held_by_another(URI, ("node:A", None))
    assert not held_by_another(URI, ("node:A", None))


def test_other_tables_branches_and_graphs_are_free() -> None:
    with hold_locks(URI, [("node:A", None)]):
        assert not held_by_another(URI, ("node:B", None))
        assert not held_by_another(URI, ("node:A", "dev"))
        assert not held_by_another("/graphs/b", ("node:A", None))


def test_a_line_that_is_named_twice_is_held_once() -> None:
    with hold_locks(URI, [("node:A", None), ("node:A", None)]):
        assert held_by_another(URI, ("node:A", None))


def test_what_fails_inside_gives_everything_back() -> None:
    with pytest.raises(KeyError), hold_locks(URI, [("node:A", None), ("node:B", None)]):
        raise KeyError
    assert not held_by_another(URI, ("node:A", None), ("node:B", None))


def test_threads_that_name_the_same_lines_in_other_orders_do_not_block_each_other() -> None:
    lines: list[tuple[str, str | None]] = [("node:A", None), ("node:B", "dev"), ("edge:C", None)]
    rounds = [0] * 6

    def work(number: int) -> None:
        order = lines[number % 3 :] + lines[: number % 3]
        for _ in range(200):
            with hold_locks(URI, order if number % 2 else reversed(order)):
                rounds[number] += 1

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert rounds == [200] * 6
