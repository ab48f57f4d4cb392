"""Playing one case with real processes, and looking at what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import omnigraph as og
from crash.suspension import work
from crash.suspension.cases import SKEW, Case, Verdict
from crash.suspension.judge import HANGS, KILLED, unexplained, unfit
from crash.suspension.look import litter, look
from crash.suspension.operations import NOBODY, RIVAL, SECOND, VICTIM, add_everywhere, added_types
from crash.zygote_process import HOST
from omnigraph.errors import OmniGraphError
from omnigraph.world import CLOCK_SKEW, REAL

if TYPE_CHECKING:
    from crash.suspension.look import Seen
    from crash.suspension.scene import Lane, Serial
    from crash.zygote import Child, Zygote

LEASE = "OMNIGRAPH_LEASE_SECONDS"
LEASE_SECONDS = 1.0
# Who is only paused must not lose its lease on a busy machine.
LONG_LEASE_SECONDS = 6.0
PAUSE_SECONDS = 0.3
# A rival waits until the lease has passed, recovers, and works.
RIVAL_SECONDS, HANGING_SECONDS = 20.0, 45.0
SECOND_INSERTS = 4
# They are computed from rows that a rival may change before they have their turn.
NOT_REPEATABLE = ("update", "delete", "overwrite")
# How a table is told of whose newest version is not published.
AHEAD = "on the store"
# The machine that the test runs on, and another one.
HERE, ELSEWHERE = "", "another-host"
WHO_WAS_KILLED = work.Answer(KILLED, "killed")


class Play:
    """One case, at one place."""

    def __init__(self, case: Case, lane: Lane, serial: Serial, zygote: Zygote) -> None:
        self.case = case
        self.lane = lane
        self.serial = serial
        self.zygote = zygote
        self.answers: dict[str, work.Answer] = {}
        self.written: list[str] = []
        self.wrong: list[str] = []
        self._children: list[Child] = []

    def run(self) -> Verdict:
        """Play it, and tell what was wrong."""
        began = REAL.monotonic()
        self.lane.reset(drift=self.case.operation == "repair")
        living = og.open(self.lane.uri, actor="living")
        try:
            reached = self._disturb()
            if reached:
                self._look(living)
        finally:
            for each in self._children:
                each.kill()
        answers = {who: str(each) for who, each in self.answers.items()}
        return Verdict(self.case, reached, self.wrong, answers, REAL.monotonic() - began)

    def _disturb(self) -> bool:
        match self.case.fault.partition("_")[0]:
            case "stopped" | "zombie":
                return self._stop(LEASE_SECONDS, past_the_lease=True)
            case "killed":
                return self._kill()
            case "relay":
                return self._relay()
            case "lost":
                return self._lose()
            case _:
                return self._stop(LONG_LEASE_SECONDS, past_the_lease=False)

    def _stop(self, lease: float, *, past_the_lease: bool) -> bool:
        victim = self._begin_victim(lease, f"{self._point}=stop@{self.case.step}")
        if not victim.is_stopped():
            victim.outcome()
            return False
        if not past_the_lease:
            self._pause(victim, lease)
            return True
        if self.case.rival == NOBODY:
            REAL.sleep(lease * 1.6)
        else:
            self._end_rival(self._begin_rival(lease))
        second = self._begin_second(lease) if self.case.resume == "during" else None
        victim.thaw()
        self._end(VICTIM, victim)
        if second is not None:
            self._end_second(second)
        return True

    @property
    def _point(self) -> str:
        """Before or after the last look at the lease: after it, nothing keeps the step from being taken."""
        return "store.step" if self.case.fault == "zombie" else "store.write"

    def _pause(self, victim: Child, lease: float) -> None:
        """The rival meets a victim that is alive, and waits for it."""
        rival = None if self.case.rival == NOBODY else self._begin_rival(lease)
        REAL.sleep(PAUSE_SECONDS)
        victim.thaw()
        self._end(VICTIM, victim)
        if rival is not None:
            self._end_rival(rival)
        overtaken = self.case.operation in NOT_REPEATABLE and self.answers[VICTIM].error == "ReadSetChanged"
        if not self.answers[VICTIM].is_done and not overtaken:
            self.wrong.append(f"a healthy writer failed: {self.answers[VICTIM]}")
        lost = og.open(self.lane.uri, read_only=True).recoveries()
        self.wrong += [f"a healthy writer lost its lease: {each}" for each in lost]

    def _kill(self) -> bool:
        victim = self._begin_victim(LEASE_SECONDS, f"store.write=kill@{self.case.step}", host=ELSEWHERE)
        if not victim.outcome().killed:
            return False
        died = REAL.monotonic()
        self.answers[VICTIM] = WHO_WAS_KILLED
        if self.case.rival != NOBODY:
            self._end_rival(self._begin_rival(LEASE_SECONDS))
        # A rival that needs nothing of the victim's has not waited; whoever looks afterwards recovers what is left.
        REAL.sleep(max(0.0, died + LEASE_SECONDS * 1.6 - REAL.monotonic()))
        # Unfinished files are removed by whoever opens the graph next on the same machine.
        self.zygote.run(work.visit, self.lane.uri, environment=environment_of(LEASE_SECONDS, None, ELSEWHERE))
        return True

    def _relay(self) -> bool:
        """Victim and rival sleep, a third process clears up after both, and they wake in the order they fell asleep."""
        victim = self._begin_victim(LEASE_SECONDS, f"store.step=stop@{self.case.step}")
        if not victim.is_stopped():
            victim.outcome()
            return False
        rival = self._begin_rival(LEASE_SECONDS, f"store.step=stop@{self.case.rival_step}")
        rival.is_stopped()
        third = self._begin_second(LEASE_SECONDS)
        self._end_second(third)
        victim.thaw()
        rival.thaw()
        self._end(VICTIM, victim)
        self._end_rival(rival)
        return True

    def _lose(self) -> bool:
        victim = self._begin(VICTIM, work.perform_losing, self.case.step, lease=LONG_LEASE_SECONDS)
        lost, self.answers[VICTIM] = victim.outcome().value
        if lost and self.case.rival != NOBODY:
            self._end_rival(self._begin_rival(LONG_LEASE_SECONDS))
        return bool(lost)

    def _begin_victim(self, lease: float, failpoints: str, *, host: str = HERE) -> Child:
        return self._begin(VICTIM, work.perform, lease=lease, failpoints=failpoints, skew=self.case.skew, host=host)

    def _begin_rival(self, lease: float, failpoints: str = "") -> Child:
        other = {SKEW["ahead"]: SKEW["behind"], SKEW["behind"]: SKEW["ahead"]}
        skew = other.get(self.case.skew or "")
        return self._begin(RIVAL, work.perform, work.RETRIES, lease=lease, failpoints=failpoints, skew=skew)

    def _begin(
        self, who: str, what: object, *more: object, lease: float, failpoints: str = "", skew: str | None = None,
        host: str = HERE,
    ) -> Child:  # fmt: skip
        name = self.case.operation if who == VICTIM else self.case.rival
        child = self.zygote.start(
            what, self.lane.uri, who, name, self.case.branch, *more,  # type: ignore[arg-type]
            failpoints=failpoints, environment=environment_of(lease, skew, host),
        )  # fmt: skip
        self._children.append(child)
        return child

    def _begin_second(self, lease: float) -> Child:
        child = self.zygote.start(
            work.keep_inserting, self.lane.uri, SECOND, self.case.branch, SECOND_INSERTS,
            environment=environment_of(lease),
        )  # fmt: skip
        self._children.append(child)
        self.written.append(child.reports())
        return child

    def _end(self, who: str, child: Child) -> None:
        try:
            outcome = child.outcome(HANGING_SECONDS)
        except TimeoutError:
            self.answers[who] = work.Answer(HANGS, f"nothing within {HANGING_SECONDS:.0f} s")
            return
        self.answers[who] = WHO_WAS_KILLED if outcome.killed else outcome.value

    def _end_rival(self, rival: Child) -> None:
        self._end(RIVAL, rival)
        answer = self.answers[RIVAL]
        if answer.seconds > RIVAL_SECONDS:
            self.wrong.append(f"the rival took {answer.seconds:.0f} s")
        if answer.retryable:
            self.wrong.append(f"the rival failed {work.RETRIES + 1} times: {answer}")

    def _end_second(self, second: Child) -> None:
        outcome = second.outcome()
        if outcome.succeeded:
            self.written = outcome.value
        else:
            self.wrong.append(f"a second rival failed: {outcome}")

    def _look(self, living: og.Graph) -> None:
        for who, answer in self.answers.items():
            self.wrong += unfit(self.case, who, answer)
        if self.case.operation == "repair" and not self.answers[VICTIM].is_done:
            og.open(self.lane.uri).repair(confirm=True)
        try:
            fresh = og.open(self.lane.uri, actor="fresh")
            seen = look(fresh)
            self._compare(seen)
            self.wrong += [f"opened: {each}" for each in litter(fresh) if not self._may_wait(each)]
            self._write(living, "last-living", [self.case.branch])
            self._write(fresh, "last-fresh", [each.name for each in fresh.branches.list()])
            after = look(fresh)
        except OmniGraphError as error:
            self.wrong.append(f"afterwards: {type(error).__name__}: {error}")
            return
        if not self.wrong:
            self._compare(after)
        self.wrong += [f"after the next write: {each}" for each in litter(fresh)]

    def _may_wait(self, left: str) -> bool:
        """A step that landed after a recovery is for the next writer of that table; opening a graph looks at none."""
        return AHEAD in left and self.case.fault in ("zombie", "relay")

    def _compare(self, seen: Seen) -> None:
        self.wrong += seen.unreadable
        self.wrong += unexplained(self.case, self.answers, seen, self.serial)
        on_branch = seen.bystanders.get(f"branch {self.case.branch}", frozenset())
        self.wrong += [f"{each} was acknowledged and is gone" for each in self.written if each not in on_branch]
        if seen.commits[SECOND] != len(self.written):
            self.wrong.append(f"{seen.commits[SECOND]} commits of the second rival, {len(self.written)} acknowledged")

    def _write(self, graph: og.Graph, name: str, branches: list[str]) -> None:
        for branch in branches:
            try:
                graph.refresh()
                add_everywhere(graph, name, branch, added_types(graph, branch))
            except OmniGraphError as error:
                self.wrong.append(f"{name} cannot write to {branch}: {type(error).__name__}: {error}")


def environment_of(lease: float, skew: str | None = None, host: str = HERE) -> dict[str, str]:
    """The environment of a process with so long a lease, so wrong a clock, on that machine."""
    found = {LEASE: str(lease), **({HOST: host} if host else {})}
    return found if skew is None else {**found, CLOCK_SKEW: skew}


def play(case: Case, lane: Lane, serial: Serial, zygote: Zygote) -> Verdict:
    """Play a case; what went wrong with playing it is a violation, too."""
    try:
        return Play(case, lane, serial, zygote).run()
    except Exception as error:  # noqa: BLE001 - the others are still played
        return replace(Verdict(case), wrong=[f"it could not be played: {type(error).__name__}: {error}"])
