"""Finds out how an operation ended that another process took over while this one was suspended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import BranchNotFound, CommitOutcomeUnknown
from omnigraph.manifest.layout import MAIN
from omnigraph.storage.objects.store_clock import read_store_clock
from omnigraph.transaction.intents import queue
from omnigraph.transaction.intents.queue import list_sidecars, recover_if_over
from omnigraph.transaction.recovery.recover import recover

if TYPE_CHECKING:
    from omnigraph.errors import OperationTakenOver
    from omnigraph.manifest.graph_manifest import GraphManifest
    from omnigraph.manifest.rows import GraphCommit
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.storage.objects.store_clock import StoreClock

_POLL_SECONDS = 0.05


def fate(manifest: GraphManifest, lost: OperationTakenOver) -> tuple[GraphCommit, Snapshot] | None:
    """The commit that the operation became, with its snapshot; None when it was undone.

    The outcome is final once the sidecar is gone, which is waited for; if the process that took it over is gone as
    well, this process recovers it. Raises `CommitOutcomeUnknown` when that takes too long.
    """
    deadline = manifest.world.monotonic() + queue.WAIT_SECONDS
    clock = read_store_clock(manifest.stores.objects, manifest.world)
    while _stands(manifest, lost.operation_id, clock):
        if manifest.world.monotonic() >= deadline:
            raise CommitOutcomeUnknown(
                f"operation {lost.operation_id} was taken over by another process that has not finished with it. "
                f"Look for the commit {lost.commit_id} before doing it again.",
                transaction=lost.commit_id,
                operation_id=lost.operation_id,
            )
        manifest.world.sleep(_POLL_SECONDS)
    try:
        branch_manifest = manifest.fresh_branch(lost.branch or MAIN)
    except BranchNotFound:
        return None
    found = branch_manifest.commit(lost.commit_id or "")
    return None if found is None else (found, branch_manifest.snapshot_of(found))


def _stands(manifest: GraphManifest, operation_id: str, clock: StoreClock) -> bool:
    """Whether the operation's sidecar still exists; if its owner is gone, it is recovered here."""
    objects, world = manifest.stores.objects, manifest.world
    found = next((each for each in list_sidecars(objects) if each.sidecar.operation_id == operation_id), None)
    if found is None:
        return False
    recover_if_over(objects, found, world, lambda ticket: recover(manifest, ticket), clock)
    return True
