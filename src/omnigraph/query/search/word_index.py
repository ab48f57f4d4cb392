"""An inverted index of a text column in memory, for text search where no index of the table covers all rows.

Words are split, folded and stemmed by Lance's own tokenizer, and scored by the same formula as its index, so that the
result does not depend on whether there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.kernels.arrays import one_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from omnigraph.query.columns.table_columns import Column, Int64Array

_BETWEEN_WORDS = r"[^\p{L}\p{N}]+"
# The tokenizer drops longer words.
_LONGEST = 40
_K1, _B = 1.2, 0.75


@dataclass(frozen=True)
class Term:
    """A word after tokenizing, and its position in the query."""

    text: str
    position: int


def terms_of(text: str) -> list[Term]:
    """The terms of a query, without stop words."""
    return [Term(each.text, each.position) for each in lance.tokenize(text)]


def plain_words(text: str) -> list[str]:
    """The words of a text in lower case, not stemmed."""
    split: Any = pc.split_pattern_regex(pa.array([text.lower()]), _BETWEEN_WORDS)
    return [each for each in split[0].as_py() if each]


@dataclass(frozen=True)
class WordIndex:
    """Every word of a column: its row, its position, and its term.

    The arrays are in text order: `rows` and `places` locate a word, `words` is its index in `vocabulary`, and `terms`
    is the index of its term in `term_texts`, -1 when the tokenizer drops it.
    """

    rows: Int64Array
    positions: Int64Array
    words: NDArray[np.int32]
    vocabulary: Column
    terms: NDArray[np.int32]
    term_texts: Column
    size: int
    texts: int

    @property
    def nbytes(self) -> int:
        """The memory that it holds, including what is computed on first use."""
        arrays = (self.rows, self.positions, self.words, self.terms)
        return int(sum(each.nbytes for each in arrays) * 2 + self.vocabulary.nbytes + self.term_texts.nbytes)

    @cached_property
    def _by_term(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Occurrences sorted by term, and where each term starts."""
        order = np.argsort(self.terms, kind="stable")
        starts = np.searchsorted(self.terms[order], np.arange(len(self.term_texts) + 1))
        return order, starts

    @cached_property
    def lengths(self) -> Int64Array:
        """The number of terms of each row."""
        return np.bincount(self.rows[self.terms >= 0], minlength=self.size).astype(np.int64)

    def occurrences(self, term: str) -> NDArray[Any]:
        """The occurrences of a term, as indexes into the arrays."""
        code: Any = pc.index(self.term_texts, term).as_py()
        if code < 0:
            return np.zeros(0, np.int64)
        order, starts = self._by_term
        return order[starts[code] : starts[code + 1]]

    def rows_with_any(self, terms: Sequence[str]) -> Int64Array:
        """The rows that have at least one of the terms."""
        found = [self.rows[self.occurrences(each)] for each in terms]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def rows_with_phrase(self, phrase: Sequence[Term]) -> Int64Array:
        """The rows in which the terms have the same distances as in the phrase."""
        begins: NDArray[Any] | None = None
        for term in phrase:
            at = self.occurrences(term.text)
            codes = self.rows[at] * _POSITIONS + self.positions[at] - term.position
            begins = codes if begins is None else np.intersect1d(begins, codes)
        return np.zeros(0, np.int64) if begins is None else np.unique(begins // _POSITIONS)

    def rows_with_similar(self, words: Sequence[str], edits: int, alike: Any) -> Int64Array:
        """The rows with a word that `alike` finds within `edits` typing errors of one of these words."""
        codes: Int64Array = alike(self.vocabulary, list(words), edits)
        return np.unique(self.rows[np.isin(self.words, codes)])

    def scores(self, terms: Sequence[str]) -> tuple[Int64Array, NDArray[np.float64]]:
        """The rows with any of the terms, and their BM25 scores."""
        total = np.zeros(self.size)
        average = self.lengths.sum() / max(self.texts, 1)
        for term in dict.fromkeys(terms):
            rows, often = np.unique(self.rows[self.occurrences(term)], return_counts=True)
            if not len(rows):
                continue
            rarity = np.log(1 + (self.texts - len(rows) + 0.5) / (len(rows) + 0.5))
            norm = _K1 * (1 - _B + _B * self.lengths[rows] / average)
            total[rows] += rarity * often * (_K1 + 1) / (often + norm)
        found = np.flatnonzero(total > 0)
        return found.astype(np.int64), total[found]


_POSITIONS = np.int64(1 << 32)


def index_words(texts: Column) -> WordIndex:
    """Split every text of a column into words and index them."""
    given: Any = texts
    lists: Any = pc.split_pattern_regex(pc.utf8_lower(given.fill_null("")), _BETWEEN_WORDS)
    words: Any = one_array(pc.list_flatten(lists))
    rows = one_array(pc.list_parent_indices(lists)).to_numpy().astype(np.int64)
    real = one_array(pc.binary_length(words)).to_numpy(zero_copy_only=False) > 0
    words, rows = words.filter(pa.array(real)), rows[real]
    firsts = np.searchsorted(rows, np.arange(len(texts)))
    positions = np.arange(len(rows), dtype=np.int64) - firsts[rows] if len(rows) else np.zeros(0, np.int64)
    coded = words.dictionary_encode()
    term_of_word, term_texts = _terms_of_words(coded.dictionary)
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    terms = term_of_word[codes] if len(codes) else np.zeros(0, np.int32)
    text_count = len(texts) - texts.null_count
    return WordIndex(rows, positions, codes, coded.dictionary, terms, term_texts, len(texts), text_count)


def _terms_of_words(vocabulary: Column) -> tuple[NDArray[np.int32], Column]:
    """The index of the term of each word, -1 when there is none; one call of the tokenizer for all words."""
    texts: list[Any] = vocabulary.to_pylist()
    words = [each if len(each) <= _LONGEST else "" for each in texts]
    # The tokenizer always keeps the first word, so the positions of the others count from it.
    tokens = lance.tokenize(" ".join(["anchor", *(each or "the" for each in words)]))
    terms: list[str | None] = [None] * len(words)
    for token in tokens[1:]:
        terms[token.position - 1] = token.text
    coded: Any = pa.array(terms, pa.string()).dictionary_encode()
    codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int32)
    return codes, coded.dictionary
