"""The program of whoever recovers an operation: take it over, look, finish it or undo it, and delete its sidecar.

take -> look -> (restore? -> restore)* -> back? -> back -> bury      undone
             -> forward? -> forward                     -> bury      finished
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from model import adapter
from model.lance import find, restore, tidied
from model.protocol import Request, guarded, publish, put, stray, with_actor, with_table
from model.state import TABLES, back_bit, forward_bit, newest
from model.writer import TURN, again, ended

if TYPE_CHECKING:
    from model.protocol import Protocol
    from model.state import Actor, State


def take(protocol: Protocol, state: State, me: int) -> State:
    """Take the sidecar over by compare-and-swap, unless it has changed since it was seen."""
    actor = state.actors[me]
    if not actor.held:
        return left(state, me)
    file = state.files[actor.victim]
    assert file is not None
    healthy = not (file.over or file.owner == me)
    protocol.require("healthy", not healthy, "process {} loses a lease that had not run out", file.owner)
    harmless = protocol.rules.waiting_untouched and file.phase == "waiting"
    may_live = not protocol.is_dead(state, file.owner) and not harmless
    stained = may_live or (file.stained and protocol.rules.all_owners)
    state = put(protocol, state, actor.victim, file._replace(owner=me, over=False, stained=stained), me)
    return with_actor(state, me, at="look", held=True, certain=True, strayed=False)


def left(state: State, me: int) -> State:
    """The sidecar is another's, or gone."""
    actor = state.actors[me]
    if actor.back == "end" and actor.then != "again":
        # An operation that was marked as aborted is not finished by anybody: its failure can be told at once.
        return ended(state, me, actor.then)
    return returned(state, me, "list" if actor.back == "list" else "lost")


def returned(state: State, me: int, at: str) -> State:
    """Go on with what was interrupted."""
    return with_actor(
        state, me, at=at, victim=-1, held=False, certain=False, seen=(), todo=(), made=(), back="", strayed=False
    )


def look(protocol: Protocol, state: State, me: int) -> State:
    """Read the manifest: what is published, and whether the operation is done or undone. Then the tables."""
    ticket = state.actors[me].victim
    if state.files[ticket] is None:
        return left(state, me)
    done, undone = bool(state.commits & forward_bit(ticket)), bool(state.commits & back_bit(ticket))
    state = with_actor(state, me, at="inspect", seen=state.published, made=((int(done), int(undone)),))
    return state if protocol.slow_looks else inspect(protocol, state, me)


def inspect(protocol: Protocol, state: State, me: int) -> State:
    """Read the tables, and decide."""
    actor, ticket = state.actors[me], state.actors[me].victim
    file, plan = state.files[ticket], protocol.plan(ticket)
    if file is None:
        return left(state, me)
    pins = zip(plan.moves, file.expected, strict=False)
    tables = tuple([_observe(state, actor, ticket, each, after) for each, after in pins])
    done, undone = actor.made[0]
    decided = adapter.decision(
        plan,
        file.expected,
        tables,
        published=bool(done),
        undone=bool(undone),
        confirmed=file.confirmed,
        aborted=file.aborted or actor.back == "end",
    )
    match decided:
        case adapter.Decision.FINISHED:
            return with_actor(state, me, at="bury", seen=(), todo=(), made=())
        case adapter.Decision.FORWARD:
            heads = tuple([(table, seen[0]) for table, seen in zip(plan.moves, tables, strict=True)])
            return with_actor(state, me, at="forward?", seen=(*file.expected, file.schema), todo=heads, made=())
        case adapter.Decision.BACK:
            return _undo(protocol, state, me, tables, undone=bool(undone))
        case _:
            return ended(state, me, "refused")


def _observe(state: State, actor: Actor, ticket: int, table: int, after: int) -> adapter.Seen:
    versions = state.tables[table]
    landed, restored = find(versions, ticket, after=after), find(versions, ticket, after=after, restored=True)
    return newest(versions), actor.seen[table], landed, restored, tidied(versions, ticket, landed)


