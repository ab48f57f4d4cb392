"""Runs the text and vector searches of one read: each is run once, and its result is looked up by row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.catalog.indexes import metric_of
from omnigraph.errors import InvalidInput
from omnigraph.language.ir.expressions import Bm25, Constant, Nearest, ParameterValue, TextMatch
from omnigraph.query.search.text import TextHits, score_text, search_text
from omnigraph.query.search.vectors import distances, vector_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omnigraph.catalog.catalog import Property
    from omnigraph.language.ir.expressions import Expression
    from omnigraph.query.columns.table_columns import Int64Array, TableRows
    from omnigraph.query.exec.bindings import VariableTables
    from omnigraph.query.exec.context import QueryContext

Search = TextMatch | Nearest | Bm25
_DEFAULT_EDITS = 2


@dataclass
class Searches:
    """The results of searches, by search and table."""

    read: QueryContext
    _hits: dict[tuple[Search, str], TextHits] = field(default_factory=dict)
    _near: dict[Nearest, TextHits] = field(default_factory=dict)

    def values(self, search: Search, bound: VariableTables, keys: Int64Array) -> pa.Array[Any]:
        """Truth, score or distance at each key; null where there is no node, no text or no vector."""
        if isinstance(search, TextMatch):
            found: pa.Array[Any] = pa.array(self.matches(search, bound, keys), mask=keys < 0)
            return found
        scores = np.full(len(keys), np.nan)
        for table in bound.tables:
            rows = bound.rows_in(table.name, keys)
            own = np.flatnonzero(rows >= 0)
            if not len(own):
                continue
            if isinstance(search, Bm25):
                scores[own] = self.hits(search, bound, table.name).scores_at(rows[own])
            else:
                scores[own] = self._distances(search, bound, table, rows[own])
        return _nullable(scores)

    def _distances(
        self, search: Nearest, bound: VariableTables, table: TableRows, rows: Int64Array
    ) -> NDArray[np.float64]:
        found = self._near[search].scores_at(rows) if search in self._near else np.full(len(rows), np.nan)
        unknown = np.flatnonzero(np.isnan(found))
        if len(unknown):
            metric, vector = metric_of(self.declared(search, bound)), self.vector(search, bound)
            found[unknown] = distances(table, search.field.property, metric, vector, rows[unknown])
        return found

    def ranks(self, search: Nearest | Bm25, bound: VariableTables, keys: Int64Array) -> pa.Array[Any]:
        """Like `values`, but where the nearest rows are cached, all others are null.

        A ranking never reaches the others, so their distances are not computed.
        """
        if not isinstance(search, Nearest) or search not in self._near:
            return self.values(search, bound, keys)
        scores = self._near[search].scores_at(keys)
        return _nullable(scores)

    def matches(self, search: TextMatch, bound: VariableTables, keys: Int64Array) -> NDArray[np.bool_]:
        """For each key whether its text matches."""
        found = np.zeros(len(keys), np.bool_)
        for table in bound.tables:
            rows = bound.rows_in(table.name, keys)
            own = np.flatnonzero(rows >= 0)
            found[own] = self.hits(search, bound, table.name).has(rows[own])
        return found

    def hits(self, search: TextMatch | Bm25, bound: VariableTables, type_name: str) -> TextHits:
        """All rows of a type that a text search finds, cached."""
        key = (search, type_name)
        if key not in self._hits:
            table = next(each for each in bound.tables if each.name == type_name)
            self._hits[key] = self._search(search, table)
        return self._hits[key]

    def _search(self, search: TextMatch | Bm25, table: Any) -> TextHits:
        query = self._text(search.query)
        if query is None:
            return TextHits(np.zeros(0, np.int64), np.zeros(0))
        if isinstance(search, Bm25):
            return score_text(self.read, table, search.field.property, query)
        edits = _DEFAULT_EDITS if search.max_edits is None else self._edit_limit(search.max_edits)
        return search_text(self.read, table, search.field.property, search.function, query, edits)

    def cache_hits(self, search: Bm25, type_name: str, hits: TextHits) -> None:
        """Cache the best hits of a ranking as its whole result: the read looks at no other rows."""
        self._hits[search, type_name] = hits

    def cache_nearest(self, search: Nearest, rows: Int64Array, found: NDArray[np.float64]) -> None:
        """Cache the distances of the nearest rows. The search has one table, so its keys are row numbers."""
        order = np.argsort(rows)
        self._near[search] = TextHits(rows[order], found[order])

    def forget(self, search: Search) -> None:
        """Drop the result of a text search that will not be needed again."""
        for key in [each for each in self._hits if each[0] == search]:
            del self._hits[key]

    def text(self, search: Bm25) -> str:
        """The search text; empty when it is null."""
        return self._text(search.query) or ""

    def vector(self, search: Nearest, bound: VariableTables) -> NDArray[np.float32] | None:
        """The search vector; None when it is null."""
        return vector_of(self._value(search.query), self.declared(search, bound), self.read.options.embed)

    def declared(self, search: Nearest, bound: VariableTables) -> Property:
        """The declaration of the vector property in the schema."""
        return self.read.catalog.nodes[bound.tables[0].name].properties[search.field.property]

    def _text(self, expression: Expression) -> str | None:
        value = self._value(expression)
        return None if value is None else str(value)

    def _edit_limit(self, expression: Expression) -> int:
        value = self._value(expression)
        if not isinstance(value, int) or value < 0:
            raise InvalidInput(f"the number of typing errors that fuzzy() allows is an integer from 0 on, not {value}")
        return value

    def _value(self, expression: Expression) -> object:
        if isinstance(expression, Constant):
            return expression.value
        if isinstance(expression, ParameterValue):
            return self.read.params[expression.name]
        raise AssertionError(f"{type(expression).__name__} must be evaluated for each row")


def _nullable(scores: NDArray[np.float64]) -> pa.Array[Any]:
    found: pa.Array[Any] = pa.array(scores, mask=np.isnan(scores))
    return found
