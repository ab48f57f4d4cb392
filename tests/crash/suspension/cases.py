"""The cases of the suspension matrix, and how they are counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from crash.suspension.operations import EVERY, NOBODY, rivals_of

if TYPE_CHECKING:
    from collections.abc import Iterable

# stopped*: past its lease, before the last look at it, then resumed. zombie: after that look, so that it takes the
# step. *ahead, *behind: its clock is one hour wrong. ahead, behind: paused for less than its lease. killed*: on another
# machine, so that its lease has to pass. lost: the step is taken, and nobody told. relay: the rival that takes the
# operation over is stopped as well, and a third process has to.
Fault = Literal[
    "stopped",
    "zombie",
    "stopped_ahead",
    "stopped_behind",
    "ahead",
    "behind",
    "killed_ahead",
    "killed_behind",
    "lost",
    "relay",
]
Resume = Literal["after", "during"]
SKEW = {"ahead": "3600", "behind": "-3600"}
RELAY_STEPS = range(2, 12)
FEW_RIVALS = (NOBODY, "insert", "optimize", "cleanup")


@dataclass(frozen=True)
class Case:
    """One operation, disturbed before one of its durable steps while a rival is about."""

    operation: str
    step: int
    fault: Fault = "stopped"
    rival: str = NOBODY
    resume: Resume = "after"
    # Where the rival of a relay stops.
    rival_step: int = 0

    @property
    def branch(self) -> str:
        return EVERY[self.operation].branch

    @property
    def skew(self) -> str | None:
        return SKEW.get(self.fault.rpartition("_")[2])

    def __str__(self) -> str:
        at = f"@{self.rival_step}" if self.rival_step else ""
        return f"{self.operation}@{self.step}, {self.fault}, rival {self.rival}{at}, resumed {self.resume}"


def cases_of(operation: str, steps: int) -> list[Case]:
    """Every case of an operation that takes so many durable steps."""
    numbers = range(1, steps + 1)
    rivals = rivals_of(operation)
    few = [each for each in FEW_RIVALS if each in rivals]
    found: list[Case] = []
    for resume in ("after", "during"):
        found += [Case(operation, n, "stopped", each, resume) for n in numbers for each in rivals]
        found += [Case(operation, n, "zombie", each, resume) for n in numbers for each in rivals]
    skewed: tuple[Fault, ...] = (
        "stopped_ahead", "stopped_behind", "ahead", "behind", "killed_ahead", "killed_behind",
    )  # fmt: skip
    found += [Case(operation, n, fault, each) for fault in skewed for n in numbers for each in few]
    found += [
        Case(operation, n, "relay", "insert", rival_step=m) for n in numbers for m in RELAY_STEPS if "insert" in rivals
    ]
    found += [Case(operation, n, "lost", each) for n in numbers for each in (NOBODY, "insert") if each in rivals]
    return found


@dataclass
class Verdict:
    """What became of a case. `reached`: whether the operation came to the step at all."""

    case: Case
    reached: bool = True
    wrong: list[str] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass
class Tally:
    """What was tried, and what went wrong."""

    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def violations(self) -> list[str]:
        return [f"{each.case}: {wrong} {each.answers}" for each in self.verdicts for wrong in each.wrong]

    @property
    def reached(self) -> int:
        return sum(each.reached for each in self.verdicts)

    def __str__(self) -> str:
        lines = [_line(name, of) for name, of in _by_operation(self.verdicts).items()]
        return "\n".join([*lines, f"{self.reached} cases in all, {len(self.violations)} violations"])


def _by_operation(verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    found: dict[str, list[Verdict]] = defaultdict(list)
    for each in sorted(verdicts, key=lambda one: one.case.operation):
        found[each.case.operation].append(each)
    return found


def _line(name: str, verdicts: list[Verdict]) -> str:
    reached = [each for each in verdicts if each.reached]
    steps, faults, rivals = (len({getattr(each.case, of) for each in reached}) for of in ("step", "fault", "rival"))
    wrong = sum(bool(each.wrong) for each in reached)
    told = Counter(each.answers.get("victim", "?").partition(":")[0] for each in reached)
    ends = ", ".join(f"{count} {what}" for what, count in told.most_common())
    return f"{name}: {steps} steps × {faults} faults × {rivals} rivals, {len(reached)} cases, {wrong} violated ({ends})"
