"""Cleanup: what kept commits, branches and tags need stays, everything else goes, and a reader of it is told."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lance.fragment import write_fragments

import omnigraph as og
from maintenance.library import doc, library, put, slugs, table
from omnigraph import errors
from omnigraph.maintenance.cleanup import CleanedTable, Cleanup
from omnigraph.manifest.layout import MANIFEST, RECLAIMED
from omnigraph.storage.tables.immediate import create_branch
from omnigraph.transaction.intents.queue import QueueEntry
from omnigraph.transaction.intents.queue_rules import new_operation_id
from omnigraph.transaction.intents.sidecar import AddedTable, Sidecar
from omnigraph.world import REAL

if TYPE_CHECKING:
    from omnigraph.maintenance.cleanup import CleanupReport

NOW = dt.timedelta(0)


def clean(graph: og.Graph, keep: int | None = 1, **options: Any) -> CleanupReport:
    return graph.cleanup(keep=keep, grace=NOW, **options)


def readable(graph: og.Graph) -> list[bool]:
    """Whether each commit can be read, the oldest first, in a process that knows nothing."""
    fresh = og.open(graph.uri, read_only=True)
    found = []
    for commit in reversed(fresh.commits()):
        try:
            slugs(fresh, commit.id)
            found.append(True)
        except errors.VersionReclaimed:
            found.append(False)
    return found


def test_the_newest_commits_stay_and_the_others_go(tmp_path: Path) -> None:
    graph = library(tmp_path, 6)
    states = {each.id: slugs(graph, each.id) for each in graph.commits()[:3]}
    report = clean(graph, keep=3)
    assert report.versions_removed > 0
    assert readable(graph) == [False] * 4 + [True] * 3
    assert {each: slugs(graph, each) for each in states} == states


def test_a_branch_that_is_deleted_meanwhile_is_no_error(tmp_path: Path) -> None:
    graph = library(tmp_path, 2)
    graph.branches.create("short-lived")
    cleanup = Cleanup(graph._manifest, keep=1, grace=NOW)
    cleanup._done[MANIFEST] = CleanedTable(MANIFEST)
    graph.branches.delete("short-lived")
    cleanup._clean_manifest_of("short-lived")
    assert cleanup._done[MANIFEST].error is None


def test_reading_what_is_gone_says_so_and_what_to_do(tmp_path: Path) -> None:
    graph = library(tmp_path, 4)
    gone = graph.commits()[3].id
    clean(graph)
    with pytest.raises(errors.VersionReclaimed, match="a tag retains a commit"):
        slugs(graph, gone)
    assert graph.commit(gone).id == gone


def test_a_dry_run_tells_what_would_go_with_its_bytes_and_removes_nothing(tmp_path: Path) -> None:
    graph = library(tmp_path, 6)
    graph.optimize()
    planned = clean(graph, dry_run=True)
    assert planned.dry_run
    assert all(readable(graph))
    before = _bytes(tmp_path)
    done = clean(graph)
    assert (planned.versions_removed, planned.bytes_removed) == (done.versions_removed, done.bytes_removed)
    assert before - _bytes(tmp_path) == done.bytes_removed > 0


def _bytes(place: Path) -> int:
    """All files but the note of what cleanups have taken."""
    return sum(each.stat().st_size for each in place.rglob("*") if each.is_file() and each.name != RECLAIMED)


def test_compaction_and_cleanup_leave_the_files_of_the_newest_state(tmp_path: Path) -> None:
    graph = library(tmp_path, 8)
    graph.optimize()
    clean(graph)
    assert len(list(Path(table(graph).handle.uri, "data").iterdir())) == 1
    assert len(slugs(og.open(graph.uri))) == 8


def test_tagged_commits_stay(tmp_path: Path) -> None:
    graph = library(tmp_path, 6)
    tagged = graph.commits()[3].id
    graph.tags.create("release", tagged)
    clean(graph)
    assert [slugs(graph, tagged), slugs(og.open(graph.uri), tagged)] == [["d0", "d1", "d2"]] * 2
    graph.tags.delete("release")
    clean(graph)
    with pytest.raises(errors.VersionReclaimed):
        slugs(og.open(graph.uri), tagged)


def test_what_branches_read_and_began_with_stays_so_that_they_merge(tmp_path: Path) -> None:
    graph = library(tmp_path, 3)
    graph.branches.create("quiet")
    graph.branches.create("busy")
    put(graph, doc(3), branch="busy")
    put(graph, doc(0, "changed"), branch="busy")
    for number in range(4, 9):
        put(graph, doc(number))
    clean(graph)
    again = og.open(graph.uri)
    assert slugs(again, branch="quiet") == ["d0", "d1", "d2"]
    assert slugs(again, branch="busy") == ["d0", "d1", "d2", "d3"]
    again.merge("busy")
    assert len(slugs(again)) == 9
    put(again, doc(20), branch="quiet")
    again.merge("quiet")
    assert len(slugs(again)) == 10


def test_a_version_that_a_line_of_a_branch_is_about_to_begin_at_stays(tmp_path: Path) -> None:
    graph = library(tmp_path, 6)
    objects = graph._manifest.stores.objects
    begins, other = (graph.snapshot(at=graph.commits()[at].id)["node:Doc"] for at in (3, 2))
    added = AddedTable("node:Doc", begins.path, "side", version=begins.version + 1)
    note = Sidecar(new_operation_id(REAL), REAL.now_us(), "BranchMerge", branch="side", added=(added,))
    ticket = QueueEntry.draw(objects, note, REAL)
    clean(graph)
    ticket.delete()
    fresh = og.open(graph.uri, read_only=True)._manifest.stores.tables
    assert fresh.open(begins.pin).version == begins.version
    with pytest.raises(errors.VersionReclaimed):
        fresh.open(other.pin)


def test_versions_of_a_branch_go_and_main_keeps_its_own(tmp_path: Path) -> None:
    graph = library(tmp_path, 3)
    graph.branches.create("side")
    for number in range(10, 15):
        put(graph, doc(number), branch="side")
    before = graph.cleanup(keep=100, grace=NOW)
    assert before.versions_removed <= 2  # the fork's own beginning, and the table before its first row
    assert clean(graph).versions_removed >= 3
    assert len(slugs(graph, branch="side")) == 8
    graph.merge("side")
    assert len(slugs(graph)) == 8


def test_younger_commits_stay_when_an_age_is_given(tmp_path: Path) -> None:
    graph = library(tmp_path, 5)
    assert clean(graph, older_than=dt.timedelta(hours=1)).versions_removed <= 1
    assert all(readable(graph)[1:])
    assert clean(graph, keep=None, older_than=NOW).versions_removed > 0
    assert readable(graph)[-1]
    assert not any(readable(graph)[:-1])


def test_a_reader_within_the_grace_goes_on_reading(tmp_path: Path) -> None:
    graph = library(tmp_path, 3)
    held = og.open(graph.uri, read_only=True)
    snapshot = held.snapshot()
    put(graph, doc(3))
    put(graph, doc(4))
    graph.cleanup(keep=1)
    tables = held._manifest.stores.tables
    assert tables.open(snapshot["node:Doc"].pin).count_rows() == 3
    clean(graph)
    fresh = og.open(graph.uri, read_only=True)._manifest.stores.tables
    with pytest.raises(errors.VersionReclaimed):
        fresh.open(snapshot["node:Doc"].pin)


def test_files_that_no_version_needs_go_after_seven_days(tmp_path: Path) -> None:
    graph = library(tmp_path, 2)
    folder = Path(table(graph).handle.uri, "data")
    before = set(folder.iterdir())
    write_fragments(table(graph).read(), table(graph).handle)
    (left,) = set(folder.iterdir()) - before
    clean(graph)
    assert left.exists()
    os.utime(left, (REAL.now_us() / 1e6 - 8 * 86_400,) * 2)
    clean(graph)
    assert not left.exists()
    assert slugs(og.open(graph.uri)) == ["d0", "d1"]


def test_forks_of_branches_that_are_gone_go(tmp_path: Path) -> None:
    graph = library(tmp_path, 2)
    create_branch(table(graph), "ghost")
    graph.branches.create("side")
    put(graph, doc(5), branch="side")
    (told,) = [each for each in clean(graph, dry_run=True).tables if each.forks_removed]
    assert (told.table_key, told.forks_removed) == ("node:Doc", ("ghost",))
    clean(graph)
    assert set(table(graph).handle.branches.list()) == {"side"}
    assert slugs(graph, branch="side") == ["d0", "d1", "d5"]


def test_the_manifest_is_cleaned_too_and_still_tells_all_of_history(tmp_path: Path) -> None:
    graph = library(tmp_path, 12)
    graph._manifest.manifest_policy = type(graph._manifest.manifest_policy)(keep_versions=5)
    commits = graph.commits()
    report = clean(graph)
    (manifest,) = [each for each in report.tables if each.table_key == "__manifest"]
    assert manifest.versions_removed > 0
    assert og.open(graph.uri).commits() == commits


def test_a_table_that_cannot_be_cleaned_is_told_and_the_others_are(tmp_path: Path) -> None:
    graph = library(tmp_path, 4)
    graph.load({"Cites": [{"from": "d1", "to": "d2"}]})
    versions = Path(table(graph, "edge:Cites").handle.uri, "_versions")
    versions.rename(versions.with_name("elsewhere"))
    report = clean(og.open(graph.uri))
    by_key = {each.table_key: each for each in report.tables}
    assert by_key["edge:Cites"].error
    assert by_key["node:Doc"].versions_removed > 0


def test_the_feed_says_that_it_has_a_gap(tmp_path: Path) -> None:
    graph = library(tmp_path, 5)
    first = graph.commits()[3].id
    clean(graph)
    with pytest.raises((errors.ChangeFeedGap, errors.VersionReclaimed)):
        list(graph.diff(first, "main"))


@pytest.mark.parametrize("asked", [{"keep": None}, {"keep": 0}, {"older_than": dt.timedelta(days=-1)}])
def test_what_makes_no_sense_is_refused(tmp_path: Path, asked: dict[str, object]) -> None:
    graph = library(tmp_path, 1)
    with pytest.raises(errors.InvalidInput):
        graph.cleanup(**asked)  # type: ignore[arg-type]


def test_a_read_only_graph_can_only_be_asked(tmp_path: Path) -> None:
    library(tmp_path, 3)
    graph = og.open(tmp_path / "graph", read_only=True)
    with pytest.raises(errors.CommitRejected):
        clean(graph)
