"""What can happen next: the steps of the programs, and everything that may go wrong."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from model import branches, recovery, upkeep, writer
from model.protocol import with_actor
from model.state import Actor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from model.protocol import Protocol
    from model.state import State

    Step = Callable[[Protocol, State, int], State | None]

STEPS: dict[str, Step] = {
    "draw": writer.draw,
    "list": writer.look_around,
    "announce": writer.announce,
    "step back": writer.step_back,
    "turn": writer.turn,
    "land?": writer.before_landing,
    "land": writer.land,
    "put": writer.put_version,
    "landed?": writer.landed,
    "tidy table?": writer.before_tidying,
    "tidy table": writer.tidy,
    "publish?": writer.before_publishing,
    "publish": writer.publish_own,
    "published?": writer.look_for_commit,
    "delete": writer.delete,
    "withdraw?": writer.before_withdrawing,
    "withdraw": writer.withdraw,
    "abort": writer.abort,
    "lost": writer.lost,
    "take": recovery.take,
    "look": recovery.look,
    "inspect": recovery.inspect,
    "restore?": recovery.before_restoring,
    "restore": recovery.restore_next,
    "back?": recovery.before_back,
    "back": recovery.publish_back,
    "forward?": recovery.before_forward,
    "forward": recovery.publish_forward,
    "bury": recovery.bury,
    "claim": upkeep.claim,
    "choose": upkeep.choose,
    "note": upkeep.write_note,
    "look again": upkeep.look_again,
    "final": upkeep.make_final,
    "discard": upkeep.discard,
    "sweep": upkeep.sweep,
    "unnote": upkeep.unnote,
    "release": upkeep.release,
    "pick": upkeep.pick,
    "ref": upkeep.make_ref,
    "notes": upkeep.look_for_notes,
    "versions": upkeep.look_for_versions,
    "unref": upkeep.remove_ref,
    "give up": upkeep.give_up,
    "tidy": branches.tidy,
    "open": branches.look_for_room,
    "mark": branches.mark,
    "make": branches.make,
    "clear": branches.clear,
    "find": branches.find,
    "remove": branches.remove,
    "drop": branches.drop,
    "enter": branches.enter,
    "fork": branches.fork,
    "show": branches.show,
}
_UNDER_CLAIM = (
    *("note", "final", "discard", "sweep", "unnote", "release", "ref", "unref", "give up"),
    *("tidy", "mark", "make", "remove", "drop"),
)
STEPS.update({f"{each}?": partial(upkeep.holds, go=each) for each in _UNDER_CLAIM})
# Where a process goes that does not know whether its step has happened: it looks, and never does it blindly again.
UNANSWERED = {
    "land": "landed?",
    "put": "landed?",
    "publish": "published?",
    "restore": "look",
    "back": "look",
    "forward": "look",
}
# Where an owner may meet an error, and what it does about it.
ERRORS = {"list": "withdraw?", "turn": "withdraw?", "land?": "abort", "tidy table?": "abort", "publish?": "abort"}

# The requests of which nothing more is needed from the process that sent them.
IN_FLIGHT = frozenset({"put", "delete", "withdraw", "bury"})

_OWN_LEASE = frozenset({"land?", "tidy table?", "publish?", "withdraw?", *(f"{each}?" for each in _UNDER_CLAIM)})
_HELD_LEASE = frozenset({"restore?", "back?", "forward?"})
_OWN_TAG = frozenset({"announce", "step back", "abort"})


class Event(NamedTuple):
    """One step of a process, or something that goes wrong with it."""

    who: int
    what: str
    trouble: bool = False


def trouble(protocol: Protocol, state: State, me: int) -> Iterator[tuple[Event, State]]:
    """What may go wrong with one process, as far as the budget allows."""
    actor, budget = state.actors[me], state.budget
    claim = state.upkeep.claim
    leased = any(file is not None and file.owner == me and not file.over for file in state.files)
    leased = leased or (claim is not None and claim.owner == me and not claim.over)
    if leased and budget.stops:
        stopped = _run_out(state, me)._replace(budget=budget._replace(stops=budget.stops - 1))
        yield Event(me, "is stopped past its lease", trouble=True), with_actor(stopped, me, sure=False, certain=False)
    if leased and budget.kills:
        dead = _run_out(state, me)._replace(budget=budget._replace(kills=budget.kills - 1))
        yield Event(me, "is killed", trouble=True), _killed(dead, me)
        if protocol.in_flight and actor.at in IN_FLIGHT:
            yield Event(me, "is killed with a request under way", trouble=True), with_actor(dead, me, alive=False)
    if budget.errors and actor.at in ERRORS:
        failing = state._replace(budget=budget._replace(errors=budget.errors - 1))
        yield Event(me, "meets an error", trouble=True), with_actor(failing, me, at=ERRORS[actor.at], then="failed")


def arrived(protocol: Protocol, state: State, me: int) -> Iterator[tuple[Event, State]]:
    """The last request of a process that was killed reaches the store."""
    at = state.actors[me].at
    if at in IN_FLIGHT:
        after = STEPS[at](protocol, state, me)
        assert after is not None
        yield Event(me, f"{at}, after its death", trouble=True), _killed(after, me)


def _killed(state: State, me: int) -> State:
    actor = Actor("dead", state.actors[me].attempt, alive=False)
    return state._replace(actors=(*state.actors[:me], actor, *state.actors[me + 1 :]))


def unanswered(before: State, after: State, me: int) -> Iterator[tuple[Event, State]]:
    """The step has happened, and the process does not get to know it."""
    actor, budget = before.actors[me], after.budget
    if not budget.losses or actor.at not in UNANSWERED:
        return
    after = after._replace(budget=budget._replace(losses=budget.losses - 1))
    forgotten = {"landed": actor.landed} if actor.at in ("land", "put") else {}
    event = Event(me, f"{actor.at}, and gets no answer", trouble=True)
    yield event, with_actor(after, me, at=UNANSWERED[actor.at], **forgotten)


def is_certain(protocol: Protocol, state: State, me: int) -> bool:
    """Whether the outcome of a step is certain before it is taken, and nobody else can see it.

    Such steps are taken at once, which leaves out states and no outcome. A tag that is not the current one never is
    again, a sidecar that is gone stays gone, and a good lease stays good when nothing more can stop.
    """
    actor, budget, at = state.actors[me], state.budget, state.actors[me].at
    if at in _OWN_LEASE or at in _HELD_LEASE:
        good, tag = (actor.sure, actor.mine) if at in _OWN_LEASE else (actor.certain, actor.held)
        passes = not (good or tag) or not protocol.rules.guard or (good and not budget.stops)
        return passes and not (budget.errors and at in ERRORS)
    if at in _OWN_TAG:
        return not actor.mine and (at != "abort" or protocol.rules.aborted)
    if at in ("look", "bury"):
        return state.files[actor.victim] is None
    if at in ("delete", "withdraw"):
        return state.files[protocol.ticket(state, me)] is None
    return at == "take" and not actor.held


def _run_out(state: State, owner: int) -> State:
    """Every lease of a process is over for whoever looks."""
    files = tuple([each._replace(over=True) if each and each.owner == owner else each for each in state.files])
    upkeep = state.upkeep
    if upkeep.claim and upkeep.claim.owner == owner:
        upkeep = upkeep._replace(claim=upkeep.claim._replace(over=True))
    return state._replace(files=files, upkeep=upkeep)
