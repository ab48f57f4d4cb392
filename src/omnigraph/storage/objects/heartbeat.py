"""Renews leases in the background while their owners work, however long one step of the work takes.

One thread per process checks all leases; each renewal runs in a thread of its own, so that a store that does not answer
costs no other graph its leases. The thread exits a little after the last lease is released, so that quick commits do
not each start one.

Whoever works under a lease does so inside `guarded(check)`. Every durable step passes `counters.py`, which calls the
checks immediately before it; a check raises `LeaseLost` when another process may have taken the lease over, and the
step is not taken.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Protocol

log = logging.getLogger(__name__)

# Four times as long as the thread waits for a new lease before it exits.
_LINGER_SECONDS = 60.0


class Renewable(Protocol):
    """Something held under a lease."""

    @property
    def seconds(self) -> float:
        """How long the lease lasts without being renewed."""

    @property
    def is_due(self) -> bool:
        """Whether half of the lease has passed; takes no lock and makes no request."""

    def keep_alive(self) -> None:
        """Renew the lease if it is still due."""


class Heartbeat:
    """Renews the leases that are held; checks each four times per lease duration."""

    def __init__(self) -> None:
        self.start_anew()

    def start_anew(self) -> None:
        """Reset to no leases: a forked process has none of the threads, and owns none of the leases."""
        self._held: set[Renewable] = set()
        # The leases that a thread is renewing at the moment.
        self._renewing: set[Renewable] = set()
        self._lock = threading.Lock()
        # The shortest lease that the thread knows of, and whether a shorter one was added since.
        self._shortest = _LINGER_SECONDS
        self._shorter = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, held: Renewable) -> None:
        """Start renewing a lease."""
        with self._lock:
            self._held.add(held)
            if held.seconds < self._shortest:
                self._shorter.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="omnigraph-leases", daemon=True)
                self._thread.start()

    def end(self, held: Renewable) -> None:
        """Stop renewing a lease."""
        with self._lock:
            self._held.discard(held)

    def _beat(self) -> None:
        while True:
            with self._lock:
                self._shortest = min((each.seconds for each in self._held), default=_LINGER_SECONDS)
                self._shorter.clear()
            if self._shorter.wait(self._shortest / 4):
                continue
            with self._lock:
                if not self._held:
                    self._thread = None
                    return
                due = [each for each in self._held - self._renewing if each.is_due]
                self._renewing.update(due)
            for each in due:
                threading.Thread(target=self._renew, args=(each,), name="omnigraph-lease", daemon=True).start()

    def _renew(self, held: Renewable) -> None:
        try:
            held.keep_alive()
        except Exception as error:  # noqa: BLE001  (its owner meets the same error, or a better store, at its next step)
            log.warning("a lease could not be renewed: %s", error)
        finally:
            with self._lock:
                self._renewing.discard(held)


HEARTBEAT = Heartbeat()
os.register_at_fork(after_in_child=HEARTBEAT.start_anew)
