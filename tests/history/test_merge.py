"""Merges beyond the truth table: properties, resolution, previews, histories that cross."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import omnigraph as og
from mutation.conftest import Social
from omnigraph import errors
from omnigraph.counters import counting
from omnigraph.history.merge.merge import Merge, MergeOptions

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.errors.commits import Conflict


def test_two_sides_that_changed_different_properties_of_one_entity_merge(forked: Social) -> None:
    forked.do('update Person set { age: 31 } where name = "Alice"', "feature")
    forked.do('update Person set { city: "Oslo" } where name = "Alice"')
    forked.graph.merge("feature")
    assert (forked.people()["Alice"]["age"], forked.people()["Alice"]["city"]) == (31, "Oslo")


def test_in_strict_mode_they_conflict(forked: Social) -> None:
    forked.do('update Person set { age: 31 } where name = "Alice"', "feature")
    forked.do('update Person set { city: "Oslo" } where name = "Alice"')
    with pytest.raises(errors.MergeConflicts) as refusal:
        forked.graph.merge("feature", by_property=False)
    assert [each.kind for each in refusal.value.conflicts] == ["DivergentUpdate"]


def test_the_same_change_on_both_sides_is_no_conflict(forked: Social) -> None:
    for branch in ("feature", "main"):
        forked.do('update Person set { age: 99 } where name = "Alice" insert Person { name: "Eve" }', branch)
        forked.do('delete Person where name = "Dan"', branch)
    assert forked.graph.merge("feature").kind == "merged"
    assert forked.people()["Alice"]["age"] == 99


@pytest.mark.parametrize(("choice", "age"), [("ours", 32), ("theirs", 31)])
def test_a_side_can_be_chosen_for_all_conflicts(forked: Social, choice: str, age: int) -> None:
    _disagree(forked)
    forked.graph.merge("feature", resolve=choice)  # type: ignore[arg-type]
    assert forked.people()["Alice"]["age"] == age
    assert ("Dan" in forked.people()) == (choice == "ours")


@pytest.mark.parametrize(("choice", "age"), [("ours", 32), ("theirs", 31)])
def test_whichever_side_wins_what_only_one_side_changed_is_kept(forked: Social, choice: str, age: int) -> None:
    forked.do('update Person set { age: 31, city: "Oslo" } where name = "Alice"', "feature")
    forked.do('update Person set { age: 32 } where name = "Alice"')
    forked.graph.merge("feature", resolve=choice)  # type: ignore[arg-type]
    assert (forked.people()["Alice"]["age"], forked.people()["Alice"]["city"]) == (age, "Oslo")


def test_a_merge_that_another_one_has_overtaken_makes_no_commit(forked: Social) -> None:
    forked.do('update Person set { age: 31 } where name = "Alice"', "feature")
    graph = forked.graph
    slow = Merge(graph._manifest, graph._schemas, "feature", "main", MergeOptions())
    graph.merge("feature")
    before = graph.commits()
    assert slow.run().kind == "already_up_to_date"
    assert graph.commits() == before


def test_conflicts_can_be_settled_one_by_one(forked: Social) -> None:
    _disagree(forked)
    forked.graph.merge("feature", resolve={"node:Person/Alice": "theirs", "*": "ours"})
    assert forked.people()["Alice"]["age"] == 31
    assert forked.people()["Dan"]["age"] == 52


def test_a_function_can_settle_them_with_a_row_of_its_own(forked: Social) -> None:
    _disagree(forked)

    def older(conflict: Conflict) -> object:
        if conflict.ours is None or conflict.theirs is None:
            return "ours"
        return {"age": max(conflict.ours["age"], conflict.theirs["age"]) + 1}

    forked.graph.merge("feature", resolve=older)  # type: ignore[arg-type]
    assert forked.people()["Alice"]["age"] == 33


def test_all_conflicts_are_told_and_nothing_is_written(forked: Social) -> None:
    _disagree(forked)
    before, commits = forked.people(), forked.graph.commits()
    with pytest.raises(errors.MergeConflicts) as refusal:
        forked.graph.merge("feature")
    kinds = {(each.kind, each.row_id) for each in refusal.value.conflicts}
    assert kinds == {("DivergentUpdate", "Alice"), ("DeleteVsUpdate", "Dan")}
    assert (forked.people(), forked.graph.commits()) == (before, commits)
    alice = next(each for each in refusal.value.conflicts if each.row_id == "Alice")
    assert (alice.base or {})["age"] == 30
    assert alice.properties == ("age",)


def test_a_dry_run_tells_and_writes_nothing(forked: Social) -> None:
    _disagree(forked)
    commits = forked.graph.commits()
    told = forked.graph.merge("feature", dry_run=True)
    assert len(told.conflicts) == 2
    assert forked.graph.commits() == commits


def test_uniqueness_is_checked_over_the_merged_whole(forked: Social) -> None:
    forked.do('update Person set { email: "one@x" } where name = "Alice"', "feature")
    forked.do('update Person set { email: "one@x" } where name = "Bob"')
    with pytest.raises(errors.MergeConflicts) as refusal:
        forked.graph.merge("feature")
    assert {each.kind for each in refusal.value.conflicts} == {"UniqueViolation"}


def test_merging_twice_is_up_to_date(forked: Social) -> None:
    forked.do('insert Person { name: "Eve" }', "feature")
    assert forked.graph.merge("feature").kind == "fast_forward"
    assert forked.graph.merge("feature").kind == "already_up_to_date"


def test_a_branch_can_go_on_after_it_was_merged(forked: Social) -> None:
    for number in range(3):
        forked.do(f'insert Person {{ name: "f{number}" }}', "feature")
        forked.do(f'insert Person {{ name: "m{number}" }}')
        forked.graph.merge("feature")
        forked.graph.merge("main", into="feature")
    expected = {"Alice", "Bob", "Carol", "Dan"} | {f"{side}{number}" for side in "fm" for number in range(3)}
    assert set(forked.people()) == set(forked.people("feature")) == expected


def test_a_merge_into_a_branch_that_has_children(forked: Social) -> None:
    forked.graph.branches.create("child", from_="feature")
    forked.do('insert Person { name: "M" }')
    forked.graph.merge("main", into="feature")
    forked.do('insert Person { name: "C" }', "child")
    forked.graph.merge("child", into="feature")
    assert {"M", "C"} <= set(forked.people("feature"))
    assert "M" not in forked.people("child")


def test_siblings_that_kept_and_deleted_an_edge(forked: Social) -> None:
    forked.graph.branches.create("other")
    forked.do('delete Knows where from = "Bob"', "feature")
    forked.do('insert Person { name: "O" }', "other")
    forked.graph.merge("feature")
    forked.graph.merge("other")
    assert forked.ends("edge:Knows") == []
    assert "O" in forked.people()


def test_histories_that_cross(forked: Social) -> None:
    """Two branches that both merged a third have several candidates for a base."""
    forked.graph.branches.create("shared")
    forked.do('update Person set { age: 41 } where name = "Carol"', "shared")
    forked.graph.merge("shared", into="feature")
    forked.graph.merge("shared")
    forked.do('update Person set { age: 42 } where name = "Carol"', "feature")
    forked.do('update Person set { city: "Rome" } where name = "Carol"')
    forked.graph.merge("feature")
    assert (forked.people()["Carol"]["age"], forked.people()["Carol"]["city"]) == (42, "Rome")


def test_what_was_undone_after_histories_crossed_does_not_come_back(forked: Social) -> None:
    """Each branch has merged the other once; then one of them removes what the other's old state brought."""
    forked.do('insert Person { name: "X" }', "feature")
    forked.do('insert Person { name: "Y" }')
    forked.graph.branches.create("feature-then", from_="feature")
    forked.graph.branches.create("main-then")
    forked.graph.merge("feature-then")
    forked.graph.merge("main-then", into="feature")
    assert len(forked.graph._manifest.merge_bases("feature", "main").tips) == 2
    forked.do('delete Person where name = "X"')
    forked.do('delete Person where name = "Y"')
    forked.do('insert Person { name: "Z" }', "feature")
    forked.graph.merge("feature")
    assert not {"X", "Y"} & set(forked.people())
    assert "Z" in forked.people()


