"""Search over tables whose index covers only a part of the rows: exact, with the exceptions OmniGraph works around."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from lance.query import MatchQuery

from conformance.tables import append, write

if TYPE_CHECKING:
    from pathlib import Path

    from lance import LanceDataset

INDEXED = range(100)
LATER = range(100, 140)


def notes(keys: range) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([float(k) for k in keys for _ in range(4)], pa.float32()), 4)
    words = pa.array([f"harbour note {'even' if k % 2 == 0 else 'odd'}" for k in keys])
    return pa.table({"id": pa.array(keys, pa.int64()), "text": words, "vector": vectors})


@pytest.fixture
def bare(tmp_path: Path) -> LanceDataset:
    """No index at all."""
    return write(tmp_path / "notes", notes(INDEXED))


@pytest.fixture
def partly_indexed(bare: LanceDataset) -> LanceDataset:
    """Text, vector and id indexed for the first hundred rows; forty more appended, one deleted."""
    bare.create_scalar_index("text", "INVERTED")
    bare.create_scalar_index("id", "BTREE")
    bare.create_index("vector", "IVF_FLAT", num_partitions=1)
    grown = append(bare, notes(LATER))
    grown.delete("id = 10")
    return grown


def matching(table: LanceDataset, query: MatchQuery, condition: str | None = None) -> set[int]:
    rows = table.to_table(
        columns=["id", "_score"], full_text_query=query, filter=condition, prefilter=condition is not None
    )
    return set(rows["id"].to_pylist())


def nearest(table: LanceDataset, at: float, condition: str | None = None, *, prefilter: bool = True) -> list[int]:
    where = {"column": "vector", "q": [at] * 4, "k": 3}
    rows = table.to_table(columns=["id", "_distance"], nearest=where, filter=condition, prefilter=prefilter)
    return sorted(rows["id"].to_pylist())


def test_a_filter_must_come_before_the_vector_search(partly_indexed: LanceDataset) -> None:
    assert nearest(partly_indexed, 99.0, "id < 50", prefilter=True) == [47, 48, 49]
    assert nearest(partly_indexed, 99.0, "id < 50", prefilter=False) == []


def test_vector_search_sees_rows_the_index_does_not_cover(partly_indexed: LanceDataset) -> None:
    assert nearest(partly_indexed, 120.0) == [119, 120, 121]


def test_vector_search_does_not_see_deleted_rows(partly_indexed: LanceDataset) -> None:
    assert 10 not in nearest(partly_indexed, 10.0)


def test_full_text_search_works_without_an_index(bare: LanceDataset) -> None:
    assert matching(bare, MatchQuery("even", "text")) == {k for k in INDEXED if k % 2 == 0}


def test_full_text_search_sees_rows_the_index_does_not_cover(partly_indexed: LanceDataset) -> None:
    expected = {k for k in (*INDEXED, *LATER) if k % 2 == 0} - {10}
    assert matching(partly_indexed, MatchQuery("even", "text")) == expected


def test_full_text_search_under_a_filter_is_exact(partly_indexed: LanceDataset) -> None:
    found = matching(partly_indexed, MatchQuery("odd", "text"), "id > 90")
    assert found == {k for k in range(91, 140) if k % 2 == 1}


def test_a_scalar_index_finds_rows_it_does_not_cover(partly_indexed: LanceDataset) -> None:
    assert partly_indexed.to_table(columns=["id"], filter="id in (10, 99, 139)")["id"].to_pylist() == [99, 139]


def test_fuzzy_search_misses_rows_the_index_does_not_cover(partly_indexed: LanceDataset) -> None:
    found = matching(partly_indexed, MatchQuery("harbuor", "text", fuzziness=2))
    assert found == set(INDEXED) - {10}


def test_fuzzy_search_is_whole_after_the_index_was_brought_up_to_date(partly_indexed: LanceDataset) -> None:
    partly_indexed.optimize.optimize_indices()
    found = matching(partly_indexed, MatchQuery("harbuor", "text", fuzziness=2))
    assert found == {*INDEXED, *LATER} - {10}


def test_automatic_fuzziness_finds_nothing(partly_indexed: LanceDataset) -> None:
    partly_indexed.optimize.optimize_indices()
    assert matching(partly_indexed, MatchQuery("harbuor", "text", fuzziness=None)) == set()


def test_a_query_text_is_never_taken_for_sql(bare: LanceDataset) -> None:
    assert matching(bare, MatchQuery("' OR 1=1 --", "text")) == set()


def test_vector_and_full_text_search_cannot_be_one_query(partly_indexed: LanceDataset) -> None:
    where = {"column": "vector", "q": [1.0] * 4, "k": 3}
    with pytest.raises(ValueError, match="Cannot have both"):
        partly_indexed.to_table(nearest=where, full_text_query="even")


def test_a_vector_of_the_wrong_length_is_refused(partly_indexed: LanceDataset) -> None:
    with pytest.raises(ValueError, match="Query vector size 3 does not match index column size 4"):
        partly_indexed.to_table(nearest={"column": "vector", "q": [1.0] * 3, "k": 3})
