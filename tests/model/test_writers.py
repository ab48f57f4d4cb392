"""Writers that are stopped, killed, or lose answers, in every order of events: nothing is lost, and nobody is refused.

Checked of every state, each under the name that a violation has: what is published is exactly what the published
operations have written (exact); each operation has at most one commit (once), none that was told to have failed
(failed), none computed from another state (serial); an operation is not both done and undone (either), and what is told
to be done is there (there). No change lands after its operation was recovered (clean), nobody takes two durable steps
under a lease that another has taken over (one step), nobody loses a lease that has not run out (healthy). Where nobody
sleeps, no healthy writer has to begin again (undisturbed). From every state a fresh writer that runs alone succeeds in
a bounded number of steps (refused), and everybody can come to an end (stuck).
"""

from __future__ import annotations

from typing import Any

import pytest

from model.checker import explore
from model.protocol import Protocol
from model.state import Budget, Plan, Rules

INSERT, INDEX, OVERWRITE, UPDATE = (Plan(kind) for kind in ("insert", "index", "overwrite", "update"))
OTHER = Plan("insert", (1,))
BOTH = Plan("insert", (0, 1))
TIDYING = Plan("insert", (0,), tidies=True)
READING = Plan("insert", (0,), (1,))
SCHEMA = Plan("schema", ())
POINT = Plan("point", (), (0,))

MOST_STEPS = 40

TWO_WRITERS = {
    "two inserts": ((INSERT, INSERT), Budget(2)),
    "two inserts, an error and a lost answer": ((INSERT, INSERT), Budget(1, 0, 1, 1)),
    "an insert and an index": ((INSERT, INDEX), Budget(1, 1)),
    "an insert and an overwrite": ((OVERWRITE, INSERT), Budget(1, 1)),
    "an insert and an update": ((UPDATE, INSERT), Budget(1, errors=1)),
    "an insert into two tables and one into one": ((BOTH, INSERT), Budget(1, 1)),
    "two inserts into two tables each": ((BOTH, BOTH), Budget(1)),
    "an insert that tidies its table and another": ((TIDYING, INSERT), Budget(1, 1)),
    "an insert that reads what the other writes": ((READING, OTHER), Budget(1, errors=1)),
    "an insert and a change of the schema": ((INSERT, SCHEMA), Budget(2)),
    "two changes of the schema": ((SCHEMA, SCHEMA), Budget(1, errors=1)),
    "an operation that moves no table and a change of the schema": ((POINT, SCHEMA), Budget(2)),
    "an operation that moves no table and an insert": ((POINT, INSERT), Budget(2)),
}
MORE_TROUBLE = {
    "two changes of the schema, stopped twice": ((SCHEMA, SCHEMA), Budget(2, 1, 1, 1)),
    "a pointer and a change of the schema, stopped twice": ((POINT, SCHEMA), Budget(2, 1, 1, 1)),
    "an insert and an index, stopped twice": ((INSERT, INDEX), Budget(2, 1, 1)),
    "an insert and an update, stopped twice": ((UPDATE, INSERT), Budget(2, 1, 1)),
    "two inserts, stopped three times": ((INSERT, INSERT), Budget(3)),
    "two inserts and all kinds of trouble": ((INSERT, INSERT), Budget(2, 1, 1, 1)),
    "two tables each, stopped twice": ((BOTH, BOTH), Budget(2, 0, 1)),
    "two tables and one, stopped twice, and a death": ((BOTH, INSERT), Budget(2, 1)),
    "reading and writing, and all kinds of trouble": ((READING, OTHER), Budget(2, 1, 1, 1)),
    "inserts that tidy their table and all kinds of trouble": ((TIDYING, TIDYING), Budget(2, 1, 1, 1)),
    "a change of the schema and all kinds of trouble": ((INSERT, SCHEMA), Budget(3, 1, 1, 1)),
    "an overwrite and all kinds of trouble": ((OVERWRITE, INSERT), Budget(2, 1, 1, 1)),
    "two inserts and an index, one stopped": ((INSERT, INSERT, INDEX), Budget(1)),
    "three inserts, stopped twice": ((INSERT, INSERT, INSERT), Budget(2)),
    "three inserts, two deaths and an error": ((INSERT, INSERT, INSERT), Budget(0, 2, 1)),
    "three inserts, a stop, a death and an error": ((INSERT, INSERT, INSERT), Budget(1, 1, 1)),
    "three writers of two tables": ((INSERT, BOTH, OTHER), Budget(1, 1)),
    "an insert, an index and a change of the schema": ((INSERT, INDEX, SCHEMA), Budget(2)),
    "an insert, a pointer and a change of the schema": ((INSERT, POINT, SCHEMA), Budget(2)),
    "an insert, an update and an overwrite": ((INSERT, UPDATE, OVERWRITE), Budget(1, 0, 1)),
}


@pytest.mark.parametrize("name", TWO_WRITERS)
def test_two_writers_in_every_order_of_events(name: str) -> None:
    _holds(*TWO_WRITERS[name])


def test_three_writers_of_which_one_is_stopped() -> None:
    """The smallest case in which somebody recovers an operation while a third is at work."""
    _holds((INSERT, INSERT, INDEX), Budget(1), in_order=True)


@pytest.mark.parametrize("plans", [(INSERT, INSERT, INSERT), (INSERT, BOTH, OTHER)])
def test_no_death_makes_a_healthy_writer_begin_again(plans: tuple[Plan, ...]) -> None:
    _holds(plans, Budget(0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE_TROUBLE)
def test_more_writers_and_more_trouble(name: str) -> None:
    _holds(*MORE_TROUBLE[name])


def test_nobody_is_disturbed_when_nothing_goes_wrong() -> None:
    assert _holds((INSERT, INSERT, INSERT), Budget(), fresh=False) < 1_000


def test_commits_and_looks_that_are_held_up_half_way() -> None:
    """A commit between Lance's look for the newest version and its put, a recovery between manifest and tables."""
    _holds((INSERT, INSERT), Budget(1, errors=1), slow_commits=True, slow_looks=True)


@pytest.mark.parametrize("plans", [(INSERT, INSERT), (INSERT, SCHEMA)])
def test_a_request_that_reaches_the_store_after_the_death_of_its_sender(plans: tuple[Plan, ...]) -> None:
    """A change may then land though the dead need no fence; it is published by nobody, and healed."""
    _holds(plans, Budget(0, 1, 1), unchecked=frozenset({"clean"}), slow_commits=True, in_flight=True)


@pytest.mark.slow
@pytest.mark.parametrize("plans", [(INSERT, INSERT), (BOTH, INSERT), (INSERT, SCHEMA)])
def test_more_commits_and_looks_that_are_held_up_half_way(plans: tuple[Plan, ...]) -> None:
    _holds(plans, Budget(2, errors=1), slow_commits=True, slow_looks=True)


def _holds(plans: tuple[Plan, ...], budget: Budget, *, fresh: bool = True, **options: Any) -> int:
    tables = {table for plan in plans for table in plan.moves + plan.reads}
    alone = [Plan("insert", (table,)) for table in sorted(tables)]
    alone += [SCHEMA] if SCHEMA in plans else []
    report = explore(Protocol(plans, tuple(alone) if fresh else (), Rules(), budget, **options))
    print(f"{' | '.join(map(str, plans))}, {budget}: {report}")
    assert report.violation is None, str(report)
    assert report.slowest <= MOST_STEPS
    return report.states
