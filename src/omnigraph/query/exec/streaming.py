"""A result in batches: each is made from some of the matches, handed over and forgotten.

Without order, groups or `distinct` a batch needs its own matches alone. Otherwise all matches come first: many of them
go into a table of DuckDB, which may use the disk, and the result is read from there.
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

# How many rows of a result are made at once.
BATCH = 65_536
# How many matches are held at once.
MATCHED = 262_144


@dataclass(frozen=True)
class ResultBatches:
    """Makes the result of one query from its matches, a batch at a time."""

    maker: ResultRows

    def of(self, batches: Iterator[Bindings]) -> Iterator[pa.Table]:
        """The batches: columns `c0`, `c1`, … in which an entity is still a key."""
        if is_batchwise(self.maker.checked):
            return self._batchwise(batches)
        return self._after_all(batches)

    def _batchwise(self, batches: Iterator[Bindings]) -> Iterator[pa.Table]:
        bounds = self.maker.bounds()
        to_skip, left = bounds.offset, bounds.limit
        for rows in batches:
            for batch in rows.batches(BATCH):
                if left == 0:
                    return
                skipped = min(to_skip, batch.count)
                end = batch.count if left is None else min(batch.count, skipped + left)
                to_skip -= skipped
                left = None if left is None else left - (end - skipped)
                self.maker.scope.read.deadline.check()
                if end > skipped:
                    yield self.maker.batch(batch.slice(skipped, end))

    def _after_all(self, batches: Iterator[Bindings]) -> Iterator[pa.Table]:
        gathered = self.maker.gathered(batches)
        if not gathered.goes_on:
            yield self.maker.result(gathered.all())
            return
        read = self.maker.scope.read
        with read.engine.collected(MATCHES, self.maker.tables(gathered.all())):
            yield from read.engine.stream(self.maker.text_over_collected(), BATCH)


def is_batchwise(checked: CheckedQuery) -> bool:
    """Whether a part of the matches is enough for a part of the result."""
    return not (checked.order or checked.aggregated or checked.distinct)


def columns_by_variable(scope: Scope, checked: CheckedQuery) -> dict[str, list[str]]:
    """The stored columns that a result and its conditions are made from, for each variable."""
    found: dict[str, list[str]] = {}
    for whole in (*(each.value for each in checked.columns), *checked.pattern.filters):
        for part in walk(whole):
            if isinstance(part, PropertyValue):
                found.setdefault(part.variable, []).append(part.property)
            elif isinstance(part, EntityValue):
                found.setdefault(part.variable, []).extend(entity_fields(scope, part.variable))
    return {name: list(dict.fromkeys(columns)) for name, columns in found.items()}
