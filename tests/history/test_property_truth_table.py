"""Every pair of changes to one entity, one on each side: what a merge by property, and a strict one, must give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from omnigraph import errors

if TYPE_CHECKING:
    from mutation.conftest import Social

# What one side makes of Alice, who is 30 and lives nowhere: None is "nothing", "gone" removes her.
CHANGES: dict[str, dict[str, Any] | str | None] = {
    "noop": None,
    "age 31": {"age": 31},
    "age 32": {"age": 32},
    "city": {"city": "Oslo"},
    "age 31 and city": {"age": 31, "city": "Oslo"},
    "age back": {"age": 30},
    "gone": "gone",
}
ALICE = {"age": 30, "city": None}


def perform(social: Social, change: dict[str, Any] | str | None, branch: str) -> None:
    if change == "gone":
        social.do('delete Person where name = "Alice"', branch)
    elif isinstance(change, dict):
        if change == {"age": 30}:
            social.do('update Person set { age: 99 } where name = "Alice"', branch)
        values = ", ".join(
            f'{name}: "{value}"' if name == "city" else f"{name}: {value}" for name, value in change.items()
        )
        social.do(f'update Person set {{ {values} }} where name = "Alice"', branch)


def after(change: dict[str, Any] | str | None) -> dict[str, Any] | None:
    if change == "gone":
        return None
    return {**ALICE, **(change if isinstance(change, dict) else {})}


def expected(theirs: dict[str, Any] | None, ours: dict[str, Any] | None, *, by_property: bool) -> Any:
    """The merged row, or the kind of the conflict: by definition."""
    if theirs in (ours, ALICE):
        return ours
    if ours == ALICE:
        return theirs
    if theirs is None or ours is None:
        return "DeleteVsUpdate"
    changed = [{name for name in ALICE if side[name] != ALICE[name]} for side in (theirs, ours)]
    disputed = [name for name in changed[0] & changed[1] if theirs[name] != ours[name]]
    if disputed or not by_property:
        return "DivergentUpdate"
    return {**ours, **{name: theirs[name] for name in changed[0]}}


@pytest.mark.parametrize("by_property", [True, False], ids=["by property", "strict"])
@pytest.mark.parametrize("theirs", CHANGES)
def test_merging_changes_of_one_entity(forked: Social, theirs: str, by_property: bool) -> None:
    """All changes of the target against one of the source, each on branches of its own."""
    perform(forked, CHANGES[theirs], "feature")
    for number, (name, ours) in enumerate(CHANGES.items()):
        target = f"target{number}"
        forked.graph.branches.create(target, from_=forked.graph.commits()[0].id)
        perform(forked, ours, target)
        outcome = expected(after(CHANGES[theirs]), after(ours), by_property=by_property)
        if isinstance(outcome, str):
            with pytest.raises(errors.MergeConflicts) as refusal:
                forked.graph.merge("feature", into=target, by_property=by_property)
            assert [(each.kind, each.row_id) for each in refusal.value.conflicts] == [(outcome, "Alice")], name
            outcome = after(ours)
        else:
            forked.graph.merge("feature", into=target, by_property=by_property)
        alice = forked.people(target).get("Alice")
        seen = None if alice is None else {key: alice[key] for key in ALICE}
        assert seen == outcome, f"{theirs} into {name}"
