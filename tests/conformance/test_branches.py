"""Branches of one dataset: names, version numbers, races, orphans, and the handles that must not be trusted."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation

from conformance import writers
from conformance.tables import append, ids, keyed, staged_append, write

if TYPE_CHECKING:
    from conformance.writers import Crew

NAME_TAKEN = "Clone operation should not enter build_manifest"


@pytest.fixture
def main(tmp_path: Path) -> LanceDataset:
    """Main at version 2 with rows 1 and 2."""
    return append(write(tmp_path / "t", keyed([1])), keyed([2]))


def on(main: LanceDataset, branch: str) -> LanceDataset:
    """A branch opened by the uri of its tree, the way that survives pickling."""
    return lance.dataset(f"{main.uri}/tree/{branch}")


def identifier(main: LanceDataset, branch: str) -> object:
    return lance.dataset(main.uri).branches.list()[branch]["branch_identifier"]


def test_version_numbers_go_on_from_the_fork(main: LanceDataset) -> None:
    main.create_branch("review")
    assert on(main, "review").version == 2
    assert append(on(main, "review"), keyed([3])).version == 3
    assert append(main, keyed([4])).version == 3


def test_a_branch_and_main_do_not_see_each_other(main: LanceDataset) -> None:
    main.create_branch("review")
    append(on(main, "review"), keyed([3]))
    append(main, keyed([4]))
    assert ids(on(main, "review")) == [1, 2, 3]
    assert ids(lance.dataset(main.uri)) == [1, 2, 4]


def test_both_sides_give_the_same_next_row_id(main: LanceDataset) -> None:
    main.create_branch("review")
    sides = append(on(main, "review"), keyed([3])), append(main, keyed([4]))
    newest = [side.to_table(columns=["_rowid"])["_rowid"].to_pylist()[-1] for side in sides]
    assert newest[0] == newest[1]


def test_a_branch_made_through_a_stale_handle_forks_at_the_stale_version(main: LanceDataset) -> None:
    stale = lance.dataset(main.uri)
    append(main, keyed([3]))
    stale.create_branch("review")
    assert on(main, "review").version == 2


def test_a_staged_commit_through_the_tree_uri_lands_on_the_branch(main: LanceDataset) -> None:
    main.create_branch("review")
    branch = on(main, "review")
    LanceDataset.commit(branch.uri, staged_append(branch, keyed([3])), max_retries=0)
    assert ids(on(main, "review")) == [1, 2, 3]
    assert ids(lance.dataset(main.uri)) == [1, 2]


def test_racing_creators_have_one_winner(main: LanceDataset, crew: Crew) -> None:
    outcomes = crew.all(writers.create_branch, main.uri)
    assert outcomes.count(None) == 1, outcomes
    assert list(lance.dataset(main.uri).branches.list()) == ["raced"]
    assert ids(on(main, "raced")) == [1, 2]


def test_creating_a_branch_twice_is_an_error_with_a_misleading_text(main: LanceDataset) -> None:
    main.create_branch("review")
    with pytest.raises(OSError, match=NAME_TAKEN):
        main.create_branch("review")
    append(on(main, "review"), keyed([3]))
    assert ids(on(main, "review")) == [1, 2, 3]


@pytest.mark.parametrize("name", ["", "main", "a//b", "/a", "a/", "a..b", "a\\b", "a.lock", "a b"])
def test_a_bad_branch_name_is_refused(main: LanceDataset, name: str) -> None:
    with pytest.raises(OSError, match="Ref is invalid"):
        main.create_branch(name)


def orphan(main: LanceDataset, branch: str) -> None:
    """What a crash between writing the branch's tree and writing its ref leaves behind."""
    main.create_branch(branch)
    (Path(main.uri) / "_refs" / "branches" / f"{branch}.json").unlink()


def test_an_orphaned_tree_is_unlisted_readable_and_in_the_way(main: LanceDataset) -> None:
    orphan(main, "review")
    assert lance.dataset(main.uri).branches.list() == {}
    assert ids(on(main, "review")) == [1, 2]
    with pytest.raises(OSError, match=NAME_TAKEN):
        main.create_branch("review")
    with pytest.raises(ValueError, match="Ref not found error: Branch review does not exist"):
        main.branches.delete("review")


def test_dropping_an_orphaned_tree_frees_its_name(main: LanceDataset) -> None:
    orphan(main, "review")
    LanceDataset.drop(f"{main.uri}/tree/review")
    lance.dataset(main.uri).create_branch("review")
    assert ids(on(main, "review")) == [1, 2]