def _undo(protocol: Protocol, state: State, me: int, tables: tuple[adapter.Seen, ...], *, undone: bool) -> State:
    """Plan which tables are restored, and to what; one that an earlier try has restored is left as it is."""
    actor, rules = state.actors[me], protocol.rules
    file = state.files[actor.victim]
    assert file is not None
    may_live = file.stained and not undone
    if rules.waiting_untouched and file.phase == "waiting":
        return with_actor(state, me, at="bury", todo=(), made=())
    todo, made = [], []
    for table, (head, published, landed, restored, _) in zip(protocol.plan(actor.victim).moves, tables, strict=True):
        fenced = rules.fence and may_live
        ours = landed is not None and landed > published
        met = rules.healing and head > published and (actor.back == "end" or not rules.heals_in_turn)
        if not (fenced or ours or met):
            continue
        if restored == head and (not rules.checked_reuse or state.tables[table][head - 1].of == published):
            made.append((table, head))
        else:
            todo.append((table, published if fenced or rules.healing or landed is None else landed - 1))
    shown = made or (rules.back_always and may_live)
    at = "restore?" if todo else "back?" if shown else "bury"
    return with_actor(state, me, at=at, todo=tuple(todo), made=tuple(made))


def before_restoring(protocol: Protocol, state: State, me: int) -> State:
    """The lease, before a table is restored."""
    return guarded(protocol, state, me, own=False, go="restore") or left(state, me)


def restore_next(protocol: Protocol, state: State, me: int) -> State:
    """Restore the next table: it undoes what has landed, and refuses what is staged and has not."""
    actor = state.actors[me]
    (table, target), rest = actor.todo[0], actor.todo[1:]
    _require_alone(protocol, state, me, table)
    state = stray(protocol, state, me, own=False)
    versions = restore(state.tables[table], target, actor.victim)
    if versions is None:
        return with_actor(state, me, at="look")
    state = with_table(state, table, versions)
    made = actor.made if target != actor.seen[table] else (*actor.made, (table, newest(versions)))
    at = "restore?" if rest else "back?" if made else "bury"
    return with_actor(state, me, at=at, todo=rest, made=made)


def _require_alone(protocol: Protocol, state: State, me: int, table: int) -> None:
    """Of two processes with good leases only one touches a table: a writer that has its turn is not disturbed."""
    actor = state.actors[me]
    if not (protocol.in_order and actor.held and actor.certain):
        return
    for other, each in enumerate(state.actors[: len(protocol.plans)]):
        busy = each.at in TURN and each.mine and each.sure and other != me
        holds = not (busy and table in protocol.plans[other].moves)
        protocol.require("together", holds, "{} has its turn with {}, which is restored", other, TABLES[table])


def before_back(protocol: Protocol, state: State, me: int) -> State:
    """The lease, before the undoing is published."""
    return guarded(protocol, state, me, own=False, go="back") or left(state, me)


def publish_back(protocol: Protocol, state: State, me: int) -> State:
    """Publish the restored versions. When something else was published meanwhile, look again."""
    actor = state.actors[me]
    expected = tuple((table, actor.seen[table]) for table, _ in actor.made)
    state = stray(protocol, state, me, own=False)
    outcome, state = publish(protocol, state, Request(actor.victim, actor.made, expected, back=True))
    return with_actor(state, me, at="bury" if outcome == "published" else "look")


def before_forward(protocol: Protocol, state: State, me: int) -> State:
    """The lease, before the operation is finished."""
    return guarded(protocol, state, me, own=False, go="forward") or left(state, me)


def publish_forward(protocol: Protocol, state: State, me: int) -> State:
    """Publish what has landed, as the commit that the operation wanted to be."""
    actor = state.actors[me]
    expected, under = actor.seen[:-1], actor.seen[-1]
    compared = tuple(zip(protocol.plan(actor.victim).moves, expected, strict=False))
    state = stray(protocol, state, me, own=False)
    request = Request(actor.victim, actor.todo, compared, expected, under)
    outcome, state = publish(protocol, state, request)
    return with_actor(state, me, at="bury" if outcome == "published" else "look")


def bury(protocol: Protocol, state: State, me: int) -> State:
    """Delete the sidecar, whoever has it by now: its operation is done or undone. Go on with what was interrupted."""
    actor = state.actors[me]
    state = put(protocol, state, actor.victim, None, me)
    if actor.back != "end":
        return left(state, me)
    return again(state, me) if actor.then == "again" else ended(state, me, actor.then)