def test_a_type_that_came_after_histories_crossed_is_merged(forked: Social) -> None:
    """None of the merge bases has its table, because both branches have got it since."""
    forked.do('insert Person { name: "X" }', "feature")
    forked.do('insert Person { name: "Y" }')
    forked.graph.branches.create("feature-then", from_="feature")
    forked.graph.branches.create("main-then")
    forked.graph.merge("feature-then")
    forked.graph.merge("main-then", into="feature")
    assert len(forked.graph._manifest.merge_bases("feature", "main").tips) == 2
    forked.graph.apply_schema(f"{forked.graph.schema}\nnode Town {{ name: String @key }}")
    forked.do('insert Town { name: "Rome" }', "feature")
    forked.do('insert Town { name: "Oslo" }')
    forked.graph.merge("feature")
    found = forked.graph.query("query q() { match { $t: Town } return { $t.name as name } order { $t.name } }")
    assert found.to_pylist() == [{"name": "Oslo"}, {"name": "Rome"}]


def test_what_crossed_histories_settled_differently_is_a_conflict(forked: Social) -> None:
    forked.do('update Person set { age: 31 } where name = "Alice"', "feature")
    forked.do('update Person set { age: 32 } where name = "Alice"')
    forked.graph.branches.create("feature-then", from_="feature")
    forked.graph.branches.create("main-then")
    forked.graph.merge("feature-then", resolve="ours")
    forked.graph.merge("main-then", into="feature", resolve="ours")
    with pytest.raises(errors.MergeConflicts, match="crossed") as refusal:
        forked.graph.merge("feature")
    assert [(each.kind, each.row_id) for each in refusal.value.conflicts] == [("DivergentUpdate", "Alice")]
    forked.graph.merge("feature", resolve="theirs")
    assert forked.people()["Alice"]["age"] == 31


