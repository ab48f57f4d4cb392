"""The lock of a graph's directory between processes, also those of several machines on a network file system."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import StoreUnavailable, StoreUnsafe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.world import World

# For file systems that lock files but not directories, such as network ones.
LOCK_NAME = "__lock#0"
LOCK_PATIENCE_SECONDS = 30.0
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF, errno.EINVAL})


@contextmanager
def locked(root: str, world: World) -> Iterator[None]:
    """Hold the lock of a directory, which the kernel releases when the holder dies.

    `StoreUnavailable` when another process holds it for too long, `StoreUnsafe` where there are no locks.
    """
    descriptor = _open_lock(root)
    try:
        _acquire(descriptor, root, world)
        try:
            yield
        finally:
            # A process forked meanwhile shares the descriptor: closing ours alone would leave it holding the lock.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _open_lock(root: str) -> int:
    """Open the directory, or a lock file in it where directories cannot be locked."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return descriptor
    except OSError as error:
        os.close(descriptor)
        if error.errno not in _NO_LOCKS:
            raise
        return os.open(Path(root, LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    return descriptor


def _acquire(descriptor: int, root: str, world: World) -> None:
    deadline = world.monotonic() + LOCK_PATIENCE_SECONDS
    pause = 0.0005
    while not _try_lock(descriptor, root):
        if world.monotonic() > deadline:
            raise StoreUnavailable(
                f"{root} has been locked by another process for {LOCK_PATIENCE_SECONDS:.0f} s. Look for a "
                "stopped process that works on this graph.",
                location=root,
            )
        world.sleep(pause)
        pause = min(pause * 2, 0.02)


def _try_lock(descriptor: int, root: str) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise StoreUnsafe(
                f"the file system of {root} has no file locks ({error.strerror}); choose another.",
                location=root,
            ) from error
        raise
    return True
