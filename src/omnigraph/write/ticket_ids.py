"""Ids of operations: ULIDs that are later than every one that this process has seen.

The queue goes by ids. Were they by the clock alone, a machine whose clock is behind would always be first in it, and a
busy writer there would keep all others waiting.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from omnigraph.world import encode_ulid

if TYPE_CHECKING:
    from omnigraph.world import World

_DIGITS = {digit: value for value, digit in enumerate("0123456789ABCDEFGHJKMNPQRSTVWXYZ")}
_LATEST = (1 << 48) - 1
_lock = threading.Lock()
_newest_seen = 0


def new_ticket_id(world: World) -> str:
    """An id after all that were noted."""
    milliseconds = max(world.now_us() // 1_000, min(_newest_seen + 1, _LATEST))
    made = encode_ulid(milliseconds, world.random_bits(80))
    note_ticket_id(made)
    return made


def note_ticket_id(operation_id: str) -> None:
    """Remember that there is an operation of this id. What is not a ULID has no time, and is passed over."""
    global _newest_seen
    digits = [_DIGITS.get(each) for each in operation_id[:10]]
    if len(operation_id) != 26 or None in digits:
        return
    milliseconds = 0
    for digit in digits:
        milliseconds = milliseconds << 5 | (digit or 0)
    with _lock:
        _newest_seen = max(_newest_seen, milliseconds)
