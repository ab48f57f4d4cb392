"""Replacing a file by a new whole one, or not at all: another process, or a crash, never meets half of it."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def replace_whole_file(path: str, pieces: Iterable[bytes]) -> None:
    """Write the pieces beside the file, then put them in its place. On any failure the old file stays as it was."""
    target = Path(path).absolute()
    if not target.parent.is_dir():
        raise InvalidInput(f"there is no directory {target.parent} to write {target.name} in.")
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with _lock(target.with_name(f"{target.name}.lock")):
        try:
            written = _write(beside, pieces)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
        _sync_directory(target.parent)
        if target.stat().st_ino != written:
            raise InvalidInput(f"{target} was replaced by another program a moment ago: do it again.")


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """One at a time; the lock file stays, so that everybody locks the same one."""
    with path.open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InvalidInput(f"another process is writing this file: it holds {path}.") from error
        yield


def _write(path: Path, pieces: Iterable[bytes]) -> int:
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_ino


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
