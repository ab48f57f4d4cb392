"""What must hold right before every durable step of an operation: the lease under which it is taken.

Whoever works under a lease does it inside `guarded(check)`. Every durable step passes `store/counting.py`, which calls
the checks last of all; a check raises `LeaseLost` when others may have taken the lease over, and the step is not
taken.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_checks: ContextVar[tuple[Callable[[], None], ...]] = ContextVar("omnigraph_guards", default=())


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
    """Take steps that need no lease: those that give one back, renew it, or leave its work to others."""
    token = _checks.set(())
    try:
        yield
    finally:
        _checks.reset(token)


def require_leases() -> None:
    """Raise `LeaseLost` when a lease that is needed here is not surely held any more."""
    checks = _checks.get()
    if not checks:
        return
    with unguarded():  # a check renews its lease, which is a durable step too
        for check in checks:
            check()