def test_a_fast_forward_into_a_branch_that_has_children_leaves_them_alone(forked: Social) -> None:
    forked.do('insert Person { name: "F" }', "feature")
    forked.graph.branches.create("child", from_="feature")
    forked.graph.branches.create("work", from_="feature")
    forked.do('insert Person { name: "W" }', "work")
    before = forked.people("child")
    assert forked.graph.merge("work", into="feature").kind == "fast_forward"
    assert "W" in forked.people("feature")
    assert forked.people("child") == before
    forked.do('insert Person { name: "C" }', "child")
    forked.graph.merge("child", into="feature")
    assert {"W", "C"} <= set(forked.people("feature"))


def test_an_edge_that_both_sides_added_between_the_same_nodes(tmp_path: Path) -> None:
    """With a key they are one edge; without, two."""
    keyed = "edge Knows: Person -> Person { since: I32?  @key(src, dst) }"
    for number, (edge, count) in enumerate(((keyed, 1), ("edge Knows: Person -> Person", 2))):
        social = Social(og.init(tmp_path / str(number), schema=f"node Person {{ name: String @key }} {edge}"))
        social.do('insert Person { name: "a" } insert Person { name: "b" }')
        social.graph.branches.create("feature")
        for branch in ("feature", "main"):
            social.do('insert Knows { from: "a", to: "b" }', branch)
        social.graph.merge("feature")
        assert len(social.ends("edge:Knows")) == count


def test_a_merge_that_failed_stands_in_nobodys_way(forked: Social) -> None:
    _disagree(forked)
    for _ in range(2):
        with pytest.raises(errors.MergeConflicts):
            forked.graph.merge("feature")
    forked.do('insert Person { name: "next" }')
    forked.do('insert Person { name: "next" }', "feature")
    assert forked.graph._manifest.stores.objects.list_names("__recovery") == []
    forked.graph.merge("feature", resolve="ours")


