"""Tests whether a store provides the guarantees that commits rely on, before anything is stored there.

A store can answer 412 to a second PUT and still let two of several simultaneous ones through, so the guarantees are
tested by races: four writers with separate clients, on one key, for 24 rounds. OpenStack Swift, which checks and then
writes, let a second writer through in 45 % of rounds, and in 25 % in its best run. A store that does so in a fraction p
of rounds is missed with probability (1 - p)^24: 0.1 % at p = 0.25, 1 % at p = 0.17, 8 % at p = 0.1.
"""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from lance.fragment import write_fragments

from omnigraph.errors import ObjectChanged, ObjectExists, StoreError, StorePermissionDenied, StoreUnsafe
from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.lance.paths import DATA
from omnigraph.storage.objects.settings import display_uri
from omnigraph.storage.objects.store import ObjectStore, open_control_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.storage.objects.location import Location
    from omnigraph.storage.objects.model import ObjectVersion
    from omnigraph.world import World


WRITERS = 4
CREATE_ROUNDS = 24
REPLACE_ROUNDS = 16
# On a local disk a violation is not a matter of chance: a few rounds show whether the file system has what is needed.
LOCAL_ROUNDS = 6
LISTINGS = 5

_found_safe: set[tuple[str, ...]] = set()


@dataclass(frozen=True)
class StoreCheck:
    """One guarantee, and whether the store provided it."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class ProbeReport:
    """The results for one location."""

    location: str
    checks: tuple[StoreCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether the store provided every guarantee."""
        return all(check.ok for check in self.checks)


def probe_store(location: Location, world: World) -> ProbeReport:
    """Race several writers below the location and delete every trace. An unreachable store raises."""
    directory = _probe_location(location, world)
    stores = [open_control_store(directory, world) for _ in range(WRITERS)]
    missing = _missing_directories(location)
    try:
        checks = [_judge(name, check, stores) for name, check in _RULES.items()]
        if all(check.ok for check in checks):
            checks.append(_judge("tables and control objects are together", _table_beside_objects, stores))
    except BaseException:
        _clear_quietly(stores[0], missing)
        raise
    checks.append(_judge("a delete is seen", lambda each: _clear(each[0], missing), stores))
    return ProbeReport(display_uri(location.uri), tuple(checks))


def require_safe(report: ProbeReport) -> None:
    """Raise `StoreUnsafe` with the reasons unless the store provided every guarantee."""
    if report.ok:
        return
    reasons = "; ".join(f"{check.name}: {check.detail}" for check in report.checks if not check.ok)
    raise StoreUnsafe(
        f"{report.location} must not hold a graph, because commits would be lost there. {reasons}. "
        "docs/object-stores.md lists what is required of a store and which ones have it.",
        location=report.location,
    )


def ensure_safe(location: Location, world: World) -> None:
    """Probe the store of this location and raise if it is unsafe; once per store and process."""
    store = _identity(location)
    if store in _found_safe:
        return
    require_safe(probe_store(location, world))
    _found_safe.add(store)


def _identity(location: Location) -> tuple[str, ...]:
    """What the guarantees are a property of: a bucket at an endpoint, or a file system."""
    if not location.is_local:
        options = location.storage_options or {}
        return location.scheme, location.bucket, options.get("aws_endpoint", ""), options.get("azure_endpoint", "")
    nearest = Path(location.uri).parents[len(missing) - 1] if (missing := _missing_directories(location)) else None
    return "file", str((nearest or Path(location.uri)).stat().st_dev)


def _judge(name: str, check: Callable[[Sequence[ObjectStore]], str], stores: Sequence[ObjectStore]) -> StoreCheck:
    """Run a check, which returns what it observed, or raises `StoreUnsafe` with the violation."""
    try:
        return StoreCheck(name, ok=True, detail=check(stores))
    except StoreUnsafe as error:
        return StoreCheck(name, ok=False, detail=error.message)


def _write_then_read(stores: Sequence[ObjectStore]) -> str:
    for version in (b"first", b"second"):
        stores[0].write("plain", version)
        if any(store.read("plain") != version for store in stores):
            raise StoreUnsafe("a client that read after the write was finished saw an older state")
    return f"by {len(stores)} clients, after a create and after an overwrite"


def _create_once(stores: Sequence[ObjectStore]) -> str:
    stores[0].create("taken", b"first")
    if _wins(lambda: stores[1].create("taken", b"second"), ObjectExists):
        raise StoreUnsafe("a second create of one name succeeded: the store ignores the condition")

    def attempt(round_number: int, writer: int) -> bool:
        payload = _payload(round_number, writer)
        return _wins(lambda: stores[writer].create(f"create/{round_number}", payload), ObjectExists)

    return _verdict(stores[0], "create", _race(_rounds(stores, CREATE_ROUNDS), attempt))


def _replace_once(stores: Sequence[ObjectStore]) -> str:
    stale = stores[0].write("swapped", b"first")
    fresh = stores[0].write("swapped", b"second")
    if _wins(lambda: stores[1].replace("swapped", b"third", stale), ObjectChanged):
        raise StoreUnsafe("a replacement of an outdated state succeeded: the store ignores the condition")
    if not _wins(lambda: stores[1].replace("swapped", b"third", fresh), ObjectChanged):
        raise StoreUnsafe("a replacement was refused although nothing had changed")
    rounds = _rounds(stores, REPLACE_ROUNDS)
    tags = [stores[0].write(f"replace/{round_number}", b"before") for round_number in range(rounds)]

    def attempt(round_number: int, writer: int) -> bool:
        payload = _payload(round_number, writer)
        return _wins(
            lambda: stores[writer].replace(f"replace/{round_number}", payload, tags[round_number]), ObjectChanged
        )

    return _verdict(stores[0], "replace", _race(rounds, attempt))


