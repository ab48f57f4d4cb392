"""The change feed: every commit's changes, in order, exactly once, from any place."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from omnigraph import errors

if TYPE_CHECKING:
    from pathlib import Path

    from mutation.conftest import Social
    from omnigraph.history.change_feed import ChangePage


def told(page: ChangePage) -> list[tuple[str, str, str]]:
    return [(each.op, each.type_name, each.id) for each in page]


def read_all(graph: og.Graph, since: str | None, limit: int = 1_000, **options: Any) -> list[Any]:
    """Page by page until the feed is at its end."""
    found: list[Any] = []
    while True:
        page = graph.changes(since=since, limit=limit, **options)
        found += page
        since = page.cursor
        if page.caught_up:
            return found


def test_a_place_taken_now_tells_what_comes_later(forked: Social) -> None:
    graph = forked.graph
    now = graph.changes()
    assert (len(now), now.caught_up) == (0, True)
    forked.do('update Person set { age: 31 } where name = "Alice" insert Person { name: "Eve" }')
    forked.do('delete Person where name = "Bob"')
    page = graph.changes(since=now.cursor)
    edge = next(each for each in page if each.kind == "edge")
    assert told(page) == [
        ("update", "Person", "Alice"),
        ("insert", "Person", "Eve"),
        ("delete", "Person", "Bob"),
        ("delete", "Knows", edge.id),
    ]
    assert page.caught_up
    assert [commit.id for commit, _ in page.blocks] == [each.id for each in graph.commits()[1::-1]]


def test_an_update_has_both_images_and_an_edge_its_ends(forked: Social) -> None:
    now = forked.graph.changes().cursor
    forked.do('update Person set { age: 31 } where name = "Alice"')
    forked.do('delete Knows where from = "Bob"')
    update, delete = forked.graph.changes(since=now)
    assert update.before is not None
    assert update.after is not None
    assert (update.before.properties["age"], update.after.properties["age"]) == (30, 31)
    assert "id" not in update.after.properties
    assert delete.after is None
    assert delete.before is not None
    assert (delete.before.source, delete.before.target) == ("Bob", "Carol")


def test_the_feed_from_the_beginning_makes_the_graph(forked: Social) -> None:
    forked.do('update Person set { age: 31 } where name = "Alice" insert Person { name: "Eve" }')
    forked.do('delete Person where name = "Bob"')
    forked.do('insert Person { name: "Bob", age: 1 }')
    copy: dict[str, Any] = {}
    for change in read_all(forked.graph, "beginning"):
        assert (change.before is not None) == (change.id in copy)
        if change.before is not None:
            assert copy.pop(change.id) == change.before.properties
        if change.after is not None:
            copy[change.id] = change.after.properties
    people = {name: {key: value for key, value in row.items() if key != "id"} for name, row in forked.people().items()}
    assert copy == people


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_of_any_size_tell_the_same(forked: Social, limit: int) -> None:
    forked.do('insert Person { name: "x1" } insert Person { name: "x2" } insert Knows { from: "x1", to: "x2" }')
    whole = read_all(forked.graph, "beginning")
    assert read_all(forked.graph, "beginning", limit) == whole
    assert [each.id for each in whole[:4]] == ["Alice", "Bob", "Carol", "Dan"]


def test_a_place_survives_the_process_and_the_handle(forked: Social) -> None:
    page = forked.graph.changes(since="beginning", limit=2)
    reopened = og.open(forked.graph.uri, read_only=True)
    assert told(reopened.changes(since=page.cursor))[0] == ("insert", "Person", "Carol")


def test_rows_that_were_rewritten_with_the_same_values_are_no_changes(forked: Social) -> None:
    now = forked.graph.changes().cursor
    forked.do('update Person set { age: 30 } where name = "Alice"')
    page = forked.graph.changes(since=now)
    assert (len(page), page.caught_up) == (0, True)
    assert page.cursor != now


def test_changes_can_be_limited_by_type_kind_and_operation(forked: Social) -> None:
    def ids(**only: Any) -> list[str]:
        return [each.id for each in read_all(forked.graph, "beginning", **only)]

    assert ids(types=["Person"]) == ids(kinds=["node"]) == ["Alice", "Bob", "Carol", "Dan"]
    assert len(ids(types=["knows"])) == len(ids(kinds=["edge"])) == 1
    assert ids(ops=["delete"]) == []
    with pytest.raises(errors.InvalidInput, match="no type 'Nobody'"):
        ids(types=["Nobody"])


def test_a_merge_is_told_by_what_it_changed_on_the_branch(forked: Social) -> None:
    forked.do('insert Person { name: "F" }', "feature")
    forked.do('insert Person { name: "M" }')
    now = forked.graph.changes().cursor
    merged = forked.graph.merge("feature").commit
    page = forked.graph.changes(since=now)
    assert told(page) == [("insert", "Person", "F")]
    assert merged is not None
    assert page.changes[0].commit.id == merged.id
    assert page.changes[0].commit.merged_parent == forked.graph.commits(branch="feature")[0].id


def test_a_branch_has_a_feed_of_its_own_that_begins_with_what_it_inherited(forked: Social) -> None:
    forked.do('insert Person { name: "F" }', "feature")
    assert [each.id for each in forked.graph.changes(branch="feature", since="beginning")][-1] == "F"
    fork_point = forked.graph.commits()[0].id
    assert told(forked.graph.changes(branch="feature", since=fork_point)) == [("insert", "Person", "F")]


def test_one_commit_tells_what_it_did(forked: Social) -> None:
    forked.do('insert Person { name: "Eve" }', "feature")
    forked.do('delete Person where name = "Dan"', "feature")
    commit = forked.graph.merge("feature").commit
    assert commit is not None
    changes = forked.graph.commit_changes(commit.id)
    assert [(each.op, each.id) for each in changes] == [("delete", "Dan"), ("insert", "Eve")]
    (delta,) = changes.deltas()
    assert (delta.inserted.num_rows, delta.deleted.num_rows) == (1, 1)
    first = forked.graph.commits()[-1]
    assert list(forked.graph.commit_changes(first.id)) == []


def test_places_of_elsewhere_are_refused(forked: Social, tmp_path: Path) -> None:
    graph = forked.graph
    cursor = graph.changes().cursor
    other = og.init(tmp_path / "other", schema="node Person { name: String @key }")
    with pytest.raises(errors.ChangeCursorRejected, match="another graph"):
        other.changes(since=cursor)
    with pytest.raises(errors.ChangeCursorRejected, match="of branch 'main'"):
        graph.changes(branch="feature", since=cursor)
    for damaged in ("", "nonsense", cursor[:-2], cursor[:10] + "A" + cursor[11:], "x" * 5_000):
        with pytest.raises(errors.ChangeCursorRejected):
            graph.changes(since=damaged)
    with pytest.raises(errors.ChangeCursorRejected, match="not in the history"):
        graph.changes(since="0" * 26)


def test_a_place_on_a_branch_that_was_made_anew_is_refused(forked: Social) -> None:
    cursor = forked.graph.changes(branch="feature").cursor
    forked.graph.branches.delete("feature")
    forked.graph.branches.create("feature")
    with pytest.raises(errors.ChangeCursorRejected, match="created again"):
        forked.graph.changes(branch="feature", since=cursor)


def test_a_gap_says_what_to_do(forked: Social) -> None:
    forked.do('update Person set { age: 31 } where name = "Alice"')
    forked.do('update Person set { age: 32 } where name = "Alice"')
    newest = forked.graph.commits()[0]
    table = forked.graph.snapshot()["node:Person"]
    forked.graph._manifest.stores.tables.open_newest(table.path).handle.cleanup_old_versions(
        retain_versions=1, delete_unverified=True
    )
    reopened = og.open(forked.graph.uri)
    with pytest.raises(errors.ChangeFeedGap, match="Read a baseline") as gap:
        read_all(reopened, "beginning")
    assert gap.value.branch == "main"
    baseline = reopened.baseline()
    assert baseline.commit_id == newest.id
    reopened.mutate('query q() { insert Person { name: "Eve" } }')
    assert told(reopened.changes(since=baseline.cursor)) == [("insert", "Person", "Eve")]


def test_a_baseline_and_the_changes_after_it_make_the_graph(forked: Social, tmp_path: Path) -> None:
    baseline = forked.graph.baseline()
    forked.do('insert Person { name: "Eve", age: 1 }')
    forked.do('delete Knows where from = "Bob"')
    file = tmp_path / "baseline.jsonl"
    file.write_bytes(b"".join(baseline.records()))
    copy = og.init(tmp_path / "copy", schema=forked.graph.schema)
    copy.load(file)
    for change in forked.graph.changes(since=baseline.cursor):
        if change.before is not None:
            copy.mutate("query q($n: String) { delete Knows where from = $n }", {"n": change.before.source})
        elif change.after is not None:
            copy.load([{"type": change.type_name, "data": {"id": change.id, **change.after.properties}}])
    exported = [g.export(tmp_path / f"{n}.jsonl")[0].read_bytes() for n, g in enumerate((copy, forked.graph))]
    assert exported[0] == exported[1]


def test_a_caught_up_poll_opens_no_table(forked: Social) -> None:
    from omnigraph.counters import counting

    cursor = forked.graph.changes().cursor
    with counting() as counts:
        assert forked.graph.changes(since=cursor).caught_up
    assert (counts.table_opens, counts.table_scans) == (0, 0)


def test_a_page_reads_only_the_tables_that_its_commits_changed(forked: Social) -> None:
    from omnigraph.counters import counting

    now = forked.graph.changes().cursor
    forked.do('insert Person { name: "Eve" }')
    with counting() as counts:
        forked.graph.changes(since=now)
    edges = forked.graph.snapshot()["edge:Knows"].path
    assert not [each for each in counts.requests if edges in each]
    shutil.rmtree(f"{forked.graph.uri}/{edges}")
    assert told(forked.graph.changes(since=now)) == [("insert", "Person", "Eve")]
