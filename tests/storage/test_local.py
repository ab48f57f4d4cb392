"""Control objects as files: locks die with their holder, no state comes back, nothing half-written is seen."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import (
    ObjectChanged,
    ObjectExists,
    StoreError,
    StorePermissionDenied,
    StoreUnavailable,
    StoreUnsafe,
)
from omnigraph.storage.objects import directory_lock, local
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import ObjectStore, open_control_store
from omnigraph.world import REAL, World

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65_534

HOLD = """
import fcntl, os, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(file, fcntl.LOCK_EX)
print("ready", flush=True)
time.sleep(60)
"""


class StoppedClock(World):
    def now_us(self) -> int:
        return 1_782_650_000_000_000


@pytest.fixture
def disk(tmp_path: Path) -> ObjectStore:
    return open_control_store(parse_location(tmp_path / "graph.omni", REAL), REAL)


def test_the_same_bytes_written_again_are_another_state(disk: ObjectStore) -> None:
    tag = disk.write("lease", b"mine")
    for _ in range(50):
        disk.write("lease", b"his")
        assert disk.write("lease", b"mine") != tag
    with pytest.raises(ObjectChanged):
        disk.replace("lease", b"next", tag)


def test_the_same_bytes_are_another_state_even_while_the_clock_stands_still(tmp_path: Path) -> None:
    store = open_control_store(parse_location(tmp_path / "graph.omni", REAL), StoppedClock())
    seen = [store.write("lease", data) for _ in range(50) for data in (b"mine", b"his!")]
    assert len(set(seen)) == len(seen)


def test_an_object_deleted_and_created_again_with_the_same_bytes_is_another_state(disk: ObjectStore) -> None:
    tag = disk.create("lease", b"mine")
    for _ in range(50):
        disk.delete("lease")
        assert disk.create("lease", b"mine") != tag


def test_a_lock_held_by_a_killed_process_is_free(disk: ObjectStore) -> None:
    disk.write("a", b"")
    holder = subprocess.Popen([sys.executable, "-c", HOLD, disk.location.uri], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"ready\n"
    waiting = threading.Thread(target=disk.write, args=("a", b"after"))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    holder.kill()
    holder.communicate(timeout=10)
    waiting.join(10)
    assert disk.read("a") == b"after"


def test_a_lock_that_is_never_released_is_an_error_that_names_it(
    disk: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_lock, "LOCK_PATIENCE_SECONDS", 0.1)
    disk.write("a", b"before")
    lock = os.open(disk.location.uri, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(StoreUnavailable, match=r"graph\.omni has been locked by another process"):
        disk.write("a", b"after")
    assert disk.read("a") == b"before"
    os.close(lock)
    disk.write("a", b"after")


def test_where_directories_cannot_be_locked_a_file_is(disk: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on network file systems, where a lock needs a descriptor that can write."""
    flock = fcntl.flock

    def only_files(descriptor: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", only_files)
    tag = disk.create("a", b"1")
    disk.replace("a", b"2", tag)
    assert Path(disk.location.uri, directory_lock.LOCK_NAME).exists()
    assert disk.list_names() == ["a"]


def test_what_a_killed_writer_left_is_removed_and_nothing_of_a_living_one(disk: ObjectStore) -> None:
    disk.create("__recovery/a.json", b"1")
    here = disk._objects._host  # type: ignore[attr-defined]
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = {
        "dead": f"b.json#{here:08d}{dead.pid:010d}1234",
        "living": f"b.json#{here:08d}{os.getpid():010d}1234",
        "elsewhere": f"b.json#{(here + 1) % 10**8:08d}{dead.pid:010d}1234",
    }
    for name in names.values():
        Path(disk.location.uri, "__recovery", name).write_bytes(b"half")
    disk.remove_unfinished()
    left = {each.name for each in Path(disk.location.uri, "__recovery").iterdir()}
    assert left == {"a.json", names["living"], names["elsewhere"]}


def test_what_another_machine_or_program_left_is_removed_once_it_is_old(
    disk: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.create("__recovery/a.json", b"1")
    here = disk._objects._host  # type: ignore[attr-defined]
    old = [f"b.json#{(here + 1) % 10**8:08d}0000000001234", "c.json#1", f"d.json#{here:08d}{os.getpid():010d}1234"]
    recovery = Path(disk.location.uri, "__recovery")
    for name in old:
        recovery.joinpath(name).write_bytes(b"half")
    Path(disk.location.uri, directory_lock.LOCK_NAME).touch()
    disk.remove_unfinished()
    assert {each.name for each in recovery.iterdir()} == {"a.json", *old}
    monkeypatch.setattr(local, "_LEFT_SECONDS", 0.2)
    REAL.sleep(0.3)
    recovery.joinpath("e.json#2").write_bytes(b"young")
    disk.remove_unfinished()
    assert {each.name for each in recovery.iterdir()} == {"a.json", "e.json#2"}
    assert Path(disk.location.uri, directory_lock.LOCK_NAME).exists()


def test_unfinished_writes_are_not_objects(disk: ObjectStore) -> None:
    disk.write("a/b", b"")
    disk.delete("a/b")
    Path(disk.location.uri, "a", "b#123").write_bytes(b"half")
    assert disk.list_names() == []
    assert not disk.exists("a")
    disk.delete_prefix("a")
    assert not Path(disk.location.uri, "a").exists()


def test_a_finished_write_leaves_no_temporary_file(disk: ObjectStore) -> None:
    tag = disk.create("a", b"1")
    disk.replace("a", b"2", tag)
    with pytest.raises(ObjectExists):
        disk.create("a", b"3")
    with pytest.raises(ObjectChanged):
        disk.replace("a", b"4", tag)
    assert sorted(each.name for each in Path(disk.location.uri).iterdir()) == ["a"]


def test_looking_at_an_absent_graph_makes_nothing(disk: ObjectStore) -> None:
    assert not disk.exists("a")
    assert disk.list() == []
    disk.delete("a")
    disk.delete_prefix("a")
    assert not Path(disk.location.uri).exists()


def test_a_file_where_the_graph_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    store = open_control_store(parse_location(tmp_path / "file", REAL), REAL)
    assert not store.exists("a")
    with pytest.raises(StoreError, match="a file exists where a directory is needed"):
        store.create("a", b"")


def test_a_forbidden_directory_is_an_error_and_not_an_absence(tmp_path: Path) -> None:
    store = open_control_store(parse_location(tmp_path / "graph.omni", REAL), REAL)
    store.write("a/b", b"")
    with forbidden(tmp_path / "graph.omni"):
        for attempt in (
            lambda: store.exists("a/b"),
            lambda: store.list(),
            lambda: store.read("a/b"),
            lambda: store.write("a/b", b"x"),
            lambda: store.create("c", b"x"),
            lambda: store.delete("a/b"),
        ):
            with pytest.raises(StorePermissionDenied, match=r"graph\.omni"):
                attempt()
    assert store.read("a/b") == b""


def test_a_file_system_without_hard_links_is_unsafe(disk: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StoreUnsafe, match="hard links"):
        disk.create("a", b"")
    assert disk.list() == []


@contextmanager
def forbidden(directory: Path) -> Iterator[None]:
    """Take every right to a directory away; the superuser has to become somebody else for that."""
    directory.chmod(0)
    superuser = os.geteuid() == 0
    if superuser:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if superuser:
            os.seteuid(0)
        directory.chmod(0o755)
