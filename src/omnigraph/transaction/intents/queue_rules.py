"""The rules of the queue of writers, without the store: ids in order, who are rivals, who goes first, who may recover.

Operation ids are ULIDs later than every id that this process has seen, because the queue is ordered by id. If they
followed the clock alone, a machine whose clock is behind would always be first, and a busy writer on it would starve
all others.

The writers of one process queue for locks per table and branch before they queue on the store, which is slower. Locks
are taken in sorted order; all handles on one graph in a process share them.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from enum import Enum, auto
from typing import TYPE_CHECKING

from omnigraph.world import CROCKFORD, encode_ulid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from omnigraph.transaction.intents.sidecar import Sidecar, TableBranch
    from omnigraph.world import World

_DIGITS = {digit: value for value, digit in enumerate(CROCKFORD)}
_LATEST = (1 << 48) - 1
_lock = threading.Lock()
_newest_seen = 0


def new_operation_id(world: World) -> str:
    """Make an operation id that sorts after every id seen so far."""
    milliseconds = max(world.now_ms(), min(_newest_seen + 1, _LATEST))
    made = encode_ulid(milliseconds, world.random_bits(80))
    observe_id(made)
    return made


def observe_id(operation_id: str) -> None:
    """Record an operation id as seen. One that is not a ULID carries no time, and is ignored."""
    global _newest_seen
    digits = [_DIGITS.get(each) for each in operation_id[:10]]
    if len(operation_id) != 26 or None in digits:
        return
    milliseconds = 0
    for digit in digits:
        milliseconds = milliseconds << 5 | (digit or 0)
    with _lock:
        _newest_seen = max(_newest_seen, milliseconds)


class QueueDecision(Enum):
    """What a queue entry does next."""

    GO = auto()  # no rival is ahead of it
    ANNOUNCE = auto()  # no rival is ahead of it, but others take it to be waiting
    STEP_BACK = auto()  # a rival with a smaller id waits until this one marks itself `waiting`
    WAIT = auto()


def decide_next(mine: Sidecar, rivals: Sequence[Sidecar]) -> QueueDecision:
    """Apply the rule of the queue to the live rivals that one listing has shown."""
    smaller = any(other.operation_id < mine.operation_id for other in rivals)
    if not smaller and all(other.phase == "waiting" for other in rivals):
        return QueueDecision.GO if mine.phase == "running" else QueueDecision.ANNOUNCE
    return QueueDecision.STEP_BACK if smaller and mine.phase == "running" else QueueDecision.WAIT


def compete(mine: Sidecar, other: Sidecar) -> bool:
    """Whether two operations are rivals: they must not have effects at the same time."""
    if mine.changes_schema or other.changes_schema:
        return True
    shared = mine.table_refs & (other.table_refs | other.read_table_refs) or mine.read_table_refs & other.table_refs
    return bool(shared) or _same_key(mine, other)


def may_recover(dead: Sidecar, living: Sequence[Sidecar], *, mine: str | None = None) -> bool:
    """Whether recovering a dead operation interferes with no live one: a rival of it may be committing right now.

    A dead operation that was waiting has no effects. Of several live operations that would all wait for each other, the
    one with the smallest id recovers. `mine` is the operation id of the caller.
    """
    return dead.phase == "waiting" or not any(
        each.phase != "waiting" and compete(dead, each) and (mine is None or each.operation_id < mine)
        for each in living
    )


def _same_key(mine: Sidecar, other: Sidecar) -> bool:
    if mine.commit is None or other.commit is None or mine.commit.idempotency_key is None:
        return False
    return mine.branch == other.branch and mine.commit.idempotency_key == other.commit.idempotency_key


_queues: dict[tuple[str, str, str], threading.Lock] = {}
_registry = threading.Lock()


@contextmanager
def hold_locks(uri: str, table_refs: Iterable[TableBranch]) -> Iterator[None]:
    """Hold the locks of these tables: no other thread of this process writes to them meanwhile."""
    keys = sorted({(uri, table_key, branch or "") for table_key, branch in table_refs})
    with ExitStack() as stack:
        for key in keys:
            stack.enter_context(_lock_of(key))
        yield


def _lock_of(key: tuple[str, str, str]) -> threading.Lock:
    with _registry:
        return _queues.setdefault(key, threading.Lock())
