"""Schedules in words: who does what, and how the store looks afterwards.

`A@2 - I0 (R1)` is table A with its second version published: the first version, what the insert of ticket 0 made, and
a Restore for ticket 1 that was deleted since. `[0' running of W1 over]` is the sidecar of the second ticket of writer
0, held by writer 1 under a lease that has run out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.state import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from model.protocol import Protocol
    from model.state import File, State, Upkeep, Version

_WORDS = {
    "draw": "reads the view and writes its sidecar",
    "list": "lists the sidecars",
    "announce": "marks its sidecar running",
    "step back": "marks its sidecar waiting",
    "turn": "has its turn, and looks at the view and at its lease",
    "land": "commits a table",
    "put": "puts the version that it has looked for before",
    "landed?": "looks for its transaction",
    "publish": "publishes",
    "tidy table": "tidies the table",
    "published?": "looks for its commit",
    "delete": "deletes its sidecar and reports success",
    "withdraw": "deletes its sidecar and reports failure",
    "abort": "begins to take its operation back",
    "lost": "has lost its lease and looks what became of its operation",
    "take": "takes the sidecar over",
    "look": "looks at the manifest and the tables of the sidecar, and decides",
    "inspect": "looks at the tables of the sidecar and decides",
    "restore": "restores a table",
    "back": "publishes that the operation is undone",
    "forward": "publishes the operation for its owner",
    "bury": "deletes the sidecar that it recovered",
    "claim": "takes the branch claim",
    "choose": "looks which versions nobody needs",
    "note": "writes its note",
    "look again": "looks again what is needed",
    "final": "makes its note final",
    "discard": "withdraws the proposal of another cleaner",
    "sweep": "deletes a version",
    "unnote": "deletes the note",
    "release": "gives the claim back and reports success",
    "pick": "chooses the oldest commit",
    "ref": "writes the reference",
    "notes": "looks for notes",
    "versions": "looks for the versions",
    "unref": "removes the reference",
    "give up": "gives the claim back and reports failure",
    "tidy": "removes the branch that was left half-made",
    "open": "looks whether the name of the branch is free",
    "mark": "marks the claim as unfinished",
    "make": "makes the branch",
    "clear": "takes the mark off and reports success",
    "find": "finds the branch to delete",
    "remove": "deletes the branch",
    "drop": "deletes the branch's line of the table",
    "enter": "sees the branch",
    "fork": "gives the branch a line of the table",
    "show": "publishes on the branch",
}


def told(protocol: Protocol, who: int, what: str, after: State | None) -> str:
    """One line of a schedule."""
    words = f"  {protocol.name(who)} {_WORDS.get(what, _looks(what))}"
    return words if after is None else f"{words:<70}| {'; '.join(_store(protocol, after))}"


def alone(protocol: Protocol, who: int, states: list[State]) -> list[str]:
    """The run of a fresh writer while all others have stopped, up to the step that went wrong."""
    afterwards: list[State | None] = [*states[1:], None]
    return [
        told(protocol, who, before.actors[who].at, after) for before, after in zip(states, afterwards, strict=False)
    ]


def _looks(what: str) -> str:
    return f"looks at its lease before the next step ({what[:-1]})" if what.endswith("?") else what


def _store(protocol: Protocol, state: State) -> Iterator[str]:
    for table, published in enumerate(state.published):
        yield f"{TABLES[table]}@{published} " + " ".join(_version(protocol, each) for each in state.tables[table])
    for ticket, file in enumerate(state.files):
        if file is not None:
            yield _file(protocol, ticket, file)
    yield from _upkeep(protocol, state.upkeep)


def _version(protocol: Protocol, version: Version) -> str:
    letter = "-" if version.by < 0 else version.kind[0].upper() + protocol.ticket_name(version.by)
    return letter if version.there else f"({letter})"


def _file(protocol: Protocol, ticket: int, file: File) -> str:
    marks = [name for name in ("over", "aborted", "confirmed") if getattr(file, name)]
    words = [protocol.ticket_name(ticket), file.phase, "of", protocol.name(file.owner), *marks]
    return "[" + " ".join(words) + "]"


def _upkeep(protocol: Protocol, upkeep: Upkeep) -> Iterator[str]:
    if upkeep.claim is not None:
        yield f"claim of {protocol.name(upkeep.claim.owner)}" + " over" * upkeep.claim.over
    for note in upkeep.notes:
        if note is not None:
            condemned = " ".join(f"{TABLES[table]}{version}" for table, version in sorted(note.condemned))
            yield ("final" if note.final else "proposed") + f" note {condemned}"
    for ref in upkeep.refs:
        if ref is not None:
            yield ("tag" if ref.acknowledged else "tag, not acknowledged,") + f" at {ref.versions}"
    if upkeep.branch.incarnation:
        yield f"branch {upkeep.branch.incarnation}" + f" with rows of {upkeep.branch.fork}" * bool(upkeep.branch.fork)
