"""Counts what an operation requests from the store, so that tests can bound its cost; checks leases before writes.

    with counting() as counts:
        graph.query(...)
    assert counts.table_opens == 0

Every durable step passes `count`, so it is also where failpoints fire and where the checks of `guarded` run.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.failpoints import reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_checks: ContextVar[tuple[Callable[[], None], ...]] = ContextVar("omnigraph_guards", default=())


@dataclass
class Counts:
    """Operations since the counting began. `requests` names each control-object operation, in order.

    `row_lookups` are the reads of committed rows by writers, from the fragment cache or from the store.
    """

    object_reads: int = 0
    object_writes: int = 0
    object_lists: int = 0
    object_deletes: int = 0
    table_opens: int = 0
    table_scans: int = 0
    table_probes: int = 0
    table_commits: int = 0
    row_lookups: int = 0
    requests: list[str] = field(default_factory=list)

    @property
    def objects(self) -> int:
        """All operations on control objects."""
        return self.object_reads + self.object_writes + self.object_lists + self.object_deletes


_active: ContextVar[tuple[Counts, ...]] = ContextVar("omnigraph_counts", default=())


@contextmanager
def counting() -> Iterator[Counts]:
    """Count every store operation made inside the block, in this thread or task. Blocks may nest."""
    counts = Counts()
    token = _active.set((*_active.get(), counts))
    try:
        yield counts
    finally:
        _active.reset(token)


_WRITES = frozenset({"object_writes", "object_deletes", "table_commits"})


def count(what: str, detail: str = "") -> None:
    """Count one operation that is about to happen; `what` names a counter of `Counts`.

    Every durable step passes here, so a test can kill or stop the process before any one of them, and a writer whose
    lease may have been taken over does not take the step.
    """
    if what in _WRITES:
        reach("store.write")
        require_leases()
        reach("store.step")
    for counts in _active.get():
        setattr(counts, what, getattr(counts, what) + 1)
        counts.requests.append(f"{what} {detail}".rstrip())


@contextmanager
def guarded(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` before every durable step inside the block, in this thread or task. Blocks may nest."""
    token = _checks.set((*_checks.get(), check))
    try:
        yield
    finally:
        _checks.reset(token)


@contextmanager
def unguarded() -> Iterator[None]:
    """Take steps without checking leases: those that release or renew a lease, or hand its work to others."""
    token = _checks.set(())
    try:
        yield
    finally:
        _checks.reset(token)


def require_leases() -> None:
    """Raise `LeaseLost` unless every lease that guards this block is surely still held."""
    checks = _checks.get()
    if not checks:
        return
    with unguarded():  # a check renews its lease, which is a durable step too
        for check in checks:
            check()
