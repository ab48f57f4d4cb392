"""Migrations killed at every write and run again, and several at once: they end as one that was never disturbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from manifest import works
from manifest.graphs import AUTHOR, PAPER, WROTE, chain, dataset_of, manifest_rows, reopen, request, version
from manifest.old_graphs import OldGraph, build
from manifest.test_migrations import require_only_true_history, require_true_history, stamp_of

if TYPE_CHECKING:
    from pathlib import Path

    from manifest.hands import Hands

# Durable steps on main: the key, a stamp; two staging branches, a stamp; the rows, a stamp.
STEPS = {1: 7, 2: 5, 3: 2}
# A v1 graph takes every step there is; starting from v2 and v3 repeats a part of them.
CUTS = [
    pytest.param(stamp, step, marks=[] if stamp == 1 else pytest.mark.slow)
    for stamp, steps in STEPS.items()
    for step in range(1, steps + 1)
]


def undisturbed(tmp_path: Path, stamp: int) -> dict[str, dict[str, object]]:
    """The rows of the same graph migrated in peace."""
    return manifest_rows(reopen(str(build(tmp_path / "peace", stamp).root)))


def same(rows: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """Without the absolute paths of the two graphs."""
    return {
        key: row if "manifest_path" not in str(row["metadata"]) else row | {"metadata": ""} for key, row in rows.items()
    }


@pytest.mark.crash
@pytest.mark.parametrize(("stamp", "step"), CUTS)
def test_killed_at_any_write_of_main_it_reads_true_and_ends_the_same(
    tmp_path: Path, hands: Hands, stamp: int, step: int
) -> None:
    old = build(tmp_path / "g", stamp)
    uri = str(old.root)
    assert hands.run(works.open_dying, uri, f"store.write=kill@{step}").killed
    require_only_true_history(reopen(uri, read_only=True), old)
    require_only_true_history(reopen(uri), old)
    assert same(manifest_rows(reopen(uri))) == same(undisturbed(tmp_path, stamp))


@pytest.mark.parametrize("stamp", STEPS)
def test_there_are_no_more_steps_than_are_tested(tmp_path: Path, hands: Hands, stamp: int) -> None:
    old = build(tmp_path / "g", stamp)
    assert hands.run(works.open_dying, str(old.root), f"store.write=kill@{STEPS[stamp] + 1}").succeeded


@pytest.mark.crash
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_killed_between_the_work_and_its_stamp_it_ends_the_same(tmp_path: Path, hands: Hands, nth: int) -> None:
    old = build(tmp_path / "g", 1)
    uri = str(old.root)
    assert hands.run(works.open_dying, uri, f"migration.before_stamp=kill@{nth}").killed
    assert stamp_of(reopen(uri, read_only=True)) == (None if nth == 1 else str(nth))
    require_only_true_history(reopen(uri, read_only=True), old)
    require_only_true_history(reopen(uri), old)
    assert same(manifest_rows(reopen(uri))) == same(undisturbed(tmp_path, 1))


@pytest.mark.crash
@pytest.mark.parametrize(("stamp", "steps"), [(1, 6), (3, 3)])
def test_killed_at_any_write_of_a_branchs_first_publish_it_ends_the_same(
    tmp_path: Path, hands: Hands, stamp: int, steps: int
) -> None:
    old = build(tmp_path / "g", stamp)
    uri = str(old.root)
    what = request(version(WROTE, 3, branch="feature"))
    for step in range(1, steps + 1):
        # Each run finds what the one before has done, and gets one write further.
        assert hands.run(works.publish_dying, uri, what, "feature", "store.write=kill@2").killed or step == steps
        require_true_history(reopen(uri, read_only=True), old, "feature")
    hands.run(works.publish_dying, uri, what, "feature", "")
    graph = reopen(uri)
    assert chain(graph, "feature")[0] == what.commit_id
    assert len(chain(graph, "feature")) == 5
    require_true_history(graph, old, "feature")


@pytest.mark.parametrize("stamp", [1, 2, 3])
def test_several_migrators_at_once_converge(tmp_path: Path, hands: Hands, stamp: int) -> None:
    old = build(tmp_path / "g", stamp)
    uri = str(old.root)
    outcomes = hands.all_at_once([(works.open_graph, (uri,))] * 3)
    assert [str(each) for each in outcomes] == ["done"] * 3
    graph = reopen(uri)
    assert stamp_of(graph) == "4"
    require_only_true_history(graph, old)
    assert same(manifest_rows(graph)) == same(undisturbed(tmp_path, stamp))


def test_two_first_publishers_on_a_branch_that_was_not_migrated_make_one_chain(tmp_path: Path, hands: Hands) -> None:
    old = build(tmp_path / "g", 1)
    uri = str(old.root)
    new = [version(key, 9, branch="feature") for key in (AUTHOR, PAPER)]
    outcomes = hands.all_at_once([(works.publish_version, (uri, each, "feature")) for each in new])
    assert [str(each) for each in outcomes] == ["done", "done"]
    graph = reopen(uri)
    assert set(chain(graph, "feature")[:2]) == {each.value for each in outcomes}
    require_true_history(graph, old, "feature")
    manifest_rows(graph, "feature")


def test_readers_see_the_true_history_all_through_a_migration(tmp_path: Path, hands: Hands) -> None:
    old: OldGraph = build(tmp_path / "g", 1)
    uri = str(old.root)
    warm = reopen(uri, read_only=True)
    child = hands.start(works.open_dying, uri, "migration.before_stamp=delay:0.3")
    child.go()
    looked = 0
    while child.process.poll() is None:
        require_only_true_history(warm, old)
        require_only_true_history(reopen(uri, read_only=True), old)
        looked += 1
        if dataset_of(warm).schema_metadata.get("omnigraph:internal_schema_version") == "4":
            break
    assert child.outcome().succeeded
    assert looked > 1
    require_only_true_history(warm, old)