def test_a_ten_row_merge_costs_the_same_in_tables_of_any_size(tmp_path: Path) -> None:
    """Opens, scans, commits and control objects are those of the change; removals are read per fragment touched."""
    costs = []
    for rows in (10_000, 250_000):
        graph = og.init(tmp_path / str(rows), schema="node Person { name: String @key  age: I32? }")
        names = [f"p{each:06d}" for each in range(rows)]
        graph.load({"Person": pa.table({"name": names, "age": pa.array([1] * rows, pa.int32())})}, mode="append")
        graph.branches.create("feature")
        chosen = names[:: rows // 10]
        graph.load({"Person": [{"name": each, "age": 2} for each in chosen]}, branch="feature")
        graph.mutate('query q() { insert Person { name: "other" } }')
        with counting() as counts:
            assert graph.merge("feature").puts == {"node:Person": 10}
        kept = [each for each in counts.requests if "_deletions" not in each]
        costs.append((counts.table_opens, counts.table_scans, counts.table_commits, len(kept)))
    assert costs[0] == costs[1]


def test_a_merge_reads_only_the_tables_that_changed(forked: Social) -> None:
    forked.do('insert Person { name: "Eve" }', "feature")
    edges = forked.graph.snapshot()["edge:Knows"].path
    with counting() as counts:
        forked.graph.merge("feature")
    assert not [each for each in counts.requests if edges in each]


def test_the_source_can_be_deleted_with_the_merge(forked: Social) -> None:
    forked.do('insert Person { name: "Eve" }', "feature")
    assert forked.graph.merge("feature", delete_branch=True).source_deleted
    assert [each.name for each in forked.graph.branches.list()] == ["main"]
    assert "Eve" in forked.people()


def test_a_source_that_something_stands_on_is_merged_and_kept(forked: Social) -> None:
    forked.do('insert Person { name: "Eve" }', "feature")
    forked.graph.branches.create("child", from_="feature")

    merged = forked.graph.merge("feature", delete_branch=True)

    assert merged.kept_because is not None
    assert "child" in merged.kept_because
    assert not merged.source_deleted
    assert "Eve" in forked.people()


def test_a_branch_cannot_be_merged_into_itself_or_from_nowhere(forked: Social) -> None:
    with pytest.raises(errors.InvalidInput, match="itself"):
        forked.graph.merge("main")
    with pytest.raises(errors.BranchNotFound):
        forked.graph.merge("nowhere")


def _disagree(forked: Social) -> None:
    forked.do('update Person set { age: 31 } where name = "Alice"', "feature")
    forked.do('delete Person where name = "Dan"', "feature")
    forked.do('update Person set { age: 32 } where name = "Alice"')
    forked.do('update Person set { age: 52 } where name = "Dan"')


def _merged_by_both(social: Social) -> None:
    """Main and `feature` have both merged `third`, each at another of its commits; then main removes what came so."""
    social.graph.branches.create("third")
    social.do('insert Person { name: "T" }', "third")
    social.graph.merge("third", into="feature")
    social.do('insert Person { name: "U" }', "third")
    social.graph.merge("third")
    social.do('delete Person where name = "T"')


def test_a_branch_that_two_others_have_merged_is_kept_until_they_merge_each_other(forked: Social) -> None:
    _merged_by_both(forked)
    with pytest.raises(errors.BranchInUse, match="'main' and 'feature' have both merged 'third'"):
        forked.graph.branches.delete("third")
    forked.graph.merge("feature")
    assert "T" not in forked.people()
    forked.graph.branches.delete("third")
    forked.graph.merge("main", into="feature")
    assert "T" not in forked.people("feature")


def test_it_can_be_deleted_by_force(forked: Social) -> None:
    _merged_by_both(forked)
    forked.graph.branches.delete("third", force=True)
    assert "third" not in forked.graph.branches


def test_a_branch_that_was_merged_once_or_before_the_others_parted_is_deleted_freely(forked: Social) -> None:
    forked.graph.branches.create("third")
    forked.do('insert Person { name: "T" }', "third")
    forked.graph.merge("third")
    forked.graph.branches.create("child")
    forked.do('insert Person { name: "C" }', "child")
    forked.do('insert Person { name: "F" }', "feature")
    forked.graph.branches.delete("third")
    forked.graph.merge("child")
    assert {"T", "C"} <= set(forked.people())