def test_dropping_a_tree_takes_nested_branches_with_it(main: LanceDataset) -> None:
    main.create_branch("team")
    main.create_branch("team/one")
    LanceDataset.drop(f"{main.uri}/tree/team")
    with pytest.raises(ValueError, match="not found"):
        on(main, "team/one")


def test_a_name_that_is_the_path_of_another_cannot_be_made_again_after_its_deletion(main: LanceDataset) -> None:
    main.create_branch("team")
    main.create_branch("team/one")
    main.branches.delete("team")
    with pytest.raises(OSError, match=NAME_TAKEN):
        main.create_branch("team")


def test_a_branch_with_a_child_is_not_deleted(main: LanceDataset) -> None:
    main.create_branch("parent")
    append(on(main, "parent"), keyed([3]))
    main.checkout_version(("parent", None)).create_branch("child")
    with pytest.raises(OSError, match="Ref conflict error: Branch parent is referenced by"):
        main.branches.delete("parent")


def test_a_branch_made_again_has_another_identifier(main: LanceDataset) -> None:
    main.create_branch("review")
    before = identifier(main, "review")
    main.branches.delete("review")
    main.create_branch("review")
    assert identifier(main, "review") != before


def test_a_handle_kept_over_delete_and_recreate_ruins_the_new_branch(main: LanceDataset) -> None:
    """Why a branch is opened again, and its identifier compared, right before each commit."""
    main.create_branch("review")
    stale = append(on(main, "review"), keyed([3]))
    main.branches.delete("review")
    main.create_branch("review")
    append(on(main, "review"), keyed([5]))
    append(stale, keyed([4]))
    ruined = on(main, "review")
    with pytest.raises(pa.ArrowInvalid, match=r"Not found: .*\.lance"):
        ruined.to_table()


def test_a_merge_insert_through_such_a_handle_is_refused(main: LanceDataset) -> None:
    main.create_branch("review")
    stale = append(on(main, "review"), keyed([3]))
    main.branches.delete("review")
    main.create_branch("review")
    with pytest.raises(OSError, match=r"Not found: .*\.lance"):
        stale.merge_insert("id").when_matched_update_all().execute(keyed([1], "late"))
    assert ids(on(main, "review")) == [1, 2]


def test_a_ruined_branch_is_repaired_by_restoring_the_version_before(main: LanceDataset) -> None:
    main.create_branch("review")
    stale = append(on(main, "review"), keyed([3]))
    main.branches.delete("review")
    main.create_branch("review")
    whole = append(on(main, "review"), keyed([5]))
    ruined = append(stale, keyed([4]))
    assert ruined.version == whole.version + 1
    repaired = LanceDataset.commit(f"{main.uri}/tree/review", LanceOperation.Restore(whole.version))
    assert ids(repaired) == [1, 2, 5]


def test_a_stale_handle_writes_into_a_deleted_branch(main: LanceDataset) -> None:
    main.create_branch("review")
    stale = append(on(main, "review"), keyed([3]))
    main.branches.delete("review")
    append(stale, keyed([4]))
    assert "review" not in lance.dataset(main.uri).branches.list()
    assert (Path(main.uri) / "tree" / "review" / "_versions").is_dir()


def test_a_handle_opened_by_tree_uri_survives_pickling(main: LanceDataset) -> None:
    main.create_branch("review")
    append(on(main, "review"), keyed([3]))
    assert ids(pickle.loads(pickle.dumps(on(main, "review")))) == [1, 2, 3]


def test_a_handle_checked_out_by_branch_name_does_not_survive_pickling(main: LanceDataset) -> None:
    main.create_branch("review")
    append(on(main, "review"), keyed([3]))
    checked_out = main.checkout_version(("review", None))
    assert checked_out.uri == main.uri
    assert ids(checked_out) == [1, 2, 3]
    with pytest.raises(pa.ArrowInvalid, match=r"Not found: .*\.lance"):
        pickle.loads(pickle.dumps(checked_out)).to_table()


def test_branches_name_the_files_of_their_fork_by_absolute_path(main: LanceDataset, tmp_path: Path) -> None:
    """A graph with branches cannot be moved by moving its directory, and a copy reads the files of the original."""
    main.create_branch("review")
    append(on(main, "review"), keyed([3]))
    copied = shutil.copytree(main.uri, tmp_path / "copied")
    assert ids(lance.dataset(f"{copied}/tree/review")) == [1, 2, 3]
    shutil.rmtree(main.uri)
    with pytest.raises(pa.ArrowInvalid, match=r"Not found: .*\.lance"):
        lance.dataset(f"{copied}/tree/review").to_table()
    assert ids(lance.dataset(str(copied))) == [1, 2]
