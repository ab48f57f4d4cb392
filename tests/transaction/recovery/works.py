"""What the children of these tests do. Each function opens the graph anew, as another program would."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from crash.zygote_process import report
from omnigraph.errors import NotFound, OmniGraphError
from omnigraph.storage.objects.lease import LEASE
from omnigraph.transaction.commit import protocol
from omnigraph.transaction.commit.protocol import Operation, commit
from omnigraph.transaction.intents.queue import list_sidecars
from omnigraph.transaction.recovery import outcome as sweeping
from omnigraph.transaction.recovery import recover as recovering
from omnigraph.transaction.write_set import WriteSet
from omnigraph.world import REAL
from transaction.recovery import hand_made

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def write(uri: str, what: str, *arguments: Any, **conditions: Any) -> str | None:
    """One operation of `hand_made`, by name; the id of its commit."""
    operation = getattr(hand_made, what)(*arguments, **conditions)
    receipt = commit(hand_made.reopen(uri), operation)
    return None if receipt is None else receipt.commit.id


def insert(uri: str, row_id: str, tables: Sequence[str] = (hand_made.PERSON,), branch: str = "main") -> str | None:
    """Add a row to some tables."""
    return write(uri, "insert", row_id, tuple(tables), branch=branch)


def insert_with_key(uri: str, row_id: str, key: str, tables: Sequence[str] = (hand_made.PERSON,)) -> str | None:
    """Add a row under an idempotency key."""
    return write(uri, "insert", row_id, tuple(tables), idempotency_key=key)


def sweep(uri: str) -> dict[str, str]:
    """Open for writing, as `og.open` does; what was decided, by operation id."""
    return {each: decision.value for each, decision in sweeping.sweep(hand_made.reopen(uri)).items()}


def insert_under_short_lease(
    uri: str, row_id: str, tables: Sequence[str], seconds: float, branch: str = "main"
) -> str | None:
    """Add a row while leases of this process last only so long."""
    shorten_leases(seconds)
    return insert(uri, row_id, tables, branch)


def sweep_under_short_lease(uri: str, seconds: float) -> dict[str, str]:
    """Recover while leases of this process last only so long."""
    shorten_leases(seconds)
    return sweep(uri)


def shorten_leases(seconds: float) -> None:
    """Let leases of this process run out soon."""
    os.environ[LEASE] = str(seconds)  # noqa: TID251


def sweep_then_linger(uri: str) -> None:
    """Recover, tell how that failed, and live on for a while."""
    try:
        sweep(uri)
    except (OmniGraphError, OSError) as error:
        report(type(error).__name__)
    REAL.sleep(30)


def wait_for_sidecars(uri: str, count: int, *, phase: str) -> None:
    """Until this many sidecars are in a phase."""
    objects = hand_made.reopen(uri, read_only=True).stores.objects
    _until(lambda: sum(each.sidecar.phase == phase for each in list_sidecars(objects)) >= count)


def wait_until_landed(uri: str, table_key: str, branch: str | None = None) -> None:
    """Until a table on the store is ahead of what the graph says."""
    graph = hand_made.reopen(uri, read_only=True)

    def ahead() -> bool:
        entry = graph.snapshot(branch or "main")[table_key]
        try:
            return graph.stores.tables.open_newest(entry.path, branch).version > entry.version
        except NotFound:
            return False

    _until(ahead)


def _until(holds: Callable[[], bool]) -> None:
    deadline = REAL.monotonic() + 60
    while not holds():
        assert REAL.monotonic() < deadline, "it never came to this"
        REAL.sleep(0.01)


def upsert_reading(uri: str, row_id: str, tables: Sequence[str], reads: Sequence[str]) -> str | None:
    """Set a row in some tables, computed from others as well."""
    return write(uri, "upsert", row_id, 1, tuple(tables), reads=tuple(reads))


def note(uri: str, key: str) -> str:
    """A commit that changes nothing, under an idempotency key."""
    receipt = commit(hand_made.reopen(uri), Operation("Load", lambda _: WriteSet(), idempotency_key=key))
    assert receipt is not None
    return receipt.commit.id


def interrupted_twice(uri: str, seconds: float) -> None:
    """A write that is interrupted at its publish, and again while it is undone; then this process lives on."""
    shorten_leases(seconds)

    def interrupt(name: str) -> None:
        if name in ("commit.before_publish", "recovery.before_publish"):
            raise KeyboardInterrupt

    vars(protocol)["reach"] = vars(recovering)["reach"] = interrupt
    try:
        insert(uri, "new", hand_made.TABLES)
    except KeyboardInterrupt:
        report("interrupted")
    REAL.sleep(30)
