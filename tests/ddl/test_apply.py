"""Changing the schema of a graph: the rows come along, history keeps its shape, and what cannot be is refused."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import (
    CommitRejected,
    NotFound,
    QueryError,
    SchemaChangeRefused,
    SchemaContractDrift,
    UniqueViolation,
)
from omnigraph.manifest.layout import BRANCH_LEASE, SCHEMA_FILES
from omnigraph.manifest.schema_files import STAGING
from omnigraph.storage.objects.lease import LEASE, read_lease_record
from omnigraph.transaction.intents.sidecar import PREFIX
from omnigraph.world import REAL

if TYPE_CHECKING:
    from pathlib import Path

PERSON = "node Person { name: String @key  age: I32?  nick: String? }"
CITY = "node City { name: String @key }"
LIVES = "edge LivesIn: Person -> City"
SCHEMA = f"{PERSON}\n{CITY}\n{LIVES}\n"
PEOPLE = "query q() { match { $p: Person } return { $p.name, $p.age } }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    people = [{"type": "Person", "data": {"name": name, "age": 30, "nick": "x"}} for name in ("ada", "bo", "cy")]
    graph.load([*people, {"type": "City", "data": {"name": "Rome"}}, {"edge": "LivesIn", "from": "ada", "to": "Rome"}])
    return graph


def rows(graph: og.Graph, type_name: str, *properties: str, **where: Any) -> list[tuple[Any, ...]]:
    told = ", ".join(f"$x.{each}" for each in properties)
    found = graph.query(f"query q() {{ match {{ $x: {type_name} }} return {{ {told} }} }}", **where).to_pylist()
    return sorted((tuple(each.values()) for each in found), key=repr)


def with_person(text: str) -> str:
    return SCHEMA.replace(PERSON, text)


def test_every_kind_of_column_change_in_one_commit(graph: og.Graph) -> None:
    before = graph.commits()[0].id
    desired = with_person(
        'node Person { name: String @key  years: I64? @rename_from("age")  score: F64 @default(1.5)  tags: [String]? }'
    )
    done = graph.apply_schema(desired, actor="act-ada")
    assert done.applied
    assert done.commit is not None
    assert done.commit.actor == "act-ada"
    assert graph.schema == desired
    assert rows(graph, "Person", "name", "years", "score", "tags") == [
        ("ada", 30, 1.5, None),
        ("bo", 30, 1.5, None),
        ("cy", 30, 1.5, None),
    ]
    assert [each.id for each in graph.commits()][:2] == [done.commit.id, before]


def test_time_travel_reads_the_old_shape(graph: og.Graph) -> None:
    before = graph.commits()[0].id
    graph.apply_schema(with_person("node Person { name: String @key }"))
    assert rows(graph, "Person", "name", "age", "nick", at=before)[0] == ("ada", 30, "x")
    with pytest.raises(QueryError):
        rows(graph, "Person", "age")


def test_a_renamed_type_takes_its_rows_and_its_edges_along(graph: og.Graph) -> None:
    desired = SCHEMA.replace("node Person {", 'node Human @rename_from("Person") {').replace("Person ->", "Human ->")
    graph.apply_schema(desired)
    assert rows(graph, "Human", "name") == [("ada",), ("bo",), ("cy",)]
    lives = "query q() { match { $h: Human  $h livesIn $c } return { $h.name, $c.name } }"
    assert graph.query(lives).to_pylist() == [{"h.name": "ada", "c.name": "Rome"}]
    assert "node:Person" not in graph.snapshot().tables


def test_a_name_can_be_taken_again_once_its_type_has_another(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node A { a: String @key }")
    graph.load([{"type": "A", "data": {"a": "first"}}])
    graph.apply_schema('node B @rename_from("A") { a: String @key }')
    graph.apply_schema("node A { b: I32 @key }\nnode B { a: String @key }")
    graph.load([{"type": "A", "data": {"b": 2}}])
    assert (rows(graph, "A", "b"), rows(graph, "B", "a")) == ([(2,)], [("first",)])


def test_a_dropped_type_is_gone_and_an_added_one_is_empty(graph: og.Graph) -> None:
    before = graph.commits()[0].id
    graph.apply_schema(f"{PERSON}\nnode Tag {{ label: String @key }}\n")
    assert set(graph.snapshot().tables) == {"node:Person", "node:Tag"}
    assert rows(graph, "Tag", "label") == []
    assert rows(graph, "City", "name", at=before) == [("Rome",)]


def test_a_type_that_comes_back_is_empty_and_can_be_written(graph: og.Graph) -> None:
    graph.apply_schema(PERSON)
    graph.apply_schema(f"{PERSON}\n{CITY}")
    assert rows(graph, "City", "name") == []
    graph.mutate('query q() { insert City { name: "Oslo" } }')
    assert rows(graph, "City", "name") == [("Oslo",)]
    graph.apply_schema(PERSON)
    graph.apply_schema(f"{PERSON}\nnode City {{ name: String @key  size: I32? }}")
    assert rows(graph, "City", "name", "size") == []


def test_what_was_dropped_for_good_cannot_be_read_at_an_earlier_commit(graph: og.Graph) -> None:
    before = graph.commits()[0].id
    graph.apply_schema(f"node Person {{ name: String @key  age: I32? }}\n{CITY}", allow_data_loss=True)
    with pytest.raises(NotFound):
        rows(graph, "Person", "nick", at=before)
    assert len(rows(graph, "Person", "name")) == 3
    graph.apply_schema(PERSON, allow_data_loss=True)
    with pytest.raises(NotFound):
        rows(graph, "City", "name", at=before)
    graph.apply_schema(f"{PERSON}\n{CITY}")
    assert rows(graph, "City", "name") == []


def test_a_tag_keeps_what_would_be_dropped_for_good(graph: og.Graph) -> None:
    graph.tags.create("keep")
    with pytest.raises(SchemaChangeRefused, match="the tag 'keep'"):
        graph.apply_schema(PERSON, allow_data_loss=True)
    assert graph.apply_schema(PERSON).applied


def test_empty_tables_are_rewritten_without_a_file(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.apply_schema(with_person("node Person { name: String @key  born: Date? }"))
    entry = graph.snapshot()["node:Person"]
    assert (entry.version, entry.row_count) == (2, 0)
    assert graph._manifest.stores.tables.open(entry.pin).fragment_ids() == ()
    graph.mutate('query q() { insert Person { name: "ada", born: date("1815-12-10") } }')


def test_blobs_come_along(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node Doc { name: String @key  body: Blob? }")
    graph.load([{"type": "Doc", "data": {"name": "a", "body": "base64:aGk="}}, {"type": "Doc", "data": {"name": "b"}}])
    graph.apply_schema('node Page @rename_from("Doc") { name: String @key  text: Blob? @rename_from("body")  n: I32? }')
    [exported] = graph.export(tmp_path / "out.jsonl")
    assert '"text":"base64:aGk="' in exported.read_text()


def test_rules_change_without_touching_a_table(graph: og.Graph) -> None:
    pins = {each.table_key: each.version for each in graph.snapshot()}
    desired = with_person(
        'node Person { name: String @key @description("who")  age: I32? @index  nick: String?  @range(age, 0..150) }'
    ).replace(LIVES, "edge LivesIn: Person -> City @card(0..1)")
    assert graph.apply_schema(desired).applied
    assert {each.table_key: each.version for each in graph.snapshot()} == pins
    with pytest.raises(og.errors.ValueViolation):
        graph.mutate('query q() { insert Person { name: "dee", age: 200 } }')


@pytest.mark.parametrize(
    ("desired", "code", "told"),
    [
        (
            with_person("node Person { name: String @key  age: I32? @unique  nick: String? }"),
            "OG-MF-101",
            "'bo' is held",
        ),
        (with_person(PERSON[:-1] + "@range(age, 40..) }"), "OG-MF-102", "'ada'"),
        (with_person(PERSON[:-1] + '@check(nick, "^y") }'), "OG-MF-102", "does not match"),
        (SCHEMA.replace(LIVES, "edge LivesIn: Person -> City @card(2..)"), "OG-MF-105", "has 1 edges"),
    ],
)
def test_rows_that_break_a_new_rule_are_named_and_nothing_changes(
    graph: og.Graph, desired: str, code: str, told: str
) -> None:
    before = graph.snapshot()
    with pytest.raises(SchemaChangeRefused, match=told) as caught:
        graph.apply_schema(desired)
    assert caught.value.change_code == code
    assert graph.snapshot() == before
    assert graph.schema == SCHEMA
    assert graph._manifest.stores.objects.list_names(PREFIX) == []


def test_a_change_that_no_step_covers_moves_nothing(graph: og.Graph) -> None:
    before = graph.snapshot()
    with pytest.raises(SchemaChangeRefused, match="OG-MF-103"):
        graph.apply_schema(with_person("node Person { name: String @key  age: I32  nick: String?  must: String }"))
    assert graph.snapshot() == before


def test_the_same_schema_is_not_applied(graph: og.Graph) -> None:
    before = graph.snapshot()
    assert not graph.apply_schema(SCHEMA + "// a comment\n").applied
    assert graph.snapshot() == before


def test_a_dry_run_tells_the_same_and_changes_nothing(graph: og.Graph) -> None:
    before = graph.snapshot()
    told = graph.apply_schema(PERSON, dry_run=True)
    assert [step.kind for step in told.plan.steps] == ["drop_type", "drop_type"]
    assert not told.applied
    with pytest.raises(SchemaChangeRefused, match="OG-MF-101"):
        graph.apply_schema(
            with_person("node Person { name: String @key  age: I32? @unique  nick: String? }"), dry_run=True
        )
    assert graph.snapshot() == before


def test_a_read_only_graph_plans_and_does_not_apply(graph: og.Graph) -> None:
    reader = og.open(graph.uri, read_only=True)
    assert "drop_type" in str(reader.plan_schema(PERSON))
    with pytest.raises(CommitRejected, match="read-only"):
        reader.apply_schema(PERSON)


# -- other handles, other branches -------------------------------------------------------------------------------------


def test_another_open_graph_follows_at_its_next_operation(graph: og.Graph) -> None:
    reader, writer, loader = (og.open(graph.uri) for _ in range(3))
    graph.apply_schema(with_person("node Person { name: String @key  age: I32?  nick: String?  born: Date? }"))
    assert len(rows(reader, "Person", "name", "born")) == 3
    writer.mutate('query q() { insert Person { name: "dee", born: date("2000-01-01") } }')
    loader.load([{"type": "Person", "data": {"name": "eve", "born": "2001-01-01"}}])
    assert ("dee",) in rows(graph, "Person", "name")
    assert reader.schema == writer.schema == loader.schema == graph.schema
    late = og.open(graph.uri)
    assert late.schema == graph.schema


def test_an_old_handle_obeys_a_new_rule(graph: og.Graph) -> None:
    writer = og.open(graph.uri)
    graph.mutate('query q() { update Person set { nick: "ada" } where name = "ada" }')
    graph.mutate('query q() { update Person set { nick: "bo" } where name = "bo" }')
    graph.apply_schema(with_person("node Person { name: String @key  age: I32?  nick: String? @unique }"))
    with pytest.raises(UniqueViolation):
        writer.mutate('query q() { insert Person { name: "dee", nick: "bo" } }')


def test_branches_take_part_in_what_leaves_their_tables_alone(graph: og.Graph) -> None:
    graph.branches.create("side")
    graph.mutate('query q() { insert Person { name: "sid" } }', branch="side")
    desired = f"{SCHEMA}node Tag {{ label: String @key }}\n".replace("nick: String?", "nick: String? @index")
    graph.apply_schema(desired)
    graph.mutate('query q() { insert Tag { label: "on side" } }', branch="side")
    graph.mutate('query q() { insert Tag { label: "on main" } }')
    assert rows(graph, "Tag", "label", branch="side") == [("on side",)]
    graph.merge("side")
    assert rows(graph, "Tag", "label") == [("on main",), ("on side",)]
    assert ("sid",) in rows(graph, "Person", "name")


def test_a_rule_must_hold_on_every_branch(graph: og.Graph) -> None:
    graph.branches.create("side")
    graph.mutate('query q() { update Person set { age: 99 } where name = "bo" }', branch="side")
    with pytest.raises(SchemaChangeRefused, match="branch 'side'"):
        graph.apply_schema(with_person(PERSON[:-1] + "@range(age, 0..50) }"))


@pytest.mark.parametrize("wrote", [True, False])
@pytest.mark.parametrize(
    "desired",
    [
        PERSON,
        with_person("node Person { name: String @key  age: I32? }"),
        with_person('node Person { name: String @key  years: I64? @rename_from("age")  nick: String? }'),
        with_person("node Person { name: String @key  age: I32?  nick: String?  born: Date? }"),
    ],
    ids=["drop types", "drop a property", "rename and widen", "add a property"],
)
def test_branches_keep_their_schema_when_tables_are_rewritten(graph: og.Graph, desired: str, *, wrote: bool) -> None:
    graph.branches.create("side")
    if wrote:
        graph.mutate('query q() { insert Person { name: "sid", age: 7, nick: "s" } }', branch="side")
    before = rows(graph, "Person", "name", "age", "nick", branch="side")
    assert graph.apply_schema(desired, dry_run=True).behind == ("side",)
    assert graph.apply_schema(desired).behind == ("side",)
    assert rows(og.open(graph.uri), "Person", "name", "age", "nick", branch="side") == before
    graph.mutate('query q() { insert Person { name: "late", age: 8, nick: "l" } }', branch="side")
    graph.mutate('query q() { insert Person { name: "new" } }')
    graph.merge("side")
    expected = {name for name, _, _ in before} | {"late", "new"}
    assert {name for (name,) in rows(graph, "Person", "name")} == expected
    graph.merge("main", into="side")
    assert {name for (name,) in rows(og.open(graph.uri), "Person", "name", branch="side")} == expected
    assert graph.apply_schema(f"{desired}\nnode Tag {{ label: String @key }}").behind == ()
    graph.mutate('query q() { insert Tag { label: "t" } }', branch="side")


def test_a_branch_stands_in_the_way_of_what_is_to_go_for_good(graph: og.Graph) -> None:
    graph.branches.create("side")
    with pytest.raises(SchemaChangeRefused, match="branch 'side' may still read") as caught:
        graph.apply_schema(with_person("node Person { name: String @key }"), allow_data_loss=True)
    assert caught.value.change_code == "OG-LK-101"


def test_the_claim_that_keeps_branches_from_being_made_is_renewed_for_as_long_as_it_takes(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEASE, "2")
    failpoints.arm("schema.staged=delay:4")
    change = threading.Thread(target=graph.apply_schema, args=(with_person("node Person { name: String @key }"),))
    change.start()
    ends = set()
    while change.is_alive():
        found = read_lease_record(graph._manifest.stores.objects, BRANCH_LEASE)
        ends |= set() if found is None else {found[0].expires_at}
        REAL.sleep(0.02)
    failpoints.arm("")
    assert len(ends) > 2
    graph.branches.create("later")


def test_a_branch_made_from_an_old_commit_keeps_its_schema(graph: og.Graph) -> None:
    before = graph.commits()[0].id
    graph.apply_schema(with_person("node Person { name: String @key }"))
    graph.branches.create("past", from_=before)
    graph.mutate('query q() { insert Person { name: "old", age: 1, nick: "o" } }', branch="past")
    assert ("old", 1) in rows(graph, "Person", "name", "age", branch="past")
    again = og.open(graph.uri)
    assert ("old", 1) in rows(again, "Person", "name", "age", branch="past")
    graph.merge("past")
    assert "old" in [name for (name,) in rows(graph, "Person", "name")]
    assert graph.apply_schema(f"node Person {{ name: String @key  n: I32? }}\n{CITY}\n{LIVES}").applied
    assert ("old", 1) in rows(graph, "Person", "name", "age", branch="past")


def test_on_a_disk_and_in_a_bucket(graph_uri: str) -> None:
    graph = og.init(graph_uri, schema=SCHEMA)
    graph.load([{"type": "Person", "data": {"name": "ada", "age": 30}}, {"type": "City", "data": {"name": "Rome"}}])
    before = graph.commits()[0].id
    desired = 'node Human @rename_from("Person") { name: String @key  age: I64? }\nnode Tag { label: String @key }'
    graph.apply_schema(desired)
    again = og.open(graph_uri)
    again.mutate('query q() { insert Tag { label: "t" } insert Human { name: "bo" } }')
    assert rows(again, "Human", "name", "age") == [("ada", 30), ("bo", None)]
    assert rows(again, "Person", "name", "nick", at=before) == [("ada", None)]
    assert again.schema == desired


# -- files -------------------------------------------------------------------------------------------------------------


def test_nothing_is_left_beside_the_schema_files(graph: og.Graph) -> None:
    graph.apply_schema(PERSON)
    names = graph._manifest.stores.objects.list_names()
    assert [each for each in names if each.endswith(STAGING) or each.startswith(PREFIX)] == []
    assert og.open(graph.uri, read_only=True).schema == PERSON


def test_files_changed_by_hand_are_still_found_out(graph: og.Graph) -> None:
    graph.apply_schema(PERSON)
    graph._manifest.stores.objects.write(SCHEMA_FILES[0], SCHEMA.encode())
    with pytest.raises(SchemaContractDrift, match="no longer says"):
        og.open(graph.uri, read_only=True)
