"""Leases: respected while their owner lives, taken over by exactly one when it does not, given back by none but it."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import Contention, LeaseLost, StoreUnavailable
from omnigraph.storage.objects.acquire import acquire, try_acquire
from omnigraph.storage.objects.lease import Lease, LeaseRecord, Owner, patience, read_lease_record
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import ObjectStore, open_control_store
from omnigraph.world import REAL, World
from storage.racers import RACERS, spawn_python, take_lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.storage.objects.model import ObjectVersion
    from storage.racers import Racers

PATH = "claim.json"
SECOND = 1_000_000


@dataclass(frozen=True)
class Elsewhere(World):
    """Another machine, whose clock the test sets."""

    name: str = "elsewhere"
    clock: list[int] = field(default_factory=lambda: [REAL.now_us()])

    def host(self) -> str:
        return self.name

    def now_us(self) -> int:
        return self.clock[0]

    def monotonic(self) -> float:
        return self.clock[0] / SECOND

    def sleep(self, seconds: float) -> None:
        self.clock[0] += int(seconds * SECOND)


@pytest.fixture
def objects(graph_uri: str) -> ObjectStore:
    return open_control_store(parse_location(graph_uri, REAL), REAL)


def outlast(objects: ObjectStore) -> None:
    """Wait until nobody waits for a lease of half a second any more; buckets stamp with whole seconds."""
    REAL.sleep(0.8 if objects.location.is_local else 2.8)


def take(objects: ObjectStore, world: World, seconds: float = 60) -> Lease:
    outcome = try_acquire(objects, PATH, purpose=f"work of {world.host()}", seconds=seconds, world=world)
    assert isinstance(outcome, Lease)
    return outcome


def refused(objects: ObjectStore, world: World) -> LeaseRecord:
    outcome = try_acquire(objects, PATH, purpose="mine", seconds=60, world=world)
    assert isinstance(outcome, LeaseRecord)
    return outcome


def test_a_lease_is_held_by_one_and_free_when_given_back(objects: ObjectStore) -> None:
    with take(objects, REAL) as lease:
        assert lease.is_mine()
        assert lease.inherited is None
        busy = refused(objects, Elsewhere())
        assert (busy.owner, busy.purpose) == (lease.record.owner, f"work of {REAL.host()}")
        assert refused(objects, REAL).owner == lease.record.owner
    assert read_lease_record(objects, PATH) is None
    assert not lease.is_mine()
    take(objects, Elsewhere()).release()


def test_waiting_for_a_lease_ends_in_contention_that_names_the_holder(objects: ObjectStore) -> None:
    here = Elsewhere(name="here")
    take(objects, Elsewhere(name="there"))
    with pytest.raises(Contention, match="there") as caught:
        acquire(objects, PATH, purpose="mine", seconds=60, wait=1, world=here)
    assert caught.value.retryable
    assert caught.value.attempts > 1


def test_waiting_for_a_lease_ends_when_it_is_given_back(objects: ObjectStore) -> None:
    first = take(objects, Elsewhere(name="there"))

    class GivesBack(Elsewhere):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            first.release()

    lease = acquire(objects, PATH, purpose="mine", seconds=60, wait=1, world=GivesBack(name="here"))
    assert lease.is_mine()


def test_a_lease_of_another_machine_is_respected_until_it_has_surely_run_out(objects: ObjectStore) -> None:
    held = take(objects, Elsewhere(name="there"), seconds=0.5)
    assert refused(objects, Elsewhere(name="here")).owner == held.record.owner
    outlast(objects)
    lease = take(objects, Elsewhere(name="here"))
    assert lease.inherited == held.record
    assert not held.is_mine()


@pytest.mark.parametrize("hours", [-1, 1])
def test_clocks_that_differ_by_an_hour_cost_nobody_a_lease(objects: ObjectStore, hours: int) -> None:
    held = take(objects, Elsewhere(name="there", clock=[REAL.now_us() + hours * 3_600 * SECOND]))
    assert refused(objects, Elsewhere(name="here")).owner == held.record.owner
    assert (
        refused(objects, Elsewhere(name="here", clock=[REAL.now_us() - hours * 3_600 * SECOND])).owner.host == "there"
    )


def test_renewing_a_lease_makes_it_young_again(objects: ObjectStore) -> None:
    held = take(objects, Elsewhere(name="there"), seconds=0.5)
    for _ in range(3):
        REAL.sleep(0.3)
        held.renew()
        assert refused(objects, Elsewhere(name="here")).owner == held.record.owner


def test_an_owner_knows_that_its_lease_may_be_over_before_others_take_it(objects: ObjectStore) -> None:
    there = Elsewhere(name="there")
    held = take(objects, there, seconds=8)
    there.clock[0] += 7 * SECOND
    before = objects.read(PATH)
    held.require()
    assert objects.read(PATH) != before, "with a quarter left it is renewed"
    there.clock[0] += 1 * SECOND
    before = objects.read(PATH)
    held.require()
    assert objects.read(PATH) == before, "with enough left it costs nothing"
    assert patience(8) > 8


def test_no_durable_step_is_taken_under_a_lease_that_is_lost(objects: ObjectStore) -> None:
    there = Elsewhere(name="there")

    def sleep_and_go_on() -> None:
        with take(objects, there, seconds=0.2):
            outlast(objects)
            take(objects, Elsewhere(name="here"))
            there.clock[0] += SECOND
            objects.write("late", b"")

    with pytest.raises(LeaseLost):
        sleep_and_go_on()
    assert not objects.exists("late")


def test_a_dead_owner_on_this_machine_is_noticed_at_once(objects: ObjectStore) -> None:
    dead = LeaseRecord(Owner("dead", REAL.host(), "999999999:1"), REAL.now_us() + 3600 * SECOND, "work")
    objects.create(PATH, dead.encode())
    assert take(objects, REAL).inherited == dead


def test_the_same_process_number_elsewhere_or_later_is_another_process(objects: ObjectStore) -> None:
    now = REAL.now_us()
    later = Owner("x", REAL.host(), f"{REAL.process().partition(':')[0]}:1")
    assert LeaseRecord(later, now + 60 * SECOND, "work").is_free(REAL)
    foreign = Owner("x", "another machine", later.process)
    assert not LeaseRecord(foreign, now + 60 * SECOND, "work").is_free(REAL)
    assert not LeaseRecord(Owner.of(REAL), now + 60 * SECOND, "work").is_free(REAL)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"owner": 3}', b'{"owner": {"id": "x"}}', b"\xff"])
def test_a_claim_that_nobody_can_read_can_be_taken_over(objects: ObjectStore, content: bytes) -> None:
    objects.create(PATH, content)
    assert take(objects, REAL).is_mine()


def test_a_claim_says_everything_in_plain_json(objects: ObjectStore) -> None:
    lease = take(objects, REAL)
    lease.mark_unfinished("branch x")
    told = json.loads(objects.read(PATH))
    assert told["owner"] == {"id": lease.record.owner.id, "host": REAL.host(), "process": REAL.process()}
    assert (told["attempt_id"], told["unfinished"], told["version"]) == (lease.record.owner.id, "branch x", 1)
    assert LeaseRecord.decode(objects.read(PATH)) == lease.record


def test_work_that_fails_half_way_hands_on_what_is_unfinished(objects: ObjectStore) -> None:
    def fail_half_way() -> None:
        with take(objects, REAL) as lease:
            lease.mark_unfinished("branch x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    successor = take(objects, Elsewhere())
    assert successor.inherited is not None
    assert successor.inherited.unfinished == "branch x"
    assert successor.record.unfinished == "branch x"
    successor.mark_unfinished(None)
    successor.release()
    assert read_lease_record(objects, PATH) is None


def test_work_that_fails_before_it_began_leaves_nothing(objects: ObjectStore) -> None:
    with pytest.raises(ZeroDivisionError), take(objects, REAL):
        _ = 1 / 0
    assert read_lease_record(objects, PATH) is None


def overtaken(objects: ObjectStore) -> tuple[Lease, Lease]:
    """A lease that ran out, and the one that took it over."""
    there = Elsewhere(name="there")
    slow = take(objects, there, seconds=0.4)
    there.clock[0] += 2 * SECOND
    outlast(objects)
    return slow, take(objects, Elsewhere(name="here"))


def test_an_owner_that_was_overtaken_cannot_mark_give_back_or_let_go(objects: ObjectStore) -> None:
    slow, successor = overtaken(objects)
    before = objects.read(PATH)
    with pytest.raises(LeaseLost):
        slow.mark_unfinished("too late")
    assert slow.record.unfinished is None
    slow.release()
    slow.abandon()
    assert objects.read(PATH) == before
    assert successor.is_mine()


class TakesOverMeanwhile:
    """A store on which another owner takes the claim over right before it is given back."""

    def __init__(self, objects: ObjectStore, successor: World) -> None:
        self._objects = objects
        self._successor = successor
        self.taken: Lease | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._objects, name)

    def replace(self, path: str, data: bytes, unchanged: ObjectVersion) -> ObjectVersion:
        self.taken = self.taken or take(self._objects, self._successor)
        return self._objects.replace(path, data, unchanged)


def test_giving_back_a_lease_that_has_run_out_never_deletes_its_successor(objects: ObjectStore) -> None:
    there = Elsewhere(name="there")
    slow = take(objects, there, seconds=0.4)
    begun = there.monotonic()
    there.clock[0] += 2 * SECOND
    outlast(objects)
    racing = TakesOverMeanwhile(objects, Elsewhere(name="here"))
    late = Lease(racing, PATH, slow.record, slow._tag, begun=begun, world=there)  # type: ignore[arg-type]
    late.release()
    assert racing.taken is not None
    assert racing.taken.is_mine()


def test_a_lease_that_ran_out_unnoticed_is_free_for_all_after_it_is_given_back(objects: ObjectStore) -> None:
    there = Elsewhere(name="there")
    with take(objects, there, seconds=1):
        there.clock[0] += 2 * SECOND
    assert take(objects, Elsewhere(name="here", clock=there.clock)).is_mine()


class AnswersLate:
    """A store whose first replacement is done at once and answered when the test says so."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self.done, self.answer = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._objects, name)

    def replace(self, path: str, data: bytes, unchanged: ObjectVersion) -> ObjectVersion:
        tag = self._objects.replace(path, data, unchanged)
        if not self.done.is_set():
            self.done.set()
            assert self.answer.wait(30)
        return tag


