"""Items of uneven size as tasks of about the same: every task has its price, in Java and in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

Item = TypeVar("Item")
# Rows that one task should have to do with, and rows that are not worth a second task.
ROWS_PER_TASK = 1_000_000
FEW_ROWS = 100_000


def grouped(items: Iterable[Item], size: Callable[[Item], int], most: int) -> list[list[Item]]:
    """Neighbours together, up to `most` in a group; a larger item is a group of its own."""
    groups: list[list[Item]] = []
    held = most + 1
    for item in items:
        if held + size(item) > most:
            groups.append([])
            held = 0
        groups[-1].append(item)
        held += size(item)
    return groups


def grouped_rows(session: SparkSession, items: Sequence[Item], rows: Callable[[Item], int]) -> list[list[Item]]:
    """Groups that keep all cores busy without being too many."""
    total = sum(rows(each) for each in items)
    share = -(-total // cores_of(session))
    return grouped(items, rows, min(ROWS_PER_TASK, max(share, FEW_ROWS)))


def cores_of(session: SparkSession) -> int:
    """How many tasks run at once, as far as the session tells."""
    context = getattr(session, "_sc", None)
    if context is not None:
        return max(1, int(context.defaultParallelism))
    return max(1, int(session.conf.get("spark.sql.shuffle.partitions", "8") or 8) // 4)
