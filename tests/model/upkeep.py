"""The programs of a cleaner and of whoever makes a tag or a branch, both under the branch claim.

    clean   claim -> choose -> note? -> note -> look again -> final? -> final -> (sweep? -> sweep)* -> release
    tag     claim -> pick -> ref? -> ref -> notes -> release, or, when it may not be: -> unref? -> unref

A cleaner writes its note and then looks what is needed; a maker writes its reference and then looks for notes. In
whichever order these come, one of the two sees the other. What a final note condemns is never spared again: another
cleaner may already be deleting it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from model.protocol import with_actor, with_table
from model.state import TABLES, UPKEEP, Claim, Note, Ref
from model.writer import ended

if TYPE_CHECKING:
    from model.protocol import Protocol
    from model.state import State


def with_upkeep(state: State, **changes: Any) -> State:
    """The same with other notes, references or claim."""
    return state._replace(upkeep=state.upkeep._replace(**changes))


def claim(protocol: Protocol, state: State, me: int) -> State | None:
    """Take the claim if it is free or over; None is to wait."""
    held = state.upkeep.claim
    if held is not None and not held.over:
        return None
    unfinished = 0 if held is None else held.unfinished
    state = _replaced(protocol, state, Claim(me, unfinished=unfinished))
    first = {"clean": "choose", "tag": "pick", "branch": "open", "unbranch": "find"}[protocol.everybody[me].kind]
    return with_actor(
        state, me, at="tidy?" if unfinished else first, then=first, victim=unfinished or -1, mine=True, sure=True
    )


def _replaced(protocol: Protocol, state: State, claim: Claim | None) -> State:
    """Another claim, or none: the tags that others remember of it are not the current ones any more."""
    actors = [
        each._replace(mine=False) if plan.kind in UPKEEP else each
        for plan, each in zip(protocol.everybody, state.actors, strict=True)
    ]
    return with_upkeep(state._replace(actors=tuple(actors)), claim=claim)


def holds(protocol: Protocol, state: State, me: int, go: str) -> State:
    """Look at the claim before a durable step, renewing it if need be; a process that lost it gives up."""
    actor = state.actors[me]
    if not protocol.rules.guard or actor.sure:
        return with_actor(state, me, at=go)
    if not actor.mine:
        return ended(state, me, "failed")
    held = state.upkeep.claim
    assert held is not None
    return with_actor(with_upkeep(state, claim=held._replace(over=False)), me, at=go, sure=True)


def needed(state: State) -> set[tuple[int, int]]:
    """What the newest commit, branches, tags and sidecars stand on."""
    found = set(enumerate(state.published))
    for ref in state.upkeep.refs:
        if ref is not None:
            found.update(enumerate(ref.versions))
    return found


def choose(protocol: Protocol, state: State, me: int) -> State:
    """Carry out a final note that is there, withdraw a proposal, or else look what nobody needs."""
    for number, note in enumerate(state.upkeep.notes):
        if note is None:
            continue
        if not note.final:
            return with_actor(state, me, at="discard?", victim=number)
        todo = tuple(sorted(each for each in note.condemned if _is_there(state, *each)))
        if todo or not protocol.rules.note_stays:
            return with_actor(state, me, at="sweep?" if todo else "unnote?", victim=number, todo=todo)
    kept = needed(state) | _expected(protocol, state)
    victims = [
        (table, number + 1)
        for table, versions in enumerate(state.tables)
        for number, version in enumerate(versions[: state.published[table] - 1])
        if version.there and (table, number + 1) not in kept
    ]
    if not victims:
        return with_actor(state, me, at="release?")
    at = "sweep?" if protocol.rules.note == "none" else "note?"
    return with_actor(state, me, at=at, victim=me, todo=tuple(victims))


def _expected(protocol: Protocol, state: State) -> set[tuple[int, int]]:
    found = set()
    for ticket, file in enumerate(state.files):
        if file is not None:
            plan = protocol.plan(ticket)
            found.update(zip(plan.moves + plan.reads, file.expected, strict=True))
    return found


def write_note(protocol: Protocol, state: State, me: int) -> State:
    """What is to go is written down, as a proposal or for good."""
    actor, final = state.actors[me], protocol.rules.note == "at once"
    state = _noted(state, me, Note(frozenset(actor.todo), final))
    return with_actor(state, me, at="sweep?" if final else "look again")


def look_again(protocol: Protocol, state: State, me: int) -> State:
    """What has come to be needed since is spared."""
    kept = needed(state) | _expected(protocol, state)
    spared = tuple(each for each in state.actors[me].todo if each not in kept)
    return with_actor(state, me, at="final?", todo=spared)


def make_final(protocol: Protocol, state: State, me: int) -> State:
    """Make the note final by compare-and-swap; another cleaner may have withdrawn it."""
    if state.upkeep.notes[me] is None:
        return ended(state, me, "failed")
    todo = state.actors[me].todo
    state = _noted(state, me, Note(frozenset(todo), final=True))
    return with_actor(state, me, at="sweep?" if todo else _after_sweeping(protocol))


def _after_sweeping(protocol: Protocol) -> str:
    goes = protocol.rules.note != "none" and not protocol.rules.note_stays
    return "unnote?" if goes else "release?"


def discard(protocol: Protocol, state: State, me: int) -> State:
    """Withdraw the proposal of another cleaner, unless that one has made it final."""
    number = state.actors[me].victim
    note = state.upkeep.notes[number]
    if note is not None and not note.final:
        state = _noted(state, number, None)
    return with_actor(state, me, at="choose", victim=-1)


def sweep(protocol: Protocol, state: State, me: int) -> State:
    """Delete one version."""
    (table, number), rest = state.actors[me].todo[0], state.actors[me].todo[1:]
    versions = state.tables[table]
    version = versions[number - 1]
    if version.there:
        wanted = [ref for ref in state.upkeep.refs if ref and ref.acknowledged and ref.versions[table] == number]
        free = not wanted and state.published[table] != number
        protocol.require("kept", free, "version {} of {} is needed, and deleted", number, TABLES[table])
        gone = (*versions[: number - 1], version._replace(there=False), *versions[number:])
        state = with_table(state, table, gone)
    return with_actor(state, me, at="sweep?" if rest else _after_sweeping(protocol), todo=rest)


def unnote(protocol: Protocol, state: State, me: int) -> State:
    """All of it is gone: so goes the note, by its own name."""
    return with_actor(_noted(state, state.actors[me].victim, None), me, at="release?", victim=-1)


def _noted(state: State, number: int, note: Note | None) -> State:
    notes = state.upkeep.notes
    return with_upkeep(state, notes=(*notes[:number], note, *notes[number + 1 :]))


def release(protocol: Protocol, state: State, me: int) -> State:
    """Give the claim back. A deletion cannot be made conditional, so it may hit the claim of another."""
    return ended(_replaced(protocol, state, None), me, "done")


def pick(protocol: Protocol, state: State, me: int) -> State:
    """Choose the oldest commit, unless it is gone or condemned already."""
    versions = (1,) * len(state.tables)
    fits = _not_condemned(state, versions) and _all_there(state, versions)
    return with_actor(state, me, at="ref?" if fits else "give up?", view=versions)


def _not_condemned(state: State, versions: tuple[int, ...]) -> bool:
    return not any(note and note.condemned & set(enumerate(versions)) for note in state.upkeep.notes)


def _all_there(state: State, versions: tuple[int, ...]) -> bool:
    return all(_is_there(state, table, number) for table, number in enumerate(versions))


def _is_there(state: State, table: int, number: int) -> bool:
    return state.tables[table][number - 1].there


def make_ref(protocol: Protocol, state: State, me: int) -> State:
    """Write the reference."""
    state = _referred(state, me, Ref(state.actors[me].view))
    return with_actor(state, me, at="notes") if protocol.rules.looks_again else _acknowledged(protocol, state, me)


def look_for_notes(protocol: Protocol, state: State, me: int) -> State:
    """Nothing that it stands on may be condemned."""
    if not _not_condemned(state, state.actors[me].view):
        return with_actor(state, me, at="unref?")
    return _acknowledged(protocol, state, me) if protocol.rules.note_stays else with_actor(state, me, at="versions")


def look_for_versions(protocol: Protocol, state: State, me: int) -> State:
    """Everything it stands on must be there; looked at after the notes, which go after the versions."""
    fits = _all_there(state, state.actors[me].view)
    return _acknowledged(protocol, state, me) if fits else with_actor(state, me, at="unref?")


def _acknowledged(protocol: Protocol, state: State, me: int) -> State:
    ref = state.upkeep.refs[me]
    if ref is None:
        return with_actor(state, me, at="give up?")
    protocol.require("kept", _all_there(state, ref.versions), "a tag is acknowledged and its versions are gone")
    return with_actor(_referred(state, me, ref._replace(acknowledged=True)), me, at="release?")


def remove_ref(protocol: Protocol, state: State, me: int) -> State:
    """It may not be: the reference goes."""
    return with_actor(_referred(state, me, None), me, at="give up?")


def give_up(protocol: Protocol, state: State, me: int) -> State:
    """Give the claim back and report failure."""
    return ended(_replaced(protocol, state, None), me, "failed")


def _referred(state: State, me: int, ref: Ref | None) -> State:
    refs = state.upkeep.refs
    return with_upkeep(state, refs=(*refs[:me], ref, *refs[me + 1 :]))
