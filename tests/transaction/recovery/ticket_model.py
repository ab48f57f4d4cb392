"""Every order of events in which a few writers can queue: a model of the steps of `transaction/intents/queue.py`.

A step is one operation on the store, as another process could come between any two: PUT the sidecar, LIST, one GET for
each name in the listing, REPLACE (to announce, to step back, to take over a dead one), effects, publish, DELETE. A
writer may die before any of its steps. What a writer does after a listing is decided by the rule under test.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from omnigraph.transaction.intents.queue_rules import QueueDecision, compete
from omnigraph.transaction.intents.sidecar import Sidecar, TablePin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from omnigraph.transaction.intents.sidecar import Phase

    Rule = Callable[[Sidecar, Sequence[Sidecar]], QueueDecision]


@dataclass(frozen=True)
class Plan:
    """What one writer is about to do. Plans are given in the order of their ids, writers begin in any order."""

    moves: str
    reads: str = ""


class File(NamedTuple):
    """A sidecar on the store: its phase, the writer that holds it, and a tag that changes with every write."""

    phase: Phase
    holder: int
    tag: int


class Writer(NamedTuple):
    """One writer: where it is, what it has still to read of its listing, and what it has read."""

    at: str = "begin"
    names: tuple[int, ...] = ()
    found: tuple[tuple[int, File], ...] = ()
    # The dead operations that it has still to deal with; the first of them is being dealt with.
    dead: tuple[tuple[int, File], ...] = ()
    alive: bool = True


class State(NamedTuple):
    """Everything. `dirty`: whose effects are there in part."""

    files: tuple[File | None, ...]
    writers: tuple[Writer, ...]
    dirty: frozenset[int] = frozenset()
    deaths: int = 0


@dataclass(frozen=True)
class Explored:
    """What was found: how many states there are, a state in which rivals have effects at once, and one without end."""

    states: int
    together: State | None
    stuck: State | None


class Model:
    """All states that some writers can come to."""

    def __init__(self, plans: Sequence[Plan], rule: Rule, *, deaths: int, relist: bool = True) -> None:
        self.plans = plans
        self.rule = rule
        self.deaths = deaths
        # Whether a writer that has announced itself looks once more, as it must.
        self.relist = relist
        self._sidecars = [_sidecar(number, plan) for number, plan in enumerate(plans)]
        self._rivals = [
            frozenset(other for other in range(len(plans)) if other != mine and self._compete(mine, other))
            for mine in range(len(plans))
        ]

    def explore(self) -> Explored:
        """Walk through all of it."""
        start = State((None,) * len(self.plans), (Writer(),) * len(self.plans))
        before: dict[State, list[State]] = {start: []}
        queue = deque([start])
        together = None
        while queue:
            state = queue.popleft()
            if together is None and self._clash(state):
                together = state
            for after in self._steps(state):
                if after not in before:
                    before[after] = []
                    queue.append(after)
                before[after].append(state)
        return Explored(len(before), together, _without_end(before))

    def _compete(self, mine: int, other: int) -> bool:
        return compete(self._sidecars[mine], self._sidecars[other])

    def _clash(self, state: State) -> bool:
        return any(state.dirty & self._rivals[number] for number in state.dirty)

    def _steps(self, state: State) -> Iterator[State]:
        for number, writer in enumerate(state.writers):
            if not writer.alive or writer.at == "done":
                continue
            yield self._step(state, number, writer)
            if state.deaths < self.deaths and writer.at != "begin":
                yield _with(state, number, writer._replace(alive=False), deaths=state.deaths + 1)

    def _step(self, state: State, me: int, writer: Writer) -> State:
        match writer.at:
            case "begin":
                return _with(state, me, writer._replace(at="list"), put=(me, File("running", me, 0)))
            case "list":
                names = tuple(each for each in sorted(self._rivals[me]) if state.files[each] is not None)
                return _with(state, me, writer._replace(at="read", names=names, found=()))
            case "read" if writer.names:
                file = state.files[writer.names[0]]
                found = writer.found if file is None else (*writer.found, (writer.names[0], file))
                return _with(state, me, writer._replace(names=writer.names[1:], found=found))
            case "read":
                return self._decide(state, me, writer)
            case "take over":
                return _take_over(state, me, writer)
            case "recover":
                # Finished or undone and published: its effects are whole, or gone.
                victim = writer.dead[0][0]
                return _with(state, me, writer._replace(at="bury"), dirty=state.dirty - {victim})
            case "bury":
                rest = writer.dead[1:]
                after = writer._replace(at="take over" if rest else "list", dead=rest)
                return _with(state, me, after, put=(writer.dead[0][0], None))
            case "effects":
                return _with(state, me, writer._replace(at="publish"), dirty=state.dirty | {me})
            case "publish":
                return _with(state, me, writer._replace(at="delete"), dirty=state.dirty - {me})
        return _with(state, me, Writer("done"), put=(me, None))

    def _decide(self, state: State, me: int, writer: Writer) -> State:
        dead = tuple(each for each in writer.found if not state.writers[each[1].holder].alive)
        if dead:
            return _with(state, me, writer._replace(at="take over", dead=dead, found=()))
        mine = state.files[me]
        assert mine is not None
        sidecar = replace(self._sidecars[me], phase=mine.phase)
        rivals = [replace(self._sidecars[each], phase=file.phase) for each, file in writer.found]
        listing = writer._replace(at="list", found=())
        match self.rule(sidecar, rivals):
            case QueueDecision.GO:
                return _with(state, me, writer._replace(at="effects", found=()))
            case QueueDecision.ANNOUNCE:
                after = listing if self.relist else writer._replace(at="effects", found=())
                return _with(state, me, after, put=(me, File("running", me, mine.tag + 1)))
            case QueueDecision.STEP_BACK:
                return _with(state, me, listing, put=(me, File("waiting", me, mine.tag + 1)))
            case QueueDecision.WAIT:
                return _with(state, me, listing)


def _take_over(state: State, me: int, writer: Writer) -> State:
    """Compare and swap: another may have been quicker, or it is gone."""
    victim, seen = writer.dead[0]
    if state.files[victim] != seen:
        rest = writer.dead[1:]
        return _with(state, me, writer._replace(at="take over" if rest else "list", dead=rest))
    return _with(state, me, writer._replace(at="recover"), put=(victim, File(seen.phase, me, seen.tag + 1)))


def _with(
    state: State,
    number: int,
    writer: Writer,
    *,
    put: tuple[int, File | None] | None = None,
    dirty: frozenset[int] | None = None,
    deaths: int | None = None,
) -> State:
    writers = (*state.writers[:number], writer, *state.writers[number + 1 :])
    files = state.files
    if put is not None:
        files = (*files[: put[0]], put[1], *files[put[0] + 1 :])
    return State(files, writers, state.dirty if dirty is None else dirty, state.deaths if deaths is None else deaths)


def _is_end(state: State) -> bool:
    return all(each.at == "done" or not each.alive for each in state.writers)


def _without_end(before: dict[State, list[State]]) -> State | None:
    """A state from which no order of steps leads to the end of every living writer."""
    reached = {state for state in before if _is_end(state)}
    queue = deque(reached)
    while queue:
        for earlier in before[queue.popleft()]:
            if earlier not in reached:
                reached.add(earlier)
                queue.append(earlier)
    return next((state for state in before if state not in reached), None)


def _sidecar(number: int, plan: Plan) -> Sidecar:
    pins = tuple(TablePin(f"node:{each}", "", 1, 2) for each in plan.moves)
    return Sidecar(f"{number:026}", 0, "Mutation", tables=pins, reads=tuple(f"node:{each}" for each in plan.reads))
