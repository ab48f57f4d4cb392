"""Past states by branch, commit, tag, moment and manifest version; single entities; tags; reverts."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from history.conftest import BASE, SCHEMA
from mutation.conftest import Social
from omnigraph import errors
from omnigraph.manifest.tags import tagged_commits
from seeded_world import SeededWorld

if TYPE_CHECKING:
    from pathlib import Path

AGE = "query q() { match { $p: Person } return { $p.age as age } order { $p.name asc } }"


@pytest.fixture
def aging(tmp_path: Path) -> Social:
    """Alice turned 31, 32 and 33 in commits of their own; a clock that ticks by milliseconds."""
    social = Social(og.init(tmp_path / "graph", schema=SCHEMA, world=SeededWorld()))
    social.do(BASE)
    for age in (31, 32, 33):
        social.do(f'update Person set {{ age: {age} }} where name = "Alice"')
    return social


def age_of_alice(graph: og.Graph, **state: Any) -> int:
    row: dict[str, Any] = graph.query(AGE, **state).to_pylist()[0]
    return int(row["age"])


def moment(microseconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=microseconds)


def test_a_query_reads_the_graph_as_of_a_commit_a_moment_and_a_manifest_version(aging: Social) -> None:
    graph = aging.graph
    for commit, age in zip(graph.commits(), (33, 32, 31, 30), strict=False):
        assert age_of_alice(graph, at=commit.id) == age
        assert age_of_alice(graph, at=graph.snapshot(at=commit.created_at)) == age
        assert age_of_alice(graph, at=graph.snapshot(version=commit.manifest_version)) == age
    a_moment_later = moment(graph.commits()[1].created_us + 1)
    assert graph.snapshot(at=a_moment_later).commit_id == graph.commits()[1].id
    assert graph.snapshot(at=moment(graph.commits()[0].created_us + 10**12)).commit_id == graph.commits()[0].id


def test_states_that_never_were_are_errors(aging: Social) -> None:
    graph = aging.graph
    with pytest.raises(errors.NotFound, match="its first is of 2026"):
        graph.snapshot(at=dt.datetime(2001, 1, 1, tzinfo=dt.UTC))
    with pytest.raises(errors.InvalidInput, match="time zone"):
        graph.snapshot(at=dt.datetime(2001, 1, 1))  # noqa: DTZ001
    with pytest.raises(errors.NotFound, match="no manifest version 1000"):
        graph.snapshot(version=1_000)
    with pytest.raises(errors.NotFound):
        graph.snapshot(version=0)
    with pytest.raises(errors.NotFound, match="no state 'nonsense': it is no branch, no tag, no commit id"):
        graph.snapshot(at="nonsense")
    with pytest.raises(errors.InvalidInput, match="at or version"):
        graph.snapshot(version=1, at="x")


def test_a_state_that_was_cleaned_up_says_so(aging: Social) -> None:
    old = aging.graph.commits()[1].id
    table = aging.graph.snapshot()["node:Person"]
    newest = aging.graph._manifest.stores.tables.open_newest(table.path)
    newest.handle.cleanup_old_versions(retain_versions=1, delete_unverified=True)
    reopened = og.open(aging.graph.uri)
    with pytest.raises(errors.VersionReclaimed, match="a tag retains a commit"):
        reopened.query(AGE, at=old)
    assert age_of_alice(reopened) == 33


def test_one_entity_at_a_past_state(aging: Social) -> None:
    graph = aging.graph
    before = graph.commits()[2].id
    alice = graph.entity("Person", "Alice", at=before)
    assert alice is not None
    assert (alice["id"], alice["age"]) == ("Alice", 31)
    assert graph.entity("Person", "Nobody") is None
    (edge,) = aging.rows("edge:Knows").values()
    found = graph.entity("knows", edge["id"])
    assert found is not None
    assert (found["from"], found["to"]) == ("Bob", "Carol")
    with pytest.raises(errors.InvalidInput, match="no type 'Nothing'"):
        graph.entity("Nothing", "Alice")


def test_the_history_of_an_entity_has_every_state_once(aging: Social) -> None:
    graph = aging.graph
    for number in range(5):
        aging.do(f'insert Person {{ name: "n{number}" }}')
    aging.do('update Person set { age: 33 } where name = "Alice"')
    gone = aging.do('delete Person where name = "Alice"').commit
    aging.do('insert Person { name: "later" }')
    back = aging.do('insert Person { name: "Alice", age: 1 }').commit
    history = graph.history("Person", "Alice")
    assert [each.entity["age"] if each.entity else None for each in history] == [1, None, 33, 32, 31, 30]
    assert [each.commit for each in history][:2] == [back, gone]
    assert history.complete
    assert [each.entity["age"] for each in graph.history("Person", "Bob") if each.entity] == [25]
    assert list(graph.history("Person", "Nobody")) == []


def test_a_tag_names_a_commit_for_every_read(aging: Social) -> None:
    graph = aging.graph
    then = graph.commits()[1]
    tag = graph.tags.create("v1", then.id, message="before the party")
    assert (tag.commit_id, tag.branch, tag.message) == (then.id, "main", "before the party")
    assert graph.tags.create("releases/now").commit_id == graph.commits()[0].id
    assert [each.name for each in graph.tags.list()] == ["releases/now", "v1"]
    assert age_of_alice(graph, at="v1") == 32
    assert graph.snapshot(at="v1").commit_id == then.id
    assert [each.updated for each in graph.diff("v1", "main").summary()] == [1]
    assert tagged_commits(graph._manifest) == {graph.commits()[0].id: ("releases/now",), then.id: ("v1",)}
    graph.tags.delete("v1")
    with pytest.raises(errors.NotFound, match="no tag 'v1'"):
        graph.tags.get("v1")


def test_names_of_tags_are_free_and_readable(aging: Social) -> None:
    graph = aging.graph
    graph.tags.create("v1")
    with pytest.raises(errors.TagExists):
        graph.tags.create("v1")
    for name in ("", " ", "a b", "../x", "/x", "x" * 300, graph.commits()[0].id):
        with pytest.raises(errors.InvalidInput):
            graph.tags.create(name)
    graph.branches.create("review")
    with pytest.raises(errors.InvalidInput, match="there is a branch"):
        graph.tags.create("review")
    with pytest.raises(errors.BranchExists, match="there is a tag"):
        graph.branches.create("v1")
    with pytest.raises(errors.NotFound):
        graph.tags.create("v2", "0" * 26)
    with pytest.raises(errors.CommitRejected, match="read-only"):
        og.open(graph.uri, read_only=True).tags.create("v2")


def test_a_branch_with_tagged_commits_is_not_deleted(forked: Social) -> None:
    forked.do('insert Person { name: "Eve" }', "feature")
    forked.graph.tags.create("eve", branch="feature")
    with pytest.raises(errors.BranchInUse, match="the tags eve keep"):
        forked.graph.branches.delete("feature")
    forked.graph.tags.delete("eve")
    forked.graph.branches.delete("feature")


def test_a_commit_is_taken_back(forked: Social) -> None:
    added = forked.do('insert Person { name: "Eve" } insert Knows { from: "Eve", to: "Dan" }').commit
    forked.do('insert Person { name: "Zoe" }')
    done = forked.graph.revert(added.id)  # type: ignore[union-attr]
    assert "Eve" not in forked.people()
    assert "Zoe" in forked.people()
    assert forked.ends("edge:Knows") == [("Bob", "Carol")]
    assert done.commit == forked.graph.commits()[0]
    assert done.commit is not None
    assert done.commit.merged_parent is None
    assert done.deletes == {"edge:Knows": 1, "node:Person": 1}


def test_a_delete_and_an_update_are_taken_back_as_they_were(forked: Social) -> None:
    before = forked.people(), forked.rows("edge:Knows")
    gone = forked.do('delete Person where name = "Bob"').commit
    changed = forked.do('update Person set { age: 1, city: "Oslo" } where name = "Alice"').commit
    forked.graph.revert(gone.id)  # type: ignore[union-attr]
    forked.graph.revert(changed.id)  # type: ignore[union-attr]
    assert (forked.people(), forked.rows("edge:Knows")) == before


def test_taking_a_revert_back_brings_the_change_again(forked: Social) -> None:
    added = forked.do('insert Person { name: "Eve" }').commit
    reverted = forked.graph.revert(added.id).commit  # type: ignore[union-attr]
    assert reverted is not None
    forked.graph.revert(reverted.id)
    assert "Eve" in forked.people()
    assert forked.graph.revert(reverted.id).commit is None


def test_later_changes_stand_in_the_way_of_a_revert(forked: Social) -> None:
    older = forked.do('update Person set { age: 31 } where name = "Alice"').commit
    forked.do('update Person set { age: 32 } where name = "Alice"')
    assert older is not None
    head = forked.graph.commits()[0]
    with pytest.raises(errors.RevertConflicts, match="1 conflict, nothing was written") as refusal:
        forked.graph.revert(older.id)
    (conflict,) = refusal.value.conflicts
    assert (conflict.kind, conflict.row_id, conflict.properties) == ("DivergentUpdate", "Alice", ("age",))
    assert forked.graph.commits()[0] == head
    assert len(forked.graph.revert(older.id, dry_run=True).conflicts) == 1
    forked.graph.revert(older.id, resolve="theirs")
    assert forked.people()["Alice"]["age"] == 30


def test_another_property_changed_later_does_not(forked: Social) -> None:
    older = forked.do('update Person set { age: 31 } where name = "Alice"').commit
    forked.do('update Person set { city: "Oslo" } where name = "Alice"')
    forked.graph.revert(older.id)  # type: ignore[union-attr]
    assert (forked.people()["Alice"]["age"], forked.people()["Alice"]["city"]) == (30, "Oslo")


def test_a_revert_is_checked_over_the_whole(forked: Social) -> None:
    added = forked.do('insert Person { name: "Eve" }').commit
    forked.do('insert Knows { from: "Eve", to: "Dan" }')
    with pytest.raises(errors.RevertConflicts) as refusal:
        forked.graph.revert(added.id)  # type: ignore[union-attr]
    assert {each.kind for each in refusal.value.conflicts} == {"OrphanEdge"}


def test_a_merge_is_taken_back_against_its_first_parent(forked: Social) -> None:
    forked.do('insert Person { name: "F" }', "feature")
    forked.do('insert Person { name: "M" }')
    merged = forked.graph.merge("feature").commit
    forked.graph.revert(merged.id)  # type: ignore[union-attr]
    assert "F" not in forked.people()
    assert "M" in forked.people()


def test_only_commits_of_the_branch_are_taken_back(forked: Social) -> None:
    elsewhere = forked.do('insert Person { name: "F" }', "feature").commit
    assert elsewhere is not None
    with pytest.raises(errors.InvalidInput, match="not in the history of branch 'main'"):
        forked.graph.revert(elsewhere.id)
    with pytest.raises(errors.InvalidInput, match="no earlier state"):
        forked.graph.revert(forked.graph.commits()[-1].id)
    forked.graph.merge("feature")
    forked.graph.revert(elsewhere.id)
    assert "F" not in forked.people()


def test_a_state_has_one_name_for_every_call(aging: Social, tmp_path: Path) -> None:
    graph = aging.graph
    then = graph.commits()[1]
    graph.tags.create("v1", then.id)
    graph.branches.create("old", from_="v1")
    graph.branches.create("older", from_=then)
    names = [then, then.id, then.id[:25], then.id[:25].lower(), "v1", "old", "older", "main~1", "v1~0", "old~0"]
    for name in [*names, graph.snapshot(at=then.id)]:
        assert age_of_alice(graph, at=name) == 32, name
        entity = graph.entity("Person", "Alice", at=name)
        assert entity is not None
        assert entity["age"] == 32
        assert graph.history("Person", "Alice", at=name).versions[0].entity == entity
        assert [each.updated for each in graph.diff(name, "main").summary()] == [1]
        graph.export(tmp_path / "state.jsonl", at=name)
        assert '"age":32' in (tmp_path / "state.jsonl").read_text().replace(" ", "")
        assert graph.tags.create(f"again-{names.index(name) if name in names else 'x'}", name).commit_id == then.id
    assert graph.commit(then.id[:25]) == graph.commit("v1") == then
    assert graph.commit_changes("v1").commit == then
    assert graph.revert("main", dry_run=True).reverted == graph.commits()[0]


def test_a_name_of_two_states_is_refused(aging: Social) -> None:
    graph = aging.graph
    with pytest.raises(errors.InvalidInput, match=r"begins 5 commit ids \(.*: give more of it"):
        graph.snapshot(at=graph.commits()[0].id[:6])
    with pytest.raises(errors.NotFound, match="no state 'main~9': 'main' has 4 commits before it"):
        graph.snapshot(at="main~9")
    with pytest.raises(errors.InvalidInput, match="name two states"):
        graph.query(AGE, branch="side", at="main")
    with pytest.raises(errors.InvalidInput, match="not 5"):
        graph.query(AGE, at=5)  # type: ignore[call-overload]
    graph.tags.create("both")
    tag = graph._manifest.stores.objects.read("__tags/both.json")
    graph.tags.delete("both")
    graph.branches.create("both")
    graph._manifest.stores.objects.create("__tags/both.json", tag)
    with pytest.raises(errors.InvalidInput, match="'both' is a branch and a tag"):
        graph.snapshot(at="both")


def test_the_history_ends_at_the_state_that_it_is_asked_for(aging: Social) -> None:
    graph = aging.graph
    ages = [each.entity["age"] for each in graph.history("Person", "Alice", at="main~2") if each.entity]
    assert ages == [31, 30]


def test_old_keywords_work_and_warn(aging: Social, tmp_path: Path) -> None:
    graph = aging.graph
    then = graph.commits()[1].id
    with pytest.warns(
        DeprecationWarning, match=r"Graph.query\(snapshot=…\) is deprecated .* omnigraph 0.3: use at=…"
    ) as told:
        assert age_of_alice(graph, snapshot=then) == 32
    assert told[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="Graph.snapshot"):
        assert graph.snapshot(commit_id=then).commit_id == then  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning, match="Branches.create"):
        graph.branches.create("old", commit_id=then)  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning, match="Graph.export"):
        graph.export(tmp_path / "out.jsonl", commit_id=then)  # type: ignore[call-arg]
    with (
        pytest.warns(DeprecationWarning, match="Graph.snapshot"),
        pytest.raises(errors.InvalidInput, match="give one of them"),
    ):
        graph.snapshot(at="main", commit_id=then)  # type: ignore[call-arg]
