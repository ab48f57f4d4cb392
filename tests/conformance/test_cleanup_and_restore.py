"""Old versions: what cleanup keeps, what restore means, and when `delta` may be believed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import lance
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError

from conformance.tables import append, ids, keyed, staged_append, staged_upsert, write

if TYPE_CHECKING:
    from pathlib import Path

NOW = timedelta(0)


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    """Versions 1 to 5; version n holds rows 1 to n."""
    made = write(tmp_path / "t", keyed([1]))
    for key in range(2, 6):
        made = append(made, keyed([key]))
    return made


def kept_versions(table: LanceDataset) -> list[int]:
    return [v["version"] for v in lance.dataset(table.uri).versions()]


def test_cleanup_keeps_the_newest_version_only(table: LanceDataset) -> None:
    table.cleanup_old_versions(older_than=NOW)
    assert kept_versions(table) == [5]
    assert ids(lance.dataset(table.uri)) == [1, 2, 3, 4, 5]


def test_cleanup_keeps_the_version_a_branch_was_forked_from(table: LanceDataset) -> None:
    table.create_branch("review", 3)
    table.cleanup_old_versions(older_than=NOW)
    assert kept_versions(table) == [3, 5]
    assert ids(lance.dataset(f"{table.uri}/tree/review")) == [1, 2, 3]


def test_cleanup_of_main_keeps_the_old_files_a_branch_still_reads(table: LanceDataset) -> None:
    table.create_branch("review", 3)
    over = lance.write_dataset(keyed([100]), table.uri, mode="overwrite")
    over.cleanup_old_versions(older_than=NOW)
    assert ids(lance.dataset(f"{table.uri}/tree/review")) == [1, 2, 3]


def test_cleanup_of_a_branch_leaves_main_alone(table: LanceDataset) -> None:
    table.create_branch("review")
    branch = append(append(lance.dataset(f"{table.uri}/tree/review"), keyed([6])), keyed([7]))
    branch.cleanup_old_versions(older_than=NOW)
    assert kept_versions(branch) == [7]
    assert kept_versions(table) == [1, 2, 3, 4, 5]


def test_cleanup_refuses_or_keeps_tagged_versions(table: LanceDataset) -> None:
    table.tags.create("published", 2)
    with pytest.raises(OSError, match="Cleanup error: 1 tagged version"):
        table.cleanup_old_versions(older_than=NOW)
    table.cleanup_old_versions(older_than=NOW, error_if_tagged_old_versions=False)
    assert kept_versions(table) == [2, 5]


def test_staged_files_survive_cleanup(table: LanceDataset) -> None:
    staged = staged_append(table, keyed([6]))
    table.cleanup_old_versions(older_than=NOW)
    landed = LanceDataset.commit(table, staged, max_retries=0)
    landed.validate()
    assert ids(landed) == [1, 2, 3, 4, 5, 6]


def test_staged_files_do_not_survive_cleanup_of_unverified_files(table: LanceDataset) -> None:
    staged = staged_append(table, keyed([6]))
    table.cleanup_old_versions(older_than=NOW, delete_unverified=True)
    landed = LanceDataset.commit(table, staged, max_retries=0)
    with pytest.raises(OSError, match=r"(?i)not found"):
        landed.validate()


def test_a_transaction_whose_read_version_was_cleaned_away_is_refused(table: LanceDataset) -> None:
    staged = Transaction(2, staged_append(table, keyed([6])).operation)
    table.cleanup_old_versions(older_than=NOW)
    with pytest.raises(OSError, match=r"manifest was not found"):
        LanceDataset.commit(table.uri, staged, max_retries=0)


def test_a_restore_is_a_new_version_with_the_old_rows(table: LanceDataset) -> None:
    restored = LanceDataset.commit(table, LanceOperation.Restore(2), read_version=table.version)
    assert (restored.version, ids(restored)) == (6, [1, 2])


def test_a_restore_silently_reverts_a_concurrent_append(table: LanceDataset) -> None:
    append(table, keyed([6]))
    restored = LanceDataset.commit(table, LanceOperation.Restore(5), read_version=5, max_retries=0)
    assert (restored.version, ids(restored)) == (7, [1, 2, 3, 4, 5])


def test_a_write_staged_before_a_restore_is_incompatible_after_it(table: LanceDataset) -> None:
    staged = staged_append(table, keyed([6]))
    LanceDataset.commit(table, LanceOperation.Restore(2), read_version=table.version)
    with pytest.raises(CommitConflictError, match="incompatible with concurrent transaction Restore") as refused:
        LanceDataset.commit(table, staged, max_retries=0)
    assert not refused.value.retryable


def test_row_ids_are_not_used_again_after_a_restore(table: LanceDataset) -> None:
    gone = table.to_table(columns=["_rowid"])["_rowid"].to_pylist()
    restored = LanceDataset.commit(table, LanceOperation.Restore(2), read_version=table.version)
    fresh = append(restored, keyed([60])).to_table(columns=["_rowid"], filter="id = 60")["_rowid"].to_pylist()
    assert not set(fresh) & set(gone)


def delta_ids(table: LanceDataset, *, since: int) -> tuple[list[int], list[int], int]:
    """Inserted ids, updated ids and the number of deleted rows since a version."""
    delta = table.delta(compared_against=since)
    inserted = sorted(delta.get_inserted_rows().read_all()["id"].to_pylist())
    updated = sorted(delta.get_updated_rows().read_all()["id"].to_pylist())
    deleted = sum(batch.num_rows for batch in delta.get_deleted_row_ids())
    return inserted, updated, deleted


def changed(table: LanceDataset) -> LanceDataset:
    """Row 1 updated, row 2 deleted, row 9 inserted."""
    after = LanceDataset.commit(table, staged_upsert(table, keyed([1, 9], "new")), max_retries=0)
    after.delete("id = 2")
    return after


def test_delta_tells_inserts_updates_and_deletes(table: LanceDataset) -> None:
    assert delta_ids(changed(table), since=5) == ([9], [1], 1)


def test_delta_is_silently_empty_without_stable_row_ids(tmp_path: Path) -> None:
    plain = lance.write_dataset(keyed([1, 2]), str(tmp_path / "plain"), data_storage_version="2.2")
    delta = changed(plain).delta(compared_against=1)
    assert sum(b.num_rows for b in delta.get_inserted_rows()) == 0
    assert sum(b.num_rows for b in delta.get_updated_rows()) == 0


def test_delta_across_a_restore_does_not_see_rows_that_come_back(table: LanceDataset) -> None:
    table.delete("id = 2")
    without = table.version
    restored = LanceDataset.commit(table, LanceOperation.Restore(5), read_version=without)
    assert 2 in ids(restored)
    assert delta_ids(restored, since=without)[0] == []


def test_deletes_cannot_be_told_once_the_earlier_version_was_cleaned_away(table: LanceDataset) -> None:
    after = changed(table)
    after.cleanup_old_versions(older_than=NOW)
    with pytest.raises(RuntimeError, match=r"manifest was not found"):
        list(lance.dataset(table.uri).delta(compared_against=5).get_deleted_row_ids())
