"""Every pair of seven operations, one on each side: what a merge of the two must give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from omnigraph import errors

if TYPE_CHECKING:
    from mutation.conftest import Social

Operation = str
OPERATIONS = ("noop", "addNode", "removeNode", "addEdge", "removeEdge", "setProperty", "netZeroEdge")
CONFLICTS = {
    ("addNode", "addNode"): ("DivergentInsert", "node:Person", "Eve"),
    ("removeNode", "addEdge"): ("OrphanEdge", "edge:Knows", None),
    ("addEdge", "removeNode"): ("OrphanEdge", "edge:Knows", None),
    ("removeNode", "setProperty"): ("DeleteVsUpdate", "node:Person", "Alice"),
    ("setProperty", "removeNode"): ("DeleteVsUpdate", "node:Person", "Alice"),
    ("setProperty", "setProperty"): ("DivergentUpdate", "node:Person", "Alice"),
}


def perform(social: Social, operation: Operation, branch: str) -> None:
    mine = {"feature": 31, "main": 32}[branch]
    bodies = {
        "noop": [],
        "addNode": [f'insert Person {{ name: "Eve", age: {mine} }}'],
        "removeNode": ['delete Person where name = "Alice"'],
        "addEdge": ['insert Knows { from: "Alice", to: "Dan" }'],
        "removeEdge": ['delete Knows where from = "Bob"'],
        "setProperty": [f'update Person set {{ age: {mine} }} where name = "Alice"'],
        "netZeroEdge": ['insert Knows { from: "Carol", to: "Dan" }', 'delete Knows where from = "Carol"'],
    }
    for body in bodies[operation]:
        social.do(body, branch)


def effect(state: dict[str, Any], operation: Operation, branch: str) -> None:
    """The same on a model."""
    people, knows = state["people"], state["knows"]
    if operation == "addNode":
        people["Eve"] = {"feature": 31, "main": 32}[branch]
    elif operation == "removeNode":
        people.pop("Alice", None)
    elif operation == "addEdge":
        knows.append(("Alice", "Dan"))
    elif operation == "removeEdge":
        state["knows"] = [pair for pair in knows if pair != ("Bob", "Carol")]
    elif operation == "setProperty":
        people["Alice"] = {"feature": 31, "main": 32}[branch]


def base() -> dict[str, Any]:
    return {"people": {"Alice": 30, "Bob": 25, "Carol": 40, "Dan": 50}, "knows": [("Bob", "Carol")]}


def state_of(social: Social) -> dict[str, Any]:
    people = {name: row["age"] for name, row in social.people().items()}
    return {"people": people, "knows": social.ends("edge:Knows")}


@pytest.mark.parametrize("ours", OPERATIONS)
@pytest.mark.parametrize("theirs", OPERATIONS)
def test_merging_feature_into_main(forked: Social, theirs: Operation, ours: Operation) -> None:
    perform(forked, theirs, "feature")
    perform(forked, ours, "main")
    expected = base()
    effect(expected, ours, "main")
    head = forked.graph.commits()[0].id
    if (theirs, ours) in CONFLICTS and theirs != "noop":
        kind, table_key, row_id = CONFLICTS[theirs, ours]
        with pytest.raises(errors.MergeConflicts) as refusal:
            forked.graph.merge("feature")
        (conflict,) = refusal.value.conflicts
        assert (conflict.kind, conflict.table_key) == (kind, table_key)
        assert row_id in (None, conflict.row_id)
        assert forked.graph.commits()[0].id == head
    else:
        done = forked.graph.merge("feature")
        effect(expected, theirs, "feature")
        assert done.kind == _kind(theirs, ours)
        if done.kind != "already_up_to_date":
            commit = forked.graph.commits()[0]
            assert (commit.parent, commit.merged_parent) == (head, forked.graph.commits(branch="feature")[0].id)
    expected["knows"].sort()
    assert state_of(forked) == expected
    assert forked.do('insert Person { name: "Zoe" }').commit is not None


def _kind(theirs: Operation, ours: Operation) -> str:
    if theirs == "noop":
        return "already_up_to_date"
    return "fast_forward" if ours == "noop" else "merged"
