"""Whether what is there agrees with what was told: some order of the operations that took effect explains it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from crash.suspension.operations import EVERY, RIVAL, TIDY_RIVALS, VICTIM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crash.suspension.cases import Case
    from crash.suspension.look import Seen
    from crash.suspension.scene import Serial
    from crash.suspension.work import Answer

# They say that somebody has to come and look.
REFUSALS = frozenset({"CommitRejected", "RecoveryRequired"})
# What the store told an operation on its way, and what its caller can make nothing of.
INNER = frozenset({"StoreError", "ObjectExists", "ObjectChanged", "ObjectNotFound", "LeaseLost"})
KILLED, HANGS = "Killed", "Hangs"
# The branch that the operation was for is gone, and nothing was done to the new one of that name.
OVERTAKEN = "BranchReplaced"


def unfit(case: Case, who: str, answer: Answer) -> list[str]:
    """Answers that no caller should get. A report of upkeep may tell which table the store failed for."""
    in_report = answer.error == "ToldInReportError" and case.fault == "lost"
    if answer.is_done or answer.error == KILLED or in_report:
        return []
    if not answer.is_ours or answer.error in INNER:
        return [f"the {who} got an inner error: {answer}"]
    return [f"the {who} was refused: {answer}"] if answer.error in REFUSALS else []


def unexplained(case: Case, answers: dict[str, Answer], seen: Seen, serial: Serial) -> list[str]:
    """Nothing, when some order of operations has the same rows and commits as there are."""
    closest = ["no order of the operations explains the answers"]
    for order in _orders(case, answers):
        wanted, told = serial.after(order, case.branch)
        if any(told[who].error != answers[who].error for who, _ in order if not _is_unknown(answers[who])):
            continue
        wrong = _differences(case, wanted, seen)
        if not wrong:
            return []
        closest = [f"unlike {' then '.join(who for who, _ in order) or 'nothing'}: {each}" for each in wrong[:3]]
    return closest


def _orders(case: Case, answers: dict[str, Answer]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Every order of what took effect; an error that is no conflict must be what the operation gets in that order."""
    names = {VICTIM: case.operation, RIVAL: case.rival}
    surely = [who for who, answer in answers.items() if answer.is_done or _is_verdict(answer)]
    perhaps = [who for who, answer in answers.items() if _is_unknown(answer)]
    for count in range(len(perhaps) + 1):
        for some in itertools.combinations(perhaps, count):
            for order in itertools.permutations([*surely, *some]):
                yield tuple((who, names[who]) for who in order)


def _is_unknown(answer: Answer) -> bool:
    """Whether it may have taken effect. Answers that are unfit anyhow tell nothing."""
    return answer.is_unknown or not answer.is_ours or answer.error in (*REFUSALS, KILLED, HANGS)


def _is_verdict(answer: Answer) -> bool:
    """A final answer about what was asked for (no such branch, ...), not about a race that was lost."""
    in_a_race = answer.retryable or answer.is_commit_failed or answer.error == OVERTAKEN
    return not (answer.is_done or _is_unknown(answer) or in_a_race)


def _differences(case: Case, wanted: Seen, seen: Seen) -> list[str]:
    wrong = [f"{name} should not be there" for name in seen.state.keys() - wanted.state.keys()]
    wrong += [f"{name} is missing" for name in wanted.state.keys() - seen.state.keys()]
    for name in wanted.state.keys() & seen.state.keys():
        for key in wanted.state[name].keys() | seen.state[name].keys():
            want, got = (each.state[name].get(key, frozenset()) for each in (wanted, seen))
            if want != got:
                wrong.append(f"{name}, {key}: missing {sorted(want - got)[:2]}, too many {sorted(got - want)[:2]}")
    return wrong + _miscounted(case, wanted, seen)


def _miscounted(case: Case, wanted: Seen, seen: Seen) -> list[str]:
    """Upkeep makes as many commits as it needs; every other operation exactly those of the same operations in turn."""
    wrong = []
    for who, name in ((VICTIM, case.operation), (RIVAL, case.rival)):
        found, expected = seen.commits[who], wanted.commits[who]
        if found != expected and not _is_tidy(who, name):
            wrong.append(f"{found} commits of the {who} instead of {expected}")
    return wrong


def _is_tidy(who: str, name: str) -> bool:
    return EVERY[name].tidy if who == VICTIM else name in TIDY_RIVALS
