"""Keeping indexes complete: rows that came after an index are found by looking at all of them, until it is extended.

An index may have several segments. A new one for the new pieces is cheap, and right only where no row of theirs was in
the index before: a text, list or vector segment knows rows by ids that an update keeps, and Lance answers with what the
older segment remembers of them. So it is told from the rows' ages, and otherwise the index is built anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import lance
from lance import LanceOperation, Transaction

from omnigraph.store.filters import IsNull, Not
from omnigraph.store.indexes import build_segment
from omnigraph.store.lance_errors import lance_errors
from omnigraph.store.staging import Staged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from omnigraph.store.indexes import Build, IndexSpec
    from omnigraph.store.tables import Table

# Each search asks every segment.
MOST_SEGMENTS = 4
_CREATED_AT = "_row_created_at_version"


def stage_coverage(
    table: Table, specs: Sequence[IndexSpec], build: Build | None = None
) -> tuple[Staged | None, tuple[str, ...]]:
    """Build what is missing of these indexes and extend the others to all rows, as one transaction.

    Returns it with the names of the indexes that it builds or extends; None and no names when all are complete.
    """
    new: list[lance.Index] = []
    old: list[lance.Index] = []
    with lance_errors(f"indexing {table.path}"):
        segments = _segments(table)
        for spec in specs:
            built, replaced = _cover(table, spec, segments.get(spec.name, []), build)
            new += built
            old += replaced
    if not new:
        return None, ()
    staged = Staged(table, "index", Transaction(table.version, LanceOperation.CreateIndex(new, old)))
    return staged, tuple(dict.fromkeys(each.name for each in new))


def has_vectors(table: Table, column: str) -> bool:
    """Whether a vector index has anything to be trained with."""
    return table.count_rows(Not(IsNull(column))) > 0


def staged_upon(staged: Staged, table: Table) -> Staged:
    """An index that was built over a preview of this state of the table, for the state itself."""
    operation = staged.transaction.operation
    segments = [replace(each, dataset_version=table.version) for each in operation.new_indices]
    operation = LanceOperation.CreateIndex(segments, operation.removed_indices)
    return Staged(table, "index", Transaction(table.version, operation))


def _cover(
    table: Table, spec: IndexSpec, segments: list[lance.Index], build: Build | None
) -> tuple[list[lance.Index], list[lance.Index]]:
    """The segments to add, and those to remove."""
    there = set(table.fragment_ids())
    covered = {number for each in segments for number in each.fragment_ids}
    missing = sorted(there - covered)
    if not segments:
        return [build_segment(table, spec, sorted(there), build)], []
    if not missing:
        return [], []
    if spec.kind == "vector" and not _any_vector(table, spec.column, missing):
        return [], []
    living = [each for each in segments if there & set(each.fragment_ids)]
    if len(living) < MOST_SEGMENTS and _can_extend(table, spec, missing, living):
        # A segment whose pieces are all gone answers nothing any more.
        return [build_segment(table, spec, missing, build)], [each for each in segments if each not in living]
    return [build_segment(table, spec, sorted(there), build)], segments


def _can_extend(table: Table, spec: IndexSpec, missing: list[int], segments: Iterable[lance.Index]) -> bool:
    """Whether no row of the pieces was in the index before. Ordered indexes know rows by place, not by id."""
    if spec.kind == "btree":
        return True
    newest = max((each.dataset_version for each in segments), default=0)
    ages = table.dataset.scanner(
        columns=[_CREATED_AT], fragments=[table.dataset.get_fragment(each) for each in missing]
    ).to_batches()
    return all(age > newest for batch in ages for age in batch.column(0).unique().to_pylist())


def _any_vector(table: Table, column: str, pieces: list[int]) -> bool:
    return any(batch.num_rows for batch in table.scan(["id"], Not(IsNull(column)), fragments=pieces))


def _segments(table: Table) -> dict[str, list[lance.Index]]:
    """The segments of every index, as far as an operation that removes or extends them must know them."""
    return {
        index.name: [
            lance.Index(
                each.uuid,
                index.name,
                list(index.fields),
                int(each.dataset_version_at_last_update),
                set(each.fragment_ids),
                each.index_version,
            )
            for each in index.segments
        ]
        for index in table.dataset.describe_indices()
    }
