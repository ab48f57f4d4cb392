"""Brings operations to a known end: one that runs here, one that another process took over, and all that are left.

`held_entry` undoes an operation that fails here. `fate` finds out how an operation ended that another process took over
while this one was suspended. `sweep` recovers every operation whose owner is gone; it runs when a graph is opened for
writing, and on request.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from omnigraph.errors import BranchNotFound, CommitOutcomeUnknown, OmniGraphError, OperationTakenOver, RecoveryRequired
from omnigraph.manifest.layout import MAIN
from omnigraph.storage.objects.store_clock import read_store_clock, remove_left_probes
from omnigraph.transaction.intents import queue
from omnigraph.transaction.intents.queue import (
    QueueEntry,
    list_sidecars,
    read_sidecars,
    recover_if_over,
)
from omnigraph.transaction.intents.queue_rules import may_recover
from omnigraph.transaction.intents.sidecar import PREFIX
from omnigraph.transaction.intents.sidecar_json import report_unreadable
from omnigraph.transaction.recovery.recover import recover
from omnigraph.transaction.recovery.schema_files import finish_schema, resolve_staged_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.storage.objects.store_clock import StoreClock
    from omnigraph.transaction.intents.sidecar import Sidecar
    from omnigraph.transaction.recovery.classify import Decision

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.05


def fate(manifest: GraphManifest, taken_over: OperationTakenOver) -> tuple[GraphCommit, Snapshot] | None:
    """The commit that the operation became, with its snapshot; None when it was undone.

    The outcome is final once the sidecar is gone, which is waited for; if the process that took it over is gone as
    well, this process recovers it. Raises `CommitOutcomeUnknown` when that takes too long.
    """
    deadline = manifest.world.monotonic() + queue.WAIT_SECONDS
    clock = read_store_clock(manifest.stores.objects, manifest.world)
    while _stands(manifest, taken_over.operation_id, clock):
        if manifest.world.monotonic() >= deadline:
            raise CommitOutcomeUnknown(
                f"operation {taken_over.operation_id} was taken over by another process that has not finished with it. "
                f"Look for the commit {taken_over.commit_id} before doing it again.",
                transaction=taken_over.commit_id,
                operation_id=taken_over.operation_id,
            )
        manifest.world.sleep(_POLL_SECONDS)
    try:
        branch_manifest = manifest.fresh_branch(taken_over.branch or MAIN)
    except BranchNotFound:
        return None
    found = branch_manifest.commit(taken_over.commit_id or "")
    return None if found is None else (found, branch_manifest.snapshot_of(found))


def _stands(manifest: GraphManifest, operation_id: str, clock: StoreClock) -> bool:
    """Whether the operation's sidecar still exists; if its owner is gone, it is recovered here."""
    objects, world = manifest.stores.objects, manifest.world
    everyone = list_sidecars(objects, unreadable=lambda error: _refuse_if_about(error, operation_id))
    found = next((each for each in everyone if each.sidecar.operation_id == operation_id), None)
    if found is None:
        return False
    recover_if_over(objects, found, world, lambda queue_entry: recover(manifest, queue_entry), clock)
    return True


def _refuse_if_about(error: RecoveryRequired, operation_id: str) -> None:
    if error.operation_id == operation_id:
        raise error


@contextmanager
def held_entry(manifest: GraphManifest, sidecar: Sidecar) -> Iterator[QueueEntry]:
    """Hold a queue entry and remove it at the end, whether the operation succeeded, failed or was interrupted."""
    queue_entry = QueueEntry.draw(manifest.stores.objects, sidecar, manifest.world)
    try:
        with queue_entry.guard():
            yield queue_entry
    except BaseException as error:
        try:
            is_certain = _undo(manifest, queue_entry, error)
        finally:
            queue_entry.rest()
        if not isinstance(error, Exception):
            raise
        if queue_entry.is_taken_over:
            raise queue_entry.sidecar.taken_from_here() from error
        if not is_certain:
            raise _unknown(queue_entry.sidecar, error) from error
        raise
    try:
        if queue_entry.is_published:
            finish_schema(manifest, queue_entry)
        queue_entry.delete()
    except (OmniGraphError, OSError) as error:
        log.warning("the commit is done; its sidecar %s stays for the next writer: %s", queue_entry.sidecar.path, error)
        queue_entry.let_go()


def _undo(manifest: GraphManifest, queue_entry: QueueEntry, error: BaseException) -> bool:
    """Roll the operation back, or leave that to the next writer; return whether it certainly will not be committed.

    The abort is recorded in the sidecar first: if this process is suspended or fails now, others must not finish it.
    """
    if queue_entry.is_taken_over:
        return True  # another process owns it, and `fate` finds out how it ended
    if isinstance(error, CommitOutcomeUnknown):
        queue_entry.let_go()
        return False
    try:
        with queue_entry.guard():
            if queue_entry.may_have_committed:
                queue_entry.update(aborted=True)
                recover(manifest, queue_entry)
            else:
                queue_entry.require()
                queue_entry.delete()
    except OperationTakenOver:
        return True
    except (OmniGraphError, OSError) as second:
        log.warning("operation %s will be recovered later: %s", queue_entry.sidecar.operation_id, second)
        queue_entry.let_go()
        return queue_entry.sidecar.aborted or not queue_entry.may_have_committed
    return True


def _unknown(sidecar: Sidecar, error: BaseException) -> CommitOutcomeUnknown:
    """The error for a store that failed during the publish, or while the abort was being recorded."""
    commit_id = sidecar.commit.commit_id if sidecar.commit is not None else None
    return CommitOutcomeUnknown(
        f"operation {sidecar.operation_id} may or may not be done: {error}. The next writer finishes or undoes it; "
        f"look for the commit {commit_id} before doing it again.",
        transaction=commit_id,
        operation_id=sidecar.operation_id,
    )


def sweep(manifest: GraphManifest) -> dict[str, Decision]:
    """Recover every operation whose owner is gone, in the order they began; return the decisions by operation id.

    Operations of live owners are left alone, and so are dead ones that compete with a running one. One that cannot be
    read or recovered is logged and left: the queue refuses the writers that it concerns.
    """
    objects, world = manifest.stores.objects, manifest.world
    resolve_staged_files(manifest)
    objects.remove_unfinished()
    done = {}
    listed = objects.list(PREFIX)
    remove_left_probes(objects, listed, world)
    everyone = read_sidecars(objects, listed, unreadable=report_unreadable)
    given_up = all(each.is_given_up(world) for each in everyone)
    clock = None if given_up else read_store_clock(objects, world)
    over = [each for each in everyone if each.is_over(world, clock)]
    living = [each.sidecar for each in everyone if each not in over]
    for found in over:
        if not may_recover(found.sidecar, living):
            continue
        try:
            decision = recover_if_over(objects, found, world, lambda queue_entry: recover(manifest, queue_entry), clock)
        except RecoveryRequired as error:
            report_unreadable(error)
            continue
        if decision is not None:
            done[found.sidecar.operation_id] = decision
    return done
