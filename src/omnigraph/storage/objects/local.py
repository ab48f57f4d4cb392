"""Control objects as local files: atomic, durable, and with a real compare-and-swap between processes.

A write goes to a temporary file beside its target, is synced, and only then gets its name: by rename, or by hard link
if the name must not exist before. Whoever changes or removes an existing name holds the lock of the graph's directory
(`directory_lock.py`) while doing so. Temporary files are named `name#digits`, and never listed;
the digits identify the machine and the process that writes, so that those of dead processes can be removed. Those of
other machines and other programs (Rust's object store writes `name#digits` too) are removed when they are old.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import (
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    StorePermissionDenied,
    StoreUnavailable,
    StoreUnsafe,
)
from omnigraph.storage.objects.directory_lock import LOCK_NAME, locked
from omnigraph.storage.objects.model import ObjectInfo, ObjectVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.world import World

# A write takes seconds; the rename of one that was suspended for longer fails, and its caller gets the error.
_LEFT_SECONDS = 3_600
# The directories in which control objects are written; the empty name is the root.
_FOLDERS = ("", "__recovery", "__tags", "_schema_history")

_HIDDEN = re.compile(r".*#[0-9]+", re.DOTALL)
_TEMPORARY = re.compile(r".*#(?P<host>[0-9]{8})(?P<process>[0-9]{10})[0-9]+", re.DOTALL)
_ABSENT = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK})


def is_hidden(name: str) -> bool:
    """Whether a file of this name is an unfinished write or a lock, not an object."""
    return _HIDDEN.fullmatch(name) is not None


@dataclass(frozen=True)
class LocalFiles:
    """Files below `root`, which the first write creates."""

    root: str
    world: World = field(repr=False)

    def read(self, path: str) -> tuple[bytes, ObjectVersion]:
        """The bytes and their tag, both of one file even while it is being replaced."""
        with self._errors(path), self._file(path).open("rb") as file:
            return file.read(), _tag(os.fstat(file.fileno()))

    def write(self, path: str, data: bytes) -> ObjectVersion:
        """Write unconditionally."""
        with self._write_errors(path), self._temporary(path, data) as temporary:
            with locked(self.root, self.world):
                tag = _rename_into_place(temporary, self._file(path))
            _sync_directory(temporary.parent)
            return tag

    def create(self, path: str, data: bytes) -> ObjectVersion:
        """Write if the name does not exist: the complete file gets its name by one hard link."""
        with self._write_errors(path), self._temporary(path, data) as temporary:
            self._link(temporary, self._file(path))
            _sync_directory(temporary.parent)
            return _tag(temporary.stat())

    def stage(self, path: str, data: bytes) -> None:
        """Write a file that nothing refers to yet; not synced, as Lance does not sync the files that go with it."""
        with self._write_errors(path):
            self._file(path).parent.mkdir(parents=True, exist_ok=True)
            self._file(path).write_bytes(data)

    def replace(self, path: str, data: bytes, unchanged: ObjectVersion) -> ObjectVersion:
        """Write if the object still has this tag: compared and renamed under the lock."""
        self._require_unchanged(path, unchanged)
        with self._write_errors(path), self._temporary(path, data) as temporary:
            with locked(self.root, self.world):
                self._require_unchanged(path, unchanged)
                tag = _rename_into_place(temporary, self._file(path))
            _sync_directory(temporary.parent)
            return tag

    def delete(self, path: str) -> None:
        """Delete under the lock, so that a concurrent `replace` cannot bring the object back.

        Not synced: after a power failure the object may exist again, as if the process had died before deleting it.
        """
        with self._errors(path):
            if not self.is_object(path):
                return
            with locked(self.root, self.world):
                self._file(path).unlink(missing_ok=True)

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete many objects under one lock; not synced, as in `delete`."""
        with self._errors(paths[0]), locked(self.root, self.world):
            for path in paths:
                self._file(path).unlink(missing_ok=True)

    def delete_prefix(self, prefix: str) -> None:
        """Delete everything below a prefix, including unfinished writes and empty directories."""
        with self._errors(prefix):
            for folder, _, names in os.walk(self._file(prefix), topdown=False, onerror=_raise_unless_absent):
                with locked(self.root, self.world):
                    for name in names:
                        Path(folder, name).unlink(missing_ok=True)
                _remove_if_empty(folder)

    def remove_unfinished(self) -> None:
        """Delete the temporary files of dead processes of this machine, and those of anybody that are old."""
        for folder in _FOLDERS:
            with self._errors(folder):
                found = [self._file(folder).joinpath(name) for name in _names_in(self._file(folder)) if is_hidden(name)]
                if found:
                    self._remove_left(folder, found)

    def _remove_left(self, folder: str, found: Sequence[Path]) -> None:
        """Ages are measured by the clock of the file system, which sets the change time of a file written now."""
        probe = "/".join(filter(None, (folder, "clock")))
        with self._temporary(probe, b"") as written:
            now = written.stat().st_ctime
        for each in found:
            facts = _stat_if_there(each)
            old = facts is not None and now - facts.st_ctime > _LEFT_SECONDS
            if each.name != LOCK_NAME and (old or self._is_dead(each.name)):
                each.unlink(missing_ok=True)

    def _is_dead(self, name: str) -> bool:
        """Whether the process that was writing a temporary file ran on this machine and is gone."""
        writer = _TEMPORARY.fullmatch(name)
        if writer is None or int(writer["host"]) != self._host:
            return False
        return not self.world.is_alive(int(writer["process"]))

    @cached_property
    def _host(self) -> int:
        """An eight-digit number for the scope in which pids are meaningful."""
        return int.from_bytes(sha256(self.world.host().encode()).digest()[:8]) % 10**8

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Everything below a prefix."""
        with self._errors(prefix):
            for folder, _, names in os.walk(self._file(prefix), onerror=_raise_unless_absent):
                for name in names:
                    facts = None if is_hidden(name) else _stat_if_there(Path(folder, name))
                    if facts is not None:
                        yield _info(Path(folder, name).relative_to(self.root).as_posix(), facts)

    def info(self, path: str) -> ObjectInfo:
        """The listing entry of one file."""
        with self._errors(path):
            return _info(path, self._file(path).stat())

    def is_object(self, path: str) -> bool:
        """Whether a file has exactly this name."""
        with self._errors(path):
            facts = _stat_if_there(self._file(path))
            return facts is not None and not stat.S_ISDIR(facts.st_mode)

    def has_any(self, prefix: str) -> bool:
        """Whether any file is below a prefix."""
        return next(self.list(prefix), None) is not None

    def _file(self, path: str) -> Path:
        return Path(self.root, path)

    def _require_unchanged(self, path: str, unchanged: ObjectVersion) -> None:
        with self._errors(path):
            facts = _stat_if_there(self._file(path))
        if facts is None or _tag(facts) != unchanged:
            raise ObjectChanged(
                f"{self._file(path)} changed since it was read: read it again, then decide.",
                location=str(self._file(path)),
            )

    @contextmanager
    def _temporary(self, path: str, data: bytes) -> Iterator[Path]:
        """A synced file with these bytes beside the target; removed afterwards unless it was renamed."""
        target = self._file(path)
        writer = f"{self._host:08d}{self.world.process_number():010d}"
        temporary = target.with_name(f"{target.name}#{writer}{self.world.random_bits(60)}")
        try:
            _make_directory(target.parent)
            _write_synced(temporary, data, self.world.now_us())
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    def _link(self, temporary: Path, target: Path) -> None:
        try:
            target.hardlink_to(temporary)
        except FileExistsError as error:
            # A network file system can report a link that was made as refused: the link count tells.
            if temporary.stat().st_nlink != 2:
                raise ObjectExists(f"{target} is there already.", location=str(target)) from error
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise StoreUnsafe(
                    f"the file system of {self.root} has no hard links ({error.strerror}), without which nothing can "
                    "be created exactly once; choose another.",
                    location=self.root,
                ) from error
            raise

    @contextmanager
    def _write_errors(self, path: str) -> Iterator[None]:
        """As `_errors`, except that an obstacle to a write is not reported as an absent object."""
        try:
            with self._errors(path):
                yield
        except ObjectNotFound as error:
            raise StoreError(
                f"{self._file(path)} cannot be written: a file exists where a directory is needed, or the other way "
                "round, or the directory was removed meanwhile.",
                location=str(self._file(path)),
            ) from error

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _translated(error, str(self._file(path))) from error


def _translated(error: OSError, path: str) -> StoreError:
    if isinstance(error, _ABSENT):
        return ObjectNotFound(f"{path} is not there.", location=path)
    if error.errno in _FORBIDDEN:
        return StorePermissionDenied(
            f"{path}: {error.strerror}. Give this user the right to it, or run as its owner.", location=path
        )
    return StoreUnavailable(f"{path}: {error.strerror or error}. Check the disk.", location=path)


def _tag(facts: os.stat_result) -> ObjectVersion:
    return ObjectVersion(f"{facts.st_ino:x}-{facts.st_mtime_ns // 1_000:x}-{facts.st_size:x}")


def _info(path: str, facts: os.stat_result) -> ObjectInfo:
    """The ctime is the store's clock: only the kernel sets it, and a rename or link updates it."""
    written = facts.st_ctime_ns // 1_000
    return ObjectInfo(path, facts.st_size, facts.st_mtime_ns // 1_000, _tag(facts).e_tag, written)


def _stat_if_there(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _write_synced(path: Path, data: bytes, now_us: int) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        _set_modified(path, now_us)
        os.fsync(file.fileno())


def _set_modified(path: Path, microseconds: int) -> None:
    """Set the mtime explicitly: the kernel's has a resolution of milliseconds, and inode numbers are reused at once."""
    os.utime(path, ns=(microseconds * 1_000, microseconds * 1_000))


def _rename_into_place(temporary: Path, target: Path) -> ObjectVersion:
    """Rename, and make sure that the tag is one that this name never had before. The caller holds the lock."""
    before = _stat_if_there(target)
    if before is not None and temporary.stat().st_mtime_ns <= before.st_mtime_ns:
        _set_modified(temporary, before.st_mtime_ns // 1_000 + 1)
    tag = _tag(temporary.stat())
    temporary.replace(target)
    return tag


def _names_in(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _make_directory(path: Path) -> None:
    """Create a directory and its parents, each durably."""
    if path.is_dir():
        return
    _make_directory(path.parent)
    path.mkdir(exist_ok=True)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_if_empty(folder: str) -> None:
    try:
        Path(folder).rmdir()
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT}:
            raise


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, _ABSENT):
        raise error