@pytest.mark.parametrize("give_up", [Lease.abandon, Lease.release])
def test_a_lease_is_free_when_it_is_let_go_during_a_renewal(
    objects: ObjectStore, give_up: Callable[[Lease], None]
) -> None:
    there, slow = Elsewhere(name="there"), AnswersLate(objects)
    first = take(objects, there)
    held = Lease(slow, PATH, first.record, first._tag, begun=there.monotonic(), world=there)  # type: ignore[arg-type]
    there.clock[0] += 40 * SECOND
    renewal = threading.Thread(target=held.keep_alive)
    renewal.start()
    assert slow.done.wait(30)
    there.clock[0] += 10 * SECOND
    giving = threading.Thread(target=give_up, args=(held,))
    giving.start()
    giving.join(0.2)
    slow.answer.set()
    giving.join(30)
    renewal.join(30)
    take(objects, Elsewhere(name="here"))


@pytest.mark.parametrize("give_up", [Lease.abandon, Lease.release])
def test_a_renewal_that_comes_late_does_not_revive_a_lease(
    objects: ObjectStore, give_up: Callable[[Lease], None]
) -> None:
    there = Elsewhere(name="there")
    held = take(objects, there)
    give_up(held)
    there.clock[0] += 40 * SECOND
    held.keep_alive()
    with pytest.raises(LeaseLost):
        held.renew()
    take(objects, Elsewhere(name="here"))


