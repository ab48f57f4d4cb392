"""Locks per table and branch: the writers of one process queue here before they queue on the store, which is slower.

Locks are taken in sorted order; all handles on one graph in a process share them.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Line = tuple[str, str | None]

_queues: dict[tuple[str, str, str], threading.Lock] = {}
_registry = threading.Lock()


@contextmanager
def hold(uri: str, lines: Iterable[Line]) -> Iterator[None]:
    """Hold the locks of these tables: no other thread of this process writes to them meanwhile."""
    keys = sorted({(uri, table_key, branch or "") for table_key, branch in lines})
    with ExitStack() as stack:
        for key in keys:
            stack.enter_context(_lock(key))
        yield


def _lock(key: tuple[str, str, str]) -> threading.Lock:
    with _registry:
        return _queues.setdefault(key, threading.Lock())
