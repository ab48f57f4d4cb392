"""A result in pieces: each is made from some of the matches, handed over and forgotten.

Without order, groups or `distinct` a piece needs its own matches alone. Otherwise all matches come first: many of them
go into a table of DuckDB, which may use the disk, and the result is read from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.language.query.expressions import EntityValue, PropertyValue, walk
from omnigraph.read.execute.objects import entity_fields
from omnigraph.relational.outcome import MATCHES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from omnigraph.language.query.checked import CheckedQuery
    from omnigraph.read.execute.outcome import Maker
    from omnigraph.read.execute.rows import Rows
    from omnigraph.read.execute.scope import Scope

# How many rows of a result are made at once.
PIECE = 65_536
# How many matches are held at once.
MATCHED = 262_144


@dataclass(frozen=True)
class Pieces:
    """Makes the result of one query from its matches, a piece at a time."""

    maker: Maker

    def of(self, batches: Iterator[Rows]) -> Iterator[pa.Table]:
        """The pieces: columns `c0`, `c1`, … in which an entity is still a key."""
        if is_piecewise(self.maker.checked):
            return self._piecewise(batches)
        return self._after_all(batches)

    def _piecewise(self, batches: Iterator[Rows]) -> Iterator[pa.Table]:
        bounds = self.maker.bounds()
        to_skip, left = bounds.offset, bounds.limit
        for rows in batches:
            for piece in rows.pieces(PIECE):
                if left == 0:
                    return
                skipped = min(to_skip, piece.count)
                end = piece.count if left is None else min(piece.count, skipped + left)
                to_skip -= skipped
                left = None if left is None else left - (end - skipped)
                self.maker.scope.read.deadline.check()
                if end > skipped:
                    yield self.maker.piece(piece.slice(skipped, end))

    def _after_all(self, batches: Iterator[Rows]) -> Iterator[pa.Table]:
        gathered = self.maker.gathered(batches)
        if not gathered.goes_on:
            yield self.maker.result(gathered.all())
            return
        read = self.maker.scope.read
        with read.engine.collected(MATCHES, self.maker.tables(gathered.all())):
            yield from read.engine.stream(self.maker.text_over_collected(), PIECE)


def is_piecewise(checked: CheckedQuery) -> bool:
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
