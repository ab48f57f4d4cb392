"""Each protection has its reason: without it the checker finds what it is for, and tells the schedule."""

from __future__ import annotations

import pytest

from model.checker import Report, explore
from model.protocol import Protocol
from model.state import Budget, Plan, Rules

INSERT = Plan("insert")
SCHEMA = Plan("schema", ())
POINT = Plan("point", (), (0,))
TWO, THREE = (INSERT, INSERT), (INSERT, INSERT, INSERT)


def test_without_the_fence_a_change_lands_after_it_was_undone() -> None:
    assert _found(TWO, Budget(1), Rules(fence=False)) == "clean"


def test_without_fence_and_published_undoing_an_insert_appears_under_a_schema_that_it_does_not_know() -> None:
    rules = Rules(fence=False, back_always=False)
    assert _found((INSERT, SCHEMA), Budget(2, errors=1), rules, passing_over="clean") == "serial"


def test_a_violation_is_told_as_a_schedule() -> None:
    report = explore(Protocol(TWO, (INSERT,), Rules(fence=False), Budget(1)))
    told = [line.partition("|")[0].strip() for line in report.schedule]
    assert told[3] == "W0 is stopped past its lease"
    assert told[-1] == "W0 commits a table"


def test_without_healing_a_table_is_refused() -> None:
    """A Restore of somebody who slept is never refused by Lance, whatever fences there are."""
    assert _found(TWO, Budget(2), Rules(healing=False)) == "refused"


def test_whoever_heals_without_having_its_turn_undoes_what_a_living_writer_has_landed() -> None:
    """A death is enough: nobody has to sleep for it."""
    assert _found(THREE, Budget(0, 1), Rules(heals_in_turn=False), fresh=False) == "undisturbed"


def test_whoever_fences_while_a_rival_has_its_turn_disturbs_it() -> None:
    assert _found(THREE, Budget(1), Rules(considerate=False), fresh=False, in_order=True) == "together"
    assert _found(THREE, Budget(1), Rules(), fresh=False, in_order=True) is None


def test_without_the_guard_a_sleeper_goes_on_and_on() -> None:
    assert _found(TWO, Budget(1), Rules(guard=False)) == "one step"


def test_without_expected_versions_rows_are_lost() -> None:
    assert _found(THREE, Budget(1), Rules(expected=False), fresh=False) == "exact"


def test_without_exclusion_an_operation_that_moves_no_table_is_done_and_undone() -> None:
    assert _found((POINT, SCHEMA), Budget(1), Rules(exclusion=False)) == "either"


def test_without_publishing_every_undoing_a_sleeper_is_published_under_another_schema() -> None:
    assert _found((POINT, SCHEMA), Budget(1), Rules(back_always=False)) == "serial"


def test_where_tables_move_their_expected_versions_exclude_as_well() -> None:
    """The exclusion is a second line there: nothing is found without it."""
    assert _found(TWO, Budget(2), Rules(exclusion=False), fresh=False) is None


def test_without_the_mark_an_operation_that_was_told_to_have_failed_is_finished() -> None:
    assert _found(TWO, Budget(1, errors=1), Rules(aborted=False)) == "failed"


def test_without_waiting_for_the_outcome_an_operation_goes_wrong() -> None:
    assert _found(TWO, Budget(2), Rules(settle=False), fresh=False) == "once"


def test_a_restore_of_another_version_than_the_published_one_must_not_be_published() -> None:
    """With one stop: a fence is laid while a third writer publishes, and looked at again afterwards."""
    assert _found(THREE, Budget(1), Rules(checked_reuse=False)) == "exact"


def test_a_dead_owner_does_not_vouch_for_the_one_before() -> None:
    assert _found(THREE, Budget(1, 1), Rules(all_owners=False), fresh=False, in_order=True) == "clean"


def test_the_dead_may_have_requests_under_way() -> None:
    """So the fence that they are spared is made up for by the healing."""
    report = explore(Protocol(TWO, (), Rules(), Budget(0, 1), slow_commits=True, in_flight=True))
    assert report.broken == "clean"


def test_a_wall_clock_that_is_ahead_costs_a_healthy_writer_its_lease() -> None:
    assert _found(TWO, Budget(), Rules(skewed=frozenset({1}))) == "healthy"


OLD = Rules(
    fence=False,
    healing=False,
    guard=False,
    aborted=False,
    settle=False,
    exclusion=False,
    back_always=False,
    waiting_untouched=False,
    considerate=False,
)


@pytest.mark.parametrize(
    ("rules", "budget"),
    [(OLD, Budget(1)), (Rules(**{**vars(OLD), "skewed": frozenset({1})}), Budget())],
    ids=["one is stopped", "clocks differ and nobody is stopped"],
)
def test_without_any_of_it_tables_are_refused(rules: Rules, budget: Budget) -> None:
    """The protocol as it was: contiguous versions or an operator, and leases that compare wall clocks."""
    names = "clean, one step, healthy, exact, once, failed, serial, either, undisturbed"
    found = _found(TWO, budget, rules, passing_over=names)
    assert found == "refused"


def _found(
    plans: tuple[Plan, ...],
    budget: Budget,
    rules: Rules,
    *,
    passing_over: str = "",
    fresh: bool = True,
    in_order: bool = False,
) -> str | None:
    unchecked = frozenset(passing_over.split(", "))
    alone = (INSERT,) if fresh else ()
    report: Report = explore(Protocol(plans, alone, rules, budget, in_order=in_order, unchecked=unchecked))
    print(report)
    assert report.violation is None or report.schedule
    return report.broken
