"""The program of a writer: one function for each place that it can be at, each one step on the store.

    draw -> list -> turn -> (land? -> land)* -> publish? -> publish -> delete

The steps with a question mark look at the lease, the next one has the effect: whatever happens between the two happens
to a writer that believes to hold its lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from model import adapter
from model.lance import change, find
from model.protocol import ATTEMPTS, Request, guarded, publish, put, stray, with_actor, with_table
from model.state import TABLES, Actor, File, Violation, forward_bit, newest

if TYPE_CHECKING:
    from model.protocol import Protocol
    from model.state import Note, State, Version


# Where a writer is that has its turn.
TURN = frozenset({"land?", "land", "put", "landed?", "tidy table?", "tidy table", "publish?", "publish"})


def draw(protocol: Protocol, state: State, me: int) -> State | None:
    """Compute the change from what is published now, and write the sidecar."""
    actor = state.actors[me]
    if protocol.in_order and not actor.attempt and any(each == Actor() for each in state.actors[:me]):
        return None
    if actor.attempt >= ATTEMPTS:
        raise Violation("attempts", f"operation {me} was begun {ATTEMPTS} times")
    view = protocol.current(state, protocol.everybody[me])
    state = put(protocol, state, protocol.ticket(state, me), File(me, "running", view, state.schema), me)
    return with_actor(
        state, me, at="list", view=view, schema=state.schema, mine=True, sure=True, landed=(), then="", strayed=False
    )


def look_around(protocol: Protocol, state: State, me: int) -> State | None:
    """List all sidecars: deal with one that is over, or do what the rule of the queue says; None is to wait."""
    mine, rivals = protocol.ticket(state, me), protocol.rivals[me]
    over, living = others(protocol, state, me)
    over = [ticket for ticket in over if protocol.writer(ticket) in rivals]
    for ticket in over:
        if may_recover(protocol, state, me, ticket, living):
            return with_actor(state, me, at="take", victim=ticket, held=True, back="list")
    if over:
        return None
    file = state.files[mine]
    phase = "running" if file is None else file.phase
    queue = tuple([(ticket, phase) for _, ticket, phase in living if protocol.writer(ticket) in rivals])
    match adapter.whose_turn(mine, phase, queue):
        case adapter.QueueDecision.GO:
            return with_actor(state, me, at="turn")
        case adapter.QueueDecision.ANNOUNCE:
            return with_actor(state, me, at="announce")
        case adapter.QueueDecision.STEP_BACK:
            return with_actor(state, me, at="step back")
        case _:
            return None


def others(protocol: Protocol, state: State, me: int) -> tuple[list[int], list[adapter.Queued]]:
    """The sidecars of a listing beside the own one: those that are over, and the living."""
    mine, skewed = protocol.ticket(state, me), me in protocol.rules.skewed
    over, living = [], []
    for ticket, file in enumerate(state.files):
        if file is None or ticket == mine:
            continue
        if file.over or skewed:
            over.append(ticket)
        else:
            living.append((protocol.plan(ticket), ticket, file.phase))
    return over, living


def may_recover(protocol: Protocol, state: State, me: int, ticket: int, living: list[adapter.Queued]) -> bool:
    """Whether recovering a sidecar disturbs no living rival of it."""
    file = state.files[ticket]
    assert file is not None
    dead, mine = (protocol.plan(ticket), ticket, file.phase), protocol.ticket(state, me)
    return not protocol.rules.considerate or adapter.disturbs_nobody(dead, tuple(living), mine)


def announce(protocol: Protocol, state: State, me: int) -> State:
    """Mark the own sidecar as running, and look once more."""
    return rewritten(protocol, state, me, "list", phase="running")


def step_back(protocol: Protocol, state: State, me: int) -> State:
    """Mark the own sidecar as waiting."""
    return rewritten(protocol, state, me, "list", phase="waiting")


def turn(protocol: Protocol, state: State, me: int) -> State:
    """Its turn has come: look whether the view still holds, then at the lease."""
    actor, plan = state.actors[me], protocol.everybody[me]
    view = protocol.current(state, plan)
    if (view, state.schema) != (actor.view, actor.schema):
        if plan.kind == "update":
            return with_actor(state, me, at="withdraw?")
        # The turn stays its own while it computes its change again.
        after = "turn" if plan.kind == "schema" else "land?" if plan.moves else "publish?"
        state = rewritten(protocol, state, me, after, expected=view, schema=state.schema)
        return state if state.actors[me].at == "lost" else with_actor(state, me, view=view, schema=state.schema)
    if plan.kind == "schema":
        return rewritten(protocol, state, me, "publish?", confirmed=True)
    return before_landing(protocol, state, me) if plan.moves else before_publishing(protocol, state, me)


def before_landing(protocol: Protocol, state: State, me: int) -> State:
    """The lease, before a table is committed."""
    return guarded(protocol, state, me, own=True, go="land") or with_actor(state, me, at="lost")


def land(protocol: Protocol, state: State, me: int) -> State:
    """Commit the next table. It must become exactly the next version."""
    actor, plan, ticket = state.actors[me], protocol.everybody[me], protocol.ticket(state, me)
    state = stray(protocol, state, me, own=True)
    number = len(actor.landed)
    table, read = plan.moves[number], actor.view[number]
    versions = change(state.tables[table], read, plan.kind, ticket)
    if versions is None:
        return _met_others(protocol, state, me)
    if protocol.slow_commits:
        return with_actor(state, me, at="put", pending=(newest(state.tables[table]), versions[-1]))
    return _put(protocol, state, me, table, versions)


def put_version(protocol: Protocol, state: State, me: int) -> State:
    """The second half of a commit that was held up: Lance creates the next version if it is not there."""
    actor = state.actors[me]
    assert actor.pending is not None
    table, (head, version) = protocol.everybody[me].moves[len(actor.landed)], actor.pending
    versions = state.tables[table]
    state = with_actor(state, me, pending=None)
    if newest(versions) > head:
        if versions[head].there:
            return _met_others(protocol, state, me)
        known = protocol.rules.note_stays and any(
            note and (table, head + 1) in note.condemned for note in _notes(state)
        )
        text = "version {} of {} was published with other rows and deleted, and is there again"
        protocol.require("history", known or not versions[head].shown, text, head + 1, TABLES[table])
    return _put(protocol, state, me, table, (*versions[:head], version, *versions[head + 1 :]))


def _notes(state: State) -> tuple[Note | None, ...]:
    return state.upkeep.notes


def _put(protocol: Protocol, state: State, me: int, table: int, versions: tuple[Version, ...]) -> State:
    there = state.files[protocol.ticket(state, me)] is not None
    protocol.require("clean", there, "a change of {} lands after it was recovered", me)
    return landed(protocol, with_table(state, table, versions), me)


def landed(protocol: Protocol, state: State, me: int) -> State:
    """The answer to the commit of a table, or, when that was lost, what looking for the transaction tells."""
    actor, plan = state.actors[me], protocol.everybody[me]
    number = len(actor.landed)
    table, read = plan.moves[number], actor.view[number]
    version = find(state.tables[table], protocol.ticket(state, me), after=read)
    if version is None:
        return with_actor(state, me, at="abort", then="failed")
    if version != read + 1:
        return _met_others(protocol, state, me)
    state = with_actor(state, me, landed=(*actor.landed, version))
    return with_actor(state, me, at="tidy table?") if plan.tidies else _next_table(protocol, state, me)


def _next_table(protocol: Protocol, state: State, me: int) -> State:
    last = len(state.actors[me].landed) == len(protocol.everybody[me].moves)
    return with_actor(state, me, at="publish?" if last else "land?")


def before_tidying(protocol: Protocol, state: State, me: int) -> State:
    """The lease, before a table is tidied."""
    return guarded(protocol, state, me, own=True, go="tidy table") or with_actor(state, me, at="lost")


def tidy(protocol: Protocol, state: State, me: int) -> State:
    """Tidy what has landed. Not being able to, or not directly after it, is no failure."""
    actor, ticket = state.actors[me], protocol.ticket(state, me)
    table, version = protocol.everybody[me].moves[len(actor.landed) - 1], actor.landed[-1]
    state = stray(protocol, state, me, own=True)
    versions = change(state.tables[table], version, "tidy", ticket)
    if versions is not None:
        state = with_table(state, table, versions)
        if newest(versions) == version + 1:
            state = with_actor(state, me, landed=(*actor.landed[:-1], version + 1))
    return _next_table(protocol, state, me)


def _met_others(protocol: Protocol, state: State, me: int) -> State:
    """There are versions that the graph does not know of: ours, to be healed, or else for an operator to look at."""
    _require_undisturbed(protocol, state, me)
    return with_actor(state, me, at="abort", then="again" if protocol.rules.healing else "refused")


def _require_undisturbed(protocol: Protocol, state: State, me: int) -> None:
    """Where nobody sleeps, nobody who holds a lease has to begin again."""
    actor = state.actors[me]
    peaceful = not protocol.budget.stops and not protocol.in_flight and actor.sure and actor.mine
    protocol.require("undisturbed", not peaceful, "{} is healthy, has its turn, and has to begin again", me)


def before_publishing(protocol: Protocol, state: State, me: int) -> State:
    """The lease, before the publish."""
    return guarded(protocol, state, me, own=True, go="publish") or with_actor(state, me, at="lost")


def publish_own(protocol: Protocol, state: State, me: int) -> State:
    """Make it visible, unless another has done so or undone it."""
    actor, plan, ticket = state.actors[me], protocol.everybody[me], protocol.ticket(state, me)
    versions = tuple(zip(plan.moves, actor.landed, strict=True))
    expected = tuple(zip(plan.moves + plan.reads, actor.view, strict=True))
    state = stray(protocol, state, me, own=True)
    outcome, state = publish(protocol, state, Request(ticket, versions, expected, actor.view, actor.schema))
    if outcome == "moved":
        _require_undisturbed(protocol, state, me)
        return with_actor(state, me, at="abort", then="again")
    return with_actor(state, me, at="delete" if outcome == "published" else "lost")


def look_for_commit(protocol: Protocol, state: State, me: int) -> State:
    """No answer came to the publish: the history tells."""
    there = state.commits & forward_bit(protocol.ticket(state, me))
    return with_actor(state, me, at="delete") if there else with_actor(state, me, at="abort", then="failed")


def delete(protocol: Protocol, state: State, me: int) -> State:
    """The sidecar goes. What is published is done, whoever has the sidecar by now, so it needs no lease."""
    return finished(protocol, put(protocol, state, protocol.ticket(state, me), None, me), me)


def finished(protocol: Protocol, state: State, me: int) -> State:
    """Success is told to the caller."""
    mine = forward_bit(protocol.ticket(state, me))
    protocol.require("there", bool(state.commits & mine), "operation {} is told to be done and is not there", me)
    return ended(state, me, "done")


def ended(state: State, me: int, how: str) -> State:
    """The process is done with; nothing of what it remembers matters."""
    attempt = state.actors[me].attempt
    return state._replace(actors=(*state.actors[:me], Actor(how, attempt), *state.actors[me + 1 :]))


def before_withdrawing(protocol: Protocol, state: State, me: int) -> State:
    """The lease, before a sidecar without effects is deleted. One that another has will be undone by that one."""
    return guarded(protocol, state, me, own=True, go="withdraw") or ended(state, me, "failed")


def withdraw(protocol: Protocol, state: State, me: int) -> State:
    """Nothing has landed: deleting the sidecar undoes the operation."""
    state = stray(protocol, state, me, own=True)
    return ended(put(protocol, state, protocol.ticket(state, me), None, me), me, "failed")


def abort(protocol: Protocol, state: State, me: int) -> State:
    """Take the operation back: mark the sidecar, so that nobody finishes it, and recover it."""
    actor, ticket = state.actors[me], protocol.ticket(state, me)
    if protocol.rules.aborted:
        state = rewritten(protocol, state, me, "look", aborted=True)
        if state.actors[me].at == "lost":
            return state
        return with_actor(state, me, victim=ticket, held=True, certain=True, back="end")
    return with_actor(state, me, at="look", victim=ticket, held=actor.mine, certain=actor.sure, back="end")


def lost(protocol: Protocol, state: State, me: int) -> State | None:
    """The lease is lost: wait until the sidecar is gone, then look what became of the operation."""
    actor, ticket = state.actors[me], protocol.ticket(state, me)
    if not protocol.rules.settle:
        return again(state, me)
    file = state.files[ticket]
    if file is not None:
        if not file.over:
            return None
        return with_actor(state, me, at="take", victim=ticket, held=True, mine=False, back="lost")
    if state.commits & forward_bit(ticket):
        return finished(protocol, state, me)
    return ended(state, me, actor.then) if actor.then in ("failed", "refused") else again(state, me)


def again(state: State, me: int) -> State:
    """Begin again with a new ticket."""
    actor = Actor("draw", state.actors[me].attempt + 1)
    return state._replace(actors=(*state.actors[:me], actor, *state.actors[me + 1 :]))


def rewritten(protocol: Protocol, state: State, me: int, at: str, **changes: object) -> State:
    """Rewrite the own sidecar by compare-and-swap, which renews its lease."""
    if not state.actors[me].mine:
        return with_actor(state, me, at="lost")
    ticket = protocol.ticket(state, me)
    file = state.files[ticket]
    assert file is not None
    state = put(protocol, state, ticket, file._replace(over=False, **changes), me)  # type: ignore[arg-type]
    return with_actor(state, me, at=at, sure=True)
