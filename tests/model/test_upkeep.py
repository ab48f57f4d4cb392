"""Cleaners, tags and branches under the branch claim: what was acknowledged stays readable, whoever sleeps."""

from __future__ import annotations

from typing import Any

import pytest

from model.checker import explore
from model.protocol import Protocol
from model.state import Budget, Plan, Rules

INSERT, CLEAN = Plan("insert"), Plan("clean", ())
SCHEMA, TAG = Plan("schema", ()), Plan("tag", ())
BRANCH, UNBRANCH, FILL = (Plan(kind, ()) for kind in ("branch", "unbranch", "fill"))

AS_DESIGNED = Rules()

CLEANERS = {
    "a cleaner and a tag": ((CLEAN, TAG), Budget(3)),
    "two cleaners and a tag": ((CLEAN, CLEAN, TAG), Budget(2)),
    "a cleaner and two tags": ((CLEAN, TAG, TAG), Budget(2)),
}
BRANCHES = {
    "three of a name": ((BRANCH, BRANCH, BRANCH), Budget(2)),
    "made, written to, deleted and made again": ((BRANCH, UNBRANCH, BRANCH, FILL), Budget(1)),
}


@pytest.mark.parametrize("name", CLEANERS)
def test_a_tag_that_was_acknowledged_can_be_read(name: str) -> None:
    plans, budget = CLEANERS[name]
    assert _found(plans, budget) is None


@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_that_was_acknowledged_stays_with_its_rows(name: str) -> None:
    plans, budget = BRANCHES[name]
    assert _found(plans, budget) is None


def test_writers_beside_a_cleaner() -> None:
    assert _found((CLEAN, INSERT, SCHEMA), Budget(1), passing_over="clean", fresh=False) is None


def test_a_cleaner_may_delete_the_fence() -> None:
    """Then the change of a sleeper lands. It is published by nobody, and the next writer heals the table."""
    assert _found((CLEAN, INSERT, INSERT), Budget(1), fresh=False) == "clean"


@pytest.mark.slow
@pytest.mark.parametrize("plans", [(CLEAN, CLEAN, TAG), (CLEAN, TAG, TAG), (CLEAN, CLEAN, TAG, TAG)])
def test_cleaners_and_tags_with_more_trouble(plans: tuple[Plan, ...]) -> None:
    assert _found(plans, Budget(3), older=2) is None


@pytest.mark.slow
def test_branches_with_more_trouble() -> None:
    assert _found((BRANCH, UNBRANCH, BRANCH, FILL, FILL), Budget(2)) is None


@pytest.mark.slow
@pytest.mark.parametrize("plans", [(CLEAN, INSERT, INSERT), (CLEAN, TAG, INSERT), (CLEAN, INSERT, SCHEMA)])
def test_writers_beside_a_cleaner_with_more_trouble(plans: tuple[Plan, ...]) -> None:
    assert _found(plans, Budget(2), passing_over="clean") is None


def test_without_a_note_a_cleaner_that_slept_deletes_what_a_tag_needs() -> None:
    assert _found((CLEAN, TAG), Budget(1), Rules(note="none")) == "kept"


def test_a_note_that_condemns_at_once_is_not_enough() -> None:
    """What it condemns was decided before it was written, and a tag may have come between."""
    assert _found((CLEAN, CLEAN, TAG), Budget(2), Rules(note="at once")) == "kept"


def test_a_note_may_go_if_the_versions_are_looked_for_after_it() -> None:
    assert _found((CLEAN, CLEAN, TAG), Budget(2), Rules(note_stays=False)) is None


def test_without_looking_again_a_tag_is_acknowledged_for_versions_that_are_gone() -> None:
    assert _found((CLEAN, TAG), Budget(2), Rules(looks_again=False)) == "kept"


def test_a_half_made_branch_that_is_removed_by_its_name_may_be_another() -> None:
    assert _found((BRANCH, BRANCH, BRANCH), Budget(2), Rules(by_incarnation=False)) == "branch"


def test_a_line_of_a_table_that_is_deleted_by_its_name_may_be_another() -> None:
    plans = (BRANCH, UNBRANCH, BRANCH, FILL)
    assert _found(plans, Budget(1), Rules(by_incarnation=False), passing_over="branch") == "rows"


def test_a_commit_that_slept_inside_lance_puts_back_a_version_that_was_deleted() -> None:
    """It is published by nobody, but an old commit names its number: so the note says for ever that it is gone."""
    plans, held_up = (CLEAN, INSERT, INSERT), {"older": 0, "slow_commits": True, "fresh": False}
    assert _found(plans, Budget(1), Rules(note_stays=False), passing_over="clean", **held_up) == "history"


@pytest.mark.slow
def test_a_version_that_was_put_back_does_no_other_harm() -> None:
    plans = (CLEAN, INSERT, INSERT)
    assert _found(plans, Budget(2), passing_over="clean", older=0, slow_commits=True) is None


def _found(
    plans: tuple[Plan, ...],
    budget: Budget,
    rules: Rules = AS_DESIGNED,
    *,
    passing_over: str = "",
    fresh: bool = True,
    **options: Any,
) -> str | None:
    alone = [plan for plan in (INSERT, CLEAN) if fresh and plan in (*plans, CLEAN)]
    unchecked = frozenset(passing_over.split(", "))
    options = {"older": 1, **options}
    report = explore(Protocol(plans, tuple(alone), rules, budget, unchecked=unchecked, **options))
    print(report)
    assert report.violation is None or report.schedule
    return report.broken
