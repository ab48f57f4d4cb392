"""The exception classes and texts that OmniGraph's one classifier of Lance errors matches.

Lance tells the same thing in several ways; when a text here changes, the classifier must learn the new one first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from conformance.tables import append, keyed, staged_append, staged_upsert, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    return write(tmp_path / "t", keyed([1, 2], "old"))


def overwrite(table: LanceDataset) -> None:
    """A commit that nothing staged before it can survive."""
    lance.write_dataset(keyed([5]), table.uri, mode="overwrite")


def test_a_conflict_error_is_an_os_error() -> None:
    assert issubclass(CommitConflictError, OSError)


def test_commit_incompatible(table: LanceDataset) -> None:
    staged = staged_append(table, keyed([3]))
    overwrite(table)
    with pytest.raises(CommitConflictError) as refused:
        LanceDataset.commit(table, staged, max_retries=0)
    assert not refused.value.retryable
    expected = "Incompatible transaction: This Append transaction is incompatible with concurrent transaction Overwrite"
    assert str(refused.value).startswith(expected)


def test_commit_retryable(table: LanceDataset) -> None:
    one, two = staged_upsert(table, keyed([1])), staged_upsert(table, keyed([1]))
    LanceDataset.commit(table, one, max_retries=0)
    with pytest.raises(CommitConflictError) as refused:
        LanceDataset.commit(table, two, max_retries=0)
    assert refused.value.retryable
    assert str(refused.value).startswith(
        "Retryable commit conflict for version 2: This Update transaction was preempted"
    )
    assert "Please retry" in str(refused.value)


def test_commit_out_of_retries(table: LanceDataset) -> None:
    staged = write_fragments(keyed([9]), table, mode="overwrite", return_transaction=True)
    append(table, keyed([3]))
    with pytest.raises(CommitConflictError) as refused:
        LanceDataset.commit(table, staged, max_retries=0)
    assert refused.value.retryable
    expected = "Commit conflict for version 2: Failed to commit the transaction after 0 retries."
    assert str(refused.value).startswith(expected)


def test_merge_insert_out_of_retries(table: LanceDataset) -> None:
    late = lance.dataset(table.uri)
    LanceDataset.commit(table, staged_upsert(table, keyed([1])), max_retries=0)
    with pytest.raises(OSError, match=r"Too many concurrent writers\. Attempted 0 retries") as refused:
        late.merge_insert("id").when_matched_update_all().conflict_retries(0).execute(keyed([1], "late"))
    assert not isinstance(refused.value, CommitConflictError)


def test_delete_out_of_retries(table: LanceDataset) -> None:
    late = lance.dataset(table.uri)
    LanceDataset.commit(table, staged_upsert(table, keyed([1])), max_retries=0)
    with pytest.raises(OSError, match=r"Too many concurrent writers\. Attempted 0 retries"):
        late.delete("id = 1", conflict_retries=0)


def test_update_out_of_retries(table: LanceDataset) -> None:
    late = lance.dataset(table.uri)
    LanceDataset.commit(table, staged_upsert(table, keyed([1])), max_retries=0)
    with pytest.raises(OSError, match=r"Too many concurrent writers\. Attempted 0 retries"):
        late.update({"value": "'late'"}, where="id = 1", conflict_retries=0)


def test_merge_insert_incompatible(table: LanceDataset) -> None:
    late = lance.dataset(table.uri)
    overwrite(table)
    with pytest.raises(OSError, match="Incompatible transaction") as refused:
        late.merge_insert("id").when_matched_update_all().conflict_retries(0).execute(keyed([1], "late"))
    assert not isinstance(refused.value, CommitConflictError)


def test_metadata_update_retryable_as_a_plain_os_error(table: LanceDataset) -> None:
    late = lance.dataset(table.uri)
    table.add_columns({"more": "id + 1"})
    with pytest.raises(OSError, match="Retryable commit conflict") as refused:
        late.update_schema_metadata({"k": "v"})
    assert not isinstance(refused.value, CommitConflictError)


def test_a_matched_row_that_may_not_be(table: LanceDataset) -> None:
    insert_only = table.merge_insert("id").when_matched_fail().when_not_matched_insert_all()
    with pytest.raises(OSError, match="Merge insert failed: found matching row with key values: id = 2"):
        insert_only.execute_uncommitted(keyed([2]))


def test_two_source_rows_for_one_target_row(table: LanceDataset) -> None:
    upsert = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(OSError, match="Ambiguous merge inserts are prohibited"):
        upsert.execute_uncommitted(keyed([2, 2]))


def test_creating_what_exists(table: LanceDataset) -> None:
    with pytest.raises(OSError, match="Dataset already exists"):
        lance.write_dataset(keyed([1]), table.uri, mode="create")


def test_creating_at_version_zero_what_exists(table: LanceDataset) -> None:
    operation = LanceOperation.Overwrite(keyed([]).schema, [])
    with pytest.raises(OSError, match=r"_versions/0\.manifest was not found"):
        LanceDataset.commit(table.uri, operation, read_version=0, max_retries=0)


def test_opening_a_missing_dataset(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(str(tmp_path / "missing"))


def test_opening_a_missing_version(table: LanceDataset) -> None:
    with pytest.raises(ValueError, match=r"_versions/99\.manifest was not found"):
        lance.dataset(table.uri, version=99)


def test_checking_out_a_missing_branch(table: LanceDataset) -> None:
    with pytest.raises(ValueError, match=r"Not found: .*/tree/missing/_versions"):
        table.checkout_version(("missing", None))


def test_checking_out_a_missing_version_of_a_branch(table: LanceDataset) -> None:
    table.create_branch("review")
    with pytest.raises(OSError, match=r"/tree/review/_versions/99\.manifest was not found"):
        table.checkout_version(("review", 99))


def test_opening_a_missing_tag(table: LanceDataset) -> None:
    with pytest.raises(ValueError, match="Ref not found error: tag missing does not exist"):
        lance.dataset(table.uri, version="missing")


def test_committing_from_a_version_that_never_was(table: LanceDataset) -> None:
    operation = staged_append(table, keyed([3])).operation
    with pytest.raises(OSError, match=r"manifest was not found"):
        LanceDataset.commit(table.uri, Transaction(99, operation), max_retries=0)


def test_staging_rows_of_another_schema(table: LanceDataset) -> None:
    with pytest.raises(OSError, match="Append with different schema"):
        staged_append(table, pa.table({"other": [1]}))


def test_deleting_an_unknown_column(table: LanceDataset) -> None:
    with pytest.raises(OSError, match="No field named missing"):
        table.delete("missing = 1")
