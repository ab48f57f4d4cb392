"""The note of what cleanups take: in whatever order things happen, nobody is promised a version that is deleted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import (
    Contention,
    LeaseLost,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    VersionReclaimed,
)
from omnigraph.manifest.layout import RECLAIMED
from omnigraph.manifest.reclaimed import (
    ATTEMPTS,
    Condemning,
    ReclaimedVersions,
    Run,
    TableRef,
    read_reclaimed,
    require_retained,
)
from omnigraph.manifest.snapshot import TableEntry
from omnigraph.manifest.version_refs import NONE, VersionRanges
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.model import ObjectVersion
from omnigraph.storage.objects.store import ObjectStore
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Sequence

LINE = TableRef("nodes/a")
VERSION = 5
ENTRY = TableEntry("node:A", LINE.path, VERSION, None, 0)
Steps = Iterator[None]
CLEANUP_STEPS, NEWCOMER_STEPS = 7, 2


class Memory:
    """A store of control objects with a real compare-and-swap, and nothing that has to be waited for."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}

    def read(self, path: str) -> tuple[bytes, ObjectVersion]:
        if path not in self.objects:
            raise ObjectNotFound(path)
        data, number = self.objects[path]
        return data, ObjectVersion(str(number))

    def create(self, path: str, data: bytes) -> ObjectVersion:
        if path in self.objects:
            raise ObjectExists(path)
        self.objects[path] = data, 0
        return ObjectVersion("0")

    def replace(self, path: str, data: bytes, unchanged: ObjectVersion) -> ObjectVersion:
        number = self.objects[path][1]
        if unchanged.e_tag != str(number):
            raise ObjectChanged(path)
        self.objects[path] = data, number + 1
        return ObjectVersion(str(number + 1))


@dataclass(frozen=True)
class Place:
    """A graph as far as the note is concerned: its control objects."""

    objects: ObjectStore


@dataclass
class World:
    """One old version of one table: who needs it, whether it is there, and who was promised it."""

    stores: Any = field(default_factory=lambda: Place(ObjectStore(parse_location("/nowhere", REAL), Memory())))  # type: ignore[arg-type]
    needed_by: set[str] = field(default_factory=set)
    promised: set[str] = field(default_factory=set)
    is_there: bool = True

    def cleanup(self, run: str) -> Steps:
        """What `maintenance/cleanup.py` does, cut where another process may do something."""
        record = Condemning(self.stores.objects, run)
        final = record.read().final(LINE)
        yield
        going = NONE
        if self.is_there and not self.needed_by and VERSION not in final:
            yield
            record.propose({LINE: VersionRanges.of([VERSION])})
            yield
            going = NONE if self.needed_by else VersionRanges.of([VERSION])
            yield
            try:
                record.confirm({LINE: going})
            except LeaseLost:
                return
        elif self.is_there and not self.needed_by:
            going = VersionRanges.of([VERSION])
        yield
        if VERSION in going:
            self.is_there = False
        yield
        record.finish({LINE: going})

    def newcomer(self, name: str) -> Steps:
        """Somebody who comes to need the version: a tag, a branch, a merge."""
        self.needed_by.add(name)
        yield
        try:
            require_retained(self.stores, [ENTRY])
        except VersionReclaimed:
            self.needed_by.discard(name)
        else:
            self.promised.add(name)

    def check(self) -> None:
        """Promises are kept, and a cleanup that comes later leaves nothing behind that it should have taken."""
        assert self.is_there or not self.promised
        assert self.needed_by == self.promised
        for _ in self.cleanup("last"):
            pass
        assert self.is_there == bool(self.promised)
        record, _ = read_reclaimed(self.stores.objects)
        assert record.running == {}
        assert (VERSION in record.final(LINE)) == (not self.is_there)


def play(world: World, actors: Sequence[Steps], order: Sequence[int]) -> None:
    """Let each actor take its next step in this order; what is left of them is done at the end, one after the other."""
    for number in order:
        next(actors[number], None)
    for actor in actors:
        for _ in actor:
            pass
    world.check()


