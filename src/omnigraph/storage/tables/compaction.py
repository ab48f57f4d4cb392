"""Staged compaction: the same rows, row ids and row versions in fewer fragments.

Each commit adds a fragment, and every lookup of a row visits every fragment. `stage_minor_compaction` joins the newest
small fragments while a table is written to, so that a history of small writes does not make the next one more
expensive; `stage_compaction` is the thorough form, for `optimize`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance import FragmentMetadata, LanceOperation, Transaction
from lance.optimize import Compaction, CompactionTask, RewriteResult

from omnigraph.storage.lance.errors import lance_errors
from omnigraph.storage.lance.metadata import greatest_fragment
from omnigraph.storage.tables.staging import Staged
from omnigraph.storage.tables.table import ROWS_PER_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from omnigraph.storage.tables.table import Table

    # Fragments, and those that hold the same rows.
    Rewrite = tuple[Sequence[FragmentMetadata], Sequence[FragmentMetadata]]
    # Executes the tasks of a plan, here or elsewhere, and returns what each has written.
    Execute = Callable[[Table, Sequence[CompactionTask]], Sequence[RewriteResult]]


@dataclass(frozen=True)
class CompactionPolicy:
    """When a writer joins small fragments, and the most that it rewrites while other writers are queued.

    `fragments` small ones at the end of a table are joined. A larger one before them is included if it has at most
    `growth` times their rows, so that a row is rewritten a logarithmic number of times.
    """

    fragments: int = 16
    growth: int = 4
    rows: int = ROWS_PER_FILE
    bytes: int = 32 * 1024 * 1024


MINOR_COMPACTION = CompactionPolicy()


def stage_minor_compaction(table: Table, policy: CompactionPolicy) -> Staged | None:
    """Join the small fragments at the end of the table if there are enough of them; None if there are not.

    Fragments that an index covers are left alone: joining them would remove them from its coverage.
    """
    fragments = _small_fragments(table, policy)
    if len(fragments) < policy.fragments:
        return None
    return stage_compaction(table, rows_per_file=policy.rows, fragments=fragments)


def stage_compaction(
    table: Table, *, rows_per_file: int, fragments: Sequence[int] | None = None, execute: Execute | None = None
) -> Staged | None:
    """Rewrite small fragments, and those with many deleted rows, into larger ones, in order; None if there are none.

    Rows, row ids and row versions stay. Scalar indexes lose their coverage of the rewritten fragments until they are
    extended. `fragments` limits the work to some fragments; `execute` runs it elsewhere.
    """
    results = _results(table, rows_per_file, fragments, execute or execute_here)
    if not results:
        return None
    return stage_rewrite(table, _with_new_ids(table, results) if covered_fragments(table) else _rewrites(results))


def compacted(table: Table, *, rows_per_file: int, fragments: Sequence[int]) -> list[Rewrite]:
    """Rewrite some fragments of a table without indexes, uncommitted; `stage_rewrite` stages the result."""
    return _rewrites(_results(table, rows_per_file, fragments, execute_here))


def stage_rewrite(table: Table, rewrites: Sequence[Rewrite]) -> Staged:
    """Stage the replacement of fragments by others that hold the same rows in the same order."""
    groups = [LanceOperation.RewriteGroup(list(old), list(new)) for old, new in rewrites]
    return Staged(table, "compact", Transaction(table.version, LanceOperation.Rewrite(groups, [])))


def _results(
    table: Table, rows_per_file: int, fragments: Sequence[int] | None, execute: Execute
) -> Sequence[RewriteResult]:
    excluded = [] if fragments is None else sorted(set(table.fragment_ids()) - set(fragments))
    options = {"target_rows_per_fragment": rows_per_file, "excluded_fragment_ids": excluded}
    with lance_errors(f"compacting {table.path}"):
        tasks = Compaction.plan(table.handle, options).tasks
        return execute(table, tasks) if tasks else ()


def execute_text(table: Table, task: str) -> str:
    """Execute a compaction task that another process has planned; task and result are Lance's JSON texts."""
    return str(CompactionTask.from_json(task).execute(table.handle).json())


def result_of_text(text: str) -> RewriteResult:
    """The result that `execute_text` returned."""
    return RewriteResult.from_json(text)


def execute_here(table: Table, tasks: Sequence[CompactionTask]) -> list[RewriteResult]:
    """Execute the tasks in this process, one after the other."""
    return [task.execute(table.handle) for task in tasks]


def covered_fragments(table: Table) -> set[int]:
    """The fragments that some index of the table covers."""
    with lance_errors(f"listing the indexes of {table.path}"):
        indexes = table.handle.describe_indices()
    return {fragment_id for index in indexes for segment in index.segments for fragment_id in segment.fragment_ids}


def _small_fragments(table: Table, policy: CompactionPolicy) -> list[int]:
    """The fragments at the end that are worth joining, within the policy's limits on rows and bytes."""
    fragment_ids = table.fragment_ids()
    if len(fragment_ids) < policy.fragments:
        return []
    covered = covered_fragments(table)
    fragments: list[int] = []
    rows = size = 0
    # One by one: most tables have more fragments than are looked at.
    for fragment in map(table.fragment, reversed(fragment_ids)):
        its_rows, its_size = fragment.num_rows, _bytes_of(fragment)
        if fragment.id in covered or rows + its_rows > policy.rows or size + its_size > policy.bytes:
            break
        if len(fragments) >= policy.fragments and its_rows > policy.growth * rows:
            break
        fragments.append(fragment.id)
        rows, size = rows + its_rows, size + its_size
    return fragments


def _bytes_of(fragment: FragmentMetadata) -> int:
    return sum(file.file_size_bytes or 0 for file in fragment.files)


def _rewrites(results: Iterable[RewriteResult]) -> list[Rewrite]:
    return [(each.original_fragments, each.new_fragments) for each in results]


def _with_new_ids(table: Table, results: Iterable[RewriteResult]) -> list[Rewrite]:
    """The rewrites with ids for the new fragments, so that indexes that store row ids continue to cover them.

    Without ids Lance records the coverage before it assigns them, and the index covers fragment 0 instead. Lance caches
    by fragment id: no id that a fragment ever had may be used again.
    """
    fragment_id = max([greatest_fragment(table.handle), *table.fragment_ids()])
    rewrites: list[Rewrite] = []
    for each in results:
        fragments = []
        for new in each.new_fragments:
            fragment_id += 1
            fragments.append(FragmentMetadata.from_json(json.dumps({**new.to_json(), "id": fragment_id})))
        rewrites.append((each.original_fragments, fragments))
    return rewrites
