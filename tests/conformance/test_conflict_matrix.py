"""Every pair of operations, committed for real: which second writer gets through, and which gets which conflict.

The recorded outcomes are in matrix.txt, one row for each second operation; docs/lance-behaviour.md shows them too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.conflict_matrix import (
    COMMITS,
    HERE,
    RETRYABLE,
    StagedOperations,
    changed,
    read_matrix,
)
from conformance.conflict_operations import FIRST, THEN

if TYPE_CHECKING:
    from pathlib import Path

RECORDED = read_matrix("matrix.txt")


@pytest.mark.parametrize("then", THEN)
def test_the_second_operation_meets_the_recorded_outcome_after_every_first(
    then: str, staged_operations: StagedOperations, tmp_path: Path
) -> None:
    different = []
    for first in FIRST:
        now = staged_operations.outcome(first, then, scratch=tmp_path)
        if now != RECORDED[first, then]:
            different.append(changed(first, then, recorded=RECORDED[first, then], now=now))
    assert not different, "\n".join(different)


def test_an_overwrite_that_may_retry_is_stopped_by_another_overwrite_only(
    staged_operations: StagedOperations, tmp_path: Path
) -> None:
    different = []
    for first in FIRST:
        expected = RETRYABLE if first == "Overwrite" else COMMITS
        now = staged_operations.outcome(first, "Overwrite", scratch=tmp_path, max_retries=5)
        if now != expected:
            different.append(changed(first, "Overwrite with retries", recorded=expected, now=now))
    assert not different, "\n".join(different)


def test_the_documentation_shows_the_recorded_matrix() -> None:
    documented = (HERE.parent.parent / "docs" / "lance-behaviour.md").read_text()
    assert (HERE / "matrix.txt").read_text() in documented