class LosesAnswers:
    """A store that does what the test says instead of a replacement, and never answers."""

    def __init__(self, objects: ObjectStore, instead: Callable[[], object]) -> None:
        self._objects = objects
        self._instead = instead

    def __getattr__(self, name: str) -> object:
        return getattr(self._objects, name)

    def replace(self, path: str, _data: bytes, _unchanged: ObjectVersion) -> ObjectVersion:
        self._instead()
        raise StoreUnavailable("no answer", location=path)


def renewed_without_an_answer(objects: ObjectStore, instead: Callable[[], object]) -> None:
    first = take(objects, REAL)
    silent = LosesAnswers(objects, instead)
    Lease(silent, PATH, first.record, first._tag, begun=REAL.monotonic(), world=REAL).renew()  # type: ignore[arg-type]


def test_a_renewal_without_an_answer_finds_that_the_lease_is_gone(objects: ObjectStore) -> None:
    with pytest.raises(LeaseLost):
        renewed_without_an_answer(objects, lambda: objects.delete(PATH))


def test_a_renewal_without_an_answer_finds_that_another_has_the_lease(objects: ObjectStore) -> None:
    def overtake() -> None:
        objects.delete(PATH)
        take(objects, Elsewhere(name="here"))

    with pytest.raises(LeaseLost):
        renewed_without_an_answer(objects, overtake)


