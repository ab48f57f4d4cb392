"""A mutation that breaks a rule changes nothing, says what is wrong, and does not stand in the way of the next."""

from __future__ import annotations

import pytest

from mutation.conftest import Social
from omnigraph import errors

REFUSED = [
    ('insert Person { name: "a", age: 151 }', errors.ValueViolation, "@range violation on Person.age"),
    ('insert Person { name: "a", age: -1 }', errors.ValueViolation, "@range violation on Person.age"),
    ('insert Person { name: "a;b" }', errors.ValueViolation, "@check violation"),
    ('insert Person { name: "a", email: "taken" }', errors.UniqueViolation, "@unique violation on Person.email"),
    ('update Person set { email: "taken" } where name = "Bob"', errors.UniqueViolation, "Person.email"),
    ('insert Knows { from: "Ada", to: "Nobody" }', errors.OrphanEdge, "Nobody"),
    ('insert Knows { from: "Nobody", to: "Ada" }', errors.OrphanEdge, "Nobody"),
    ("update Person set { age: age + 2147483647 } where age > 0", errors.ConstraintViolation, ""),
    ('upsert Note { text: "x" }', errors.QueryError, "key"),
    ("insert Person { age: 1 }", errors.QueryError, "name"),
    ('update Person set { name: "x" } where age = 1', errors.QueryError, "name"),
]


@pytest.fixture
def peopled(social: Social) -> Social:
    social.do('insert Person { name: "Ada", age: 36, email: "taken" } insert Person { name: "Bob", age: 25 }')
    return social


@pytest.mark.parametrize(("body", "error", "told"), REFUSED)
def test_a_broken_rule_is_named_and_nothing_changes(
    peopled: Social, body: str, error: type[errors.OmniGraphError], told: str
) -> None:
    people, commits = peopled.people(), peopled.graph.commits()
    with pytest.raises(error) as refusal:
        peopled.do(body)
    assert told in str(refusal.value)
    assert (peopled.people(), peopled.graph.commits()) == (people, commits)
    assert peopled.do('insert Person { name: "next" }').commit is not None


def test_a_later_statement_that_fails_takes_the_earlier_ones_along(peopled: Social) -> None:
    with pytest.raises(errors.OrphanEdge):
        peopled.do('insert Person { name: "c" } insert Note { text: "t" } insert Knows { from: "c", to: "Nobody" }')
    assert set(peopled.people()) == {"Ada", "Bob"}
    assert peopled.rows("node:Note") == {}


def test_cardinality_counts_committed_and_new_edges(peopled: Social) -> None:
    peopled.do('insert Note { text: "1" } insert Note { text: "2" } insert Note { text: "3" }')
    one, two, three = sorted(peopled.rows("node:Note"))
    peopled.do("insert Owns { from: $p, to: $n }", p="Ada", n=one)
    peopled.do("insert Owns { from: $p, to: $n }", p="Ada", n=two)
    with pytest.raises(errors.CardinalityViolation):
        peopled.do("insert Owns { from: $p, to: $n }", p="Ada", n=three)
    assert len(peopled.rows("edge:Owns")) == 2


def test_a_freed_value_can_be_taken_in_the_same_mutation(peopled: Social) -> None:
    peopled.do(
        'update Person set { email: null } where name = "Ada" update Person set { email: "taken" } where name = "Bob"'
    )
    assert peopled.people()["Bob"]["email"] == "taken"


def test_a_required_head_is_compared_and_never_retried(peopled: Social) -> None:
    query = 'query q() { insert Person { name: "x" } }'
    head = peopled.graph.commits()[0].id
    done = peopled.graph.mutate(query, if_commit=head)
    with pytest.raises(errors.HeadMismatch) as mismatch:
        peopled.graph.mutate(query, if_commit=head)
    assert (mismatch.value.expected, mismatch.value.actual) == (head, done.commit.id if done.commit else None)


def test_a_repeated_idempotency_key_returns_the_first_commit(peopled: Social) -> None:
    query = 'query q() { insert Note { text: "once" } }'
    first = peopled.graph.mutate(query, idempotency_key="run-1")
    again = peopled.graph.mutate(query, idempotency_key="run-1")
    assert again.repeated
    assert again.commit == first.commit
    assert len(peopled.rows("node:Note")) == 1


def test_a_read_only_graph_refuses_to_change(peopled: Social) -> None:
    import omnigraph as og

    reader = Social(og.open(peopled.graph.uri, read_only=True))
    with pytest.raises(errors.CommitRejected, match="read-only"):
        reader.do('insert Person { name: "x" }')
