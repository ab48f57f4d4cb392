"""Walks through every state that a protocol can come to, in the order of their distance from the start.

Each step of a schedule is one step of one process, or something that goes wrong. The first violation that is found
therefore has one of the shortest schedules.
"""

from __future__ import annotations

import gc
from array import array
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from model.alone import Alone
from model.events import STEPS, Event, arrived, is_certain, trouble, unanswered
from model.state import ENDS, State, Violation
from model.telling import alone, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from model.protocol import Protocol

T = TypeVar("T")


@dataclass
class Report:
    """What was found. `slowest`: the most steps that a fresh writer needed from any state."""

    states: int = 0
    steps: int = 0
    slowest: int = 0
    violation: str | None = None
    schedule: list[str] = field(default_factory=list)

    @property
    def broken(self) -> str | None:
        """The name of the property that does not hold."""
        return None if self.violation is None else self.violation.partition(":")[0]

    def __str__(self) -> str:
        found = f"{self.states} states, {self.steps} steps, a fresh writer needs at most {self.slowest}"
        return "\n".join([found, *([f"VIOLATION {self.violation}"] if self.violation else []), *self.schedule])


def explore(protocol: Protocol, *, limit: int = 10_000_000) -> Report:
    """Every state; stops at the first violation."""
    # States are trees of tuples, millions of them: looking for cycles among them takes most of the time.
    gc.disable()
    try:
        return _Walk(protocol, limit).walk()
    finally:
        gc.enable()


class _Walk:
    def __init__(self, protocol: Protocol, limit: int) -> None:
        self.protocol = protocol
        self.limit = limit
        self.alone = Alone(protocol)
        self.numbers: dict[State, int] = {}
        self.states: list[State] = []
        self.parts: defaultdict[str, dict[Any, Any]] = defaultdict(dict)
        self.parents = array("l")
        self.events: list[Event | None] = []
        self.sources = array("l")
        self.targets = array("l")

    def walk(self) -> Report:
        """Everything, and then what has to hold of the whole."""
        report = Report()
        self._number(self.protocol.start(), -1, None)
        try:
            number = 0
            while number < len(self.states):
                self._visit(number)
                number += 1
            self._require_an_end()
        except _Found as found:
            report.violation = str(found.violation)
            report.schedule = self._schedule(found)
        report.states, report.steps, report.slowest = len(self.states), len(self.targets), self.alone.most
        return report

    def _visit(self, number: int) -> None:
        state, moved = self.states[number], False
        try:
            if not self.alone.is_like(state, self.states[self.parents[number]]):
                self.alone.check(state)
        except Violation as violation:
            raise _Found(violation, number) from None
        for event, reached in self._after(number, state):
            after = self._settled(number, event, reached)
            self.sources.append(number)
            self.targets.append(self._number(after, number, event))
            moved = moved or not event.trouble
        if not moved and not self._is_end(state):
            raise _Found(Violation("stuck", "nobody can take a step"), number)

    def _number(self, state: State, parent: int, event: Event | None) -> int:
        known = self.numbers.get(state)
        if known is not None:
            return known
        number = len(self.states)
        if number >= self.limit:
            raise RuntimeError(f"more than {self.limit} states")
        state = self._shared(state)
        self.numbers[state] = number
        self.states.append(state)
        self.parents.append(parent)
        self.events.append(None if event is None else self._part("event", event))
        return number

    def _shared(self, state: State) -> State:
        """The same state made of parts that other states have too: that takes a fraction of the memory."""
        actors = tuple([self._part("actor", each) for each in state.actors])
        state = state._replace(actors=actors)
        return State._make([self._part(name, part) for name, part in zip(state._fields, state, strict=True)])

    def _part(self, kind: str, part: T) -> T:
        return self.parts[kind].setdefault(part, part)

    def _after(self, number: int, state: State) -> Iterator[tuple[Event, State]]:
        """The states that may come next, and what leads to them."""
        for me in range(len(self.protocol.plans)):
            actor = state.actors[me]
            if actor.at in ENDS:
                continue
            if not actor.alive:
                yield from self._arriving(number, state, me)
                continue
            after = self._step(number, state, me, Event(me, actor.at))
            if after is not None:
                yield Event(me, actor.at), after
                yield from unanswered(state, after, me)
            yield from trouble(self.protocol, state, me)

    def _arriving(self, number: int, state: State, me: int) -> Iterator[tuple[Event, State]]:
        try:
            yield from arrived(self.protocol, state, me)
        except Violation as violation:
            raise _Found(violation, number, Event(me, "has a request arrive after its death")) from None

    def _step(self, number: int, state: State, me: int, event: Event) -> State | None:
        try:
            return STEPS[state.actors[me].at](self.protocol, state, me)
        except Violation as violation:
            raise _Found(violation, number, event) from None

    def _settled(self, number: int, event: Event, state: State) -> State:
        """The state after all steps whose outcome is certain."""
        me, actors = 0, len(self.protocol.plans)
        while me < actors:
            if state.actors[me].alive and is_certain(self.protocol, state, me):
                state = self._step(number, state, me, event) or state
            else:
                me += 1
        return state

    def _is_end(self, state: State) -> bool:
        return all(each.at in ENDS or not each.alive for each in state.actors[: len(self.protocol.plans)])

    def _require_an_end(self) -> None:
        """From every state some schedule leads to the end of every living process."""
        before: list[list[int]] = [[] for _ in self.states]
        for source, target in zip(self.sources, self.targets, strict=True):
            before[target].append(source)
        queue = deque(number for number, state in enumerate(self.states) if self._is_end(state))
        reached = bytearray(len(self.states))
        for each in queue:
            reached[each] = 1
        while queue:
            for earlier in before[queue.popleft()]:
                if not reached[earlier]:
                    reached[earlier] = 1
                    queue.append(earlier)
        missing = reached.find(0)
        if missing >= 0:
            raise _Found(Violation("stuck", "no schedule leads to an end"), missing)

    def _schedule(self, found: _Found) -> list[str]:
        numbers, number = [], found.number
        while number > 0:
            numbers.append(number)
            number = self.parents[number]
        made = [(self.events[each], self.states[each]) for each in reversed(numbers)]
        lines = [told(self.protocol, event.who, event.what, after) for event, after in made if event is not None]
        if found.event is not None:
            lines.append(told(self.protocol, found.event.who, found.event.what, None))
        return lines + alone(self.protocol, found.violation.who, found.violation.steps)


class _Found(Exception):
    def __init__(self, violation: Violation, number: int, event: Event | None = None) -> None:
        super().__init__(str(violation))
        self.violation = violation
        self.number = number
        self.event = event