def test_a_renewal_without_an_answer_that_had_no_effect_fails_as_the_store_did(objects: ObjectStore) -> None:
    with pytest.raises(StoreUnavailable):
        renewed_without_an_answer(objects, lambda: None)


@pytest.mark.parametrize("turn", range(2))
def test_of_six_processes_one_gets_a_free_lease(graph_uri: str, racers: Racers, turn: int) -> None:
    outcomes = racers.all(take_lease, graph_uri)
    assert outcomes.count("won") == 1
    assert len(outcomes) == RACERS


@pytest.mark.parametrize("turn", range(2))
def test_of_six_processes_one_takes_over_from_a_dead_one(
    graph_uri: str, objects: ObjectStore, racers: Racers, turn: int
) -> None:
    dead = LeaseRecord(Owner("dead", "a machine that is gone", "1:1"), 0, "work", unfinished="branch x")
    objects.create(PATH, dead.encode())
    outcomes = racers.all(take_lease, graph_uri)
    assert outcomes.count("won") == 1
    found = read_lease_record(objects, PATH)
    assert found is not None
    assert (found[0].purpose, found[0].unfinished) == (f"racer {outcomes.index('won')}", "branch x")


HOLD = """
from omnigraph.storage.objects.acquire import try_acquire
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import open_control_store
from omnigraph.world import REAL
objects = open_control_store(parse_location({uri!r}, REAL), REAL)
lease = try_acquire(objects, "claim.json", purpose="the child's work", seconds=3600, world=REAL)
lease.mark_unfinished("what the child left")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_killed_holder_on_this_machine_is_replaced_at_once(graph_uri: str, objects: ObjectStore) -> None:
    with spawn_python(HOLD.format(uri=graph_uri)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        assert refused(objects, REAL).purpose == "the child's work"
        child.kill()
        # Nobody has waited for it yet: the system still knows its number.
        lease = acquire(objects, PATH, purpose="mine", seconds=60, wait=10, world=REAL)
        assert lease.inherited is not None
        assert lease.inherited.unfinished == "what the child left"


def test_claims_are_compared_by_their_owner_and_not_by_their_time() -> None:
    owner = Owner.of(REAL)
    assert owner != Owner.of(REAL)
    assert replace(owner) == owner
    assert Owner.from_json(owner.to_json()) == owner