def orders(steps: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every way in which actors can take so many steps each."""
    if not any(steps):
        yield ()
    for actor in range(len(steps)):
        if steps[actor]:
            rest = [each - (number == actor) for number, each in enumerate(steps)]
            yield from ((actor, *order) for order in orders(rest))


def test_every_order_of_a_cleanup_and_a_newcomer() -> None:
    for order in orders([CLEANUP_STEPS, NEWCOMER_STEPS]):
        world = World()
        play(world, [world.cleanup("a"), world.newcomer("tag")], order)


def test_every_order_with_a_cleanup_that_dies_and_another_one_after_it() -> None:
    """A cleanup that dies is one that takes no further step."""
    for steps in range(CLEANUP_STEPS):
        for order in orders([steps, NEWCOMER_STEPS, 1]):
            world = World()
            dying = itertools.islice(world.cleanup("a"), steps)
            play(world, [dying, world.newcomer("tag"), _at_once(world.cleanup("b"))], order)


def test_every_order_of_two_cleanups_that_do_not_know_of_each_other() -> None:
    for order in orders([CLEANUP_STEPS, CLEANUP_STEPS]):
        world = World()
        play(world, [world.cleanup("a"), world.cleanup("b")], order)


def _at_once(actor: Steps) -> Steps:
    """All steps of an actor in one."""
    for _ in actor:
        pass
    yield


@settings(max_examples=1_000, deadline=None)
@given(st.lists(st.sampled_from([0, 0, 0, 1, 1, 2, 3, 4]), max_size=40))
def test_any_order_of_three_cleanups_and_two_newcomers(order: list[int]) -> None:
    world = World()
    cleanups = [world.cleanup(name) for name in ("a", "b", "c")]
    play(world, [*cleanups, world.newcomer("tag"), world.newcomer("branch")], order)


def test_a_graph_without_the_note_has_nothing_condemned() -> None:
    world = World()
    require_retained(world.stores, [ENTRY])
    assert read_reclaimed(world.stores.objects) == (ReclaimedVersions(), None)


def test_asking_for_nothing_reads_nothing() -> None:
    class Unreadable(Memory):
        def read(self, path: str) -> tuple[bytes, ObjectVersion]:
            raise AssertionError(path)

    stores: Any = Place(ObjectStore(parse_location("/nowhere", REAL), Unreadable()))  # type: ignore[arg-type]
    require_retained(stores, [])


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"version": 2, "gone": [], "running": {}}', b"null"])
def test_a_note_that_cannot_be_read_is_an_error_and_not_an_empty_one(data: bytes) -> None:
    world = World()
    world.stores.objects.create(RECLAIMED, data)
    with pytest.raises(StoreError, match=RECLAIMED):
        require_retained(world.stores, [ENTRY])
    with pytest.raises(StoreError, match=RECLAIMED):
        Condemning(world.stores.objects, "a").read()


def test_the_note_survives_being_written_and_read() -> None:
    fork = TableRef("nodes/a", "side", '{"version_mapping": [[8, "x"]]}')
    run = Run({fork: VersionRanges.of([3])}, confirmed=True)
    record = ReclaimedVersions({LINE: VersionRanges.of(range(1, 58)), fork: VersionRanges.of([1, 2])}, {"r": run})
    assert ReclaimedVersions.decode(record.encode()) == record
    assert b'"versions": "1-57"' in record.encode()


def test_what_is_gone_only_grows() -> None:
    world = World()
    for versions in ([1, 2], [4, 5], [3]):
        record = Condemning(world.stores.objects, "a")
        record.read()
        record.propose({LINE: VersionRanges.of(versions)})
        record.confirm({LINE: VersionRanges.of(versions)})
        record.finish({LINE: VersionRanges.of(versions)})
    assert str(read_reclaimed(world.stores.objects)[0].deleted[LINE]) == "1-5"


def test_a_confirmation_whose_answer_was_lost_is_not_taken_for_a_defeat() -> None:
    world = World()
    record = Condemning(world.stores.objects, "a")
    record.propose({LINE: VersionRanges.of([1])})
    record.confirm({LINE: VersionRanges.of([1])})
    again = Condemning(
        world.stores.objects, "a", ReclaimedVersions({}, {"a": Run({LINE: VersionRanges.of([1])})}), ObjectVersion("0")
    )
    again.confirm({LINE: VersionRanges.of([1])})
    again.withdraw()
    assert read_reclaimed(world.stores.objects)[0].running["a"].confirmed


def test_somebody_who_always_loses_gives_up() -> None:
    class Busy(Memory):
        def create(self, path: str, data: bytes) -> ObjectVersion:
            raise ObjectExists(f"{path} and its {len(data)} bytes")

    record = Condemning(ObjectStore(parse_location("/nowhere", REAL), Busy()), "a")  # type: ignore[arg-type]
    with pytest.raises(Contention) as found:
        record.propose({LINE: VersionRanges.of([1])})
    assert found.value.attempts == ATTEMPTS
