"""Text search over one column of a table: any word, a phrase, words with typing errors, and BM25 scores.

The full-text index of the table is used when it covers every row. Otherwise the words of the column are read into
memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import pyarrow as pa
from lance.query import FullTextOperator, MatchQuery

from omnigraph.kernels.row_address import ROW_NUMBER
from omnigraph.query.search.word_index import WordIndex, index_words, plain_words, terms_of
from omnigraph.storage.tables.indexes import indexes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from omnigraph.cache import ReadCache
    from omnigraph.query.columns.table_columns import Column, Int64Array, TableRows
    from omnigraph.storage.filters.model import Filter

# Up to this size a partly indexed column is indexed in memory; beyond it Lance also searches what the index lacks.
ROWS_IN_MEMORY = 2_000_000
# A word must have this many letters for each typing error in it, or short words would match everything.
_LETTERS_PER_EDIT = 3


class _Notes(Protocol):
    def note(self, text: str) -> None: ...


class _Sql(Protocol):
    def run(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table: ...


class SearchContext(Protocol):
    """What a search needs of its read; `query.exec.context.QueryContext` implements it."""

    @property
    def cache(self) -> ReadCache:
        """Where word indexes are cached."""

    @property
    def profile(self) -> _Notes:
        """Where decisions are recorded."""

    @property
    def engine(self) -> _Sql:
        """Runs SQL over Arrow tables."""


@dataclass(frozen=True)
class TextHits:
    """The rows that a search found, ascending, and their scores."""

    rows: Int64Array
    scores: NDArray[np.float64]

    def has(self, rows: Int64Array) -> NDArray[np.bool_]:
        """For each row whether it was found."""
        return np.isin(rows, self.rows)

    def scores_at(self, rows: Int64Array) -> NDArray[np.float64]:
        """The score of each row, NaN where it was not found."""
        if not len(self.rows):
            return np.full(len(rows), np.nan)
        positions = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[positions] == rows, self.scores[positions], np.nan)


def search_text(
    context: SearchContext,
    table: TableRows,
    column: str,
    function: Literal["search", "match_text", "fuzzy"],
    query: str,
    edits: int,
) -> TextHits:
    """The rows whose text matches: any word (`search`), the phrase (`match_text`), or similar words (`fuzzy`)."""
    if function == "fuzzy":
        return _unscored(_fuzzy(context, table, column, query, edits))
    terms = terms_of(query)
    if not terms:
        return _unscored(np.zeros(0, np.int64))
    if index_for_text(context, table, column):
        return _unscored(_from_index(table, column, query, phrase=function == "match_text"))
    words = word_index(context, table, column)
    if function == "match_text":
        return _unscored(words.rows_with_phrase(terms))
    return _unscored(words.rows_with_any([each.text for each in terms]))


def score_text(
    context: SearchContext,
    table: TableRows,
    column: str,
    query: str,
    most: int | None = None,
    where: Filter | None = None,
) -> TextHits:
    """The rows that have any word of the query, and their BM25 scores.

    `most` and `where` narrow the search when an index answers it; the words in memory return every row.
    """
    terms = terms_of(query)
    if not terms:
        return _unscored(np.zeros(0, np.int64))
    if not index_for_text(context, table, column):
        return TextHits(*word_index(context, table, column).scores([each.text for each in terms]))
    found = table.search_store(["_score"], where, full_text_query=MatchQuery(query, column), limit=most)
    rows = found[ROW_NUMBER].to_numpy().astype(np.int64)
    order = np.argsort(rows)
    return TextHits(rows[order], found["_score"].to_numpy().astype(np.float64)[order])


def index_for_text(context: SearchContext, table: TableRows, column: str) -> bool:
    """Whether the index of the table answers: it covers every row, or there are too many rows to index in memory."""
    covers = context.cache.get(
        "text index", (table.identity, column), lambda: _index_covers(table, column), lambda _: 1_000
    )
    uses = covers == "all" or (covers == "some" and table.size > ROWS_IN_MEMORY)
    context.profile.note(f"text of {table.name}.{column}: {'index' if uses else 'words in memory'}")
    return uses


def _index_covers(table: TableRows, column: str) -> Literal["all", "some", "none"]:
    """How many fragments of the table the full-text index of a column covers."""
    for index in indexes_of(table.table):
        if index.columns == (column,) and index.kind in ("INVERTED", "FTS"):
            return "all" if index.fragments.issuperset(table.table.fragment_ids()) else "some"
    return "none"


def word_index(context: SearchContext, table: TableRows, column: str) -> WordIndex:
    """The words of a column, cached for its version."""
    key = (table.identity, column)
    return context.cache.get("words", key, lambda: index_words(table.column(column)), lambda made: made.nbytes)


def _from_index(table: TableRows, column: str, query: str, *, phrase: bool) -> Int64Array:
    if not phrase:
        found = table.search_store(["_score"], None, full_text_query=MatchQuery(query, column))
        return np.sort(found[ROW_NUMBER].to_numpy().astype(np.int64))
    # The index stores no positions: it finds the rows with all words, and the texts themselves decide the phrase.
    every = MatchQuery(query, column, operator=FullTextOperator.AND)
    found = table.search_store([column, "_score"], None, full_text_query=every)
    rows = found[ROW_NUMBER].to_numpy().astype(np.int64)
    texts: Any = found.column(column).combine_chunks()
    return np.sort(rows[index_words(texts).rows_with_phrase(terms_of(query))])


def _fuzzy(context: SearchContext, table: TableRows, column: str, query: str, edits: int) -> Int64Array:
    """Compares words as they are written: the index holds stems, which an error at the end of a word would change."""
    words = plain_words(query)
    if not words:
        return np.zeros(0, np.int64)

    def alike(vocabulary: Column, wanted: list[str], most: int) -> Int64Array:
        return _similar(context, vocabulary, wanted, most)

    return word_index(context, table, column).rows_with_similar(words, edits, alike)


def _similar(context: SearchContext, vocabulary: Column, wanted: list[str], edits: int) -> Int64Array:
    limits = [min(edits, len(each) // _LETTERS_PER_EDIT) for each in wanted]
    words = pa.table({"word": vocabulary, "number": pa.array(np.arange(len(vocabulary)))})
    wanted_words = pa.table({"wanted": wanted, "edits": pa.array(limits, pa.int64())})
    answer = context.engine.run(
        "select distinct number from words, wanted_words"
        " where abs(length(word) - length(wanted)) <= edits and damerau_levenshtein(word, wanted) <= edits",
        {"words": words, "wanted_words": wanted_words},
    )
    return np.sort(answer.column("number").to_numpy())


def _unscored(rows: Int64Array) -> TextHits:
    return TextHits(rows, np.zeros(len(rows)))
