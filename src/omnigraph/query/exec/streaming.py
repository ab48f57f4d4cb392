"""Streams a result in batches: each is computed from some of the matches, yielded and dropped.

Without order, groups or `distinct`, a batch depends on its own matches alone. Otherwise all matches are needed first:
if they are many, they are collected in a DuckDB table, which can spill to disk, and the result is streamed from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.expressions.result_query import MATCHES
from omnigraph.language.ir.expressions import EntityValue, PropertyValue, walk
from omnigraph.query.exec.entities import entity_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from omnigraph.language.ir.query import CheckedQuery
    from omnigraph.query.exec.bindings import Bindings
    from omnigraph.query.exec.result_rows import ResultRows
    from omnigraph.query.exec.scope import Scope

# Rows of a result batch.
BATCH = 65_536
# Matches that an operator holds at once.
MATCHED = 262_144


@dataclass(frozen=True)
class ResultBatches:
    """Computes the result of one query from its matches, a batch at a time."""

    result_rows: ResultRows

    def of(self, batches: Iterator[Bindings]) -> Iterator[pa.Table]:
        """The batches: columns `c0`, `c1`, … in which an entity is still a key."""
        if is_batchwise(self.result_rows.checked):
            return self._batchwise(batches)
        return self._after_all(batches)

    def _batchwise(self, batches: Iterator[Bindings]) -> Iterator[pa.Table]:
        bounds = self.result_rows.bounds()
        to_skip, left = bounds.offset, bounds.limit
        for rows in batches:
            for batch in rows.batches(BATCH):
                if left == 0:
                    return
                skipped = min(to_skip, batch.count)
                end = batch.count if left is None else min(batch.count, skipped + left)
                to_skip -= skipped
                left = None if left is None else left - (end - skipped)
                self.result_rows.scope.read.deadline.check()
                if end > skipped:
                    yield self.result_rows.batch(batch.slice(skipped, end))

    def _after_all(self, batches: Iterator[Bindings]) -> Iterator[pa.Table]:
        gathered = self.result_rows.gathered(batches)
        if not gathered.goes_on:
            yield self.result_rows.result(gathered.all())
            return
        read = self.result_rows.scope.read
        with read.engine.collected(MATCHES, self.result_rows.tables(gathered.all())):
            yield from read.engine.stream(self.result_rows.text_over_collected(), BATCH)


def is_batchwise(checked: CheckedQuery) -> bool:
    """Whether a batch of the result needs only a batch of the matches."""
    return not (checked.order or checked.aggregated or checked.distinct)


def columns_by_variable(scope: Scope, checked: CheckedQuery) -> dict[str, list[str]]:
    """The stored columns that the result and its conditions read, by variable."""
    found: dict[str, list[str]] = {}
    for whole in (*(each.value for each in checked.columns), *checked.pattern.filters):
        for node in walk(whole):
            if isinstance(node, PropertyValue):
                found.setdefault(node.variable, []).append(node.property)
            elif isinstance(node, EntityValue):
                found.setdefault(node.variable, []).extend(entity_fields(scope, node.variable))
    return {name: list(dict.fromkeys(columns)) for name, columns in found.items()}
