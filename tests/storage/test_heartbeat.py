"""Renewals: due leases are renewed, and one that cannot be costs the others nothing."""

from __future__ import annotations

import multiprocessing
import threading

from omnigraph.storage.objects.heartbeat import HEARTBEAT, Heartbeat
from omnigraph.world import REAL

SECONDS = 0.4
BOUND = 10.0


class Held:
    """A lease that is always due, and counts its renewals."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self.is_due = True
        self.renewed = threading.Semaphore(0)

    def keep_alive(self) -> None:
        self.renewed.release()


class Stuck(Held):
    """Its store does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = threading.Event()
        self.tries = 0

    def keep_alive(self) -> None:
        self.tries += 1
        self.answer.wait(BOUND)


class Broken(Held):
    """Its renewal fails with an error that nobody foresaw."""

    def keep_alive(self) -> None:
        super().keep_alive()
        raise RuntimeError("broken")


def test_a_lease_whose_store_does_not_answer_keeps_no_other_from_being_renewed() -> None:
    heartbeat, stuck, held = Heartbeat(), Stuck(), Held()
    heartbeat.begin(stuck)
    heartbeat.begin(held)
    assert all(held.renewed.acquire(timeout=BOUND) for _ in range(3))
    assert stuck.tries == 1
    stuck.answer.set()
    for each in (stuck, held):
        heartbeat.end(each)


def test_a_renewal_that_fails_is_tried_again() -> None:
    heartbeat, broken = Heartbeat(), Broken()
    heartbeat.begin(broken)
    assert all(broken.renewed.acquire(timeout=BOUND) for _ in range(2))
    heartbeat.end(broken)


def test_a_shorter_lease_is_looked_after_at_once() -> None:
    heartbeat, long, short = Heartbeat(), Held(600), Held()
    heartbeat.begin(long)
    REAL.sleep(0.1)
    heartbeat.begin(short)
    assert short.renewed.acquire(timeout=BOUND)
    heartbeat.end(short)
    heartbeat.end(long)


def test_a_forked_process_renews_its_own_leases() -> None:
    mine = Held()
    HEARTBEAT.begin(mine)
    assert mine.renewed.acquire(timeout=BOUND)
    child = multiprocessing.get_context("fork").Process(target=_renew_in_the_child)
    child.start()
    child.join(3 * BOUND)
    HEARTBEAT.end(mine)
    assert child.exitcode == 0


def _renew_in_the_child() -> None:
    held = Held()
    HEARTBEAT.begin(held)
    assert held.renewed.acquire(timeout=BOUND)