def _write_then_list(stores: Sequence[ObjectStore]) -> str:
    for listing in range(LISTINGS):
        stores[0].write(f"listed/{listing}", b"")
        if any(f"listed/{listing}" not in store.list_names("listed") for store in stores):
            raise StoreUnsafe("a listing made after the write was finished did not show it")
    return f"by {len(stores)} clients, {LISTINGS} times"


def _table_beside_objects(stores: Sequence[ObjectStore]) -> str:
    """Lance interprets the settings in its own way: its files must appear beside the control objects."""
    location = stores[0].location
    with lance_errors(f"writing a trial table below {display_uri(location.uri)}"):
        rows = pa.table({"id": ["trial"]})
        write_fragments(rows, location.child("table"), mode="create", storage_options=location.storage_options)
    if not stores[0].exists(f"table/{DATA}"):
        raise StoreUnsafe("the files of a table were not written beside the control objects")
    return "a file of a table was found by a control client"


_NAMES = (
    *("plain", "taken", "swapped"),
    *(f"create/{round_number}" for round_number in range(CREATE_ROUNDS)),
    *(f"replace/{round_number}" for round_number in range(REPLACE_ROUNDS)),
    *(f"listed/{listing}" for listing in range(LISTINGS)),
)
_RULES: dict[str, Callable[[Sequence[ObjectStore]], str]] = {
    "a write is read back": _write_then_read,
    "create if absent": _create_once,
    "replace if unchanged": _replace_once,
    "a write is listed": _write_then_list,
}


def _clear(store: ObjectStore, missing: Sequence[Path]) -> str:
    """Delete what was written, on a disk including the directories that did not exist before."""
    # By name as well: a store that failed the listing check would hide some of the objects.
    written = sorted({*_NAMES, *store.list_names()})
    for path in written:
        store.delete(path)
    left = store.list_names()
    if store.location.is_local:
        shutil.rmtree(store.location.uri, ignore_errors=True)
        for directory in missing:
            _remove_directory(directory)
    if left:
        raise StoreUnsafe(f"{len(left)} deleted objects are still listed")
    return "everything that the probe wrote is deleted"


def _clear_quietly(store: ObjectStore, missing: Sequence[Path]) -> None:
    try:
        _clear(store, missing)
    except StoreError:
        # The store that failed the probe also fails the clean-up; the first failure is the one to report.
        return


def _race(rounds: int, attempt: Callable[[int, int], bool]) -> list[list[int]]:
    """The winners of each round. A round starts as soon as the one before has its first result."""
    with ThreadPoolExecutor(max_workers=rounds * WRITERS) as pool:
        started = [_start_round(pool, round_number, attempt) for round_number in range(rounds)]
        return [[writer for writer, won in enumerate(each) if won.result()] for each in started]


def _start_round(
    pool: ThreadPoolExecutor, round_number: int, attempt: Callable[[int, int], bool]
) -> list[Future[bool]]:
    """Start all writers of one round at the same time."""
    start = threading.Barrier(WRITERS)

    def enter(writer: int) -> bool:
        start.wait()
        return attempt(round_number, writer)

    entered = [pool.submit(enter, writer) for writer in range(WRITERS)]
    wait(entered, return_when=FIRST_COMPLETED)
    return entered


def _verdict(store: ObjectStore, folder: str, winners: Sequence[Sequence[int]]) -> str:
    wrong = [each for each in winners if len(each) != 1]
    if wrong:
        most = max(len(each) for each in wrong)
        observed = f"up to {most} of {WRITERS} simultaneous writers succeeded" if most else "no writer succeeded"
        raise StoreUnsafe(f"{observed}, in {len(wrong)} of {len(winners)} rounds")
    for round_number, (winner,) in enumerate(winners):
        if store.read(f"{folder}/{round_number}") != _payload(round_number, winner):
            raise StoreUnsafe("the object that was kept is not the one of the writer that succeeded")
    return f"{WRITERS} writers, {len(winners)} rounds, one winner in each"


def _wins(write: Callable[[], ObjectVersion], loss: type[StoreError]) -> bool:
    try:
        write()
    except loss:
        return False
    return True


def _payload(round_number: int, writer: int) -> bytes:
    return f"round {round_number} writer {writer}".encode()


def _rounds(stores: Sequence[ObjectStore], rounds: int) -> int:
    return LOCAL_ROUNDS if stores[0].location.is_local else rounds


def _probe_location(location: Location, world: World) -> Location:
    name = f"__probe_{world.ulid()}"
    return replace(location, uri=location.child(name), root=location.object_path(name))


def _missing_directories(location: Location) -> list[Path]:
    """The directories that the probe will create, deepest first."""
    if not location.is_local:
        return []
    root = Path(location.uri)
    try:
        return [each for each in (root, *root.parents) if not each.exists()]
    except PermissionError as error:
        raise StorePermissionDenied(
            f"{root}: {error.strerror}. Give this user the right to its parent directories.", location=str(root)
        ) from error


def _remove_directory(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError:
        # Another process has written into the directory, or removed it, since.
        return
