"""The lease under which one branch or tag is created or deleted at a time, what became of such a step, and table forks.

A step whose answer was lost is looked up: it took effect, it did not, or the store does not even answer that.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from omnigraph.counters import guarded
from omnigraph.errors import (
    CommitNotDone,
    CommitOutcomeUnknown,
    LeaseLost,
    NotFound,
    OmniGraphError,
    StoreError,
    StorePermissionDenied,
    StoreUnsafe,
)
from omnigraph.manifest.layout import BRANCH_LEASE, MANIFEST, Storage
from omnigraph.manifest.version_refs import branch_references
from omnigraph.storage.lance.paths import table_dir
from omnigraph.storage.objects.acquire import acquire
from omnigraph.storage.objects.lease import lease_seconds, patience
from omnigraph.storage.tables.immediate import create_branch, delete_branch

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.storage.objects.lease import Lease
    from omnigraph.storage.tables.table import Table
    from omnigraph.world import World

log = logging.getLogger(__name__)
T = TypeVar("T")

# Added to the time after which the lease of a silent owner can be taken over.
LEASE_WAIT_SECONDS = 30.0
ATTEMPTS = 5


def acquire_branch_lease(stores: Storage, purpose: str, world: World) -> Lease:
    """Acquire the lease under which one branch or tag is created or deleted at a time.

    A branch that a dead owner left half-created is deleted first.
    """
    seconds = lease_seconds(world)
    wait = patience(seconds) + LEASE_WAIT_SECONDS
    lease = acquire(stores.objects, BRANCH_LEASE, purpose=purpose, seconds=seconds, wait=wait, world=world)
    if lease.record.unfinished is None:
        return lease
    try:
        with guarded(lease.require):
            drop_fork(stores, MANIFEST, lease.record.unfinished)
        lease.mark_unfinished(None)
    except BaseException:
        lease.abandon()
        raise
    return lease


def retry_when_lease_lost(work: Callable[[], T]) -> T:
    """Run work that needs the lease, and retry it when this process was suspended so long that it lost the lease.

    A step taken without the lease is either undone by the lease's next owner, or was the last step.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return work()
        except LeaseLost as error:
            log.info("%s", error)
    return work()


def with_known_outcome(what: str, work: Callable[[], T], is_done: Callable[[], bool]) -> T:
    """Create or delete a branch or a tag; after a store failure, look up whether it took effect.

    `CommitNotDone` when it surely did not; `CommitOutcomeUnknown` when that cannot be looked up, or when it took effect
    but another process may have done it.
    """
    try:
        return retry_when_lease_lost(work)
    except (StorePermissionDenied, StoreUnsafe):
        raise
    except StoreError as error:
        _require_done(what, is_done, error)
        raise CommitOutcomeUnknown(f"{what}: it is done, by this process or another: {error}") from error


def run_checked_step(what: str, work: Callable[[], None], is_done: Callable[[], bool]) -> None:
    """Take a step under the lease; after a store failure, look up whether the step took effect.

    `CommitNotDone` when it did not, `CommitOutcomeUnknown` when that cannot be looked up either.
    """
    try:
        work()
    except (StorePermissionDenied, StoreUnsafe):
        raise
    except (StoreError, CommitOutcomeUnknown) as error:
        _require_done(what, is_done, error)


def _require_done(what: str, is_done: Callable[[], bool], error: OmniGraphError) -> None:
    """Look up whether a step took effect although the store reported a failure."""
    try:
        done = is_done()
    except OmniGraphError as second:
        raise CommitOutcomeUnknown(
            f"{what}: the store failed ({error}), and the outcome could not be looked up ({second}): look whether it "
            "was done before doing it again."
        ) from error
    if not done:
        raise CommitNotDone(str(error)) from error


def drop_fork(stores: Storage, path: str, branch: str) -> None:
    """Delete a table fork that no manifest refers to, whether or not its reference file still exists."""
    stores.tables.forget(path, branch)
    main = stores.tables.open_newest(path)
    if branch in branch_references(main):
        # Another process may be deleting it concurrently.
        with suppress(NotFound):
            delete_branch(main, branch)
    # Lance deletes no branch directory without a reference file, and refuses to drop one without a complete version.
    stores.objects.delete_prefix(table_dir(path, branch))


def fork_table(stores: Storage, path: str, branch: str, *, parent: Table) -> Table:
    """Fork a table for a branch, from the state that the branch inherited.

    An existing fork of the same name is deleted first: the caller has made sure that no manifest refers to it.
    """
    main = stores.tables.open_newest(path)
    if branch in branch_references(main) or stores.objects.exists(table_dir(path, branch)):
        drop_fork(stores, path, branch)
    create_branch(parent, branch)
    stores.tables.forget(path, branch)
    return stores.tables.open_newest(path, branch)
