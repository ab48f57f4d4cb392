"""The programs of those who make, delete and write to a branch; a name may be used again.

    branch    claim -> open -> mark? -> mark -> make? -> make -> clear -> release
    unbranch  claim -> find -> remove? -> remove -> drop? -> drop -> release
    fill      enter -> fork -> show

Whoever takes over a claim with something half-made removes that first (tidy). Nothing can be deleted safely by its name
alone: whoever deletes it may sleep between looking at its claim and deleting, and the name may be another's by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from model.protocol import with_actor
from model.upkeep import with_upkeep
from model.writer import ended

if TYPE_CHECKING:
    from model.protocol import Protocol
    from model.state import Branch, State


def _with_branch(state: State, **changes: Any) -> State:
    return with_upkeep(state, branch=state.upkeep.branch._replace(**changes))


def tidy(protocol: Protocol, state: State, me: int) -> State:
    """Remove what a former owner of the claim has left half-made."""
    branch, held, actor = state.upkeep.branch, state.upkeep.claim, state.actors[me]
    if branch.incarnation and _is_meant(protocol, branch.incarnation, actor.victim):
        acknowledged = branch.incarnation == branch.known
        protocol.require("branch", not acknowledged, "an acknowledged branch is removed as one that was half-made")
        state = _with_branch(state, incarnation=0)
    if held is not None and actor.mine:
        state = with_upkeep(state, claim=held._replace(unfinished=0))
    return with_actor(state, me, at=actor.then, victim=-1)


def look_for_room(protocol: Protocol, state: State, me: int) -> State:
    """The name must be free."""
    return with_actor(state, me, at="give up?" if state.upkeep.branch.incarnation else "mark?")


def mark(protocol: Protocol, state: State, me: int) -> State:
    """Note in the claim, by compare-and-swap, what is half-made from now on."""
    held = state.upkeep.claim
    if held is None or not state.actors[me].mine:
        return ended(state, me, "failed")
    number = state.upkeep.branch.last + 1
    state = with_upkeep(_with_branch(state, last=number), claim=held._replace(unfinished=number))
    return with_actor(state, me, at="make?", victim=number)


def make(protocol: Protocol, state: State, me: int) -> State:
    """Make the branch. One that came meanwhile is an error, and leaves the claim to whoever wants it."""
    held, actor = state.upkeep.claim, state.actors[me]
    if state.upkeep.branch.incarnation:
        if held is not None and actor.mine:
            state = with_upkeep(state, claim=held._replace(over=True))
        return ended(state, me, "failed")
    return with_actor(_with_branch(state, incarnation=actor.victim), me, at="clear")


def clear(protocol: Protocol, state: State, me: int) -> State:
    """Take the mark off, by compare-and-swap: with that it is acknowledged."""
    held, number = state.upkeep.claim, state.actors[me].victim
    if held is None or not state.actors[me].mine:
        return ended(state, me, "failed")
    state = with_upkeep(state, claim=held._replace(unfinished=0))
    return with_actor(_with_branch(state, known=number), me, at="release?", victim=-1)


def find(protocol: Protocol, state: State, me: int) -> State:
    """There must be a branch to delete."""
    number = state.upkeep.branch.incarnation
    return with_actor(state, me, at="remove?" if number else "give up?", victim=number)


def remove(protocol: Protocol, state: State, me: int) -> State:
    """Delete the branch. It was asked for and is not answered yet, so it may hit a later one of the name."""
    if _is_meant(protocol, state.upkeep.branch.incarnation, state.actors[me].victim):
        state = _with_branch(state, incarnation=0)
    return with_actor(state, me, at="drop?")


def drop(protocol: Protocol, state: State, me: int) -> State:
    """Delete the line that the branch had of a table."""
    branch = state.upkeep.branch
    if _is_meant(protocol, branch.fork, state.actors[me].victim):
        protocol.require("rows", not _has_rows(branch), "rows of a branch are deleted, and it is there")
        state = _with_branch(state, fork=0)
    return with_actor(state, me, at="release?", victim=-1)


def _is_meant(protocol: Protocol, found: int, meant: int) -> bool:
    return found == meant or (found > 0 and not protocol.rules.by_incarnation)


def _has_rows(branch: Branch) -> bool:
    return branch.incarnation == branch.filled == branch.fork > 0


def enter(protocol: Protocol, state: State, me: int) -> State | None:
    """Write to the branch once it is acknowledged; wait for it while somebody may still make it."""
    branch = state.upkeep.branch
    if branch.incarnation and branch.incarnation == branch.known:
        return with_actor(state, me, at="fork", victim=branch.incarnation)
    return ended(state, me, "failed")


def fork(protocol: Protocol, state: State, me: int) -> State:
    """Give the branch its own line of the table; one that is there already is nobody's, and replaced."""
    return with_actor(_with_branch(state, fork=state.actors[me].victim), me, at="show")


def show(protocol: Protocol, state: State, me: int) -> State:
    """Publish on the branch, if it still is the same one and has the line."""
    branch, number = state.upkeep.branch, state.actors[me].victim
    if branch.incarnation != number or branch.fork != number:
        return ended(state, me, "failed")
    return ended(_with_branch(state, filled=number), me, "done")
