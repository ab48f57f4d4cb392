"""States that differ only in what a fresh writer cannot tell are one state to it.

It comes to a graph where everybody has stopped for ever: every lease is over, and of an owner only counts whether it is
dead. Versions that nothing refers to any more are counted off, and tickets without a sidecar lose their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.protocol import ATTEMPTS
from model.state import Actor, Budget, back_bit, forward_bit

if TYPE_CHECKING:
    from model.protocol import Protocol
    from model.state import File, State, Version

_UNKNOWN = 64


def all_stopped(protocol: Protocol, state: State) -> State:
    """The state as a fresh writer meets it."""
    actors, living = state.actors, len(protocol.plans)
    files = [
        file and file._replace(over=True, owner=living if actors[file.owner].alive else file.owner)
        for file in state.files
    ]
    told = [Actor(each.at if each.at in ("failed", "refused") else "", alive=each.alive) for each in actors[:living]]
    claim = state.upkeep.claim
    return state._replace(
        files=tuple(files),
        actors=(*told, *actors[living:]),
        budget=Budget(),
        upkeep=state.upkeep._replace(claim=claim and claim._replace(owner=living, over=True)),
    )


def renumbered(protocol: Protocol, state: State) -> State:
    """The same with the smallest numbers for tickets and versions; their order stays."""
    if protocol.has_upkeep:
        return state  # notes and references name versions by their numbers
    number = len(protocol.everybody)
    standing = {ticket: file for ticket, file in enumerate(state.files) if file is not None}
    attempts = sorted({ticket // number for ticket in standing})
    names = {ticket: attempts.index(ticket // number) * number + ticket % number for ticket in standing}
    skipped = _skipped(protocol, state, standing)
    files: list[File | None] = [None] * len(state.files)
    for ticket, file in standing.items():
        plan = protocol.plan(ticket)
        pins = zip(plan.moves + plan.reads, file.expected, strict=True)
        files[names[ticket]] = file._replace(expected=tuple([version - skipped[table] for table, version in pins]))
    labels = dict(names)
    tables = [
        tuple([_version(each, skip, names, labels) for each in versions[skip:]])
        for versions, skip in zip(state.tables, skipped, strict=True)
    ]
    published = [version - skip for version, skip in zip(state.published, skipped, strict=True)]
    return state._replace(
        files=tuple(files),
        tables=tuple(tables),
        published=tuple(published),
        commits=_commits(protocol, state, names),
    )


def _skipped(protocol: Protocol, state: State, standing: dict[int, File]) -> list[int]:
    """How many of the oldest versions of each table nothing refers to."""
    oldest = list(state.published)
    for ticket, file in standing.items():
        plan = protocol.plan(ticket)
        for table, version in zip(plan.moves + plan.reads, file.expected, strict=True):
            oldest[table] = min(oldest[table], version)
    return [version - 1 for version in oldest]


def _version(version: Version, skip: int, names: dict[int, int], labels: dict[int, int]) -> Version:
    content = 0
    for ticket in range(version.content.bit_length()):
        if version.content >> ticket & 1:
            content |= 1 << labels.setdefault(ticket, _UNKNOWN + len(labels))
    return version._replace(by=names.get(version.by, -1), of=max(0, version.of - skip), content=content)


def _commits(protocol: Protocol, state: State, names: dict[int, int]) -> int:
    """Of tickets without a sidecar only counts whether their operation is done."""
    number, commits = len(protocol.everybody), 0
    for ticket in range(len(state.files)):
        if state.commits & forward_bit(ticket):
            last = (ATTEMPTS - 1) * number + protocol.writer(ticket)
            commits |= forward_bit(names.get(ticket, last))
        if ticket in names and state.commits & back_bit(ticket):
            commits |= back_bit(names[ticket])
    return commits
