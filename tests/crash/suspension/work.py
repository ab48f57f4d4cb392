"""What the processes of the suspension matrix do, and how they tell what became of it."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

import omnigraph as og
from crash.suspension.lost_answers import LostAnswer
from crash.suspension.operations import act_of
from crash.zygote_process import report
from omnigraph import failpoints
from omnigraph.errors import CommitFailed, CommitOutcomeUnknown, OmniGraphError
from omnigraph.world import REAL

_MANY = 1_000_000
RETRIES = 8


@dataclass(frozen=True)
class Answer:
    """What a caller was told: `error` is the name of its class, None when the operation is done."""

    error: str | None = None
    message: str = ""
    retryable: bool = False
    is_commit_failed: bool = False
    is_ours: bool = True
    is_unknown: bool = False
    tries: int = 1
    seconds: float = 0.0

    @property
    def is_done(self) -> bool:
        return self.error is None

    def __str__(self) -> str:
        return "done" if self.is_done else f"{self.error}: {self.message}"


def answer_of(error: BaseException) -> Answer:
    """What an exception tells a caller."""
    ours = isinstance(error, OmniGraphError)
    where = traceback.extract_tb(error.__traceback__)[-1]
    message = str(error) if ours else f"{error} ({where.filename}:{where.lineno})"
    return Answer(
        type(error).__name__,
        message,
        retryable=isinstance(error, OmniGraphError) and error.retryable,
        is_commit_failed=isinstance(error, CommitFailed),
        is_ours=ours,
        is_unknown=isinstance(error, CommitOutcomeUnknown),
    )


def perform(uri: str, who: str, name: str, branch: str, retries: int = 0) -> Answer:
    """Open the graph as a caller of this name and do one thing; again where the answer says that this helps."""
    began = REAL.monotonic()
    told = Answer()
    for attempt in range(1, retries + 2):
        try:
            act_of(who, name, branch)(og.open(uri, actor=who), who)
            told = Answer(tries=attempt)
        except Exception as error:  # noqa: BLE001 - whatever a caller would see
            told = answer_of(error)
        if not told.retryable:
            break
    return _timed(told, REAL.monotonic() - began)


def visit(uri: str) -> None:
    """Open the graph for writing, and do nothing."""
    og.open(uri)


def steps_of(uri: str, who: str, name: str, branch: str) -> tuple[int, Answer]:
    """How many durable steps an operation takes in peace."""
    failpoints.arm(f"store.write=raise@{_MANY}")
    told = perform(uri, who, name, branch)
    left = failpoints._armed["store.write"].skip
    failpoints.arm("")
    return _MANY - 1 - left, told


def keep_inserting(uri: str, who: str, branch: str, times: int) -> list[str]:
    """Rows of its own, in two tables; the names of those that were acknowledged."""
    graph = og.open(uri, actor=who)
    told = []
    for number in range(times):
        name = f"{who}-{number}"
        graph.mutate(
            "query q($n: String) { insert Person { name: $n } insert Knows { from: $n, to: $n } }",
            {"n": name},
            branch=branch,
        )
        told.append(name)
        report(name)
    return told


def _timed(told: Answer, seconds: float) -> Answer:
    return Answer(**{**vars(told), "seconds": seconds})


def perform_losing(uri: str, who: str, name: str, branch: str, step: int) -> tuple[bool, Answer]:
    """The same with the answer to one durable step lost: whether it came to that step, and what the caller was told."""
    lost = LostAnswer(step)
    lost.arm()
    told = perform(uri, who, name, branch)
    return lost.happened, told
