"""Staged writes: what a commit of prepared fragments checks, and what it does not.

Design: OmniGraph stages everything, commits each table and then proves `version == read version + 1` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from conformance import writers
from conformance.tables import append, ids, keyed, staged_append, staged_upsert, values, write

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.writers import Crew


def test_max_retries_zero_is_no_version_check_for_an_append(tmp_path: Path) -> None:
    table = write(tmp_path / "t", keyed([1]))
    staged = staged_append(table, keyed([2]))
    foreign = append(append(table, keyed([10])), keyed([11]))
    landed = LanceDataset.commit(table, staged, max_retries=0)
    assert landed.version == foreign.version + 1 > table.version + 1
    assert ids(landed) == [1, 2, 10, 11]


def test_a_commit_on_an_unmoved_table_lands_at_read_version_plus_one(tmp_path: Path) -> None:
    table = write(tmp_path / "t", keyed([1]))
    landed = LanceDataset.commit(table, staged_append(table, keyed([2])), max_retries=0)
    assert landed.version == table.version + 1
    assert table.count_rows() == 1


def test_an_overwrite_with_max_retries_zero_is_a_version_check(tmp_path: Path) -> None:
    table = write(tmp_path / "t", keyed([1]))
    staged = write_fragments(keyed([2]), table, mode="overwrite", return_transaction=True)
    append(table, keyed([10]))
    with pytest.raises(CommitConflictError, match="Failed to commit the transaction after 0 retries") as refused:
        LanceDataset.commit(table, staged, max_retries=0)
    assert refused.value.retryable


@pytest.mark.parametrize("primary_key", [False, True])
def test_two_staged_inserts_of_one_new_key_both_commit(tmp_path: Path, primary_key: bool) -> None:
    table = write(tmp_path / "t", keyed([1], primary_key=primary_key))
    one, two = (staged_upsert(table, keyed([7], who, primary_key=primary_key)) for who in ("one", "two"))
    LanceDataset.commit(table, one, max_retries=0)
    assert ids(LanceDataset.commit(table, two, max_retries=0)) == [1, 7, 7]


def test_staged_updates_of_different_rows_of_one_fragment_conflict(tmp_path: Path) -> None:
    table = write(tmp_path / "t", keyed([1, 2]))
    one, two = staged_upsert(table, keyed([1], "one")), staged_upsert(table, keyed([2], "two"))
    LanceDataset.commit(table, one, max_retries=0)
    with pytest.raises(CommitConflictError, match="preempted by concurrent transaction Update"):
        LanceDataset.commit(table, two, max_retries=0)


def test_one_transaction_committed_twice_lands_twice_under_the_same_uuid(tmp_path: Path) -> None:
    table = write(tmp_path / "t", keyed([1]))
    staged = staged_append(table, keyed([2]))
    LanceDataset.commit(table, staged, max_retries=0)
    twice = LanceDataset.commit(table, staged, max_retries=0)
    assert ids(twice) == [1, 2, 2]
    assert [twice.read_transaction(v).uuid for v in (2, 3)] == [staged.uuid, staged.uuid]


def test_the_uuid_and_properties_of_a_transaction_survive_a_rebase(tmp_path: Path) -> None:
    table = write(tmp_path / "t", keyed([1]))
    staged = staged_append(table, keyed([2]))
    staged.transaction_properties = {"omnigraph.operation": "01J"}
    append(table, keyed([10]))
    landed = LanceDataset.commit(table, staged, max_retries=0)
    recorded = lance.dataset(table.uri).read_transaction(landed.version)
    assert recorded.uuid == staged.uuid
    assert recorded.transaction_properties == {"omnigraph.operation": "01J"}


def test_commit_batch_joins_appends_and_drops_their_properties(tmp_path: Path) -> None:
    table = write(tmp_path / "t", keyed([1]))
    one, two = staged_append(table, keyed([2])), staged_append(table, keyed([3]))
    one.transaction_properties = {"omnigraph.operation": "01J"}
    landed = LanceDataset.commit_batch(table, [one, two])["dataset"]
    assert (landed.version, ids(landed)) == (2, [1, 2, 3])
    assert not landed.read_transaction(2).transaction_properties


def test_commit_batch_takes_nothing_but_appends(tmp_path: Path) -> None:
    table = write(tmp_path / "t", keyed([1]))
    with pytest.raises(OSError, match="Only append transactions"):
        LanceDataset.commit_batch(table, [staged_upsert(table, keyed([2])), staged_upsert(table, keyed([3]))])


def test_a_table_is_created_atomically_by_an_overwrite_at_version_zero(tmp_path: Path, crew: Crew) -> None:
    for attempt in range(3):
        uri = str(tmp_path / f"t{attempt}")
        outcomes = crew.all(writers.create_table, uri)
        assert outcomes.count(None) == 1, outcomes
        made = lance.dataset(uri)
        assert (made.version, ids(made)) == (1, [outcomes.index(None)])
        assert all("was not found" in o or "Dataset already exists" in o for o in outcomes if o is not None), outcomes


def test_an_overwrite_without_fragments_makes_and_empties_tables(tmp_path: Path) -> None:
    uri, schema = str(tmp_path / "t"), keyed([]).schema
    empty = LanceOperation.Overwrite(schema, [])
    made = LanceDataset.commit(uri, empty, read_version=0, max_retries=0, enable_stable_row_ids=True)
    assert (made.version, made.count_rows(), made.schema) == (1, 0, schema)
    filled = append(made, keyed([1]))
    emptied = LanceDataset.commit(filled, empty, read_version=filled.version, max_retries=0)
    assert (emptied.version, emptied.count_rows()) == (3, 0)
    assert append(emptied, keyed([2])).to_table(columns=["_rowid"])["_rowid"].to_pylist() == [1]


def test_stable_row_ids_asked_for_later_are_silently_ignored(tmp_path: Path) -> None:
    plain = lance.write_dataset(keyed([1]), str(tmp_path / "t"), data_storage_version="2.2")
    lance.write_dataset(keyed([2]), plain.uri, mode="append", enable_stable_row_ids=True)
    lance.write_dataset(keyed([3]), plain.uri, mode="append", enable_stable_row_ids=True)
    newest = lance.dataset(plain.uri).to_table(columns=["id", "_row_created_at_version"])
    assert newest["_row_created_at_version"].to_pylist() == [1, 1, 1]


def test_rows_are_deleted_by_key_in_a_staged_write(tmp_path: Path) -> None:
    table = write(tmp_path / "t", keyed([1, 2, 3]))
    staged, _ = table.merge_insert("id").when_matched_delete().execute_uncommitted(keyed([2]))
    assert table.count_rows() == 3
    assert ids(LanceDataset.commit(table, staged, max_retries=0)) == [1, 3]


def test_rows_are_upserted_and_deleted_in_one_staged_write(tmp_path: Path) -> None:
    table = write(tmp_path / "t", keyed([1, 2, 3, 4], "old"))
    builder = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    staged, _ = builder.when_not_matched_by_source_delete("id in (3, 4)").execute_uncommitted(keyed([1, 9], "new"))
    landed = LanceDataset.commit(table, staged, max_retries=0)
    assert landed.version == table.version + 1
    assert values(landed) == {1: "new", 2: "old", 9: "new"}


def test_a_fragment_whose_every_row_is_deleted_comes_back_as_none(tmp_path: Path) -> None:
    table = append(write(tmp_path / "t", keyed([1, 2])), keyed([3]))
    assert table.get_fragment(1).delete("id = 3") is None
    operation = LanceOperation.Delete([], [1], "id = 3")
    assert ids(LanceDataset.commit(table, Transaction(table.version, operation), max_retries=0)) == [1, 2]


def test_a_missing_data_file_is_accepted_at_commit_and_found_by_validate(tmp_path: Path) -> None:
    table = write(tmp_path / "t", keyed([1]))
    staged = staged_append(table, keyed([2]))
    lost = tmp_path / "t" / "data" / staged.operation.fragments[0].files[0].path
    lost.unlink()
    landed = LanceDataset.commit(table, staged, max_retries=0)
    with pytest.raises(OSError, match=r"(?i)not found"):
        landed.validate()


def test_a_staged_merge_insert_that_matches_nothing_still_makes_a_version(tmp_path: Path) -> None:
    table = write(tmp_path / "t", keyed([1]))
    staged, _ = table.merge_insert("id").when_matched_delete().execute_uncommitted(keyed([99]))
    assert LanceDataset.commit(table, staged, max_retries=0).version == table.version + 1
