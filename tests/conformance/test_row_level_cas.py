"""Row-level conflicts of the committing `merge_insert`, with and without the primary-key annotation.

In every test `late` was opened at the same version as `early`, `early` commits first, and nobody retries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset

from conformance.tables import PRIMARY_KEY, append, ids, keyed, staged_append, staged_upsert, values, write

if TYPE_CHECKING:
    from pathlib import Path

GAVE_UP = r"Too many concurrent writers\. Attempted 0 retries"


@dataclass(frozen=True)
class Race:
    """One table, two handles at the same version."""

    early: LanceDataset
    late: LanceDataset
    primary_key: bool

    def rows(self, keys: list[int], value: str) -> pa.Table:
        return keyed(keys, value, primary_key=self.primary_key)

    def newest(self) -> LanceDataset:
        return lance.dataset(self.early.uri)


def race(tmp_path: Path, *, primary_key: bool) -> Race:
    uri = write(tmp_path / "t", keyed([1, 2, 3], "old", primary_key=primary_key)).uri
    return Race(lance.dataset(uri), lance.dataset(uri), primary_key)


@pytest.fixture
def with_key(tmp_path: Path) -> Race:
    return race(tmp_path, primary_key=True)


@pytest.fixture
def without_key(tmp_path: Path) -> Race:
    return race(tmp_path, primary_key=False)


def upsert(table: LanceDataset, rows: pa.Table, *, retries: int = 0) -> None:
    builder = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    builder.conflict_retries(retries).execute(rows)


def test_the_same_new_key_has_one_winner_with_a_primary_key(with_key: Race) -> None:
    upsert(with_key.early, with_key.rows([9], "early"))
    with pytest.raises(OSError, match=GAVE_UP):
        upsert(with_key.late, with_key.rows([9], "late"))
    assert values(with_key.newest())[9] == "early"


def test_the_same_new_key_lands_twice_without_a_primary_key(without_key: Race) -> None:
    upsert(without_key.early, without_key.rows([9], "early"))
    upsert(without_key.late, without_key.rows([9], "late"))
    assert ids(without_key.newest()) == [1, 2, 3, 9, 9]


@pytest.mark.parametrize("primary_key", [True, False])
def test_the_same_existing_row_has_one_winner(tmp_path: Path, primary_key: bool) -> None:
    both = race(tmp_path, primary_key=primary_key)
    upsert(both.early, both.rows([2], "early"))
    with pytest.raises(OSError, match=GAVE_UP):
        upsert(both.late, both.rows([2], "late"))
    assert values(both.newest()) == {1: "old", 2: "early", 3: "old"}


@pytest.mark.parametrize("primary_key", [True, False])
def test_different_rows_of_one_fragment_both_land(tmp_path: Path, primary_key: bool) -> None:
    both = race(tmp_path, primary_key=primary_key)
    upsert(both.early, both.rows([1], "early"))
    upsert(both.late, both.rows([2], "late"))
    assert values(both.newest()) == {1: "early", 2: "late", 3: "old"}


@pytest.mark.parametrize("primary_key", [True, False])
def test_different_new_keys_both_land(tmp_path: Path, primary_key: bool) -> None:
    both = race(tmp_path, primary_key=primary_key)
    upsert(both.early, both.rows([8], "early"))
    upsert(both.late, both.rows([9], "late"))
    assert ids(both.newest()) == [1, 2, 3, 8, 9]


def test_an_append_of_any_key_stops_a_keyed_upsert_of_a_new_one(with_key: Race) -> None:
    append(with_key.early, with_key.rows([50], "early"))
    with pytest.raises(OSError, match=GAVE_UP):
        upsert(with_key.late, with_key.rows([9], "late"))


def test_an_append_does_not_stop_an_unkeyed_upsert(without_key: Race) -> None:
    append(without_key.early, without_key.rows([9], "early"))
    upsert(without_key.late, without_key.rows([9], "late"))
    assert ids(without_key.newest()) == [1, 2, 3, 9, 9]


@pytest.mark.parametrize("primary_key", [True, False])
def test_an_append_never_looks_at_keys(tmp_path: Path, primary_key: bool) -> None:
    both = race(tmp_path, primary_key=primary_key)
    staged = staged_append(both.late, both.rows([9], "late"))
    upsert(both.early, both.rows([9], "early"))
    LanceDataset.commit(both.late, staged, max_retries=0)
    assert ids(both.newest()) == [1, 2, 3, 9, 9]


def test_a_committed_staged_update_stops_a_keyed_upsert_of_another_new_key(with_key: Race) -> None:
    LanceDataset.commit(with_key.early, staged_upsert(with_key.early, with_key.rows([8], "early")), max_retries=0)
    with pytest.raises(OSError, match=GAVE_UP):
        upsert(with_key.late, with_key.rows([9], "late"))


@pytest.mark.parametrize("primary_key", [True, False])
def test_a_staged_insert_lands_over_a_keyed_upsert_of_the_same_new_key(tmp_path: Path, primary_key: bool) -> None:
    both = race(tmp_path, primary_key=primary_key)
    staged = staged_upsert(both.late, both.rows([9], "late"))
    upsert(both.early, both.rows([9], "early"))
    LanceDataset.commit(both.late, staged, max_retries=0)
    assert ids(both.newest()) == [1, 2, 3, 9, 9]


def test_with_retries_the_last_writer_of_a_new_key_wins_silently(with_key: Race) -> None:
    upsert(with_key.early, with_key.rows([9], "early"))
    upsert(with_key.late, with_key.rows([9], "late"), retries=10)
    assert values(with_key.newest())[9] == "late"
    assert ids(with_key.newest()) == [1, 2, 3, 9]


def test_a_very_stale_handle_is_still_stopped(with_key: Race) -> None:
    for turn in range(4):
        upsert(with_key.newest(), with_key.rows([2], f"turn {turn}"))
    with pytest.raises(OSError, match=GAVE_UP):
        upsert(with_key.late, with_key.rows([2], "late"))


def test_bulk_inserts_of_disjoint_new_keys_conflict_falsely(with_key: Race) -> None:
    """The key filter is a small Bloom filter; at a few hundred keys on each side it is certain to collide."""
    upsert(with_key.early, with_key.rows(list(range(1_000, 1_500)), "early"))
    with pytest.raises(OSError, match=GAVE_UP):
        upsert(with_key.late, with_key.rows(list(range(2_000, 2_500)), "late"))


def test_two_new_source_rows_with_one_key_are_both_inserted(with_key: Race) -> None:
    upsert(with_key.early, with_key.rows([9, 9], "twice"))
    assert ids(with_key.newest()) == [1, 2, 3, 9, 9]


def test_the_key_column_must_not_be_nullable(tmp_path: Path) -> None:
    nullable = pa.schema([pa.field("id", pa.int64(), metadata=PRIMARY_KEY)])
    with pytest.raises(OSError, match="must not be nullable"):
        write(tmp_path / "nullable", pa.table({"id": [1]}, schema=nullable))
