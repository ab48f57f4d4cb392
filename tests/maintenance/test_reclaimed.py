"""A cleanup, or whoever comes to need what it takes, stopped in real processes before each durable step.

Who was told that it has a tag, a branch or a merge keeps it whole; who was refused leaves nothing behind.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from maintenance import sleepers
from maintenance.library import doc, library, put, slugs
from maintenance.sleepers import NOW, SHORT, Scene, clean, left_over, rows, state_of, wrong_with_branch, wrong_with_tag
from omnigraph.counters import counting
from omnigraph.errors import LeaseLost, OmniGraphError, VersionReclaimed
from omnigraph.manifest.layout import RECLAIMED
from omnigraph.manifest.reclaimed import read_reclaimed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from crash.zygote import Child, Zygote

pytestmark = pytest.mark.crash

MOST = 60
# Which durable steps of a cleanup these are; the first is the claim.
PROPOSAL, CONFIRMATION = 2, 3
# How a cleanup that was overtaken may say that it has to be run again.
FINE = (type(None), LeaseLost)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene"))


def told(work: Callable[..., None], *arguments: Any) -> bool:
    """Whether somebody who comes to need an old state is told that it is there."""
    try:
        work(*arguments)
    except VersionReclaimed:
        return False
    return True


def stopped(scene: Scene, zygote: Zygote, work: str, *arguments: Any, at: str) -> Child | None:
    """A process on the graph as it was at the beginning, stopped at a failpoint; None when it never comes there."""
    scene.reset()
    child = zygote.start(getattr(sleepers, work), scene.uri, *arguments, failpoints=at, environment=SHORT)
    if child.is_stopped():
        return child
    assert child.outcome().succeeded
    return None


@pytest.mark.timeout(900)
@pytest.mark.parametrize("job", [pytest.param(("clean",), marks=pytest.mark.slow), ("blindly", "clean")])
def test_names_that_come_while_a_cleanup_sleeps(scene: Scene, zygote: Zygote, job: tuple[str, ...]) -> None:
    scene.reset()
    head, old, older, on_side = *scene.commits[:3], scene.on_side[1]
    states = {each: state_of(scene.uri, each) for each in (head, old, older, on_side)}
    seen: Counter[tuple[bool, ...]] = Counter()
    for place in range(1, MOST):
        cleaner = stopped(scene, zygote, *job, at=f"store.write=stop@{place}")
        if cleaner is None:
            break
        answers = (
            told(sleepers.tag, scene.uri, "old", old),
            told(sleepers.branch, scene.uri, "older", older),
            told(sleepers.branch, scene.uri, "of-side", on_side),
        )
        assert told(sleepers.tag, scene.uri, "newest")
        assert told(sleepers.branch, scene.uri, "at-head")
        cleaner.thaw()
        assert isinstance(cleaner.outcome().error, FINE)
        for _ in range(2):
            wrong = wrong_with_tag(scene.uri, "old", states[old] if answers[0] else None)
            wrong += wrong_with_tag(scene.uri, "newest", states[head])
            wrong += left_over(scene.uri)
        wrong += wrong_with_branch(scene.uri, "older", states[older] if answers[1] else None)
        wrong += wrong_with_branch(scene.uri, "of-side", states[on_side] if answers[2] else None)
        wrong += wrong_with_branch(scene.uri, "at-head", states[head])
        assert wrong == [], (place, answers)
        seen[answers] += 1
    assert place < MOST - 1
    # Before the cleanup has said what it is after they are kept, then they are refused.
    assert seen.keys() == {(True,) * 3, (False,) * 3}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "job",
    [
        pytest.param(("tag",), marks=pytest.mark.slow),
        pytest.param(("branch",), marks=pytest.mark.slow),
        ("blindly", "tag"),
        ("blindly", "branch"),
    ],
)
@pytest.mark.parametrize("at", ["head", "old"])
def test_a_cleanup_while_a_name_is_being_made(scene: Scene, zygote: Zygote, job: tuple[str, ...], at: str) -> None:
    """Its maker sleeps; meanwhile others write and clean up, so that also what was newest is old."""
    scene.reset()
    commit = scene.commits[0 if at == "head" else 2]
    state = state_of(scene.uri, commit)
    judge = wrong_with_tag if "tag" in job else wrong_with_branch
    for place in range(1, MOST):
        maker = stopped(scene, zygote, *job, "name", commit, at=f"store.write=stop@{place}")
        if maker is None:
            break
        sleepers.write_to_main(scene.uri)
        assert not any(clean(scene.uri).values())
        maker.thaw()
        outcome = maker.outcome()
        assert isinstance(outcome.error, (type(None), VersionReclaimed)), (place, str(outcome))
        wrong = left_over(scene.uri) + judge(scene.uri, "name", state if outcome.succeeded else None)
        assert wrong == [], (place, str(outcome))
    assert 3 < place < MOST - 1


@pytest.mark.timeout(900)
@pytest.mark.parametrize("cleaner_sleeps_at", [PROPOSAL, pytest.param(CONFIRMATION, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["tag", "branch"])
def test_a_cleanup_and_a_maker_of_a_name_that_both_sleep(
    scene: Scene, zygote: Zygote, name: str, cleaner_sleeps_at: int
) -> None:
    """A branch that is not whole yet is hidden: the cleanup must not take what it stands on because it sees none."""
    scene.reset()
    state = state_of(scene.uri, scene.commits[2])
    judge = wrong_with_tag if name == "tag" else wrong_with_branch
    for place in range(1, MOST):
        cleaner = stopped(scene, zygote, "blindly", "clean", at=f"store.write=stop@{cleaner_sleeps_at}")
        assert cleaner is not None
        arguments = (scene.uri, f"store.write=stop@{place}", name, "name", scene.commits[2])
        maker = zygote.start(sleepers.blindly_once_it_has_the_lease, *arguments, environment=SHORT)
        sleeps = maker.is_stopped()
        cleaner.thaw()
        assert isinstance(cleaner.outcome().error, FINE)
        maker.thaw()
        outcome = maker.outcome()
        assert isinstance(outcome.error, (type(None), VersionReclaimed)), (place, str(outcome))
        wrong = left_over(scene.uri) + judge(scene.uri, "name", state if outcome.succeeded else None)
        assert wrong == [], (place, str(outcome))
        if not sleeps:
            break
    assert 2 < place < MOST - 1


@pytest.mark.timeout(900)
def test_a_merge_that_takes_tables_as_they_are_while_a_cleanup_sleeps(scene: Scene, zygote: Zygote) -> None:
    """The merge has seen main and writes its sidecar when main has moved on: what it points at is old by then."""
    scene.reset()
    before = _behind(scene.uri)
    after = state_of(scene.uri, scene.commits[0])
    ends: Counter[bool] = Counter()
    for place in range(1, MOST):
        merge = stopped(scene, zygote, "merge_main_into_behind", at="store.write=stop@1")
        assert merge is not None
        sleepers.write_to_main(scene.uri)
        cleaner = zygote.start(clean, scene.uri, failpoints=f"store.write=stop@{place}", environment=SHORT)
        if not cleaner.is_stopped():
            assert cleaner.outcome().succeeded
            merge.kill()
            merge.outcome()
            break
        merge.thaw()
        merged = merge.outcome()
        assert isinstance(merged.error, (type(None), VersionReclaimed)), (place, str(merged))
        cleaner.thaw()
        assert isinstance(cleaner.outcome().error, FINE)
        assert left_over(scene.uri) == []
        assert _behind(scene.uri) == (after if merged.succeeded else before)
        assert wrong_with_branch(scene.uri, "behind", after if merged.succeeded else before) == []
        ends[merged.succeeded] += 1
    assert place < MOST - 1
    assert ends.keys() == {True, False}


def _behind(uri: str) -> dict[str, Any]:
    graph = og.open(uri, read_only=True)
    return rows(graph, graph.snapshot(branch="behind"))


@pytest.mark.timeout(900)
def test_what_a_dead_cleanup_was_after_is_taken_by_the_next_one(scene: Scene, zygote: Zygote) -> None:
    scene.reset()
    assert not any(clean(scene.uri).values())
    undisturbed = _versions(scene.uri)
    for place in range(1, MOST):
        scene.reset()
        child = zygote.start(clean, scene.uri, failpoints=f"store.write=kill@{place}", environment=SHORT)
        if not child.outcome().killed:
            break
        condemned = _note(scene.uri).deleted
        assert left_over(scene.uri) == []
        assert _versions(scene.uri) == undisturbed
        assert all(not each - _note(scene.uri).deleted[line] for line, each in condemned.items())
    assert 5 < place < MOST - 1


def _note(uri: str) -> Any:
    return read_reclaimed(og.open(uri)._manifest.stores.objects)[0]


def _versions(uri: str) -> dict[str, list[int]]:
    graph = og.open(uri)
    found = {}
    for name in ("main", "side"):
        for entry in graph.snapshot(branch=name):
            table = graph._manifest.stores.tables.open_newest(entry.path, entry.branch)
            found[f"{entry.path} {entry.branch}"] = [each["version"] for each in table.handle.version_refs()]
    return found


def test_a_tag_or_branch_of_a_commit_that_is_gone_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    graph = library(tmp_path, 5)
    gone = graph.commits()[3].id
    graph.cleanup(keep=1, grace=NOW)
    with counting() as counts, pytest.raises(VersionReclaimed, match="a cleanup has deleted it or is deleting it"):
        graph.tags.create("late", gone)
    assert not any("__tags" in each for each in counts.requests)
    with counting() as counts, pytest.raises(VersionReclaimed):
        graph.branches.create("late", from_=gone)
    assert counts.table_commits == 0
    assert [each.name for each in graph.branches.list()] == ["main"]


def test_names_of_newest_states_do_not_ask(tmp_path: Path) -> None:
    graph = library(tmp_path, 3)
    graph.cleanup(keep=1, grace=NOW)
    head = graph.commits()[0].id
    with counting() as counts:
        graph.tags.create("tagged")
        graph.branches.create("made")
        graph.branches.create("made-of-commit", from_=head)
    assert not any(RECLAIMED in each for each in counts.requests)


def test_a_branch_that_is_made_anew_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    """Versions of the new one have the numbers of versions of the old one that a cleanup has taken."""
    graph = library(tmp_path, 2)
    graph.branches.create("side")
    for number in range(10, 16):
        put(graph, doc(number), branch="side")
    graph.cleanup(keep=1, grace=NOW)
    assert any(line.branch == "side" for line in _note(graph.uri).deleted)
    graph.branches.delete("side")
    graph.branches.create("side")
    for number in range(20, 26):
        put(graph, doc(number), branch="side")
    old = graph.commits(branch="side")[2].id
    graph.tags.create("old", old)
    graph.branches.create("other", from_=graph.commits(branch="side")[3].id)
    graph.cleanup(keep=1, grace=NOW)
    assert len(slugs(graph, "old")) == 6
    assert len(slugs(graph, branch="other")) == 5
    incarnations = {line.incarnation for line in _note(graph.uri).deleted if line.branch == "side"}
    assert incarnations == {graph._manifest.branch("side").incarnation}


def test_a_version_that_comes_back_after_it_was_taken_goes_again(tmp_path: Path) -> None:
    """A commit that slept since before the version of its number was made and taken lands in its place."""
    graph = library(tmp_path, 5)
    entry = graph.snapshot(at=graph.commits()[2].id)["node:Doc"]
    folder = tmp_path / "graph" / entry.path / "_versions"
    kept = {each.name: each.read_bytes() for each in folder.iterdir()}
    graph.cleanup(keep=1, grace=NOW)
    (taken,) = [name for name in kept if name.endswith(f"{(1 << 64) - 1 - entry.version}.manifest")]
    assert not (folder / taken).exists()
    (folder / taken).write_bytes(kept[taken])
    graph.cleanup(keep=100)
    assert not (folder / taken).exists()
    assert len(slugs(og.open(graph.uri))) == 5


def test_a_note_that_cannot_be_read_stops_cleanups_and_names_of_old_commits_alone(tmp_path: Path) -> None:
    graph = library(tmp_path, 4)
    (tmp_path / "graph" / RECLAIMED).write_text("not a note")
    old = graph.commits()[2].id
    for attempt in (
        lambda: graph.cleanup(keep=1, grace=NOW),
        lambda: graph.tags.create("old", old),
        lambda: graph.branches.create("old", from_=old),
    ):
        with pytest.raises(OmniGraphError, match=RECLAIMED):
            attempt()
    graph.tags.create("newest")
    graph.branches.create("newest-state")
    put(graph, doc(9))
    assert len(slugs(graph)) == 5
    assert slugs(graph, old) == ["d0", "d1"]


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    graph = library(tmp_path, 4)
    with counting() as counts:
        assert graph.cleanup(keep=1, grace=NOW, dry_run=True).versions_removed > 0
    assert (counts.object_writes, counts.object_deletes, counts.table_commits) == (0, 0, 0)
