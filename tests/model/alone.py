"""Whether anybody could still write: everybody else stops for ever, and a fresh writer runs alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.canonical import all_stopped, renumbered
from model.events import STEPS
from model.state import ENDS, Violation

if TYPE_CHECKING:
    from model.protocol import Protocol
    from model.state import State

LONGEST = 60


class Alone:
    """Lets fresh writers run alone from any number of states, and remembers the most steps that one needed."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.most = 0
        self._met: set[State] = set()
        self._checked: set[State] = set()

    @staticmethod
    def is_like(state: State, other: State) -> bool:
        """Whether a step has changed nothing that others can see."""
        same = state.files is other.files and state.tables is other.tables and state.published is other.published
        same = same and state.commits == other.commits and state.upkeep is other.upkeep and state is not other
        return same and all(one.at not in ENDS and one.alive for one in state.actors)

    def check(self, state: State) -> None:
        """Raise a violation when one of them does not succeed."""
        fresh = range(len(self.protocol.plans), len(self.protocol.everybody))
        if not fresh:
            return
        stopped = all_stopped(self.protocol, state)
        if stopped in self._met:
            return
        self._met.add(stopped)
        stopped = renumbered(self.protocol, stopped)
        if stopped in self._checked:
            return
        self._checked.add(stopped)
        self.most = max([self.most, *(self._run(stopped, me) for me in fresh)])

    def _run(self, state: State, me: int) -> int:
        """The steps that one process needs to its success when nobody else takes any."""
        passed: list[State] = []
        while state.actors[me].at != "done":
            passed.append(state)
            try:
                state = self._next(state, me, len(passed))
            except Violation as violation:
                violation.steps, violation.who = passed, me
                raise
        return len(passed)

    def _next(self, state: State, me: int, steps: int) -> State:
        at, plan = state.actors[me].at, self.protocol.everybody[me]
        if at in ENDS:
            raise Violation("refused", f"a fresh writer of {plan} is {at}")
        after = STEPS[at](self.protocol, state, me)
        if after is None or steps > LONGEST:
            raise Violation("refused", f"a fresh writer of {plan} waits for ever")
        return after
