"""What the spawned processes of this suite do; outside the test files, so that a spawned process can import it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import lance
from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from conformance.head_row import publish
from conformance.tables import append, keyed

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ProcessPoolExecutor
    from threading import Barrier

T = TypeVar("T")
_meeting: list[Barrier] = []
PATIENCE_S = 120


def meet_at(barrier: Barrier) -> None:
    """Run once in each process of the crew."""
    _meeting.append(barrier)


@dataclass(frozen=True)
class Crew:
    """Processes that do the same thing at the same time."""

    pool: ProcessPoolExecutor
    SIZE: ClassVar[int] = 3

    def all(self, work: Callable[[str, int], T], uri: str) -> list[T]:
        """`work(uri, number)` in every process at once; its results in the order of the numbers."""
        tasks = [self.pool.submit(together, work, uri, number) for number in range(self.SIZE)]
        return [task.result(timeout=PATIENCE_S) for task in tasks]


def together(work: Callable[[str, int], T], uri: str, number: int) -> T:
    """Wait for the others, then work."""
    _meeting[0].wait(timeout=PATIENCE_S)
    return work(uri, number)


def create_table(uri: str, number: int) -> str | None:
    """Create by Overwrite at read version 0: None for the winner, the error text for a loser."""
    schema = keyed([]).schema
    fragments = write_fragments(keyed([number]), uri, schema=schema)
    operation = LanceOperation.Overwrite(schema, fragments)
    try:
        LanceDataset.commit(uri, operation, read_version=0, max_retries=0, enable_stable_row_ids=True)
    except OSError as lost:
        return str(lost)
    return None


def create_branch(uri: str, number: int) -> str | None:
    """Create branch `raced`: None for the winner, the error text for a loser."""
    try:
        lance.dataset(uri).create_branch("raced")
    except OSError as lost:
        return str(lost)
    return None


def append_rows(uri: str, number: int, *, times: int = 10) -> int:
    """Append one row at a time, each under its own key, and say how many commits were acknowledged."""
    for turn in range(times):
        append(lance.dataset(uri), keyed([number * 1000 + turn]))
    return times


def append_for_ever(uri: str, number: int) -> None:
    """Append until killed."""
    turn = 0
    while True:
        append(lance.dataset(uri), keyed([number * 1_000_000 + turn], f"writer {number}"))
        turn += 1


def publish_many(uri: str, number: int, *, times: int = 8) -> int:
    """Publish `times` commits, each on the head it read, and say how often another was first."""
    conflicts = 0
    for turn in range(times):
        while not _published(uri, f"commit-{number}-{turn}"):
            conflicts += 1
    return conflicts


def publish_twenty(uri: str, number: int) -> int:
    """`publish_many` with twenty commits."""
    return publish_many(uri, number, times=20)


def _published(uri: str, commit_id: str) -> bool:
    try:
        publish(lance.dataset(uri), commit_id)
    except CommitConflictError as lost:
        if not lost.retryable:
            raise
        return False
    return True
