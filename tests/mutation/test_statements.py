"""What each statement of a mutation does, one commit at a time."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from omnigraph import errors
from omnigraph.world import REAL

if TYPE_CHECKING:
    from mutation.conftest import Social


def test_an_insert_makes_a_row_under_the_text_of_its_key(social: Social) -> None:
    done = social.do('insert Person { name: "Ada", age: 36, tags: ["x", "y"], mood: "happy" }')
    assert (done.affected_nodes, done.affected_edges) == (1, 0)
    row = social.people()["Ada"]
    assert (row["name"], row["age"], row["tags"], row["mood"], row["email"]) == ("Ada", 36, ["x", "y"], "happy", None)


@pytest.mark.parametrize(
    ("action", "age", "mood"),
    [("", 5, None), ("on conflict update", 5, "sad"), ("on conflict ignore", 36, "sad")],
)
def test_an_insert_says_what_becomes_of_an_existing_row(
    social: Social, action: str, age: int, mood: str | None
) -> None:
    social.do('insert Person { name: "Zoe", age: 36, mood: "sad" }')
    social.do(f'insert Person {{ name: "Zoe", age: 5 }} {action} insert Person {{ name: "New", age: 1 }} {action}')
    zoe, new = social.people()["Zoe"], social.people()["New"]
    assert (zoe["age"], zoe["mood"], new["age"]) == (age, mood, 1)


def test_an_insert_that_must_be_new_is_refused_where_the_key_exists(social: Social) -> None:
    social.do('insert Person { name: "Zoe", age: 36 } on conflict error')
    for body in ('insert Person { name: "Zoe" }', 'insert Person { name: "Yan" } insert Person { name: "Yan" }'):
        with pytest.raises(errors.KeyConflict, match="is there already"):
            social.do(f"{body} on conflict error")
    assert social.people()["Zoe"]["age"] == 36
    assert "Yan" not in social.people()


def test_an_edge_with_a_key_may_be_ignored_when_it_exists(social: Social) -> None:
    social.do('insert Person { name: "Zoe" } insert Likes { from: "Zoe", to: "Zoe", why: "a" }')
    social.do('insert Likes { from: "Zoe", to: "Zoe", why: "b" } on conflict ignore')
    assert [row["why"] for row in social.rows("edge:Likes").values() if row["src"] == "Zoe"] == ["a"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('insert Note { text: "x" } on conflict ignore', "T16"),
        ('insert Note { text: "x" } on conflict update', "T16"),
        ('insert Person { name: "x" } on conflict replace', "Q000"),
    ],
)
def test_on_conflict_needs_a_key_and_one_of_three_actions(social: Social, body: str, code: str) -> None:
    with pytest.raises(errors.QueryError) as caught:
        social.do(body)
    assert [each.code for each in caught.value.diagnostics] == [code]


def test_inserting_a_key_again_replaces_the_whole_row(social: Social) -> None:
    social.do('insert Person { name: "Ada", age: 36, score: 1.5 }')
    social.do('insert Person { name: "Ada", score: 2.5 }')
    assert social.people()["Ada"]["age"] is None
    assert social.people()["Ada"]["score"] == 2.5


def test_an_upsert_keeps_what_it_does_not_name(social: Social) -> None:
    social.do('insert Person { name: "Ada", age: 36, score: 1.5 }')
    social.do('upsert Person { name: "Ada", score: 2.5 }')
    social.do('upsert Person { name: "New", age: 1 }')
    assert (social.people()["Ada"]["age"], social.people()["Ada"]["score"]) == (36, 2.5)
    assert social.people()["New"]["age"] == 1


def test_a_type_without_a_key_gets_a_new_row_each_time(social: Social) -> None:
    social.do('insert Note { text: "a" }')
    social.do('insert Note { text: "a", stars: 9223372036854775807, vector: [1.0, 2.0] }')
    notes = social.rows("node:Note")
    assert len(notes) == 2
    assert all(len(each) == 26 for each in notes)
    assert {each["stars"] for each in notes.values()} == {None, 2**63 - 1}


def test_edges_join_nodes_and_may_be_parallel_unless_they_have_a_key(social: Social) -> None:
    social.do(
        'insert Person { name: "a" } insert Person { name: "b" }'
        'insert Knows { from: "a", to: "b" } insert Knows { from: "a", to: "b" }'
        'insert Likes { from: "a", to: "b", why: "one" } insert Likes { from: "a", to: "b", why: "two" }'
    )
    assert social.ends("edge:Knows") == [("a", "b"), ("a", "b")]
    assert [row["why"] for row in social.rows("edge:Likes").values()] == ["two"]


def test_one_mutation_is_one_commit_over_all_its_tables(social: Social) -> None:
    before = len(social.graph.commits())
    done = social.do('insert Person { name: "a" } insert Note { text: "t" } insert Knows { from: "a", to: "a" }')
    assert (done.affected_nodes, done.affected_edges) == (2, 1)
    assert len(social.graph.commits()) == before + 1
    assert social.graph.commits()[0] == done.commit


def test_now_is_one_instant_for_the_whole_mutation(social: Social) -> None:
    earlier = REAL.now_us() // 1_000
    social.do('insert Person { name: "a", joined: now() } insert Person { name: "b", joined: now() }')
    first, second = (social.people()[name]["joined"] for name in "ab")
    assert first == second
    assert 0 <= first - earlier < 60_000


def test_dates_and_moments_are_stored_with_all_their_parts(social: Social) -> None:
    social.do('insert Person { name: "a", born: date("1815-12-10"), joined: datetime("2020-01-02T03:04:05.678Z") }')
    row = social.people()["a"]
    assert row["born"] == dt.date(1815, 12, 10)
    assert row["joined"] == 1577934245678


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ('name = "a"', "a"),
        ("age > 20", "c"),
        ("age >= 20 and age < 40", "bc"),
        ("age = 20 or age is null", "bd"),
        ("not (age = 20)", "ac"),
        ("age is not null", "abc"),
        ('name in ["a", "c", "z"]', "ac"),
        ('name starts_with "b"', "b"),
        ('email contains "@"', "ab"),
        ("score = -1.5", "c"),
        ("age + 10 > 25", "bc"),
        ("age * 2 = score", "b"),
        ("age > 150", ""),
    ],
)
def test_predicates_choose_rows_as_they_read(social: Social, where: str, names: str) -> None:
    social.do(
        'insert Person { name: "a", age: 10, email: "a@x" }'
        'insert Person { name: "b", age: 20, score: 40.0, email: "b@x" }'
        'insert Person { name: "c", age: 30, score: -1.5 } insert Person { name: "d" }'
    )
    done = social.do(f'update Person set {{ tags: ["hit"] }} where {where}')
    hit = "".join(sorted(name for name, row in social.people().items() if row["tags"] == ["hit"]))
    assert hit == names
    assert done.affected_nodes == len(names)
    assert (done.commit is None) == (names == "")


def test_an_update_computes_from_the_rows_own_values(social: Social) -> None:
    social.do('insert Person { name: "a", age: 10, score: 0.5 } insert Person { name: "b", age: 20 }')
    social.do("update Person set { age: age + 1, score: age / 4 } where age > 0")
    assert (social.people()["a"]["age"], social.people()["a"]["score"]) == (11, 2.5)
    assert (social.people()["b"]["age"], social.people()["b"]["score"]) == (21, 5.0)


def test_an_update_of_edges_changes_their_properties(social: Social) -> None:
    social.do(
        'insert Person { name: "a" } insert Person { name: "b" } insert Knows { from: "a", to: "b", weight: 1.0 }'
    )
    done = social.do('update Knows set { weight: weight + 1.0, since: date("2020-01-01") } where from = "a"')
    assert (done.affected_nodes, done.affected_edges) == (0, 1)
    (row,) = social.rows("edge:Knows").values()
    assert (row["weight"], row["since"]) == (2.0, dt.date(2020, 1, 1))


def test_null_can_be_assigned_and_never_matches_a_comparison(social: Social) -> None:
    social.do('insert Person { name: "a", age: 10 }')
    social.do('update Person set { age: null } where name = "a"')
    assert social.people()["a"]["age"] is None
    assert social.do("delete Person where age != 3").commit is None


def test_deleting_a_node_takes_every_edge_at_it_along(social: Social) -> None:
    social.do(
        'insert Person { name: "a" } insert Person { name: "b" } insert Person { name: "c" }'
        'insert Knows { from: "a", to: "b" } insert Knows { from: "b", to: "c" } insert Knows { from: "c", to: "c" }'
        'insert Likes { from: "c", to: "a" }'
    )
    done = social.do('delete Person where name = "b"')
    assert (done.affected_nodes, done.affected_edges) == (1, 2)
    assert social.ends("edge:Knows") == [("c", "c")]
    done = social.do('delete Person where name = "c"')
    assert (done.affected_nodes, done.affected_edges) == (1, 2)
    assert list(social.people()) == ["a"]


def test_deleting_twice_in_one_mutation_counts_once(social: Social) -> None:
    social.do(
        'insert Person { name: "a", age: 1 } insert Person { name: "b", age: 1 } insert Knows { from: "a", to: "b" }'
    )
    done = social.do('delete Knows where from = "a" delete Person where name = "a" delete Person where age = 1')
    assert (done.affected_nodes, done.affected_edges) == (2, 1)
    assert social.people() == {}


def test_later_statements_see_earlier_ones(social: Social) -> None:
    social.do('insert Person { name: "a", age: 1 } update Person set { age: age + 1 } where age = 1')
    social.do('update Person set { age: 7 } where name = "a" update Person set { score: age * 1.0 } where age = 7')
    assert (social.people()["a"]["age"], social.people()["a"]["score"]) == (7, 7.0)


def test_nothing_matched_means_no_commit(social: Social) -> None:
    before = social.graph.commits()
    assert social.do('update Person set { age: 1 } where name = "nobody"').commit is None
    assert social.do('delete Person where name = "nobody"').commit is None
    assert social.graph.commits() == before


def test_mixing_deletes_with_other_statements_is_refused_before_anything_is_read(social: Social) -> None:
    with pytest.raises(errors.QueryError) as refusal:
        social.do('insert Person { name: "a" } delete Person where name = "a"')
    assert refusal.value.diagnostics[0].code == "D2"
    assert social.people() == {}
