"""What publishing by replacing the last fragment stands on: who conflicts with whom, and what becomes of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lance import LanceDataset, Transaction
from lance.commit import CommitConflictError

from conformance.active_fragment import (
    collect_between,
    create,
    newest,
    publish,
    stage,
    stage_minor_compaction,
    stage_old_form,
)
from conformance.head_row import HEAD, chain, keyed_publish

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def manifest(tmp_path: Path) -> LanceDataset:
    return create(str(tmp_path / "__manifest"))


def land(manifest: LanceDataset, staged: Transaction) -> LanceDataset:
    return LanceDataset.commit(manifest, staged, max_retries=0)


def lost(manifest: LanceDataset, staged: Transaction) -> bool:
    """Whether Lance refuses a commit, and tells to try again."""
    with pytest.raises(CommitConflictError) as refused:
        land(manifest, staged)
    return bool(refused.value.retryable)


# -- what becomes of the rows ------------------------------------------------------------------------------------------


def test_a_publish_is_one_file_one_version_and_one_fragment_longer_by_its_rows(manifest: LanceDataset) -> None:
    for number in range(1, 5):
        manifest = publish(manifest, f"c{number}")
        fragments = manifest.get_fragments()
        assert [each.metadata.physical_rows for each in fragments] == [2, 2 * number + 1]
    assert chain(manifest) == ["c4", "c3", "c2", "c1", "genesis"]
    manifest.validate()


def test_rows_keep_their_ids_and_their_ages_in_longer_tails(manifest: LanceDataset) -> None:
    for number in range(1, 4):
        manifest = publish(manifest, f"c{number}")
    columns = ["object_id", "_rowid", "_row_created_at_version"]
    found = {each["object_id"]: each for each in manifest.scanner(columns=columns).to_table().to_pylist()}
    assert [found[f"c{number}"]["_row_created_at_version"] for number in (1, 2, 3)] == [3, 4, 5]
    assert found[HEAD]["_rowid"] == 2
    assert sorted(each["_rowid"] for each in found.values()) == list(range(9))


def test_a_fold_keeps_ids_and_order_and_forgets_ages(manifest: LanceDataset) -> None:
    for number in range(1, 4):
        manifest = publish(manifest, f"c{number}")
    before = manifest.to_table(columns=["object_id", "_rowid"]).to_pylist()
    folded = land(manifest, stage_minor_compaction(manifest))
    after = folded.to_table(columns=["object_id", "_rowid"]).to_pylist()
    assert [each.metadata.physical_rows for each in folded.get_fragments()] == [8, 1]
    assert sorted(after, key=str) == sorted(before, key=str)
    assert set(folded.to_table(columns=["_row_created_at_version"]).column(0).to_pylist()) == {1}
    again = publish(folded, "c4")
    again.validate()
    assert chain(again) == ["c4", "c3", "c2", "c1", "genesis"]


# -- who conflicts with whom -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lock", [True, False])
def test_of_two_publishes_from_one_version_one_is_told_to_retry(manifest: LanceDataset, lock: bool) -> None:
    one, two = stage(manifest, "one", lock=lock), stage(manifest, "two", lock=lock)
    land(manifest, one)
    assert lost(manifest, two)
    assert chain(newest(manifest)) == ["one", "genesis"]


def test_the_lock_alone_makes_two_publishes_conflict(manifest: LanceDataset) -> None:
    """Nobody has ever seen a fragment of that number, and still it is compared."""
    one, two = stage(manifest, "one"), stage(manifest, "two")
    for each in (one, two):
        each.operation.removed_fragment_ids = each.operation.removed_fragment_ids[1:]
    land(manifest, one)
    assert lost(manifest, two)


def test_publishes_conflict_also_when_the_tail_is_the_very_first_fragment(tmp_path: Path) -> None:
    from conformance import head_row

    manifest = head_row.create(str(tmp_path / "m"))
    (fragment,) = manifest.get_fragments()
    assert fragment.fragment_id == 0
    one, two = (head_row.stage_publish(manifest, "one"), head_row.stage_publish(manifest, "two"))
    for each in (one, two):
        each.operation.updated_fragments, each.operation.removed_fragment_ids = [], [0]
    land(manifest, one)
    assert lost(manifest, two)


def test_a_publish_and_a_fold_never_both_land(manifest: LanceDataset) -> None:
    tall = publish(publish(manifest, "c1"), "c2")
    staged, fold = stage(tall, "c3"), stage_minor_compaction(tall)
    folded = land(tall, fold)
    assert lost(tall, staged)
    again, fold = stage(folded, "c3"), stage_minor_compaction(publish(folded, "other"))
    assert lost(folded, again)
    land(newest(tall), fold)
    assert chain(newest(tall)) == ["other", "c2", "c1", "genesis"]


def test_a_fold_after_a_publish_is_told_to_retry(manifest: LanceDataset) -> None:
    tall = publish(manifest, "c1")
    fold = stage_minor_compaction(tall)
    publish(newest(tall), "c2")
    assert lost(tall, fold)


def test_a_publish_and_a_keyed_one_never_both_land(manifest: LanceDataset) -> None:
    """The first publish of a branch, and every publish of the released program, go by the key."""
    tall = publish(manifest, "c1")
    staged = stage(tall, "staged")
    keyed_publish(newest(tall), "keyed")
    assert lost(tall, staged)
    behind = newest(tall)
    tall = LanceDataset(tall.uri, version=2)
    with pytest.raises(OSError, match=r"Too many concurrent writers\. Attempted 0 retries"):
        keyed_publish(tall, "late")
    assert chain(newest(behind)) == ["keyed", "c1", "genesis"]


def test_a_publish_and_one_in_the_old_form_never_both_land(manifest: LanceDataset) -> None:
    """An earlier release beside a later one: both replace the fragment with the head row."""
    new, old = stage(manifest, "new"), stage_old_form(manifest, "old")
    after = land(manifest, old)
    assert lost(manifest, new)
    new, old = stage(after, "new"), stage_old_form(after, "older")
    land(after, new)
    assert lost(after, old)
    assert chain(newest(manifest)) == ["new", "old", "genesis"]


# -- commits that were held up while others published and collected ----------------------------------------------------


def held_up(manifest: LanceDataset, *, lock: bool) -> tuple[LanceDataset, Transaction, LanceDataset]:
    """A publish staged long ago, and the newest state: of the versions between only the last two are left."""
    early = publish(manifest, "c1", lock=lock)
    staged, late = stage(early, "held", lock=lock), early
    for number in range(6):
        late = publish(late, f"d{number}", lock=lock)
    collect_between(late, early.version + 1, late.version - 1)
    return early, staged, late


def test_a_publish_that_slept_while_others_collected_meets_the_newest_in_the_lock(manifest: LanceDataset) -> None:
    early, staged, late = held_up(manifest, lock=True)
    assert lost(early, staged)
    assert len(chain(newest(late))) == 8


def test_without_the_lock_it_would_fork_the_history(manifest: LanceDataset) -> None:
    """What the lock is for. Should this fail one day, Lance minds that a fragment to be removed is gone already."""
    early, staged, _ = held_up(manifest, lock=False)
    assert land(early, staged).count_rows(f"object_id = '{HEAD}'") == 2


def test_a_fold_that_slept_finds_its_fragments_gone(manifest: LanceDataset) -> None:
    early = publish(manifest, "c1")
    fold, late = stage_minor_compaction(early), early
    for number in range(6):
        late = publish(late, f"d{number}")
    collect_between(late, early.version + 1, late.version)
    with pytest.raises(CommitConflictError):
        land(early, fold)
    assert len(chain(newest(late))) == 8


def test_a_fold_has_no_lock_so_the_publish_before_it_must_stay(manifest: LanceDataset) -> None:
    """Why a collection keeps three versions: with the fold alone left, a publish that slept would meet nobody."""
    early = publish(manifest, "c1")
    staged, late = stage(early, "held"), early
    for number in range(6):
        late = publish(late, f"d{number}")
    late = land(late, stage_minor_compaction(late))
    collect_between(late, early.version + 1, late.version - 1)
    assert lost(early, staged)
    collect_between(late, late.version - 1, late.version)
    assert land(early, staged).count_rows(f"object_id = '{HEAD}'") == 2
