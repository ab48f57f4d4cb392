"""Writers take turns: in any order of events rivals never have effects at once, and everybody gets through."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.objects.store import ObjectStore
from omnigraph.transaction.intents import queue_rules
from omnigraph.transaction.intents.queue import QueueEntry
from omnigraph.transaction.intents.queue_rules import (
    QueueDecision,
    compete,
    decide_next,
    new_operation_id,
    observe_id,
)
from omnigraph.transaction.intents.sidecar import PlannedCommit, Sidecar, TablePin
from omnigraph.world import REAL
from seeded_world import SeededWorld
from transaction.recovery.stepped_store import SteppedObjects, SteppedWorld, Steps
from transaction.recovery.ticket_model import Model, Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

A, B, C = "node:A", "node:B", "node:C"
TWO = [
    (Plan("A"), Plan("A")),
    (Plan("AB"), Plan("BC")),
    (Plan("A", reads="B"), Plan("B", reads="A")),
    (Plan("A", reads="B"), Plan("B")),
]
THREE = [
    (Plan("A"), Plan("A"), Plan("A")),
    *itertools.permutations((Plan("A"), Plan("AB"), Plan("B"))),
    (Plan("A", reads="B"), Plan("B", reads="C"), Plan("C", reads="A")),
]


@pytest.mark.parametrize("plans", TWO)
@pytest.mark.parametrize("deaths", [0, 1, 2])
def test_two_writers_in_every_order_of_events(plans: Sequence[Plan], deaths: int) -> None:
    found = Model(plans, decide_next, deaths=deaths).explore()
    assert found.together is None
    assert found.stuck is None
    print(f"{found.states} states of 2 writers with up to {deaths} deaths, 0 violations")


@pytest.mark.parametrize("plans", THREE)
def test_three_writers_in_every_order_of_events(plans: Sequence[Plan]) -> None:
    found = Model(plans, decide_next, deaths=0).explore()
    assert found.together is None
    assert found.stuck is None
    print(f"{found.states} states of 3 writers, 0 violations")


@pytest.mark.slow
@pytest.mark.parametrize("plans", THREE)
@pytest.mark.parametrize("deaths", [1, 2])
def test_three_writers_that_may_die_in_every_order_of_events(plans: Sequence[Plan], deaths: int) -> None:
    found = Model(plans, decide_next, deaths=deaths).explore()
    assert found.together is None
    assert found.stuck is None
    print(f"{found.states} states of 3 writers with up to {deaths} deaths, 0 violations")


def never_waits_for_larger(mine: Sidecar, rivals: Sequence[Sidecar]) -> QueueDecision:
    smaller = [each for each in rivals if each.operation_id < mine.operation_id]
    return decide_next(mine, smaller)


def never_waits_for_smaller(mine: Sidecar, rivals: Sequence[Sidecar]) -> QueueDecision:
    return decide_next(mine, [each for each in rivals if each.operation_id > mine.operation_id])


def never_steps_back(mine: Sidecar, rivals: Sequence[Sidecar]) -> QueueDecision:
    decided = decide_next(mine, rivals)
    return QueueDecision.WAIT if decided is QueueDecision.STEP_BACK else decided


@pytest.mark.parametrize("rule", [never_waits_for_larger, never_waits_for_smaller])
def test_the_model_finds_writers_that_do_not_wait(rule: Callable[[Sidecar, Sequence[Sidecar]], QueueDecision]) -> None:
    assert Model(TWO[0], rule, deaths=0).explore().together is not None


def test_the_model_finds_writers_that_wait_for_each_other() -> None:
    assert Model(TWO[0], never_steps_back, deaths=0).explore().stuck is not None


def test_the_model_finds_a_writer_that_does_not_look_again_after_waiting() -> None:
    """It announced itself after another had listed: with a rival that came meanwhile, both would go."""
    assert Model(THREE[0], decide_next, deaths=0, relist=False).explore().together is not None


@pytest.mark.parametrize("seed", range(60))
def test_the_real_tickets_in_a_random_order_of_events(tmp_path: Path, seed: int) -> None:
    steps = Steps(seed)
    objects = SteppedObjects(steps)
    store = ObjectStore(parse_location(tmp_path, REAL), objects)
    world = SteppedWorld(steps=steps)
    plans = [{A}, {A, B}, {B, C}, {A, C}]
    inside: dict[str, Sidecar] = {}
    finished: list[str] = []

    def recover(ticket: QueueEntry) -> None:
        steps.pause()
        inside.pop(ticket.sidecar.operation_id, None)
        ticket.delete()

    def write(tables: set[str]) -> None:
        sidecar = _sidecar(new_operation_id(world), tables)
        ticket = QueueEntry.draw(store, sidecar, world)
        ticket.wait_for_turn(recover)
        clash = [each for each in inside.values() if compete(each, sidecar)]
        assert not clash, f"{sidecar.operation_id} and {clash[0].operation_id} have effects at the same time"
        inside[sidecar.operation_id] = sidecar
        steps.pause()
        del inside[sidecar.operation_id]
        ticket.delete()
        finished.append(sidecar.operation_id)

    works = {f"{number}": lambda tables=tables: write(tables) for number, tables in enumerate(plans)}
    steps.run(works, deaths=2)
    assert len(finished) + len(steps.dead) >= len(plans)
    living = {path for path in objects.files if not _was_of_the_dead(objects, path, steps)}
    assert living == set()


def test_rivals_are_those_that_move_what_the_other_moves_or_reads() -> None:
    a, b = _sidecar("1", {A}), _sidecar("2", {B})
    assert not compete(a, b)
    assert compete(a, _sidecar("2", {A, B}))
    assert compete(replace(a, reads=(B,)), b)
    assert compete(a, replace(b, reads=(A,)))
    assert not compete(replace(a, reads=(C,)), replace(b, reads=(C,)))
    assert compete(a, replace(b, writer_kind="SchemaApply"))


def test_what_happens_on_one_branch_is_no_matter_to_another() -> None:
    main, dev = _sidecar("1", {A}), _sidecar("2", {A}, branch="dev")
    assert not compete(main, dev)
    assert not compete(replace(main, reads=(B,)), _sidecar("2", {B}, branch="dev"))


def test_operations_of_one_key_are_rivals_whatever_they_move() -> None:
    a, b, on_dev = _sidecar("1", {A}), _sidecar("2", {B}), _sidecar("3", {B}, branch="dev")
    keyed = [replace(each, commit=PlannedCommit("c", 0, idempotency_key="order-7")) for each in (a, b, on_dev)]
    assert compete(keyed[0], keyed[1])
    assert not compete(keyed[0], b)
    assert not compete(keyed[0], keyed[2])


@pytest.mark.parametrize(
    ("phase", "rivals", "expected"),
    [
        ("running", [], QueueDecision.GO),
        ("waiting", [], QueueDecision.ANNOUNCE),
        ("running", [("9", "waiting")], QueueDecision.GO),
        ("running", [("9", "running")], QueueDecision.WAIT),
        ("running", [("9", None)], QueueDecision.WAIT),
        ("running", [("1", "waiting")], QueueDecision.STEP_BACK),
        ("running", [("1", "running")], QueueDecision.STEP_BACK),
        ("waiting", [("1", "running")], QueueDecision.WAIT),
        ("waiting", [("9", "waiting")], QueueDecision.ANNOUNCE),
        ("waiting", [("9", "running")], QueueDecision.WAIT),
        ("waiting", [("1", "waiting"), ("9", "running")], QueueDecision.WAIT),
    ],
)
def test_the_rule_of_the_queue(phase: str, rivals: list[tuple[str, str | None]], expected: QueueDecision) -> None:
    mine = replace(_sidecar("5", {A}), phase=phase)  # type: ignore[arg-type]
    others = [replace(_sidecar(name, {A}), phase=its) for name, its in rivals]  # type: ignore[arg-type]
    assert decide_next(mine, others) is expected


def test_ids_grow_though_the_clock_is_behind_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a busy writer on such a machine would be first in the queue every time."""
    monkeypatch.setattr(queue_rules, "_newest_seen", 0)
    behind, ahead = SeededWorld(start_us=1_000_000_000), SeededWorld(start_us=9_000_000_000)
    seen = ahead.ulid()
    assert new_operation_id(behind) < seen
    observe_id(seen)
    first = new_operation_id(behind)
    assert first > seen
    assert new_operation_id(behind) > first


@pytest.mark.parametrize(
    "odd", ["", "x", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "not-an-id-at-all-but-26-c", "IIIIIIIIIIOOOOOOOOOOUUUUUU"]
)
def test_ids_that_are_no_ulids_or_of_no_time_do_no_harm(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_rules, "_newest_seen", 0)
    observe_id(odd)
    assert len(new_operation_id(SeededWorld())) == 26


def _sidecar(operation_id: str, tables: set[str], branch: str | None = None) -> Sidecar:
    pins = tuple(TablePin(each, "", 1, 2, table_branch=branch) for each in sorted(tables))
    return Sidecar(operation_id, 0, "Mutation", branch=branch, tables=pins)


def _was_of_the_dead(objects: SteppedObjects, path: str, steps: Steps) -> bool:
    data, _ = objects.files[path]
    return any(f'"process": "{name}"'.encode() in data for name in steps.dead)
