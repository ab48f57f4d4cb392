"""The recorded conflict matrix, the one the specification implies, and the way a pair is really committed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lance
from lance import LanceDataset, Transaction
from lance.commit import CommitConflictError

from conformance.conflict_operations import FIRST, THEN
from conformance.tables import link_copy, six_fragments

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
COMMITS, RETRYABLE, INCOMPATIBLE, STRICT = ".", "R", "I", "S"
IN_WORDS = {
    COMMITS: "commits",
    RETRYABLE: "R (retryable)",
    INCOMPATIBLE: "I (incompatible)",
    STRICT: "S (strict overwrite)",
}
ADVICE = "see docs/lance-behaviour.md before upgrading"

Pair = tuple[str, str]


def read_matrix(name: str) -> dict[Pair, str]:
    """The outcome of each (first, second) pair in one of the two text files beside this module."""
    lines = [line for line in (HERE / name).read_text().splitlines() if not line.startswith("#")]
    assert len(lines[0][30:].split()) == len(FIRST)
    rows = {line[:30].strip(): line[30:].split() for line in lines[1:]}
    assert list(rows) == list(THEN)
    return {(first, then): cell for then, cells in rows.items() for first, cell in zip(FIRST, cells, strict=True)}


def changed(first: str, then: str, *, recorded: str, now: str) -> str:
    """The sentence that a failing test shows."""
    return (
        f"{then} after {first}: recorded {IN_WORDS[recorded]}, "
        f"pylance {lance.__version__} now gives {IN_WORDS[now]} — {ADVICE}"
    )


@dataclass(frozen=True)
class StagedOperations:
    """All operations staged once on one base table; every pair is committed to a copy of its own."""

    base: Path
    first: dict[str, Transaction]
    then: dict[str, Transaction]

    def outcome(self, first: str, then: str, *, scratch: Path, max_retries: int = 0) -> str:
        """Commit `first`, then `then` from the same read version; the table must be whole afterwards."""
        uri = link_copy(self.base, scratch / f"{first} then {then}")
        LanceDataset.commit(uri, self.first[first], max_retries=0)
        outcome = commit_outcome(uri, self.then[then], max_retries=max_retries)
        table = lance.dataset(uri)
        table.validate()
        assert table.to_table().num_rows == table.count_rows()
        return outcome


def stage_all(base: Path) -> StagedOperations:
    """The base table with every operation of the matrix staged on its newest version."""
    table = six_fragments(base)
    first = {name: stage(table) for name, stage in FIRST.items()}
    then = {name: stage(table) for name, stage in THEN.items()}
    assert lance.dataset(str(base)).version == table.version
    return StagedOperations(base, first, then)


def commit_outcome(uri: str, transaction: Transaction, *, max_retries: int = 0) -> str:
    """Commit and say which of the four outcomes it was; any other error is raised."""
    try:
        LanceDataset.commit(uri, transaction, max_retries=max_retries)
    except CommitConflictError as conflict:
        return conflict_letter(conflict)
    return COMMITS


def conflict_letter(conflict: CommitConflictError) -> str:
    """R, I or S."""
    if "Failed to commit the transaction after 0 retries" in str(conflict):
        return STRICT
    return RETRYABLE if conflict.retryable else INCOMPATIBLE


def differing_cells() -> Iterator[Pair]:
    """The pairs where the recorded matrix is not what the specification implies; S counts as retryable."""
    recorded, specified = read_matrix("matrix.txt"), read_matrix("specification.txt")
    for pair, now in recorded.items():
        if now != specified[pair] and (now, specified[pair]) != (STRICT, RETRYABLE):
            yield pair
