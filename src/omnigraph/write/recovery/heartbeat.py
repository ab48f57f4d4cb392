"""Leases are renewed while their owners work, however long one step of the work takes: one thread per process does it.

The thread is there while leases are held and a little longer, so that quick commits do not each start one.
"""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from omnigraph.errors import OmniGraphError
from omnigraph.write.recovery import sidecar as sidecars

log = logging.getLogger(__name__)


class Renewable(Protocol):
    """Something that is held under a lease."""

    def keep_alive(self) -> None:
        """Renew the lease when half of it has gone by."""


class Heartbeat:
    """Renews what is held, four times in each lease."""

    def __init__(self) -> None:
        self._held: set[Renewable] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, held: Renewable) -> None:
        """Renew its lease from now on."""
        with self._lock:
            self._held.add(held)
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="omnigraph-leases", daemon=True)
                self._thread.start()

    def end(self, held: Renewable) -> None:
        """Renew it no more."""
        with self._lock:
            self._held.discard(held)

    def _beat(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(sidecars.LEASE_US / 4 / 1_000_000)
            with self._lock:
                held = list(self._held)
                if not held:
                    self._thread = None
                    return
            for each in held:
                self._renew(each)

    def _renew(self, held: Renewable) -> None:
        try:
            held.keep_alive()
        except (OmniGraphError, OSError) as error:
            # Its owner meets the same error, or a better store, at its own next step.
            log.warning("a lease could not be renewed: %s", error)
